//! Search for a small change of `[partition]` or of the clients that makes a partition feasible.

use std::fmt;

use super::{DataError, PartitionRule, Partitioner};
use crate::data::TaskSequence;

/// Change of a scenario key that was tried on every task.
#[derive(Clone, Debug, PartialEq)]
enum Remedy {
    MinSamples(u32),
    Beta(f64),
    Alpha(f64),
    ClassesPerClient(usize),
    Extended,
    Clients(u32),
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remedy::MinSamples(least) => write!(f, "partition.min_samples = {least}"),
            Remedy::Beta(beta) => write!(f, "partition.beta = {beta}"),
            Remedy::Alpha(alpha) => write!(f, "partition.alpha = {alpha}"),
            Remedy::ClassesPerClient(count) => write!(f, "partition.classes_per_client = {count}"),
            Remedy::Extended => f.write_str("partition.kind = \"extended\""),
            Remedy::Clients(count) => write!(f, "federation.clients = {count}"),
        }
    }
}

/// Concentrations that are tried, from uneven to even.
const CONCENTRATIONS: [f64; 10] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];

/// Largest number of draws per candidate and task.
const MOST_DRAWS: u32 = 200;

/// Samples that are dealt for a candidate and numbers that are drawn for it, about.
const DEALT: usize = 2_000_000;

impl Partitioner {
    /// Returns the error with a change as its advice that makes the partition feasible.
    ///
    /// The change was tried on every task. If none was found, the error stays as it is.
    pub fn advised(
        &self,
        mut error: DataError,
        task_sequence: &TaskSequence,
        class_sizes: &[usize],
    ) -> DataError {
        if let DataError::Infeasible { advice, .. } | DataError::Unfit { advice, .. } = &mut error
            && let Some(remedy) = self.remedy(task_sequence, class_sizes)
        {
            *advice = format!("`{remedy}` divides every task (tried)");
        }
        error
    }

    /// Returns the first change that divides all tasks.
    ///
    /// It tries a lower minimum, more even draws, fewer clients, and last no minimum at all.
    fn remedy(&self, task_sequence: &TaskSequence, class_sizes: &[usize]) -> Option<Remedy> {
        let samples: usize = class_sizes.iter().sum();
        let drawn = class_sizes.len().saturating_mul(self.clients as usize);
        let draws = u32::try_from(DEALT / samples.max(drawn).max(1)).unwrap_or(MOST_DRAWS);
        let attempts = draws.clamp(5, MOST_DRAWS).min(self.attempts.max(1));
        let tried = Partitioner { attempts, ..self.clone() };
        let works = |changed: &Partitioner| {
            task_sequence.tasks.iter().all(|view| changed.counts(view, class_sizes).is_ok())
        };
        let changes = [
            tried.lower_minimum(task_sequence, class_sizes),
            tried.more_even(),
            tried.fewer_clients(),
            vec![(Remedy::MinSamples(0), Partitioner { min_samples: 0, ..tried.clone() })],
        ];
        let found = changes.into_iter().flatten().find(|(_, changed)| works(changed));
        found.map(|(remedy, _)| remedy)
    }

    /// Returns the change to the minimum that the best draws of all tasks reach. There is none if that is zero, or no
    /// lower than now.
    fn lower_minimum(
        &self,
        task_sequence: &TaskSequence,
        class_sizes: &[usize],
    ) -> Vec<(Remedy, Partitioner)> {
        if self.min_samples <= 1 {
            return Vec::new();
        }
        let any = Partitioner { min_samples: 0, ..self.clone() };
        let smallest = task_sequence.tasks.iter().map(|view| {
            let sizes: Vec<usize> = view.classes.iter().map(|&c| class_sizes[c as usize]).collect();
            // A rule that cannot be drawn at all has no smallest shard.
            any.check(view, &sizes).map_or(0, |()| any.best(view, &sizes))
        });
        let least = smallest.min().unwrap_or(0);
        match (1..self.min_samples).contains(&least) {
            true => {
                let changed = Partitioner { min_samples: least, ..self.clone() };
                vec![(Remedy::MinSamples(least), changed)]
            }
            false => Vec::new(),
        }
    }

