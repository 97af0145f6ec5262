//! Axis of a plot: quantity, range and ticks.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use super::label::Label;
use super::shortened;

/// Axis in its own coordinates: logarithms on a logarithmic axis, places on an axis of names.
#[derive(Clone, Debug, PartialEq)]
pub struct PlotAxis {
    /// Quantity with its unit.
    pub title: String,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Positions of ticks, with their labels.
    pub ticks: Vec<(f64, String)>,
    logarithmic: bool,
    /// Possible values, whatever the range of the axis: a fraction is in `0..=1`.
    bounds: AxisBounds,
}

/// Pixels between two labels.
const GAP: f64 = 6.0;

/// Least and greatest possible value.
#[derive(Clone, Copy, Debug, PartialEq)]
struct AxisBounds {
    least: f64,
    most: f64,
}

impl AxisBounds {
    fn of(label: Label) -> AxisBounds {
        match label {
            Label::Percent => AxisBounds { least: 0.0, most: 1.0 },
            _ => AxisBounds { least: f64::NEG_INFINITY, most: f64::INFINITY },
        }
    }

    fn hold(self, value: f64) -> f64 {
        value.max(self.least).min(self.most)
    }
}

impl PlotAxis {
    /// Returns a linear axis over the values with a small margin, from zero if they come near it.
    pub fn linear(title: &str, values: impl IntoIterator<Item = f64>, label: Label) -> PlotAxis {
        let bounds = AxisBounds::of(label);
        // Error bars may exceed the possible values, the axis does not.
        let (mut low, mut high) = extent(values.into_iter().map(|value| bounds.hold(value)));
        // Values from 70 to 100 are readable without a zero; values from 40 to 100 would look too far apart.
        if low > 0.0 && low < 0.5 * high {
            low = 0.0;
        }
        let room = if high > low { 0.05 * (high - low) } else { high.abs().max(1.0) * 0.05 };
        if low != 0.0 {
            low -= room;
        }
        high += room;
        // Labels of bytes are long.
        let mut places = steps(low, high, if label == Label::Bytes { 4 } else { 5 });
        if label == Label::Count {
            places.retain(|place| place.fract() == 0.0);
        }
        let ticks = places.into_iter().map(|at| (at, label.write(at))).collect();
        PlotAxis { title: title.to_owned(), low, high, ticks, logarithmic: false, bounds }
    }

    /// Returns a linear axis that begins at zero.
    pub fn from_zero(title: &str, values: impl IntoIterator<Item = f64>, label: Label) -> PlotAxis {
        PlotAxis::linear(title, values.into_iter().chain([0.0]), label)
    }

    /// Returns a logarithmic axis if the values are positive and far apart, else a linear one.
    pub fn wide(title: &str, values: impl IntoIterator<Item = f64>, label: Label) -> PlotAxis {
        let values: Vec<f64> = values.into_iter().collect();
        let (low, high) = extent(values.iter().copied());
        if low <= 0.0 || high < 20.0 * low {
            return PlotAxis::linear(title, values, label);
        }
        let (low, high) = (low.log10() - 0.08, high.log10() + 0.08);
        let inside = |at: &f64| *at >= low && *at <= high;
        let decades = || low.floor() as i32..=high.ceil() as i32;
        let ticks = |within: &[f64]| -> Vec<(f64, String)> {
            let of = |decade: i32| within.iter().map(move |step| step * 10f64.powi(decade));
            let values: Vec<f64> = decades().flat_map(of).collect();
            let ticks = values.into_iter().map(|value| (value.log10(), label.write(value)));
            ticks.filter(|(at, _)| inside(at)).collect()
        };
        // Labels of bytes are long and must not overlap.
        let most = if label == Label::Bytes { 5 } else { 9 };
        let fine = [&[1.0, 2.0, 5.0][..], &[1.0, 3.0]].map(ticks);
        let ticks =
            fine.into_iter().find(|fine| fine.len() <= most).unwrap_or_else(|| ticks(&[1.0]));
        let (title, bounds) = (format!("{title}, logarithmic"), AxisBounds::of(label));
        PlotAxis { title, low, high, ticks, logarithmic: true, bounds }
    }

    /// Returns an axis with one place per name, in order.
    pub fn places<S: AsRef<str>>(title: &str, names: &[S]) -> PlotAxis {
        let ticks =
            names.iter().enumerate().map(|(place, name)| (place as f64, name.as_ref().to_owned()));
        PlotAxis {
            title: title.to_owned(),
            low: -0.5,
            high: names.len().max(1) as f64 - 0.5,
            ticks: ticks.collect(),
            logarithmic: false,
            bounds: AxisBounds::of(Label::Number),
        }
    }

    /// Returns the axis with so few labels that none touches another along `pixels`; the first is kept.
    pub fn spaced(&self, pixels: f64) -> PlotAxis {
        let at = |place: f64| (place - self.low) / (self.high - self.low) * pixels;
        let half = |name: &str| 3.5 * shortened(name).chars().count() as f64;
        let fits = |stride: usize| {
            let kept: Vec<&(f64, String)> = self.ticks.iter().step_by(stride).collect();
            kept.windows(2).all(|pair| {
                let room = at(pair[1].0) - at(pair[0].0);
                room >= half(&pair[0].1) + half(&pair[1].1) + GAP
            })
        };
        let stride = (1..=self.ticks.len()).find(|stride| fits(*stride)).unwrap_or(1);
        let ticks = self.ticks.iter().step_by(stride).cloned().collect();
        PlotAxis { ticks, ..self.clone() }
    }

