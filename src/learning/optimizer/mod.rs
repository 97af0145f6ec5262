//! Optimizers with PyTorch's semantics, whose state can be saved and resumed.
//!
//! candle has no SGD with momentum, and its AdamW gives no access to its moments. Here a rule ([`Sgd`], [`Adam`]) is
//! plain data that updates slices in place, in one pass over values, gradient and moments; [`Optimizer`] applies it to
//! `Var`s. Nothing is allocated per step. On other devices than the CPU the same rules are tensor operations, and
//! values, gradients and moments stay there.
//!
//! In a pack, a variable holds its members' values stacked, `(members, ..)`, and so do the moments. Each member has its
//! own learning rate and step count: its values change exactly as they would alone.
//!
//! ```
//! use candle_core::{Device, Var};
//! use fedcast::learning::OptimizerConfig;
//! # fn main() -> Result<(), fedcast::learning::LearningError> {
//! let x = Var::new(&[3f32, -4.0], &Device::Cpu)?;
//! let mut sgd = OptimizerConfig::sgd(0.1).momentum(0.9).over(vec![x.clone()]);
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
mod memory;
mod on_device;
mod rule;
mod schedule;
mod sgd;
mod storage;

pub use adam::{Adam, Decay};
pub use clip::{clip_factor, global_norm, member_norms, sum_of_squares};
pub(crate) use clip::{clip_factors, squares_there};
pub use rule::{Moments, OptimizerConfig, Stride};
pub use schedule::Schedule;
pub use sgd::Sgd;
pub(crate) use storage::lend;

use candle_core::backprop::GradStore;
use candle_core::{Tensor, Var};

use self::memory::{OptimizerMemory, advance, rescaled, step_there};
use self::on_device::DeviceMoments;
use self::rule::MomentsMut;
use super::LearningError;
use crate::model::ops;

impl OptimizerConfig {
    /// Returns the optimizer of these variables, with fresh state.
    pub fn over(self, vars: Vec<Var>) -> Optimizer {
        self.over_pack(vars, 1)
    }

    /// Returns the optimizer of variables that hold the stacked values of `members` members.
    ///
    /// # Panics
    /// Panics if a variable cannot be divided among them.
    pub fn over_pack(self, vars: Vec<Var>, members: usize) -> Optimizer {
        let divides = |var: &Var| members > 0 && var.elem_count().is_multiple_of(members);
        assert!(vars.iter().all(divides), "a variable does not divide among {members} members");
        let memory = match vars.iter().all(|var| ops::served(&[var])) {
            true => {
                OptimizerMemory::Host(vars.iter().map(|v| self.moments(v.elem_count())).collect())
            }
            false => OptimizerMemory::Device(vec![DeviceMoments::default(); vars.len()]),
        };
        let factors = vec![1.0; vars.len()];
        Optimizer { rule: self, vars, factors, memory, steps: vec![0; members] }
    }
}

/// State that an optimizer carries from one training to the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OptimizerState {
    /// Number of steps taken.
    pub steps: u64,
    /// Moments of each variable.
    pub moments: Vec<Moments>,
}

/// Update rule with its variables and their state.
#[derive(Debug)]
pub struct Optimizer {
    rule: OptimizerConfig,
    vars: Vec<Var>,
    /// Factor of the learning rate for each variable.
    factors: Vec<f64>,
    memory: OptimizerMemory,
    /// Number of steps taken by each member.
    steps: Vec<u64>,
}

impl Optimizer {
    /// Sets a factor of the learning rate for each variable, in their order.
    ///
    /// # Panics
    /// Panics if there is not one factor per variable.
    pub fn set_rate_factors(&mut self, factors: Vec<f64>) {
        assert_eq!(factors.len(), self.vars.len(), "one factor per variable");
        self.factors = factors;
    }

    /// Returns the number of members of the pack.
    pub fn members(&self) -> usize {
        self.steps.len()
    }

    /// Continues from the state of an optimizer with the same rule and shapes. In a pack, all members take over its
    /// number of steps.
    ///
    /// # Errors
    /// Returns an error if the state has other shapes.
    pub fn resume(&mut self, state: OptimizerState) -> Result<(), LearningError> {
        let lengths = |moments: &Moments| (moments.first.len(), moments.second.len());
        let fresh = self.vars.iter().map(|var| self.rule.moments(var.elem_count()));
        if !fresh.map(|m| lengths(&m)).eq(state.moments.iter().map(lengths)) {
            let what = "a saved optimizer belongs to other variables or another rule";
            return Err(LearningError::Shape(what.into()));
        }
        let members = self.members();
        match &mut self.memory {
            OptimizerMemory::Host(moments) => *moments = state.moments,
            OptimizerMemory::Device(held) => {
                for ((held, moments), var) in held.iter_mut().zip(&state.moments).zip(&self.vars) {
                    *held = DeviceMoments::new(moments, var, members)?;
                }
            }
        }
        self.steps.fill(state.steps);
        Ok(())
    }

