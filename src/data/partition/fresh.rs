//! Shards of fresh clients: populations so large that every round meets new ones.
//!
//! A client's shard is keyed by (task, client) alone and drawn when it is needed; a population of a million costs
//! nothing until a client is sampled. Shards of different clients are independent and **may overlap**. The cohort of
//! a round is a function of the round alone, so the shards of round 40 are drawn without those of rounds 1 to 39.

use rand::RngCore;

use crate::data::{Shard, TaskView};
use crate::numerics::distributions::{Categorical, choose, dirichlet, shuffle};
use crate::numerics::share::{floor, share_of};
use crate::numerics::streams::{Domain, StreamKey};
use crate::quantity::ClientId;

/// Distribution of a fresh client's samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FreshPartition {
    /// Label distribution from Dirichlet(`beta`) over the task's classes, with `samples` draws.
    ///
    /// Each label gets a different sample of the task.
    Dirichlet {
        /// Concentration; small is unequal.
        beta: f64,
        /// Samples per client; the whole task if it has fewer.
        samples: u32,
    },
    /// HePCo's ratios: some classes of the task, and a share of the samples of each.
    ///
    /// A client holds a random fraction `category` of the task's classes, and a fraction `split` of the samples of
    /// each, thinned out from the first chosen class (factor 1) to the last (factor `imbalance`).
    Ratios {
        /// Kappa: share of classes held, 0.6 in the paper.
        category: f64,
        /// Gamma: share of each held class, 0.1 in the paper.
        split: f64,
        /// Beta: the tail's size relative to the head's, 1 for balanced.
        imbalance: f64,
        /// True if `imbalance` thins out only the counts that clients [report](FreshClients::reported). A client that
        /// reports none of a class holds none.
        counts_only: bool,
    },
}

/// Shards of a stateless population, whose clients are new in every round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FreshClients {
    /// Distribution of a client's samples.
    pub distribution: FreshPartition,
    /// Seed of the partition.
    pub seed: u64,
}

/// `StreamKey::unit` that separates these streams from those of [`super::Partitioner`].
const FRESH: u32 = 2;

impl FreshClients {
    /// Returns the shard of `client` in a task; `by_class` has the training samples of every class id.
    pub fn shard(&self, view: &TaskView, client: ClientId, by_class: &[Vec<u32>]) -> Shard {
        let sizes: Vec<usize> = view.classes.iter().map(|&c| by_class[c as usize].len()).collect();
        let mut rng = self.key(view, client).rng();
        let counts = self.draw(&mut rng, &sizes);
        let mut shard = Vec::with_capacity(counts.iter().sum::<u32>() as usize);
        for (&class, count) in view.classes.iter().zip(counts) {
            let samples = &by_class[class as usize];
            let chosen = choose(&mut rng, samples.len() as u64, u64::from(count));
            shard.extend(chosen.into_iter().map(|at| samples[at as usize]));
        }
        shard.sort_unstable();
        shard.into()
    }

    /// Returns the number of samples per class of the view, from the sizes of all class ids alone.
    ///
    /// The counts equal those of [`Self::shard`].
    pub fn counts(&self, view: &TaskView, client: ClientId, class_sizes: &[usize]) -> Vec<u32> {
        let sizes: Vec<usize> = view.classes.iter().map(|&c| class_sizes[c as usize]).collect();
        self.draw(&mut self.key(view, client).rng(), &sizes)
    }

    /// Returns the counts that `client` reports, if they differ from [`Self::counts`].
    ///
    /// They differ with HePCo's long tail in three of the four data sets of its release that have one: a client that
    /// reports few samples of a class still holds its whole share.
    pub fn reported(
        &self,
        view: &TaskView,
        client: ClientId,
        class_sizes: &[usize],
    ) -> Option<Vec<u32>> {
        match self.distribution {
            FreshPartition::Ratios { category, split, imbalance, counts_only: true } => {
                let distribution =
                    FreshPartition::Ratios { category, split, imbalance, counts_only: false };
                Some(FreshClients { distribution, ..*self }.counts(view, client, class_sizes))
            }
            _ => None,
        }
    }

    fn key(&self, view: &TaskView, client: ClientId) -> StreamKey {
        StreamKey::new(self.seed, Domain::Partition)
            .task(u32::from(view.task.0))
            .client(client.0)
            .unit(FRESH)
    }

    fn draw(&self, rng: &mut impl RngCore, sizes: &[usize]) -> Vec<u32> {
        match self.distribution {
            FreshPartition::Dirichlet { beta, samples } => by_labels(rng, sizes, beta, samples),
            FreshPartition::Ratios { category, split, imbalance, counts_only } => {
                let mut counts = by_ratios(rng, sizes, category, split, imbalance);
                if counts_only {
                    let reported = counts.iter_mut().zip(sizes).filter(|(count, _)| **count > 0);
                    reported.for_each(|(count, size)| *count = whole_share(*size as f64, split));
                }
                counts
            }
        }
    }
}

