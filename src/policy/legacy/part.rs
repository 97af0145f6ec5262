//! Folding: an upload is lifted to a [`Part`]; parts merge in a fixed binary tree over seats.
//!
//! A field is either *summed* (it streams: memory does not grow with the cohort) or *kept*
//! (handed to the server as a list in seat order). A method's `Part` is a struct of both.

use crate::model::ops::wide::wide;
use crate::quantity::SeatId;

/// What is left of an upload on the server until the round closes.
pub trait Part: Send + Sized + 'static {
    /// Joins the parts of earlier seats (`self`) with those of later seats.
    fn merge(self, later: Self) -> Self;
}

/// How a field of an Up is folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Folding {
    /// Merged as it streams.
    Sum,
    /// Kept whole until the round closes.
    Keep,
}

/// A field of an Up, for `fedcast methods show` and for engine services that accept sums only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Field {
    /// Name of the field.
    pub name: &'static str,
    /// How it folds.
    pub folding: Folding,
}

/// Uploads handed over whole, in seat order.
#[derive(Clone, Debug)]
pub struct Keep<T>(pub Vec<(SeatId, T)>);

impl<T> Keep<T> {
    /// The list of one seat.
    pub fn one(seat: SeatId, item: T) -> Self {
        Keep(vec![(seat, item)])
    }
}

impl<T: Send + 'static> Part for Keep<T> {
    fn merge(mut self, later: Self) -> Self {
        self.0.extend(later.0);
        self
    }
}

/// Weighted sum of differences from a base, in f64: FedAvg as `base + sum(w d) / sum(w)`,
/// which keeps coordinates that no client changed bit for bit.
#[derive(Clone, Debug)]
pub struct WeightedDelta {
    /// Sum of weights.
    pub weight: f64,
    /// `sum over seats of weight * (value - base)`, flat.
    pub sum: Vec<f64>,
}

impl WeightedDelta {
    /// The part of one seat. `base` and `value` have equal length.
    pub fn one(weight: f64, base: &[f32], value: &[f32]) -> Self {
        debug_assert_eq!(base.len(), value.len());
        let step = |(v, b): (&f32, &f32)| weight * (f64::from(*v) - f64::from(*b));
        let sum = wide(|| value.iter().zip(base).map(step).collect());
        WeightedDelta { weight, sum }
    }

    /// `base + sum / weight`, rounded once to f32; the base itself where the weight is zero.
    pub fn apply(&self, base: &[f32]) -> Vec<f32> {
        let mut values = base.to_vec();
        self.move_values(&mut values);
        values
    }

    /// [`WeightedDelta::apply`] in place, to as many leading values as there are sums.
    pub fn move_values(&self, values: &mut [f32]) {
        if self.weight <= 0.0 {
            return;
        }
        wide(|| {
            for (value, sum) in values.iter_mut().zip(&self.sum) {
                *value = (f64::from(*value) + sum / self.weight) as f32;
            }
        });
    }
}

impl Part for WeightedDelta {
    fn merge(mut self, later: Self) -> Self {
        self.weight += later.weight;
        wide(|| {
            for (mine, theirs) in self.sum.iter_mut().zip(&later.sum) {
                *mine += theirs;
            }
        });
        self
    }
}

impl Part for crate::policy::ParameterAverage {
    fn merge(self, later: Self) -> Self {
        crate::policy::ParameterAverage::merge(self, later)
    }
}

impl Part for () {
    fn merge(self, (): ()) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identical_uploads_are_the_identity_and_zero_weight_is_silent() {
        let base = [0.1f32, -3.5, 7.0];
        let up = [0.3f32, -3.5, 1e-7];
        let parts = [3.0, 5.0, 0.0].map(|w| WeightedDelta::one(w, &base, &up));
        let folded = parts.into_iter().reduce(Part::merge).expect("three parts");
        assert_eq!(folded.apply(&base), up);
        assert_eq!(WeightedDelta::one(0.0, &base, &up).apply(&base), base);
    }
}