    /// Returns the state that [`resume`](Optimizer::resume) needs.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn into_state(self) -> Result<OptimizerState, LearningError> {
        let steps = self.steps();
        let moments = match self.memory {
            OptimizerMemory::Host(moments) => moments,
            OptimizerMemory::Device(held) => {
                let fresh = self.vars.iter().map(|var| self.rule.moments(var.elem_count()));
                let fetched = held.iter().zip(fresh).map(|(held, fresh)| held.fetch(fresh));
                fetched.collect::<Result<_, _>>()?
            }
        };
        Ok(OptimizerState { steps, moments })
    }

    /// Takes one step at learning rate `rate` with every gradient multiplied by `scale`.
    ///
    /// # Errors
    /// Returns an error if a variable has no gradient; then nothing has changed.
    pub fn step(
        &mut self,
        gradients: &GradStore,
        rate: f64,
        scale: f64,
    ) -> Result<(), LearningError> {
        self.step_members(gradients, &vec![Some(Stride { rate, scale }); self.members()])
    }

    /// Takes one step for every member that has a stride. Values, moments and step counts of the others do not change.
    ///
    /// # Errors
    /// Returns an error if a variable has no gradient, or there is not one entry per member; then nothing has changed.
    pub fn step_members(
        &mut self,
        gradients: &GradStore,
        strides: &[Option<Stride>],
    ) -> Result<(), LearningError> {
        self.step_scaled(gradients, strides, None)
    }

    /// Takes a step as [`Optimizer::step_members`], with additional gradient factors `scales`, `(members)`. They are on
    /// the device of the variables.
    ///
    /// # Errors
    /// Fails as [`Optimizer::step_members`] does.
    pub(crate) fn step_scaled(
        &mut self,
        gradients: &GradStore,
        strides: &[Option<Stride>],
        scales: Option<&Tensor>,
    ) -> Result<(), LearningError> {
        let found = self.vars.iter().enumerate().map(|(i, var)| match gradients.get(var) {
            Some(gradient) => Ok(gradient),
            None => Err(LearningError::NoGradient { name: format!("#{i}") }),
        });
        let gradients = found.collect::<Result<Vec<_>, _>>()?;
        let steps = self.count(strides)?;
        match &mut self.memory {
            OptimizerMemory::Device(held) => {
                let taken = (strides, &*steps);
                step_there(&self.rule, (&self.vars, &self.factors), &gradients, held, taken, scales)
            }
            OptimizerMemory::Host(moments) => {
                let scaled = scales.map(|scales| rescaled(strides, scales)).transpose()?;
                let strides = scaled.as_deref().unwrap_or(strides);
                let each = self.vars.iter().zip(moments).zip(&self.factors);
                for (((var, moments), factor), gradient) in each.zip(gradients) {
                    let rule = &self.rule;
                    lend(gradient, |gradient| {
                        storage::edit(var, |values| {
                            advance(rule, values, gradient, moments, (strides, &steps), *factor);
                        })
                    })?;
                }
                Ok(())
            }
        }
    }

    /// Takes a step as [`Optimizer::step`], with gradients as row-major slices, one per variable.
    ///
    /// # Errors
    /// Returns an error if their number or a length does not fit; then nothing has changed.
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
        match &mut self.memory {
            OptimizerMemory::Device(held) => {
                let upload = |(gradient, var): (&G, &Var)| {
                    Tensor::from_slice(gradient.as_ref(), var.shape(), var.device())
                };
                let there = gradients.iter().zip(&self.vars).map(upload);
                let there = there.collect::<Result<Vec<_>, _>>()?;
                let (there, taken) = (there.iter().collect::<Vec<_>>(), (&*strides, &*steps));
                step_there(&self.rule, (&self.vars, &self.factors), &there, held, taken, None)
            }
            OptimizerMemory::Host(moments) => {
                let each = self.vars.iter().zip(moments).zip(&self.factors);
                for (((var, moments), factor), gradient) in each.zip(gradients) {
                    let (rule, gradient) = (&self.rule, gradient.as_ref());
                    storage::edit(var, |values| {
                        advance(rule, values, gradient, moments, (&strides, &steps), *factor);
                    })?;
                }
                Ok(())
            }
        }
    }

    /// Counts a step of every member that has a stride, and returns the counts.
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

    /// Returns the base learning rate, before any schedule.
    pub fn learning_rate(&self) -> f64 {
        self.rule.learning_rate()
    }

    /// Returns the number of steps taken; in a pack, by the member that took most.
    pub fn steps(&self) -> u64 {
        self.steps.iter().copied().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
