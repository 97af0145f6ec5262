//! Update rule of an optimizer, its state, and a step on slices.

use std::ops::Range;

use super::{Adam, Sgd};

/// Update rule with its constants.
#[derive(Clone, Debug, PartialEq)]
pub enum OptimizerConfig {
    /// Stochastic gradient descent.
    Sgd(Sgd),
    /// Adam or AdamW.
    Adam(Adam),
}

/// State of an update rule for one tensor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moments {
    /// Momentum buffer, or first moment; empty if the rule has none.
    pub first: Vec<f32>,
    /// Second moment; empty if the rule has none.
    pub second: Vec<f32>,
}

impl Moments {
    /// Returns the moments of a range of the values. Those that the rule does not have are empty.
    pub(super) fn of(&mut self, run: Range<usize>) -> MomentsMut<'_> {
        let part = |all: &[f32]| if all.is_empty() { 0..0 } else { run.clone() };
        let (first, second) = (part(&self.first), part(&self.second));
        MomentsMut { first: &mut self.first[first], second: &mut self.second[second] }
    }
}

/// [`Moments`] of a range of values.
pub(super) struct MomentsMut<'a> {
    pub first: &'a mut [f32],
    pub second: &'a mut [f32],
}

/// Learning rate and gradient factor of one member's step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stride {
    /// The learning rate.
    pub rate: f64,
    /// Factor of the gradient, such as the clipping factor.
    pub scale: f64,
}

impl OptimizerConfig {
    /// Plain SGD with this learning rate.
    pub fn sgd(learning_rate: f64) -> Self {
        OptimizerConfig::Sgd(Sgd { learning_rate, momentum: 0.0, weight_decay: 0.0 })
    }

    /// Returns AdamW without weight decay, with betas 0.9 and 0.999 and epsilon 1e-8.
    pub fn adamw(learning_rate: f64) -> Self {
        OptimizerConfig::Adam(Adam { learning_rate, ..Adam::default() })
    }

    /// Returns a copy with this momentum. It does not affect Adam.
    pub fn momentum(mut self, value: f64) -> Self {
        if let OptimizerConfig::Sgd(sgd) = &mut self {
            sgd.momentum = value;
        }
        self
    }

    /// Returns a copy with this weight decay.
    pub fn weight_decay(mut self, value: f64) -> Self {
        match &mut self {
            OptimizerConfig::Sgd(sgd) => sgd.weight_decay = value,
            OptimizerConfig::Adam(adam) => adam.weight_decay = value,
        }
        self
    }

    /// Returns the base learning rate, before any schedule.
    pub fn learning_rate(&self) -> f64 {
        match self {
            OptimizerConfig::Sgd(sgd) => sgd.learning_rate,
            OptimizerConfig::Adam(adam) => adam.learning_rate,
        }
    }

    /// Returns a copy with this base learning rate.
    pub fn with_learning_rate(mut self, value: f64) -> Self {
        match &mut self {
            OptimizerConfig::Sgd(sgd) => sgd.learning_rate = value,
            OptimizerConfig::Adam(adam) => adam.learning_rate = value,
        }
        self
    }

    /// Returns initial (zero) moments for a tensor of `len` values.
    pub fn moments(&self, len: usize) -> Moments {
        match self {
            OptimizerConfig::Sgd(sgd) if sgd.momentum == 0.0 => Moments::default(),
            OptimizerConfig::Sgd(_) => Moments { first: vec![0.0; len], second: Vec::new() },
            OptimizerConfig::Adam(_) => Moments { first: vec![0.0; len], second: vec![0.0; len] },
        }
    }

    /// Takes one step on slices: `values` move against `scale * gradient` at learning rate `rate`.
    ///
    /// `scale` is the clipping factor, and `step` counts from 1.
    pub fn update(
        &self,
        values: &mut [f32],
        gradient: &[f32],
        scale: f64,
        moments: &mut Moments,
        rate: f64,
        step: u64,
    ) {
        let moments = moments.of(0..values.len());
        self.advance(values, gradient, Stride { rate, scale }, moments, step);
    }

    pub(super) fn advance(
        &self,
        values: &mut [f32],
        gradient: &[f32],
        stride: Stride,
        moments: MomentsMut<'_>,
        step: u64,
    ) {
        assert_eq!(values.len(), gradient.len(), "one gradient per value");
        match self {
            OptimizerConfig::Sgd(sgd) => sgd.update(values, gradient, stride, moments),
            OptimizerConfig::Adam(adam) => adam.update(values, gradient, stride, moments, step),
        }
    }
}
