//! Optimizers of a server (FedOpt, Reddi et al., ICLR 2021): the mean difference of a round is a direction, and moments
//! of it are remembered, number by number.
//!
//! ```text
//! d = sum_m n_m (theta_m - theta) / sum_m n_m                    FedAvg's step: the negative gradient of an optimizer
//! moments <- rule(d, moments);  theta <- theta + step            (FedAvgM, FedOpt)
//! ```
//! Running statistics take the mean. Head rows that no client changed in a round take no step and keep their moments:
//! otherwise momentum from an earlier task would keep changing rows of classes that no client trains any more.

use super::averaging::{AveragedParameter, ClosedRound, Keeper, Rows, ServerState};
use super::parts::SharedModel;
use crate::model::{self, ParameterSet, is_buffer};
use crate::policy::{MemoryFootprint, ModelFacts, vector_section, vectors_of};
use crate::quantity::TaskId;
use crate::wire::{Loading, Saved, SavedField, Saving, WireError};

/// Names of the moments in a saved server.
const NAMES: [&str; 2] = ["first_moment", "second_moment"];

/// Memory of a server: the first `N` moments of mean differences.
#[derive(Clone, Debug, PartialEq, Saved)]
pub struct ServerMoments<const N: usize> {
    /// Latest task that has begun.
    task: Option<TaskId>,
    /// Number of rounds that the moments contain.
    rounds: u64,
    moments: [ParameterSet; N],
}

/// Step of a single number of a parameter.
pub(super) struct MomentStep<const N: usize> {
    /// Moments of the number after the round.
    pub moments: [f64; N],
    /// Signed difference from the number's value before the round.
    pub length: f64,
}

impl<const N: usize> Default for ServerMoments<N> {
    fn default() -> Self {
        let moments = std::array::from_fn(|_| ParameterSet::new());
        ServerMoments { task: None, rounds: 0, moments }
    }
}

impl<const N: usize> ServerMoments<N> {
    /// Returns the number of rounds that the moments contain.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Returns a moment of all parameters, of order 0 to `N - 1`; empty before the first round.
    pub fn of_order(&self, order: usize) -> &ParameterSet {
        &self.moments[order]
    }

    /// Resets the moments to those before the first round.
    pub(super) fn clear(&mut self) {
        *self = ServerMoments { task: self.task, ..ServerMoments::default() };
    }

    /// Replaces the mean by a step from the parameters before the round.
    ///
    /// `rule` returns the step of a number from its mean difference and its moments, which are `initial` before the
    /// first round. A round without any weight changes nothing.
    pub(super) fn step(
        &mut self,
        closing: &ClosedRound<'_>,
        theta: &mut ParameterSet,
        initial: [f64; N],
        rule: impl Fn(f64, [f64; N]) -> MomentStep<N>,
    ) {
        let means = &closing.aggregate.means;
        if means.values().all(|mean| mean.weight() <= 0.0) {
            return;
        }
        self.rounds += 1;
        for parameter in closing.shared.adaptation.parameters(closing.model).iter() {
            let name = parameter.name.as_str();
            let mean = means.values().find_map(|mean| Some((mean.sum(name)?, mean.weight())));
            let (Some(before), Some(mean), Some((sums, weight))) =
                (closing.before.get(name), theta.get(name), mean)
            else {
                continue;
            };
            if is_buffer(name) || weight <= 0.0 {
                continue;
            }
            let (shape, mut values) = (before.shape.clone(), mean.values.to_vec());
            let mut moments = self.numbers(name, values.len(), initial);
            for at in moved(parameter, before.width(), sums) {
                let old = std::array::from_fn(|order| f64::from(moments[order][at]));
                let step = rule(sums[at] / weight, old);
                values[at] = (f64::from(before.values[at]) + step.length) as f32;
                moments.iter_mut().zip(step.moments).for_each(|(all, new)| all[at] = new as f32);
            }
            for (set, values) in self.moments.iter_mut().zip(moments) {
                set.insert(name, model::Parameter { shape: shape.clone(), values: values.into() });
            }
            theta.insert(name, model::Parameter { shape, values: values.into() });
        }
    }

    /// Returns the moments of a parameter with `count` numbers; new rows start at `initial`.
    fn numbers(&self, name: &str, count: usize, initial: [f64; N]) -> [Vec<f32>; N] {
        std::array::from_fn(|order| {
            let known = self.moments[order].get(name).map(|known| known.values.to_vec());
            let mut numbers = known.unwrap_or_default();
            numbers.resize(count, initial[order] as f32);
            numbers
        })
    }
}

/// Returns the indices of a parameter's numbers that take a step.
///
/// These are all of a shared parameter; of rows by class or task, those of rows that a client changed.
fn moved(parameter: &AveragedParameter, width: usize, sums: &[f64]) -> impl Iterator<Item = usize> {
    let row = match parameter.rows {
        Rows::Shared => sums.len(),
        Rows::Class | Rows::Task => width,
    };
    let (is_shared, row) = (parameter.rows == Rows::Shared, row.max(1));
    let steps = move |sums: &[f64]| is_shared || sums.iter().any(|sum| *sum != 0.0);
    let rows = sums.chunks(row).enumerate().filter(move |(_, sums)| steps(sums));
    rows.flat_map(move |(at, sums)| at * row..at * row + sums.len())
}

/// Returns the memory of a server with this number of moments; clients hold nothing.
pub(super) fn holdings(
    shared: &SharedModel<'_>,
    model: &ModelFacts,
    moments: u64,
) -> MemoryFootprint {
    Keeper::Client.memory_footprint(shared, model, (moments, 0))
}

/// Saves every moment in its own section.
impl<const N: usize> SavedField for [ParameterSet; N] {
    fn save_field(&self, into: &mut Saving) {
        let known = NAMES.iter().zip(self).filter(|(_, set)| !set.is_empty());
        into.sections.extend(known.map(|(name, set)| vector_section(name, set)));
    }

    fn load_field(from: &mut Loading<'_>) -> Result<Self, WireError> {
        let mut moments = std::array::from_fn(|_| ParameterSet::new());
        for (name, set) in NAMES.iter().zip(&mut moments) {
            *set = vectors_of(&from.body.sections, name)?;
        }
        Ok(moments)
    }
}

/// Remembers the latest task, so that a server loaded within a task does not begin it again.
impl<const N: usize> ServerState for ServerMoments<N> {
    fn is_new_task(&mut self, task: usize) -> bool {
        let task = TaskId(task as u16);
        self.task.replace(task) != Some(task)
    }
}

#[cfg(test)]
pub(in crate::methods) mod tests;
