//! Division of samples among clients: one shard per client and task, disjoint, together the whole task.
//!
//! A partition is drawn task by task from named streams. The draws see only the *sizes* of the classes, never pixels,
//! so [`Partitioner::counts`] gives, without any data present, exactly the counts that [`Partitioner::shards`] will
//! have. Stream keys depend neither on idle clients, nor on the method, nor on the number of workers. Fresh clients of
//! a stateless population are in [`FreshClients`].
//!
//! ```
//! use fedcast::data::{digits, ClassPermutation, TaskSequence, PartitionRule, Partitioner, TaskSizes};
//! let digits = digits::embedded()?;
//! let task_sequence = TaskSequence::new(10, &ClassPermutation::Native, &TaskSizes::Even(5))?;
//! let partitioner = Partitioner::new(PartitionRule::Dirichlet { beta: 0.5 }, 4, 7);
//! let shards = partitioner.shards(&task_sequence.tasks[0], digits.train.by_class())?;
//! let counts = partitioner.counts(&task_sequence.tasks[0], &digits.class_sizes())?;
//! assert!(shards.iter().zip(&counts).all(|(s, c)| s.len() == c.iter().sum::<u32>() as usize));
//! assert!(shards.iter().all(|s| s.len() >= 6)); // the protocol's minimum
//! # Ok::<(), fedcast::data::DataError>(())
//! ```

mod capped;
mod dirichlet;
mod extended;
mod fresh;
mod iid;
mod lda;
mod natural;
mod owners;
mod quantity;
mod remedy;

pub use fresh::{FreshClients, FreshPartition};
pub use natural::{Leftover, NaturalClients};
use owners::{Owners, smallest_shard};

use super::{DataError, Shard, TaskView};
use crate::numerics::streams::{Domain, StreamKey};

/// Rule that divides the samples of a task. Sections are those of the HGP benchmark protocol.
#[derive(Clone, Debug, PartialEq)]
pub enum PartitionRule {
    /// Every client gets an equal random part.
    Iid,
    /// Distribution-based label imbalance (section 2).
    ///
    /// For every class shares are drawn from Dirichlet(`beta`), and the owner of every single sample from these shares.
    Dirichlet {
        /// Concentration; small is unequal.
        beta: f64,
    },
    /// Dirichlet(`beta`) shares among the clients that hold less than an even share (STSA and LANDER).
    ///
    /// Shares are drawn for every class in turn; clients that already hold an even share of the task get none. The
    /// class is cut at the cumulative shares.
    Capped {
        /// Concentration; small is unequal.
        beta: f64,
    },
    /// Dirichlet(`alpha`) proportions of classes for every client, and equal shard sizes (MFCL, FedHAF).
    Lda {
        /// Concentration; small is unequal.
        alpha: f64,
    },
    /// Every client holds this many classes of the task (section 2, "other modes").
    Quantity {
        /// Classes per client.
        classes: usize,
    },
    /// [`PartitionRule::Dirichlet`] after reserving a few samples for each client.
    ///
    /// It is meant for many clients at small `beta` (section 5).
    Extended {
        /// Concentration of the unreserved part.
        beta: f64,
        /// Concentration of the reservation; 0.05 in the code.
        reserve_beta: f64,
        /// Samples reserved for each client; 7 in the benchmark's code.
        picks: u32,
    },
}

/// Partition rule with its limits, which draws the shards of a run's clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Partitioner {
    /// Rule that divides a task.
    pub kind: PartitionRule,
    /// Clients that hold data, without idle ones.
    pub clients: u32,
    /// The smallest acceptable shard, all classes of the task together.
    pub min_samples: u32,
    /// Number of draws per task before it gives up.
    pub attempts: u32,
    /// Seed of the partition.
    pub seed: u64,
}

impl Partitioner {
    /// Returns a partitioner with the protocol's limits: at least 6 samples per client, 9,999 attempts.
    pub fn new(kind: PartitionRule, clients: u32, seed: u64) -> Partitioner {
        Partitioner { kind, clients, min_samples: 6, attempts: 9_999, seed }
    }

