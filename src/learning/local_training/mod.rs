//! Local training: the loop that the clients of all gradient methods run.
//!
//! A method brings its trainables and a closure from a batch to a loss; the loop draws epochs, differentiates, checks,
//! clips and steps. Every declared trainable must get a gradient at every step: candle drops gradients silently, and a
//! prompt that never trains would look like a bad method.
//!
//! There is one loop, [`train_pack`], which trains the members of a pack together; [`train`] and
//! [`train_with`] are packs of one.
//!
//! ```
//! use std::sync::Arc;
//! use candle_core::{DType, Device, Var};
//! use fedcast::data::{digits, ClassPermutation, TaskSequence, Loader, TaskSizes, Transform};
//! use fedcast::learning::{train, OptimizerConfig, TrainingPlan};
//! use fedcast::model::ops;
//! use fedcast::numerics::streams::{Domain, StreamKey};
//! # fn main() -> Result<(), fedcast::learning::LearningError> {
//! let digits = digits::embedded()?;
//! let task_sequence = Arc::new(TaskSequence::new(10, &ClassPermutation::Native, &TaskSizes::Even(1))?);
//! let loader =
//!     Loader::new(digits.train, (0..160).collect(), task_sequence, Arc::new(Transform::default()));
//! // A linear classifier on the 64 pixels.
//! let weight = Var::zeros((10, 64), DType::F32, &Device::Cpu)?;
//! let plan = TrainingPlan {
//!     epochs: 20,
//!     optimizer: OptimizerConfig::sgd(0.1).momentum(0.9),
//!     ..TrainingPlan::default()
//! };
//! let key = StreamKey::new(1, Domain::Shuffle);
//! let trainables = [("head.weight".into(), weight.clone())];
//! let report = train(&plan, &loader, &trainables, key, |batch| {
//!     let pixels = batch.pixels(&Device::Cpu)?.flatten_from(1)?; // (b, 64)
//!     let logits = ops::linear(&pixels, &weight, None)?; // (b, 10)
//!     Ok(ops::cross_entropy(&logits, batch.labels(), 0..10)?)
//! })?;
//! assert_eq!((report.steps, report.samples), (200, 3_200));
//! assert!(report.loss_last < 0.3 * report.loss_first);
//! # Ok(())
//! # }
//! ```

mod course;
mod pack;
mod report;

use std::sync::Arc;

use candle_core::{Tensor, Var};

pub use course::{MemberData, PackBatch};
pub use pack::train_pack;
pub use report::TrainingReport;

use super::{LearningError, Optimizer, OptimizerConfig, Schedule};
use crate::data::{Batch, Loader};
use crate::numerics::streams::StreamKey;

/// Settings of a client's training, from the `[client]` table of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingPlan {
    /// Number of passes over the shard.
    pub epochs: u32,
    /// Total number of steps in place of `epochs`; the last epoch may be cut short.
    pub steps: Option<u64>,
    /// Largest number of steps per epoch; further samples are skipped in that epoch.
    pub epoch_steps: Option<u64>,
    /// Samples per step; the last batch of an epoch may be smaller.
    pub batch: usize,
    /// Update rule. Its state is new for every call of [`train`], unlike [`train_with`].
    pub optimizer: OptimizerConfig,
    /// Schedule of the learning rate over the epochs of a round.
    pub schedule: Schedule,
    /// Schedule of the learning rate over the rounds of a phase (see [`TrainingPlan::in_round`]).
    pub round_schedule: Schedule,
    /// Learning rate of the first round, if this is the plan of a round.
    pub first_rate: Option<f64>,
    /// Number of the round and of all rounds in its phase, if this is the plan of a round.
    pub round: Option<(u32, u32)>,
    /// Largest global gradient norm; `None` disables clipping.
    pub clip: Option<f64>,
}

impl Default for TrainingPlan {
    /// Returns the plan of the HGP benchmark: five epochs, batches of 16, AdamW at 3e-3, clipped at 1.
    fn default() -> TrainingPlan {
        TrainingPlan {
            epochs: 5,
            steps: None,
            epoch_steps: None,
            batch: 16,
            optimizer: OptimizerConfig::adamw(3e-3),
            schedule: Schedule::Constant,
            round_schedule: Schedule::Constant,
            first_rate: None,
            round: None,
            clip: Some(1.0),
        }
    }
}