    /// Returns changes to more even draws, or to samples reserved for every client.
    fn more_even(&self) -> Vec<(Remedy, Partitioner)> {
        let with =
            |remedy: Remedy, kind: PartitionRule| (remedy, Partitioner { kind, ..self.clone() });
        let above = |now: f64| CONCENTRATIONS.into_iter().filter(move |tried| *tried > now);
        match self.kind {
            PartitionRule::Iid => Vec::new(),
            PartitionRule::Dirichlet { beta } => {
                let (reserve_beta, picks) = (0.05, 7);
                let extended = PartitionRule::Extended { beta, reserve_beta, picks };
                let even = above(beta)
                    .map(|beta| with(Remedy::Beta(beta), PartitionRule::Dirichlet { beta }));
                even.chain([with(Remedy::Extended, extended)]).collect()
            }
            PartitionRule::Capped { beta } => above(beta)
                .map(|beta| with(Remedy::Beta(beta), PartitionRule::Capped { beta }))
                .collect(),
            PartitionRule::Lda { alpha } => above(alpha)
                .map(|alpha| with(Remedy::Alpha(alpha), PartitionRule::Lda { alpha }))
                .collect(),
            PartitionRule::Extended { beta, reserve_beta, picks } => above(beta)
                .map(|beta| {
                    let kind = PartitionRule::Extended { beta, reserve_beta, picks };
                    with(Remedy::Beta(beta), kind)
                })
                .collect(),
            PartitionRule::Quantity { classes } => (classes + 1..=classes + 20)
                .map(|classes| {
                    with(Remedy::ClassesPerClient(classes), PartitionRule::Quantity { classes })
                })
                .collect(),
        }
    }

    /// Returns changes to nine tenths of the clients, to eight tenths, and so on.
    fn fewer_clients(&self) -> Vec<(Remedy, Partitioner)> {
        let tenths = (1..10)
            .rev()
            .map(|tenths| self.clients / 10 * tenths + self.clients % 10 * tenths / 10);
        let counts = tenths.filter(|count| (1..self.clients).contains(count));
        let fewer = |clients| (Remedy::Clients(clients), Partitioner { clients, ..self.clone() });
        counts.map(fewer).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ClassPermutation, TaskSizes};

    fn ten_classes_in_turn() -> TaskSequence {
        TaskSequence::new(10, &ClassPermutation::Native, &TaskSizes::Even(5)).unwrap()
    }

    /// Returns the advice for ten classes of `size` samples, in five tasks.
    fn advice(partitioner: &Partitioner, size: usize) -> String {
        let (task_sequence, sizes) = (ten_classes_in_turn(), vec![size; 10]);
        let failed = |view| partitioner.counts(view, &sizes).err();
        let error = task_sequence.tasks.iter().find_map(|view| failed(view)).expect("impossible");
        let (DataError::Infeasible { advice, .. } | DataError::Unfit { advice, .. }) =
            partitioner.advised(error, &task_sequence, &sizes)
        else {
            panic!("another error")
        };
        advice
    }

    fn of(kind: PartitionRule, clients: u32, min_samples: u32) -> Partitioner {
        Partitioner { min_samples, attempts: 50, ..Partitioner::new(kind, clients, 3) }
    }

    #[test]
    fn the_minimum_is_lowered_to_what_draws_keep() {
        // Each of ten clients has exactly eight of a task's 80 samples.
        assert_eq!(
            advice(&of(PartitionRule::Iid, 10, 9), 40),
            "`partition.min_samples = 8` divides every task (tried)"
        );
    }

    #[test]
    fn classes_that_cannot_be_covered_are_spread_over_more() {
        let quantity = of(PartitionRule::Quantity { classes: 1 }, 1, 1);
        assert!(advice(&quantity, 40).contains("`partition.classes_per_client = 2`"));
    }

    #[test]
    fn too_few_samples_for_anybody_ask_for_fewer_clients() {
        let text = advice(&of(PartitionRule::Iid, 100, 1), 40);
        assert!(text.contains("`federation.clients = 80`"), "{text}");
    }

    /// All remedies divide every task, and the first one is the smaller change.
    #[test]
    fn uneven_draws_are_made_more_even() {
        let uneven = of(PartitionRule::Dirichlet { beta: 0.01 }, 5, 1);
        let text = advice(&uneven, 40);
        let beta = text.split(['=', '`']).nth(2).unwrap().trim().parse().unwrap();
        let even = Partitioner { kind: PartitionRule::Dirichlet { beta }, ..uneven.clone() };
        let works = |of: &Partitioner| {
            ten_classes_in_turn().tasks.iter().all(|view| of.counts(view, &[40; 10]).is_ok())
        };
        assert!(works(&even) && !works(&uneven), "{text}");
    }
}