    /// Returns the shard of every client for one task.
    ///
    /// `by_class` has the training samples of every class id.
    ///
    /// # Errors
    /// Returns [`DataError::Infeasible`] if no draw gives every client enough samples, and another error if the rule
    /// does not fit the task.
    pub fn shards(&self, view: &TaskView, by_class: &[Vec<u32>]) -> Result<Vec<Shard>, DataError> {
        let classes: Vec<&[u32]> =
            view.classes.iter().map(|&c| by_class[c as usize].as_slice()).collect();
        let sizes: Vec<usize> = classes.iter().map(|samples| samples.len()).collect();
        let mut shards = vec![Vec::new(); self.clients as usize];
        for (samples, owners) in classes.iter().zip(self.owners(view, &sizes)?) {
            for (&sample, owner) in samples.iter().zip(owners) {
                shards[owner as usize].push(sample);
            }
        }
        shards.iter_mut().for_each(|s| s.sort_unstable());
        Ok(shards.into_iter().map(Shard::from).collect())
    }

    /// Returns the number of samples per client and class of the task, `[client][class of the view]`.
    ///
    /// The counts follow from the sizes of all class ids alone, and equal those of [`Partitioner::shards`].
    ///
    /// # Errors
    /// Fails as [`Partitioner::shards`] does.
    pub fn counts(
        &self,
        view: &TaskView,
        class_sizes: &[usize],
    ) -> Result<Vec<Vec<u32>>, DataError> {
        let sizes: Vec<usize> = view.classes.iter().map(|&c| class_sizes[c as usize]).collect();
        let mut counts = vec![vec![0; sizes.len()]; self.clients as usize];
        for (class, owners) in self.owners(view, &sizes)?.into_iter().enumerate() {
            owners.into_iter().for_each(|owner| counts[owner as usize][class] += 1);
        }
        Ok(counts)
    }

    /// Returns the size of the smallest shard in the best draw of this task.
    fn best(&self, view: &TaskView, sizes: &[usize]) -> u32 {
        let drawn = (0..self.attempts.max(1)).filter_map(|at| self.attempt(view, sizes, at));
        drawn.map(|owners| smallest_shard(&owners, self.clients)).max().unwrap_or(0)
    }

    /// Draws whole tasks until one is acceptable.
    fn owners(&self, view: &TaskView, sizes: &[usize]) -> Result<Owners, DataError> {
        self.check(view, sizes)?;
        let mut best = 0;
        for attempt in 0..self.attempts.max(1) {
            let Some(owners) = self.attempt(view, sizes, attempt) else { continue };
            let smallest = smallest_shard(&owners, self.clients);
            if smallest >= self.min_samples {
                return Ok(owners);
            }
            best = best.max(smallest);
        }
        Err(self.infeasible(view, sizes, best))
    }

    /// Draws once; `None` if a class is left without an owner.
    fn attempt(&self, view: &TaskView, sizes: &[usize], attempt: u32) -> Option<Owners> {
        let task = StreamKey::new(self.seed, Domain::Partition).task(u32::from(view.task.0));
        let rng = &mut task.step(u64::from(attempt)).rng();
        match self.kind {
            PartitionRule::Iid => Some(iid::draw(rng, sizes, self.clients)),
            PartitionRule::Dirichlet { beta } => {
                Some(dirichlet::draw(rng, sizes, self.clients, beta))
            }
            PartitionRule::Capped { beta } => capped::draw(rng, sizes, self.clients, beta),
            PartitionRule::Lda { alpha } => Some(lda::draw(rng, sizes, self.clients, alpha)),
            PartitionRule::Quantity { classes } => {
                quantity::draw(rng, sizes, self.clients, classes)
            }
            PartitionRule::Extended { beta, reserve_beta, picks } => {
                // Reserved samples are drawn once per task and from a separate stream, so that all attempts share them.
                let once = &mut task.unit(RESERVATION).rng();
                let kept = extended::reserve(once, sizes, self.clients, reserve_beta, picks);
                let mut owners = dirichlet::draw(rng, sizes, self.clients, beta);
                extended::keep(&kept, &mut owners);
                Some(owners)
            }
        }
    }