    /// Returns the coordinate of a value, or of the nearer end.
    pub fn at(&self, value: f64) -> f64 {
        let value = self.bounds.hold(value);
        let at = if self.logarithmic { value.log10() } else { value };
        // The part of a bar that is on the axis is drawn.
        at.max(self.low).min(self.high)
    }
}

/// Coordinates and ticks for `plotters`.
impl Ranged for PlotAxis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value - self.low) / (self.high - self.low);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match hint.weight().allow_light_points() {
            true => Vec::new(),
            false => self.ticks.iter().map(|(at, _)| *at).collect(),
        }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for PlotAxis {
    fn format_ext(&self, value: &f64) -> String {
        let tick = self.ticks.iter().find(|(at, _)| at == value);
        tick.map_or_else(String::new, |(_, word)| shortened(word))
    }
}

/// Returns the least and the greatest value; `0..1` without values.
fn extent(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let finite = values.into_iter().filter(|value| value.is_finite());
    finite
        .fold(None, |found: Option<(f64, f64)>, value| {
            let (low, high) = found.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        })
        .unwrap_or((0.0, 1.0))
}

/// Returns about `count` round numbers in a range: 1, 2 or 5 times a power of ten apart.
fn steps(low: f64, high: f64, count: u32) -> Vec<f64> {
    let rough = (high - low) / f64::from(count);
    let decade = 10f64.powf(rough.log10().floor());
    let far = |step: &f64| (step / rough).ln().abs();
    let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * decade);
    let step = step.into_iter().min_by(|a, b| far(a).total_cmp(&far(b))).unwrap_or(rough);
    // 0.3 holds three steps of 0.1, whatever their quotient is.
    let (first, last) = ((low / step - 1e-9).ceil() as i64, (high / step + 1e-9).floor() as i64);
    // A multiple of a decimal fraction is rounded: 3 * 0.1 is written as 0.3.
    let digits = (-step.log10().floor()).max(0.0) as usize;
    let exact = |n: i64| format!("{:.digits$}", n as f64 * step).parse().unwrap_or(0.0);
    (first..=last).map(exact).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(steps(0.0, 1.0, 5), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!(steps(71.0, 93.0, 5), [75.0, 80.0, 85.0, 90.0]);
        assert_eq!(steps(0.0, 0.3, 3), [0.0, 0.1, 0.2, 0.3]);
        assert_eq!(steps(0.0, 1.05, 5), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!(steps(0.0, 3e6, 4), [0.0, 1e6, 2e6, 3e6]);
    }

    #[test]
    fn an_axis_of_what_is_near_zero_begins_there() {
        let near = PlotAxis::linear("y", [0.2, 0.9], Label::Number);
        assert_eq!(near.low, 0.0);
        let far = PlotAxis::linear("y", [80.0, 90.0], Label::Number);
        assert!(far.low > 70.0 && far.low < 80.0 && far.high > 90.0);
        let one = PlotAxis::linear("y", [5.0], Label::Number);
        assert!(one.low < 5.0 && one.high > 5.0);
        let share = PlotAxis::linear("y", [0.7, 1.3], Label::Percent);
        assert!(share.high > 1.0 && share.high < 1.1);
    }

    #[test]
    fn shares_end_at_nothing_and_all() {
        let share = PlotAxis::linear("accuracy", [-0.1, 0.7, 1.3], Label::Percent);
        assert_eq!((share.low, share.at(-0.1), share.at(1.3)), (0.0, 0.0, 1.0));
        assert_eq!(share.at(0.7), 0.7);
        // Points are differences and have no such bounds.
        let points = PlotAxis::linear("forgetting", [-0.1, 1.3], Label::Points);
        assert_eq!((points.at(-0.1), points.at(1.3)), (-0.1, 1.3));
    }

    #[test]
    fn labels_that_would_touch_are_left_out() {
        let axis = PlotAxis::places("clients", &["100 kB", "200 kB", "300 kB", "400 kB", "500 kB"]);
        let words = |pixels: f64| -> Vec<String> {
            axis.spaced(pixels).ticks.into_iter().map(|(_, word)| word).collect()
        };
        // A place is a fifth of the axis; a label takes 42 pixels, with 6 to the next.
        assert_eq!(words(240.0).len(), 5);
        assert_eq!(words(239.0), ["100 kB", "300 kB", "500 kB"]);
        assert_eq!(words(10.0), ["100 kB"]);
    }

    #[test]
    fn a_wide_axis_counts_in_powers_of_ten() {
        let axis = PlotAxis::wide("bytes", [2e3, 5e6], Label::Bytes);
        let words: Vec<&str> = axis.ticks.iter().map(|(_, word)| word.as_str()).collect();
        assert_eq!(words, ["10 kB", "100 kB", "1 MB"]);
        // Fewer decades leave room for more.
        let near = PlotAxis::wide("bytes", [5e4, 1.4e7], Label::Bytes);
        let words: Vec<&str> = near.ticks.iter().map(|(_, word)| word.as_str()).collect();
        assert_eq!(words, ["100 kB", "300 kB", "1 MB", "3 MB", "10 MB"]);
        let axis = PlotAxis::wide("bytes", [2e3, 5e6], Label::Bytes);
        assert_eq!(axis.at(1e6), 6.0);
        assert_eq!(axis.at(0.0), axis.low);
        assert_eq!(PlotAxis::wide("bytes", [2.0, 5.0], Label::Number).at(4.0), 4.0);
    }
}