/// Draws labels one by one; a class without samples left drops out of the distribution.
fn by_labels(rng: &mut impl RngCore, sizes: &[usize], beta: f64, samples: u32) -> Vec<u32> {
    let mut shares = dirichlet(rng, beta, sizes.len());
    let mut counts = vec![0u32; sizes.len()];
    let drop_full = |shares: &mut [f64], counts: &[u32]| {
        for ((share, &count), &size) in shares.iter_mut().zip(counts).zip(sizes) {
            if count as usize >= size {
                *share = 0.0;
            }
        }
        Categorical::new(shares)
    };
    let mut distribution = drop_full(&mut shares, &counts);
    let total = sizes.iter().sum::<usize>().min(samples as usize);
    for _ in 0..total {
        if distribution.is_none() {
            // All remaining shares have underflowed to zero, so the rest is drawn evenly.
            shares.fill(1.0);
            distribution = drop_full(&mut shares, &counts);
        }
        let Some(now) = &distribution else { break };
        let class = now.sample(rng);
        counts[class] += 1;
        if counts[class] as usize >= sizes[class] {
            distribution = drop_full(&mut shares, &counts);
        }
    }
    counts
}

/// Returns HePCo's counts per class, rounded down where its release does so (protocol-others, 2).
fn by_ratios(
    rng: &mut impl RngCore,
    sizes: &[usize],
    category: f64,
    split: f64,
    imbalance: f64,
) -> Vec<u32> {
    let classes = sizes.len();
    let held = (classes - share_of(classes, 1.0 - category)).max(1);
    let mut order: Vec<usize> = (0..classes).collect();
    shuffle(rng, &mut order);
    let average = sizes.iter().sum::<usize>() as f64 / classes as f64;
    let mut counts = vec![0; classes];
    for (i, &class) in order.iter().take(held).enumerate() {
        let available = match imbalance {
            1.0 => sizes[class] as f64,
            _ => tail(i, held, average, imbalance).min(sizes[class] as f64),
        };
        counts[class] = whole_share(available, split);
    }
    counts
}

/// Returns the `split` share of the available samples, rounded down.
fn whole_share(available: f64, split: f64) -> u32 {
    floor(split * available) as u32
}

