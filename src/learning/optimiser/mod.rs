//! Optimisers with PyTorch's semantics over state of our own.
//!
//! candle has no SGD with momentum, and its AdamW keeps its moments out of reach. Here a
//! rule ([`Sgd`], [`Adam`]) is plain data that updates plain slices in place, one pass over
//! values, gradient and moments; [`Optimiser`] applies it to `Var`s. Nothing is allocated per step.
//!
//! ```
//! use candle_core::{Device, Var};
//! use fedcast::learning::OptimiserConfig;
//! # fn main() -> Result<(), fedcast::learning::LearningError> {
//! let x = Var::new(&[3f32, -4.0], &Device::Cpu)?;
//! let mut sgd = OptimiserConfig::sgd(0.1).momentum(0.9).over(vec![x.clone()]);
//! for _ in 0..300 {
//!     let gradients = x.sqr()?.sum_all()?.backward()?;
//!     sgd.step(&gradients, 0.1, 1.0)?;
//! }
//! assert!(x.to_vec1::<f32>()?.iter().all(|v| v.abs() < 1e-3));
//! # Ok(())
//! # }
//! ```

mod adam;
mod clip;
mod schedule;
mod sgd;
mod storage;

pub use adam::{Adam, Decay};
pub(crate) use clip::sum_of_squares;
pub use clip::{clip_factor, global_norm};
pub use schedule::Schedule;
pub use sgd::Sgd;
pub(crate) use storage::lend;

use candle_core::Var;
use candle_core::backprop::GradStore;

use super::LearningError;

/// Which rule, with its constants.
#[derive(Clone, Debug, PartialEq)]
pub enum OptimiserConfig {
    /// Stochastic gradient descent.
    Sgd(Sgd),
    /// Adam or AdamW.
    Adam(Adam),
}

/// What a rule remembers of one tensor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moments {
    /// Momentum buffer, or first moment; empty where the rule has none.
    pub first: Vec<f32>,
    /// Second moment; empty where the rule has none.
    pub second: Vec<f32>,
}

impl OptimiserConfig {
    /// Plain SGD with this learning rate.
    pub fn sgd(learning_rate: f64) -> Self {
        OptimiserConfig::Sgd(Sgd { learning_rate, momentum: 0.0, weight_decay: 0.0 })
    }

    /// AdamW (decoupled decay, none yet) with betas 0.9 and 0.999 and epsilon 1e-8.
    pub fn adamw(learning_rate: f64) -> Self {
        OptimiserConfig::Adam(Adam { learning_rate, ..Adam::default() })
    }

    /// The same with a momentum; Adam has its own and is left as it is.
    pub fn momentum(mut self, value: f64) -> Self {
        if let OptimiserConfig::Sgd(sgd) = &mut self {
            sgd.momentum = value;
        }
        self
    }

    /// The same with a weight decay.
    pub fn weight_decay(mut self, value: f64) -> Self {
        match &mut self {
            OptimiserConfig::Sgd(sgd) => sgd.weight_decay = value,
            OptimiserConfig::Adam(adam) => adam.weight_decay = value,
        }
        self
    }

    /// The base learning rate, before any schedule.
    pub fn learning_rate(&self) -> f64 {
        match self {
            OptimiserConfig::Sgd(sgd) => sgd.learning_rate,
            OptimiserConfig::Adam(adam) => adam.learning_rate,
        }
    }

    /// The same with another base learning rate.
    pub fn with_learning_rate(mut self, value: f64) -> Self {
        match &mut self {
            OptimiserConfig::Sgd(sgd) => sgd.learning_rate = value,
            OptimiserConfig::Adam(adam) => adam.learning_rate = value,
        }
        self
    }

    /// Fresh (zero) moments for a tensor of `len` values.
    pub fn moments(&self, len: usize) -> Moments {
        match self {
            OptimiserConfig::Sgd(sgd) if sgd.momentum == 0.0 => Moments::default(),
            OptimiserConfig::Sgd(_) => Moments { first: vec![0.0; len], second: Vec::new() },
            OptimiserConfig::Adam(_) => Moments { first: vec![0.0; len], second: vec![0.0; len] },
        }
    }

