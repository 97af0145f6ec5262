//! Series over two axes: lines with bands, points with error bars, outlines of histograms.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::Drawing;
use super::axis::PlotAxis;
use super::palette::{INK, color, outline};

/// Point of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChartPoint {
    /// Horizontal position.
    pub x: f64,
    /// Measured value.
    pub y: f64,
    /// Standard deviation of `y`, if there are several measurements.
    pub spread: Option<f64>,
    /// Standard deviation of `x`, if it is measured, too.
    pub x_spread: Option<f64>,
}

impl ChartPoint {
    /// Returns a point of one measurement.
    pub fn new(x: f64, y: f64) -> ChartPoint {
        ChartPoint { x, y, spread: None, x_spread: None }
    }
}

/// Style of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Line within a band of one standard deviation.
    Band,
    /// Marks with error bars, joined by lines.
    Joined,
    /// Marks with error bars.
    Marks,
    /// Dashed line.
    Frontier,
    /// Outline of a histogram: a step at each point.
    Steps,
}

/// Series of points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Number of the series, which gives color and mark.
    pub number: usize,
    /// Points in order of `x`.
    pub points: Vec<ChartPoint>,
    /// Style of the series.
    pub look: Look,
}

/// Two axes and the series between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Horizontal axis.
    pub x: PlotAxis,
    /// Vertical axis.
    pub y: PlotAxis,
    /// Series in the order of drawing.
    pub series: Vec<Series>,
}

type Context<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<PlotAxis, PlotAxis>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Height of a chart, in pixels.
const HEIGHT: u32 = 320;

/// Width of a chart of one panel, in pixels; it is readable on a phone.
const WIDTH: u32 = 480;

/// Width of a chart whose rows have names, of which long ones take half.
const WITH_NAMES: u32 = 560;

/// Width of each of several panels, which stand side by side or one below the other.
const NARROW: u32 = 380;

/// Draws each panel as a drawing, so that the page can put them side by side or one below the other.
pub fn chart(panels: &[Panel]) -> Vec<Drawing> {
    let width = match panels {
        [panel] if named(&panel.y) => WITH_NAMES,
        [_] => WIDTH,
        _ => NARROW,
    };
    let rows = panels.iter().filter(|panel| named(&panel.y)).map(|panel| panel.y.ticks.len());
    let height = rows.max().map_or(HEIGHT, |rows| 70 + 26 * rows as u32);
    let size = (width, height);
    let drawn = |panel: &Panel| (super::drawing(size, |root| draw(root, panel)), size);
    panels.iter().map(drawn).collect()
}

/// Returns true if the ticks of an axis are names, which are long for arms.
fn named(axis: &PlotAxis) -> bool {
    axis.ticks.iter().any(|(_, name)| name.chars().any(char::is_alphabetic) && name.len() > 8)
}

fn draw(area: &Area, panel: &Panel) -> Drawn {
    let Panel { y, series, .. } = panel;
    let left = super::names_width(y).max(62);
    let x = &panel.x.spaced(f64::from(area.dim_in_pixel().0.saturating_sub(left + 32)));
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .margin_right(22)
        .x_label_area_size(46)
        .y_label_area_size(left)
        .build_cartesian_2d(x.clone(), y.clone())?;
    super::mesh(&mut chart, &x.title, &y.title).draw()?;
    for (at, one) in series.iter().enumerate() {
        draw_series(&mut chart, panel, (one, stroke(one, &series[at + 1..])))?;
    }
    Ok(())
}

/// Returns the width of a line: equal lines that are drawn over it are narrower, so that all of them are seen.
fn stroke(one: &Series, later: &[Series]) -> u32 {
    let covers = |other: &&Series| {
        let pairs = one.points.iter().zip(&other.points);
        other.points.len() == one.points.len()
            && pairs.into_iter().all(|(one, other)| (one.x, one.y) == (other.x, other.y))
    };
    2 + 3 * later.iter().filter(covers).count() as u32
}

fn draw_series(chart: &mut Context, panel: &Panel, (series, width): (&Series, u32)) -> Drawn {
    let color = color(series.number);
    let at = |x: f64, y: f64| (panel.x.at(x), panel.y.at(y));
    let line: Vec<(f64, f64)> = series.points.iter().map(|point| at(point.x, point.y)).collect();
    let spread = series.points.iter().any(|point| point.spread.is_some());
    match series.look {
        Look::Band => {
            if spread {
                let edge = |sign: f64| {
                    let y = move |point: &ChartPoint| point.y + sign * point.spread.unwrap_or(0.0);
                    series.points.iter().map(move |point| at(point.x, y(point)))
                };
                let low: Vec<_> = edge(-1.0).collect();
                let band: Vec<_> = edge(1.0).chain(low.into_iter().rev()).collect();
                chart.draw_series([Polygon::new(band, color.mix(0.18))])?;
            }
            chart.draw_series([PathElement::new(line, color.stroke_width(width))])?;
        }
        Look::Frontier => {
            chart.draw_series(DashedLineSeries::new(line, 5, 4, INK.stroke_width(1)))?;
        }
        Look::Steps => {
            let steps = line.windows(2).flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]);
            let last = line.last().copied();
            let path: Vec<_> = steps.chain(last).collect();
            chart.draw_series([PathElement::new(path, color.stroke_width(2))])?;
        }
        Look::Joined | Look::Marks => {
            if series.look == Look::Joined {
                chart.draw_series([PathElement::new(line.clone(), color.stroke_width(width))])?;
            }
            for point in &series.points {
                let bar = color.stroke_width(1);
                if let Some(spread) = point.spread {
                    let (low, high) =
                        (at(point.x, point.y - spread), at(point.x, point.y + spread));
                    chart.draw_series([PathElement::new(vec![low, high], bar)])?;
                }
                if let Some(spread) = point.x_spread {
                    let (low, high) =
                        (at(point.x - spread, point.y), at(point.x + spread, point.y));
                    chart.draw_series([PathElement::new(vec![low, high], bar)])?;
                }
            }
            // The shape of the mark identifies a series without color.
            let mark = |place: &(f64, f64)| {
                let shape = Polygon::new(outline(series.number), color.filled());
                EmptyElement::at(*place) + shape
            };
            chart.draw_series(line.iter().map(mark))?;
        }
    }
    Ok(())
}