/// Returns the samples that the long tail leaves of the class at a position, before the split.
fn tail(place: usize, held: usize, average: f64, imbalance: f64) -> f64 {
    let depth = place as f64 / (held - 1).max(1) as f64;
    floor(average * libm::pow(imbalance, depth)) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ClassPermutation, TaskSequence, TaskSizes};
    use crate::golden::Golden;

    fn task() -> (std::sync::Arc<TaskView>, Vec<Vec<u32>>) {
        let by_class = (0..20u32).map(|c| (c * 500..(c + 1) * 500).collect()).collect();
        let made = TaskSequence::new(20, &ClassPermutation::Native, &TaskSizes::Even(2)).unwrap();
        (made.tasks[1].clone(), by_class)
    }

    fn per_class(shard: &[u32]) -> Vec<u32> {
        let mut counts = vec![0; 10];
        shard.iter().for_each(|s| counts[(s / 500 - 10) as usize] += 1);
        counts
    }

    #[test]
    fn a_shard_depends_on_task_and_client_only_and_matches_its_counts() {
        let (view, by_class) = task();
        let sizes = vec![500; 20];
        let laws = [
            FreshPartition::Dirichlet { beta: 0.1, samples: 120 },
            FreshPartition::Ratios {
                category: 0.6,
                split: 0.1,
                imbalance: 1.0,
                counts_only: false,
            },
        ];
        for distribution in laws {
            let fresh = FreshClients { distribution, seed: 4 };
            let shard = fresh.shard(&view, ClientId(999_999), &by_class);
            assert_eq!(shard, fresh.shard(&view, ClientId(999_999), &by_class));
            assert_ne!(shard, fresh.shard(&view, ClientId(7), &by_class));
            assert!(shard.windows(2).all(|w| w[0] < w[1]), "sorted, no sample twice");
            assert_eq!(per_class(&shard), fresh.counts(&view, ClientId(999_999), &sizes));
        }
    }

    #[test]
    fn shards_of_a_round_may_overlap() {
        let (view, by_class) = task();
        let distribution = FreshPartition::Ratios {
            category: 1.0,
            split: 0.5,
            imbalance: 1.0,
            counts_only: false,
        };
        let of = |client| {
            FreshClients { distribution, seed: 4 }.shard(&view, ClientId(client), &by_class)
        };
        let (one, other) = (of(1), of(2));
        let both = one.iter().filter(|sample| other.contains(sample)).count();
        assert!((1_000..1_500).contains(&both), "a half of 2,500, not {both}");
    }

    #[test]
    fn a_client_that_wants_more_than_a_class_has_takes_from_others() {
        let (view, by_class) = task();
        let distribution = FreshPartition::Dirichlet { beta: 1e-4, samples: 1_200 };
        let shard = FreshClients { distribution, seed: 4 }.shard(&view, ClientId(1), &by_class);
        assert_eq!(shard.len(), 1_200);
        assert_eq!(per_class(&shard).iter().max(), Some(&500));
        let all = FreshPartition::Dirichlet { beta: 1.0, samples: u32::MAX };
        let shard =
            FreshClients { distribution: all, seed: 4 }.shard(&view, ClientId(1), &by_class);
        assert_eq!(shard.len(), 5_000);
    }

    #[test]
    fn the_ratios_give_the_papers_sizes() {
        let sizes = [500; 10];
        let mut rng = StreamKey::new(1, Domain::Partition).rng();
        let sorted = |mut counts: Vec<u32>| {
            counts.sort_unstable_by(|a, b| b.cmp(a));
            counts
        };
        // CIFAR-100: 6 of 10 classes, 50 images each; the long tail at 0.01.
        let even = sorted(by_ratios(&mut rng, &sizes, 0.6, 0.1, 1.0));
        assert_eq!(even, [50, 50, 50, 50, 50, 50, 0, 0, 0, 0]);
        let tail = sorted(by_ratios(&mut rng, &sizes, 0.6, 0.1, 0.01));
        assert_eq!(tail, [50, 19, 7, 3, 1, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn golden_metrics_of_the_long_tail() {
        let Some(golden) = Golden::open("metrics") else { return };
        let (args, counts) = (golden.f64("longtail.args"), golden.i64("longtail.counts"));
        for (args, wanted) in args.chunks(4).zip(counts.chunks(12)) {
            let [beta, gamma, held, average] = args.try_into().unwrap();
            let count = |i| floor(gamma * tail(i, held as usize, average, beta)) as i64;
            let wanted: Vec<i64> = wanted.iter().copied().filter(|n| *n >= 0).collect();
            assert_eq!((0..held as usize).map(count).collect::<Vec<_>>(), wanted, "{args:?}");
        }
    }

    /// The protocol's check 1: class sets of two clients meet as two draws of 6 of 10 do.
    #[test]
    fn class_sets_of_clients_are_independent() {
        let (view, _) = task();
        let distribution = FreshPartition::Ratios {
            category: 0.6,
            split: 0.1,
            imbalance: 1.0,
            counts_only: false,
        };
        let fresh = FreshClients { distribution, seed: 9 };
        let held = |client| fresh.counts(&view, ClientId(client), &[500; 20]);
        let (mut shared, pairs) = ([0u32; 11], 4_000);
        for pair in 0..pairs {
            let (a, b) = (held(2 * pair), held(2 * pair + 1));
            assert_eq!((a.iter().sum::<u32>(), a.iter().max()), (300, Some(&50)));
            shared[a.iter().zip(&b).filter(|(a, b)| **a > 0 && **b > 0).count()] += 1;
        }
        // C(6, k) C(4, 6 - k) / C(10, 6) for k = 2..=6.
        for (k, ways) in [(2, 15.0), (3, 80.0), (4, 90.0), (5, 24.0), (6, 1.0)] {
            let (expected, found) = (ways / 210.0, f64::from(shared[k]) / f64::from(pairs));
            assert!((expected - found).abs() < 0.03, "{k}: {found} for {expected}");
        }
        assert_eq!(shared[..2], [0, 0]);
    }

    #[test]
    fn counts_alone_can_have_the_tail() {
        let (view, by_class) = task();
        let distribution = FreshPartition::Ratios {
            category: 0.6,
            split: 0.1,
            imbalance: 0.01,
            counts_only: true,
        };
        let fresh = FreshClients { distribution, seed: 9 };
        let held = per_class(&fresh.shard(&view, ClientId(3), &by_class));
        let said = fresh.reported(&view, ClientId(3), &[500; 20]).unwrap();
        assert_eq!((held.iter().sum::<u32>(), said.iter().sum::<u32>()), (250, 80));
        // The sixth class's share of the tail is less than one sample: no client reports it, and none holds it.
        assert!(held.iter().zip(&said).all(|(held, said)| *held == if *said > 0 { 50 } else { 0 }));
        let real = FreshPartition::Ratios {
            category: 0.6,
            split: 0.1,
            imbalance: 0.01,
            counts_only: false,
        };
        let real = FreshClients { distribution: real, seed: 9 };
        assert_eq!(per_class(&real.shard(&view, ClientId(3), &by_class)), said);
        assert_eq!(real.reported(&view, ClientId(3), &[500; 20]), None);
    }
}
