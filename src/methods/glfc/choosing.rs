//! Selection of exemplars among the samples of a class.

use clap::ValueEnum;

use crate::data::Shard;
use crate::learning::{Classifier, Herding};
use crate::methods::herded::{Candidates, features_by_row};
use crate::numerics::distributions::{below, shuffle};
use crate::numerics::streams::StreamKey;
use crate::policy::{PolicyError, RunContext};
use crate::scenario::reader::Choice;

/// Choice of samples of a class as exemplars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum Exemplars {
    /// Greedy herding of features.
    #[default]
    Herding,
    /// Random choice.
    ///
    /// Powder's port herds features that are all of a class's first image, augmented again for each. The images it
    /// keeps do not depend on their content.
    Random,
}

/// Rule for the selection of exemplars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choosing {
    /// Largest number of exemplars of a client, of all learned classes together.
    pub budget: usize,
    /// True if a sample may be chosen again.
    pub repeats: bool,
    /// Criterion of the selection.
    pub by: Exemplars,
}

/// Samples of one class, from which exemplars are chosen.
pub(super) struct Class {
    /// Head row of the class.
    pub row: u32,
    samples: Vec<u32>,
    /// Features of the samples, concatenated; empty for a random choice.
    features: Vec<f32>,
}

impl Choosing {
    /// Returns the classes of a shard, by head row, with the features that this model computes.
    ///
    /// # Errors
    /// When a sample cannot be read.
    pub(super) fn classes(
        self,
        shard: &Shard,
        model: &Classifier,
        ctx: &RunContext,
    ) -> Result<Vec<Class>, PolicyError> {
        match self.by {
            Exemplars::Herding => {
                let found = features_by_row(shard, model, ctx)?.into_iter();
                let class = |(row, class): (u32, Candidates)| Class {
                    row,
                    samples: class.samples,
                    features: class.features,
                };
                Ok(found.map(class).collect())
            }
            Exemplars::Random => {
                let labels = ctx.dataset.train.labels();
                let row = |sample: u32| ctx.task_sequence.row_of(labels[sample as usize]);
                let mut rows: Vec<(u32, u32)> =
                    shard.iter().map(|sample| (row(*sample), *sample)).collect();
                rows.sort_unstable();
                let of = |run: &[(u32, u32)]| Class {
                    row: run[0].0,
                    samples: run.iter().map(|(_, sample)| *sample).collect(),
                    features: Vec::new(),
                };
                Ok(rows.chunk_by(|a, b| a.0 == b.0).map(of).collect())
            }
        }
    }

    /// Returns `each` samples of a class, the best first.
    ///
    /// There are at most as many as the class has, unless samples may be repeated. Random choices use a step of `key`.
    pub(super) fn choose(self, class: &Class, each: usize, key: StreamKey) -> Vec<u32> {
        let Class { row, samples, features } = class;
        let dim = features.len() / samples.len().max(1);
        let order: Vec<usize> = match (self.by, self.repeats) {
            (Exemplars::Herding, true) => {
                Herding::GreedyUnit.order_with_repeats(features, dim, each)
            }
            (Exemplars::Herding, false) => Herding::GreedyUnit.order(features, dim, each),
            (Exemplars::Random, repeats) => {
                let mut rng = key.step(u64::from(*row)).rng();
                let n = samples.len();
                if repeats {
                    (0..each).map(|_| below(&mut rng, n as u64) as usize).collect()
                } else {
                    let mut order: Vec<usize> = (0..n).collect();
                    shuffle(&mut rng, &mut order);
                    order.truncate(each);
                    order
                }
            }
        };
        order.into_iter().map(|at| samples[at]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::streams::Domain;
    use std::collections::BTreeSet;

    /// A random choice needs no features, and equal keys give equal draws.
    #[test]
    fn chance_draws_with_and_without_repeats() {
        let class = |row| Class { row, samples: (10..30).collect(), features: Vec::new() };
        let key = StreamKey::new(3, Domain::Method);
        let of = |repeats, each, row, key| {
            let choosing = Choosing { budget: 500, repeats, by: Exemplars::Random };
            choosing.choose(&class(row), each, key)
        };
        let distinct = |chosen: &[u32]| chosen.iter().collect::<BTreeSet<_>>().len();
        let again = of(true, 25, 4, key);
        assert!(again.len() == 25 && distinct(&again) < 20, "more than there are");
        assert!(again.iter().all(|sample| (10..30).contains(sample)));
        assert_eq!(again, of(true, 25, 4, key));
        assert_ne!(again, of(true, 25, 5, key), "classes draw apart");
        assert_ne!(again, of(true, 25, 4, key.client(1)), "clients draw apart");
        // The first exemplars are those of a smaller choice.
        assert_eq!(again[..7], of(true, 7, 4, key));
        let once = of(false, 25, 4, key);
        assert_eq!((once.len(), distinct(&once)), (20, 20));
        assert_eq!(once[..6], of(false, 6, 4, key));
    }
}
