//! Drawings of a page, as SVG.
//!
//! `plotters` draws; the size of a drawing is given in its own coordinates, and the page scales it.

mod axis;
mod bars;
mod chart;
mod label;
mod palette;

use plotters::chart::MeshStyle;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::FontDesc;

pub use axis::PlotAxis;
pub use bars::{Bar, bars};
pub use chart::{ChartPoint, Look, Panel, Series, chart};
pub use label::Label;
pub use palette::{color, dark_rules, hex, outline};

/// Content of an `svg` element, with its size.
pub type Drawing = (String, (u32, u32));

/// Longest name of a tick that is written in full.
const LONGEST: usize = 34;

/// Draws into the content of an `svg` element.
fn drawing(
    size: (u32, u32),
    draw: impl FnOnce(
        &DrawingArea<SVGBackend, Shift>,
    ) -> Result<(), DrawingAreaErrorKind<std::io::Error>>,
) -> String {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
    let drawn = draw(&root).and_then(|()| root.present());
    drop(root);
    // Drawing fails only if a file cannot be written; the output is a string.
    drawn.expect("a text takes any drawing");
    inside(&text)
}

/// Returns the content of the `svg` element without redundant attributes.
fn inside(text: &str) -> String {
    let begin = text.find('>').map_or(0, |at| at + 1);
    let end = text.rfind("</svg>").unwrap_or(text.len());
    let body = text[begin..end].replace(" opacity=\"1\"", "").replace(" stroke=\"none\"", "");
    let body = body.replace(" stroke-width=\"1\"", "");
    // Fonts are those of the page.
    let body = without(&without(&body, "font-family"), "font-size");
    body.lines().collect::<String>()
}

/// Removes an attribute.
fn without(text: &str, attribute: &str) -> String {
    let begin = format!(" {attribute}=\"");
    let mut parts = text.split(&begin);
    let mut rest = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        rest.push_str(part.split_once('"').map_or("", |(_, behind)| behind));
    }
    rest
}

/// Returns the style of text.
fn words() -> TextStyle<'static> {
    let font: FontDesc = ("sans-serif", 15).into();
    font.color(&palette::INK)
}

/// Draws axes, grid and text.
fn mesh<'a, 'b>(
    chart: &'b mut ChartContext<'a, SVGBackend<'a>, Cartesian2d<PlotAxis, PlotAxis>>,
    x: &str,
    y: &str,
) -> MeshStyle<'a, 'b, PlotAxis, PlotAxis, SVGBackend<'a>> {
    let mut mesh = chart.configure_mesh();
    mesh.bold_line_style(palette::GRID)
        .axis_style(palette::INK)
        .label_style(words())
        .axis_desc_style(words())
        .x_desc(x)
        .y_desc(y);
    mesh
}

/// Returns the width of the names of an axis.
fn names_width(axis: &PlotAxis) -> u32 {
    let longest = axis.ticks.iter().map(|(_, name)| shortened(name).chars().count()).max();
    34 + 7 * longest.unwrap_or(0) as u32
}

/// Shortens a name that is too long for an axis; tables have it in full.
fn shortened(name: &str) -> String {
    match name.chars().count() > LONGEST {
        true => name.chars().take(LONGEST - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(look: Look) -> Panel {
        let point = |x: f64, y: f64| ChartPoint { spread: Some(0.1), ..ChartPoint::new(x, y) };
        Panel {
            x: PlotAxis::linear("round", [0.0, 10.0], Label::Number),
            y: PlotAxis::linear("accuracy & more (%)", [-0.2, 1.2], Label::Number),
            series: vec![
                Series { number: 0, points: vec![point(0.0, 0.0), point(10.0, 1.0)], look },
                Series { number: 1, points: vec![point(0.0, 1.0), point(10.0, 0.5)], look },
            ],
        }
    }

    /// Returns the corners of the line with this color.
    fn line(drawing: &str, series: usize) -> Vec<(i32, i32)> {
        let stroke = format!("stroke=\"{}\"", hex(color(series)));
        let element = drawing
            .split('<')
            .find(|element| element.starts_with("polyline") && element.contains(&stroke));
        let points = element.unwrap().split("points=\"").nth(1).unwrap();
        let points = points.split('"').next().unwrap();
        let pair = |text: &str| {
            let (x, y) = text.split_once(',').unwrap();
            (x.parse().unwrap(), y.parse().unwrap())
        };
        points.split_whitespace().map(pair).collect()
    }

    #[test]
    fn a_line_below_an_equal_one_is_wider() {
        let widths = |panel: Panel| -> Vec<String> {
            let (drawing, _) = chart(&[panel]).remove(0);
            let width = |series: usize| {
                let stroke = format!("stroke=\"{}\"", hex(color(series)));
                let lines = drawing.split('<').filter(|element| element.starts_with("polyline"));
                let line = lines.into_iter().find(|element| element.contains(&stroke)).unwrap();
                line.split("stroke-width=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
            };
            vec![width(0), width(1)]
        };
        assert_eq!(widths(panel(Look::Band)), ["2", "2"]);
        let mut equal = panel(Look::Band);
        equal.series[1].points = equal.series[0].points.clone();
        assert_eq!(widths(equal), ["5", "2"]);
    }

    #[test]
    fn more_is_to_the_right_and_further_up() {
        let (drawing, _) = chart(&[panel(Look::Band)]).remove(0);
        let (up, down) = (line(&drawing, 0), line(&drawing, 1));
        assert!(up[0].0 < up[1].0 && up[0].1 > up[1].1, "{up:?}");
        assert!(down[0].1 < down[1].1, "{down:?}");
        assert_eq!(up[0].0, down[0].0);
        // The first band ends where the second begins.
        assert_eq!(up[1].1, down[0].1);
    }

    #[test]
    fn a_band_reaches_one_deviation_to_both_sides() {
        let (drawing, _) = chart(&[panel(Look::Band)]).remove(0);
        let fill = format!("fill=\"{}\"", hex(color(0)));
        let polygon =
            drawing.split('<').find(|e| e.starts_with("polygon") && e.contains(&fill)).unwrap();
        let points = polygon.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        let ys: Vec<i32> = points
            .split_whitespace()
            .map(|pair| pair.split_once(',').unwrap().1.parse().unwrap())
            .collect();
        let line = line(&drawing, 0);
        assert_eq!(ys.len(), 4);
        assert!((ys[0] + ys[3] - 2 * line[0].1).abs() <= 1, "{ys:?} {line:?}");
        let tenth = f64::from(line[0].1 - line[1].1) / 10.0;
        assert!((f64::from(ys[3] - ys[0]) - 2.0 * tenth).abs() <= 2.0, "{ys:?} {line:?}");
    }

    #[test]
    fn words_of_a_drawing_are_escaped_and_nothing_names_another_place() {
        for look in [Look::Band, Look::Joined, Look::Marks, Look::Frontier, Look::Steps] {
            let drawings = chart(&[panel(look), panel(look)]);
            assert_eq!(drawings.len(), 2);
            for (drawing, size) in drawings {
                assert_eq!(size, (380, 320));
                assert!(drawing.contains("accuracy &amp; more (%)"));
                assert!(!drawing.contains("http") && !drawing.contains("<svg"));
            }
        }
    }

    #[test]
    fn an_attribute_goes_and_nothing_else() {
        assert_eq!(without("<a b=\"1\" c=\"2\"/><d b=\"3\">b=</d>", "b"), "<a c=\"2\"/><d>b=</d>");
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(shortened("hgp"), "hgp");
        assert_eq!(shortened(&"x".repeat(40)).chars().count(), LONGEST);
    }
}
