//! Bars of stacked parts, one below the other.

use plotters::prelude::*;

use super::Drawing;
use super::axis::PlotAxis;
use super::label::Label;
use super::palette::color;

/// Bar of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Label of the bar.
    pub name: String,
    /// Number of the series, and length of each part.
    pub parts: Vec<(usize, f64)>,
}

/// Width of the drawing, of which long names take half.
const WIDTH: u32 = 560;

/// Draws bars over one axis; returns the content of an `svg` element, with its size.
pub fn bars(title: &str, label: Label, bars: &[Bar]) -> Drawing {
    let size = (WIDTH, 66 + 26 * bars.len() as u32);
    let whole = |bar: &Bar| bar.parts.iter().map(|(_, part)| part).sum::<f64>();
    let x = PlotAxis::from_zero(title, bars.iter().map(whole), label);
    // The first bar is at the top, where the axis ends.
    let names: Vec<&str> = bars.iter().rev().map(|bar| bar.name.as_str()).collect();
    let y = PlotAxis::places("", &names);
    let left = super::names_width(&y).max(40);
    let x = x.spaced(f64::from(size.0 - left - 36));
    let drawing = super::drawing(size, |root| {
        let mut chart = ChartBuilder::on(root)
            .margin(8)
            .margin_right(28)
            .x_label_area_size(46)
            .y_label_area_size(left)
            .build_cartesian_2d(x.clone(), y.clone())?;
        super::mesh(&mut chart, &x.title, "").disable_y_mesh().draw()?;
        for (place, bar) in bars.iter().rev().enumerate() {
            let (low, high) = (place as f64 - 0.36, place as f64 + 0.36);
            let mut from = 0.0;
            let rectangles =
                bar.parts.iter().filter(|(_, part)| *part > 0.0).map(|(part, much)| {
                    let begin = from;
                    from += much;
                    Rectangle::new([(begin, low), (from, high)], color(*part).filled())
                });
            chart.draw_series(rectangles)?;
        }
        Ok(())
    });
    (drawing, size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::plot::hex;

    /// Returns left edge, top and width of the rectangles of a color.
    fn rectangles(drawing: &str, series: usize) -> Vec<[i32; 3]> {
        let fill = format!("fill=\"{}\"", hex(color(series)));
        let elements = drawing.split('<').filter(|e| e.starts_with("rect") && e.contains(&fill));
        let value = |element: &str, name: &str| {
            let rest = element.split(&format!(" {name}=\"")).nth(1).unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        elements.map(|e| [value(e, "x"), value(e, "y"), value(e, "width")]).collect()
    }

    #[test]
    fn parts_follow_one_another_and_the_first_bar_is_on_top() {
        let both = [
            Bar { name: "fedavg".into(), parts: vec![(0, 100.0), (1, 300.0)] },
            Bar { name: "hgp".into(), parts: vec![(0, 200.0), (1, 0.0)] },
        ];
        let (drawing, _) = bars("bytes", Label::Bytes, &both);
        let (first, second) = (rectangles(&drawing, 0), rectangles(&drawing, 1));
        // Bars are drawn from the bottom.
        let [hgp, fedavg] = first[..] else { panic!("{first:?}") };
        assert!(fedavg[1] < hgp[1], "{first:?}");
        assert!((hgp[2] - 2 * fedavg[2]).abs() <= 2, "{first:?}");
        assert_eq!(second.len(), 1, "nothing is drawn of nothing");
        assert!((second[0][0] - (fedavg[0] + fedavg[2])).abs() <= 1, "{first:?} {second:?}");
        assert!((second[0][2] - 3 * fedavg[2]).abs() <= 3, "{second:?}");
    }
}
