//! Optimisers with PyTorch's semantics over state of our own.
//!
//! candle has no SGD with momentum, and its AdamW keeps its moments out of reach. Here a
//! rule ([`Sgd`], [`Adam`]) is plain data that updates plain slices in place, one pass over
//! values, gradient and moments; [`Optimiser`] applies it to `Var`s. Nothing is allocated per step.
//!
//! Where a pack trains, a variable holds its members' values one behind the other, `(members, ..)`,
//! and so do the moments. Each member steps by itself, at its own rate and with its own count of
//! steps: its values move exactly as they would alone.
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
pub use clip::{clip_factor, global_norm, member_norms};
pub use schedule::Schedule;
pub use sgd::Sgd;
pub(crate) use storage::lend;

use std::ops::Range;

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

impl Moments {
    /// The moments of a run of the values; what the rule does not keep stays empty.
    fn of(&mut self, run: Range<usize>) -> MomentsMut<'_> {
        let part = |all: &[f32]| if all.is_empty() { 0..0 } else { run.clone() };
        let (first, second) = (part(&self.first), part(&self.second));
        MomentsMut { first: &mut self.first[first], second: &mut self.second[second] }
    }
}

/// [`Moments`] of a run of values.
struct MomentsMut<'a> {
    first: &'a mut [f32],
    second: &'a mut [f32],
}

/// How far one member of a pack goes in a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stride {
    /// The learning rate.
    pub rate: f64,
    /// What the gradient is multiplied with: the clipping factor.
    pub scale: f64,
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
        let moments = moments.of(0..values.len());
        self.advance(values, gradient, Stride { rate, scale }, moments, step);
    }

    fn advance(
        &self,
        values: &mut [f32],
        gradient: &[f32],
        stride: Stride,
        moments: MomentsMut<'_>,
        step: u64,
    ) {
        assert_eq!(values.len(), gradient.len(), "one gradient per value");
        match self {
            OptimiserConfig::Sgd(sgd) => sgd.update(values, gradient, stride, moments),
            OptimiserConfig::Adam(adam) => adam.update(values, gradient, stride, moments, step),
        }
    }

    /// The optimiser of these variables, with fresh state.
    pub fn over(self, vars: Vec<Var>) -> Optimiser {
        self.over_pack(vars, 1)
    }

    /// The optimiser of variables that each hold the values of so many members, one behind the
    /// other.
    ///
    /// # Panics
    /// When a variable cannot be divided among them.
    pub fn over_pack(self, vars: Vec<Var>, members: usize) -> Optimiser {
        let divides = |var: &Var| members > 0 && var.elem_count().is_multiple_of(members);
        assert!(vars.iter().all(divides), "a variable does not divide among {members} members");
        let moments = vars.iter().map(|v| self.moments(v.elem_count())).collect();
        let factors = vec![1.0; vars.len()];
        Optimiser { rule: self, vars, factors, moments, steps: vec![0; members] }
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
    /// Taken by each member.
    steps: Vec<u64>,
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

    /// Members of the pack.
    pub fn members(&self) -> usize {
        self.steps.len()
    }

    /// Goes on where another optimiser of the same rule and shapes stopped; every member of a pack
    /// has taken as many steps.
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
        self.steps.fill(state.steps);
        self.moments = state.moments;
        Ok(())
    }

    /// What [`resume`](Optimiser::resume) needs.
    pub fn into_state(self) -> OptimiserState {
        OptimiserState { steps: self.steps(), moments: self.moments }
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
        self.step_members(gradients, &vec![Some(Stride { rate, scale }); self.members()])
    }

    /// One step of every member that has a stride; values, moments and count of the others stay as
    /// they are.
    ///
    /// # Errors
    /// When a variable has no gradient, or there is not one entry per member (nothing has moved
    /// then).
    pub fn step_members(
        &mut self,
        gradients: &GradStore,
        strides: &[Option<Stride>],
    ) -> Result<(), LearningError> {
        if let Some(i) = self.vars.iter().position(|v| gradients.get(v).is_none()) {
            return Err(LearningError::NoGradient { name: format!("#{i}") });
        }
        let steps = self.count(strides)?;
        let each = self.vars.iter().zip(&mut self.moments).zip(&self.factors);
        for ((var, moments), factor) in each {
            let Some(gradient) = gradients.get(var) else { continue };
            lend(gradient, |gradient| {
                let rule = &self.rule;
                storage::edit(var, |values| {
                    advance(rule, values, gradient, moments, (strides, &steps), *factor);
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
        let strides = vec![Some(Stride { rate, scale }); self.members()];
        let steps = self.count(&strides)?;
        let each = self.vars.iter().zip(&mut self.moments).zip(&self.factors);
        for (((var, moments), factor), gradient) in each.zip(gradients) {
            let rule = &self.rule;
            storage::edit(var, |values| {
                advance(rule, values, gradient.as_ref(), moments, (&strides, &steps), *factor);
            })?;
        }
        Ok(())
    }

    /// Counts a step of every member that has a stride.
    fn count(&mut self, strides: &[Option<Stride>]) -> Result<Vec<u64>, LearningError> {
        if strides.len() != self.members() {
            let (got, members) = (strides.len(), self.members());
            return Err(LearningError::Shape(format!("{got} strides for {members} members")));
        }
        for (steps, stride) in self.steps.iter_mut().zip(strides) {
            *steps += u64::from(stride.is_some());
        }
        Ok(self.steps.clone())
    }

    /// The base learning rate, before any schedule.
    pub fn learning_rate(&self) -> f64 {
        self.rule.learning_rate()
    }

    /// Steps taken, by the member of a pack that took most.
    pub fn steps(&self) -> u64 {
        self.steps.iter().copied().max().unwrap_or(0)
    }
}

/// Moves each member's run of one variable's values.
fn advance(
    rule: &OptimiserConfig,
    values: &mut [f32],
    gradient: &[f32],
    moments: &mut Moments,
    (strides, steps): (&[Option<Stride>], &[u64]),
    factor: f64,
) {
    let len = values.len() / strides.len().max(1);
    for (member, (stride, step)) in strides.iter().zip(steps).enumerate() {
        let Some(Stride { rate, scale }) = *stride else { continue };
        let run = member * len..(member + 1) * len;
        let stride = Stride { rate: rate * factor, scale };
        let moments = moments.of(run.clone());
        rule.advance(&mut values[run.clone()], &gradient[run], stride, moments, *step);
    }
}

#[cfg(test)]
mod tests;