impl TrainingPlan {
    /// Returns the plan of round `round` (from 0) of `rounds`. Its optimizer has the rate that `round_schedule` gives
    /// for the round, to which [`schedule`](TrainingPlan::schedule) applies per epoch.
    pub fn in_round(&self, round: u32, rounds: u32) -> TrainingPlan {
        let rate = self.round_schedule.rate(self.optimizer.learning_rate(), round, rounds);
        let optimizer = self.optimizer.clone().with_learning_rate(rate);
        let first_rate = Some(self.first_rate());
        TrainingPlan { optimizer, first_rate, round: Some((round, rounds)), ..self.clone() }
    }

    /// Returns the learning rate before the round schedule is applied.
    pub fn first_rate(&self) -> f64 {
        self.first_rate.unwrap_or(self.optimizer.learning_rate())
    }

    /// Returns the number of steps of a training on `samples` samples.
    pub fn steps_of(&self, samples: usize) -> u64 {
        match self.steps {
            Some(steps) if samples > 0 => steps,
            _ => u64::from(self.epochs) * self.batches_of(samples.div_ceil(self.batch.max(1))),
        }
    }

    /// Returns the number of steps per epoch for a shard of `batches` batches.
    fn batches_of(&self, batches: usize) -> u64 {
        self.epoch_steps.map_or(batches as u64, |most| most.min(batches as u64))
    }
}

/// Trains `trainables` on the shard of `loader`. `forward` returns the mean loss of a batch, of shape `[]`.
///
/// The order of samples is drawn at `key` with domain `Shuffle`, augmentation with domain `Augment`,
/// both per epoch, so a client's training depends on nothing else. An empty shard trains nothing.
///
/// # Errors
/// Returns an error if a loss or gradient is not finite, a trainable has no gradient, or a sample cannot be read.
pub fn train(
    plan: &TrainingPlan,
    loader: &Loader,
    trainables: &[(Arc<str>, Var)],
    key: StreamKey,
    forward: impl FnMut(&Batch) -> Result<Tensor, LearningError>,
) -> Result<TrainingReport, LearningError> {
    let vars: Vec<Var> = trainables.iter().map(|(_, var)| var.clone()).collect();
    let mut optimizer = plan.optimizer.clone().over(vars);
    train_with(plan, &mut optimizer, loader, trainables, key, forward)
}