    /// One step on plain slices: `values` moves against `scale * gradient` (`scale` is the clipping
    /// factor) at learning rate `rate`. `step` counts from 1.
    pub fn update(
        &self,
        values: &mut [f32],
        gradient: &[f32],
        scale: f64,
        moments: &mut Moments,
        rate: f64,
        step: u64,
    ) {
        assert_eq!(values.len(), gradient.len(), "one gradient per value");
        match self {
            OptimiserConfig::Sgd(sgd) => sgd.update(values, gradient, scale, moments, rate),
            OptimiserConfig::Adam(adam) => {
                adam.update(values, gradient, scale, moments, rate, step)
            }
        }
    }

    /// The optimiser of these variables, with fresh state.
    pub fn over(self, vars: Vec<Var>) -> Optimiser {
        let moments = vars.iter().map(|v| self.moments(v.elem_count())).collect();
        let factors = vec![1.0; vars.len()];
        Optimiser { rule: self, vars, factors, moments, steps: 0 }
    }
}

/// What an optimiser carries from one training to the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OptimiserState {
    /// Steps taken.
    pub steps: u64,
    /// Per variable.
    pub moments: Vec<Moments>,
}

/// A rule, the variables it moves, and what it remembers of them.
#[derive(Debug)]
pub struct Optimiser {
    rule: OptimiserConfig,
    vars: Vec<Var>,
    /// Of the learning rate, per variable.
    factors: Vec<f64>,
    moments: Vec<Moments>,
    steps: u64,
}

impl Optimiser {
    /// Different learning rates for different variables: a factor for each, in their order.
    ///
    /// # Panics
    /// When there are fewer or more factors than variables.
    pub fn set_rate_factors(&mut self, factors: Vec<f64>) {
        assert_eq!(factors.len(), self.vars.len(), "one factor per variable");
        self.factors = factors;
    }

    /// Goes on where another optimiser of the same rule and shapes stopped.
    ///
    /// # Errors
    /// When the state is of other shapes.
    pub fn resume(&mut self, state: OptimiserState) -> Result<(), LearningError> {
        let lengths = |all: &[Moments]| -> Vec<(usize, usize)> {
            all.iter().map(|m| (m.first.len(), m.second.len())).collect()
        };
        if lengths(&state.moments) != lengths(&self.moments) {
            let what = "a saved optimiser belongs to other variables or another rule";
            return Err(LearningError::Shape(what.into()));
        }
        (self.steps, self.moments) = (state.steps, state.moments);
        Ok(())
    }

    /// What [`resume`](Optimiser::resume) needs.
    pub fn into_state(self) -> OptimiserState {
        OptimiserState { steps: self.steps, moments: self.moments }
    }

    /// One step at learning rate `rate` with every gradient multiplied by `scale`.
    ///
    /// # Errors
    /// When a variable has no gradient (nothing has moved then).
    pub fn step(
        &mut self,
        gradients: &GradStore,
        rate: f64,
        scale: f64,
    ) -> Result<(), LearningError> {
        if let Some(i) = self.vars.iter().position(|v| gradients.get(v).is_none()) {
            return Err(LearningError::NoGradient { name: format!("#{i}") });
        }
        self.steps += 1;
        let each = self.vars.iter().zip(&mut self.moments).zip(&self.factors);
        for ((var, moments), factor) in each {
            let Some(gradient) = gradients.get(var) else { continue };
            let rate = rate * factor;
            lend(gradient, |gradient| {
                storage::edit(var, |values| {
                    self.rule.update(values, gradient, scale, moments, rate, self.steps);
                })
            })?;
        }
        Ok(())
    }

    /// [`Optimiser::step`] with gradients as plain values, one slice per variable, row-major.
    ///
    /// # Errors
    /// When their number or a length does not fit (nothing has moved then).
    pub fn step_slices<G: AsRef<[f32]> + Sync>(
        &mut self,
        gradients: &[G],
        rate: f64,
        scale: f64,
    ) -> Result<(), LearningError> {
        let lengths = gradients.iter().map(|g| g.as_ref().len());
        if !lengths.eq(self.vars.iter().map(|v| v.elem_count())) {
            return Err(LearningError::Shape("gradients do not fit the variables".to_owned()));
        }
        self.steps += 1;
        let each = self.vars.iter().zip(&mut self.moments).zip(&self.factors);
        for (((var, moments), factor), gradient) in each.zip(gradients) {
            storage::edit(var, |values| {
                let rate = rate * factor;
                self.rule.update(values, gradient.as_ref(), scale, moments, rate, self.steps);
            })?;
        }
        Ok(())
    }

    /// The base learning rate, before any schedule.
    pub fn learning_rate(&self) -> f64 {
        self.rule.learning_rate()
    }

    /// Steps taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }
}

#[cfg(test)]
mod tests;