    /// Checks what can be refused without drawing.
    fn check(&self, view: &TaskView, sizes: &[usize]) -> Result<(), DataError> {
        let refuse = |what: String, advice: &str| {
            let key = match self.kind {
                PartitionRule::Quantity { .. } => "partition.classes_per_client",
                _ => "partition",
            };
            Err(DataError::unfit_at(key, what, advice))
        };
        if self.clients == 0 {
            return refuse("a partition among 0 clients".into(), "give at least one client data");
        }
        let positive = |v: f64| v.is_finite() && v > 0.0;
        match self.kind {
            PartitionRule::Dirichlet { beta } | PartitionRule::Capped { beta }
                if !positive(beta) =>
            {
                refuse(format!("beta = {beta}"), "beta must be a positive number")
            }
            PartitionRule::Lda { alpha } if !positive(alpha) => {
                refuse(format!("alpha = {alpha}"), "alpha must be a positive number")
            }
            PartitionRule::Extended { beta, reserve_beta, .. }
                if !positive(beta) || !positive(reserve_beta) =>
            {
                refuse(format!("beta = {beta}, {reserve_beta}"), "beta must be a positive number")
            }
            PartitionRule::Quantity { classes } if classes == 0 || classes > sizes.len() => refuse(
                format!("{}: {classes} of {} classes for every client", view.task, sizes.len()),
                "choose between one and all classes of the smallest task",
            ),
            PartitionRule::Quantity { classes }
                if (self.clients as usize).saturating_mul(classes) < sizes.len() =>
            {
                refuse(
                    format!(
                        "{}: {} clients with {classes} classes each cannot cover {} classes",
                        view.task,
                        self.clients,
                        sizes.len()
                    ),
                    "raise the classes per client or the number of clients",
                )
            }
            _ if (sizes.iter().sum::<usize>() as u64)
                < u64::from(self.min_samples) * u64::from(self.clients) =>
            {
                refuse(
                    format!(
                        "{} has {} samples for {} clients, too few for at least {} each",
                        view.task,
                        sizes.iter().sum::<usize>(),
                        self.clients,
                        self.min_samples
                    ),
                    "use fewer clients, fewer tasks or a smaller minimum",
                )
            }
            _ => Ok(()),
        }
    }

    fn infeasible(&self, view: &TaskView, sizes: &[usize], smallest: u32) -> DataError {
        let advice = match self.kind {
            PartitionRule::Dirichlet { beta } => format!(
                "Raise beta (now {beta}), lower the minimum (now {}), use fewer clients, or choose the \
                 partition \"extended\", which reserves samples for every client",
                self.min_samples
            ),
            PartitionRule::Capped { beta } => format!(
                "Raise beta (now {beta}), lower the minimum (now {}) or use fewer clients",
                self.min_samples
            ),
            PartitionRule::Extended { beta, picks, .. } => format!(
                "Raise beta (now {beta}) or the reserved samples per client (now {picks}), lower the minimum \
                 (now {}), or use fewer clients",
                self.min_samples
            ),
            PartitionRule::Quantity { classes } => format!(
                "Raise the classes per client (now {classes} of {}) or lower the minimum (now {})",
                sizes.len(),
                self.min_samples
            ),
            PartitionRule::Iid | PartitionRule::Lda { .. } => {
                format!("Lower the minimum (now {}) or use fewer clients", self.min_samples)
            }
        };
        DataError::Infeasible {
            task: view.task,
            samples: sizes.iter().sum(),
            clients: self.clients,
            minimum: self.min_samples,
            attempts: self.attempts.max(1),
            smallest,
            advice,
        }
    }
}

/// `StreamKey::unit` that separates the stream of reserved samples from those of the attempts.
const RESERVATION: u32 = 1;

#[cfg(test)]
mod tests;