/// Trains as [`train`] does, with a given optimizer over the same variables in the same order.
///
/// The optimizer may continue an earlier training, or have different rates for different variables. It is for a single
/// member.
///
/// # Errors
/// Fails as [`train`] does.
pub fn train_with(
    plan: &TrainingPlan,
    optimizer: &mut Optimizer,
    loader: &Loader,
    trainables: &[(Arc<str>, Var)],
    key: StreamKey,
    mut forward: impl FnMut(&Batch) -> Result<Tensor, LearningError>,
) -> Result<TrainingReport, LearningError> {
    let alone = [MemberData { loader, key }];
    let reports = train_pack(plan, optimizer, trainables, &alone, |step| forward(&step.batch))?;
    reports.into_iter().next().unwrap_or_else(|| Ok(TrainingReport::default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ClassPermutation, TaskSequence, TaskSizes, Transform, digits};
    use crate::model::ops;
    use crate::numerics::streams::Domain;
    use candle_core::Device;

    fn loader(samples: u32) -> Loader {
        let digits = digits::embedded().unwrap();
        let task_sequence =
            TaskSequence::new(10, &ClassPermutation::Native, &TaskSizes::Even(1)).unwrap();
        let transform = Arc::new(Transform::default());
        Loader::new(digits.train, (0..samples).collect(), Arc::new(task_sequence), transform)
    }

    type Trainable = (Arc<str>, Var);

    fn linear(fill: f32) -> (Trainable, Trainable) {
        let var =
            |values: &[f32], shape: &[usize]| Var::from_slice(values, shape, &Device::Cpu).unwrap();
        (
            ("head.weight".into(), var(&[fill; 640], &[10, 64])),
            ("head.bias".into(), var(&[0.0; 10], &[10])),
        )
    }

    fn values((_, var): &Trainable) -> Vec<f32> {
        var.flatten_all().unwrap().to_vec1().unwrap()
    }

    fn loss(batch: &Batch, w: &Trainable, b: &Trainable) -> Result<Tensor, LearningError> {
        let pixels = batch.pixels(&Device::Cpu)?.flatten_from(1)?;
        let logits = ops::linear(&pixels, &w.1, Some(&b.1))?;
        Ok(ops::cross_entropy(&logits, batch.labels(), 0..10)?)
    }

    fn key() -> StreamKey {
        StreamKey::new(3, Domain::Shuffle).round(1).client(2)
    }

    #[test]
    fn the_same_key_trains_to_the_same_bits_and_another_key_does_not() {
        let run = |key| {
            let (w, b) = linear(0.0);
            let report =
                train(&TrainingPlan::default(), &loader(50), &[w.clone(), b.clone()], key, |x| {
                    loss(x, &w, &b)
                });
            (values(&w), report.unwrap())
        };
        let (a, again, other) = (run(key()), run(key()), run(key().client(3)));
        assert_eq!(a, again);
        assert_ne!(a.0, other.0);
        assert_eq!((a.1.steps, a.1.samples, a.1.epoch_losses.len()), (20, 250, 5));
        assert!(a.1.epoch_losses[4] < a.1.epoch_losses[0]);
    }

    #[test]
    fn a_trainable_outside_the_loss_is_named() {
        let (w, b) = linear(0.0);
        let idle = ("prompt.0".into(), Var::new(&[1f32], &Device::Cpu).unwrap());
        let declared = [w.clone(), idle];
        let error =
            train(&TrainingPlan::default(), &loader(8), &declared, key(), |x| loss(x, &w, &b));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("`prompt.0`"), "{error}");
    }

    #[test]
    fn numbers_that_are_not_finite_stop_the_client() {
        let (w, b) = linear(f32::NAN);
        let result =
            train(&TrainingPlan::default(), &loader(8), std::slice::from_ref(&w), key(), |x| {
                loss(x, &w, &b)
            });
        assert!(matches!(result, Err(LearningError::NonFinite { step: 0, .. })), "{result:?}");
        // A finite loss with an infinite gradient: sqrt at zero.
        let (w, _) = linear(0.0);
        let result =
            train(&TrainingPlan::default(), &loader(8), std::slice::from_ref(&w), key(), |_| {
                Ok(w.1.sqrt()?.sum_all()?)
            });
        let error = result.unwrap_err().to_string();
        assert!(error.contains("gradient of head.weight"), "{error}");
        assert!(values(&w).iter().all(|v| *v == 0.0), "nothing moved");
    }

    #[test]
    fn clipping_bounds_the_first_step() {
        let (w, b) = linear(0.0);
        let plan = TrainingPlan {
            epochs: 1,
            batch: 8,
            optimizer: OptimizerConfig::sgd(1.0),
            clip: Some(1e-3),
            ..TrainingPlan::default()
        };
        train(&plan, &loader(8), &[w.clone(), b.clone()], key(), |x| loss(x, &w, &b)).unwrap();
        let moved = values(&w).into_iter().chain(values(&b));
        let norm = moved.map(|v| f64::from(v).powi(2)).sum::<f64>().sqrt();
        assert!((norm - 1e-3).abs() < 1e-5, "{norm}");
    }

    #[test]
    fn a_schedule_over_rounds_scales_every_epoch_of_a_round() {
        let round_schedule = Schedule::MultiStep { milestones: vec![5, 8], factor: 0.1 };
        let plan = TrainingPlan {
            optimizer: OptimizerConfig::sgd(0.4),
            round_schedule,
            ..TrainingPlan::default()
        };
        let rate = |round| plan.in_round(round, 10).optimizer.learning_rate();
        for (round, expected) in [(0, 0.4), (4, 0.4), (5, 0.04), (9, 0.004)] {
            assert!((rate(round) - expected).abs() < 1e-12, "round {round}: {}", rate(round));
        }
        // The rate of a round is where the schedule over its epochs begins.
        let both = TrainingPlan { schedule: Schedule::Cosine, ..plan.in_round(5, 10) };
        assert_eq!(both.schedule.rate(both.optimizer.learning_rate(), 0, 5), rate(5));
    }

    /// Of 20 digits in batches of 8 an epoch has three steps.
    #[test]
    fn steps_may_be_counted_in_place_of_epochs_and_rates_are_added_up() {
        let train_for = |plan: &TrainingPlan| {
            let (w, b) = linear(0.0);
            let all = [w.clone(), b.clone()];
            (train(plan, &loader(20), &all, key(), |x| loss(x, &w, &b)).unwrap(), values(&w))
        };
        let optimizer = OptimizerConfig::sgd(0.5);
        let plan = TrainingPlan { epochs: 2, batch: 8, optimizer, ..TrainingPlan::default() };
        assert_eq!((plan.steps_of(20), plan.steps_of(0)), (6, 0));
        let (epochs, end) = train_for(&plan);
        assert_eq!((epochs.steps, epochs.rates), (6, 3.0));
        let of = |steps| TrainingPlan { steps: Some(steps), ..plan.clone() };
        assert_eq!((of(4).steps_of(20), of(4).steps_of(0)), (4, 0));
        assert_eq!(train_for(&of(6)), (epochs, end));
        let (short, _) = train_for(&of(4));
        assert_eq!((short.steps, short.samples, short.epoch_losses.len()), (4, 28, 2));
        // Epochs that end after two of three batches.
        let cut = TrainingPlan { epoch_steps: Some(2), ..plan.clone() };
        assert_eq!((cut.steps_of(20), cut.steps_of(8), cut.steps_of(0)), (4, 2, 0));
        let (early, _) = train_for(&cut);
        assert_eq!((early.steps, early.samples, early.epoch_losses.len()), (4, 32, 2));
        assert_eq!(
            train_for(&TrainingPlan { epoch_steps: Some(3), ..plan.clone() }),
            train_for(&plan)
        );
        // Cosine over two epochs: three steps at the whole rate, three at half of it.
        let (falls, _) = train_for(&TrainingPlan { schedule: Schedule::Cosine, ..plan.clone() });
        assert!((falls.rates - (1.5 + 0.75)).abs() < 1e-12, "{}", falls.rates);
        let later = TrainingPlan { round_schedule: Schedule::Cosine, ..plan }.in_round(5, 10);
        assert!((later.optimizer.learning_rate() - 0.25).abs() < 1e-12);
        assert_eq!((later.first_rate(), later.in_round(0, 1).first_rate()), (0.5, 0.5));
    }

    #[test]
    fn an_empty_shard_trains_nothing() {
        let (w, b) = linear(0.5);
        let report =
            train(&TrainingPlan::default(), &loader(0), &[w.clone(), b.clone()], key(), |x| {
                loss(x, &w, &b)
            });
        assert_eq!(report.unwrap(), TrainingReport::default());
        assert_eq!(values(&w), vec![0.5; 640]);
    }

    /// Shards of 50, 0, 7 and 23 digits.
    fn loaders() -> Vec<Loader> {
        [(0, 50), (0, 0), (50, 57), (60, 83)]
            .map(|(from, to)| {
                let digits = digits::embedded().unwrap();
                let order = ClassPermutation::Native;
                let task_sequence = TaskSequence::new(10, &order, &TaskSizes::Even(1)).unwrap();
                let transform = Arc::new(Transform::default());
                Loader::new(digits.train, (from..to).collect(), Arc::new(task_sequence), transform)
            })
            .into()
    }

    fn plan() -> TrainingPlan {
        TrainingPlan {
            epochs: 3,
            batch: 8,
            optimizer: OptimizerConfig::adamw(0.01).weight_decay(0.1),
            schedule: Schedule::Cosine,
            clip: Some(0.5),
            ..TrainingPlan::default()
        }
    }

    type Trained = (Vec<f32>, Result<TrainingReport, String>);

    fn with_message(
        report: Result<TrainingReport, LearningError>,
    ) -> Result<TrainingReport, String> {
        report.map_err(|error| error.to_string())
    }

    /// Trains every member by itself, from a head of `fills[m]`.
    fn alone(fills: [f32; 4]) -> Vec<Trained> {
        let each = loaders().into_iter().zip(fills).zip(0..);
        each.map(|((loader, fill), member)| {
            let (w, b) = linear(fill);
            let key = key().client(member);
            let report = train(&plan(), &loader, &[w.clone(), b.clone()], key, |x| loss(x, &w, &b));
            ([values(&w), values(&b)].concat(), with_message(report))
        })
        .collect()
    }

    /// Trains the members in one pack.
    fn together(fills: [f32; 4]) -> Vec<Trained> {
        let loaders = loaders();
        let courses: Vec<MemberData<'_>> = (loaders.iter().zip(0..))
            .map(|(loader, member)| MemberData { loader, key: key().client(member) })
            .collect();
        let weights: Vec<f32> = fills.iter().flat_map(|fill| [*fill; 640]).collect();
        let w = Var::from_slice(&weights, (4, 10, 64), &Device::Cpu).unwrap();
        let b = Var::zeros((4, 10), candle_core::DType::F32, &Device::Cpu).unwrap();
        let trainables = [("head.weight".into(), w.clone()), ("head.bias".into(), b.clone())];
        let mut optimizer = plan().optimizer.over_pack(vec![w.clone(), b.clone()], 4);
        let forward = |step: &PackBatch| -> Result<Tensor, LearningError> {
            let pixels = step.batch.pixels(&Device::Cpu)?.flatten_from(1)?;
            let logits = ops::grouped_linear(&pixels, &w, Some(&b), &step.groups)?;
            let labels = step.batch.labels();
            Ok(ops::grouped_cross_entropy(&logits, labels, 0..10, &step.groups)?)
        };
        let reports = train_pack(&plan(), &mut optimizer, &trainables, &courses, forward);
        let each = reports.unwrap().into_iter().enumerate();
        each.map(|(member, report)| {
            let of = |var: &Var| var.get(member).unwrap().flatten_all().unwrap().to_vec1().unwrap();
            ([of(&w), of(&b)].concat(), with_message(report))
        })
        .collect()
    }

    #[test]
    fn members_of_a_pack_get_the_bits_they_get_alone() {
        let fills = [0.0, 0.1, -0.1, 0.02];
        let alone = alone(fills);
        let steps: Vec<u64> = alone.iter().map(|(_, r)| r.as_ref().unwrap().steps).collect();
        assert_eq!(steps, [21, 0, 3, 9]);
        assert_eq!(together(fills), alone);
    }

    #[test]
    fn a_member_that_is_not_finite_fails_alone() {
        let fills = [0.0, 0.1, f32::NAN, 0.02];
        let (alone, sound) = (alone(fills), together([0.0; 4]));
        let pack = together(fills);
        let message = pack[2].1.as_ref().unwrap_err();
        assert!(message.contains("loss is not finite at step 0"), "{message}");
        assert_eq!((&pack[0], &pack[3]), (&alone[0], &alone[3]));
        assert_eq!(sound[0], alone[0], "independent of the others in the pack");
    }

    /// Values and losses of two trainings differ by rounding only, and both failed alike or not at all.
    fn assert_near(got: &[Trained], expected: &[Trained]) {
        for (member, ((values, report), (others, other))) in got.iter().zip(expected).enumerate() {
            match (report, other) {
                (Ok(report), Ok(other)) => {
                    assert_eq!((report.steps, report.samples), (other.steps, other.samples));
                    let losses = report.epoch_losses.iter().zip(&other.epoch_losses);
                    for (a, b) in losses {
                        assert!((a - b).abs() < 1e-4, "member {member}: loss {a} and {b}");
                    }
                    for (a, b) in values.iter().zip(others) {
                        assert!((a - b).abs() < 1e-4, "member {member}: {a} and {b}");
                    }
                }
                (report, other) => assert_eq!(report, other, "member {member}"),
            }
        }
    }

    /// Path of a GPU: composed ops, moments and clipping where the variables are, losses read per epoch.
    #[test]
    fn the_path_of_a_gpu_trains_members_as_the_cpu_does() {
        for fills in [[0.0, 0.1, -0.1, 0.02], [0.0, 0.1, f32::NAN, 0.02]] {
            let there = ops::without_kernels(|| together(fills));
            assert_near(&there, &together(fills));
            assert_near(&ops::without_kernels(|| alone(fills)), &alone(fills));
        }
    }

    /// The loss is finite and its gradient is not: reported at the same step, with the same name.
    #[test]
    fn a_damaged_gradient_gives_the_same_error_on_both_paths() {
        let run = || {
            let (w, _) = linear(0.0);
            let trainables = std::slice::from_ref(&w);
            let root = |_: &Batch| Ok(w.1.sqrt()?.sum_all()?);
            train(&TrainingPlan::default(), &loader(8), trainables, key(), root).unwrap_err()
        };
        let (there, here) = (ops::without_kernels(run), run());
        assert_eq!(there.to_string(), here.to_string());
    }

    #[test]
    fn a_pack_needs_one_optimiser_entry_per_course() {
        let (w, _) = linear(0.0);
        let loaders = loaders();
        let courses: Vec<MemberData<'_>> =
            loaders.iter().map(|loader| MemberData { loader, key: key() }).collect();
        let mut optimizer = plan().optimizer.over(vec![w.1.clone()]);
        let result = train_pack(&plan(), &mut optimizer, &[w], &courses, |_| {
            Err(LearningError::Shape("never asked".into()))
        });
        assert!(result.unwrap_err().to_string().contains("4 courses"));
    }
}
