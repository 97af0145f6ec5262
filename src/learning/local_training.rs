//! Local training: the loop every gradient method's client runs.
//!
//! A method brings its trainables and a closure from a batch to a loss; the loop draws epochs,
//! differentiates, checks, clips and steps. Every trainable that was declared must get a gradient
//! at every step: candle drops gradients silently, and a prompt that never trains looks like a bad method.
//!
//! ```
//! use std::sync::Arc;
//! use candle_core::{DType, Device, Var};
//! use fedcast::data::{digits, ClassOrder, Curriculum, Loader, TaskSizes, Transform};
//! use fedcast::learning::{train, OptimiserConfig, TrainingPlan};
//! use fedcast::model::ops;
//! use fedcast::numerics::streams::{Domain, StreamKey};
//! # fn main() -> Result<(), fedcast::learning::LearningError> {
//! let digits = digits::embedded()?;
//! let curriculum = Arc::new(Curriculum::new(10, &ClassOrder::Native, &TaskSizes::Even(1))?);
//! let loader =
//!     Loader::new(digits.train, (0..160).collect(), curriculum, Arc::new(Transform::default()));
//! // A linear classifier on the 64 pixels.
//! let weight = Var::zeros((10, 64), DType::F32, &Device::Cpu)?;
//! let plan = TrainingPlan {
//!     epochs: 20,
//!     optimiser: OptimiserConfig::sgd(0.1).momentum(0.9),
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

use std::sync::Arc;

use candle_core::{Tensor, Var};

use super::optimiser::{clip_factor, global_norm};
use super::{LearningError, Optimiser, OptimiserConfig, Schedule};
use crate::data::{Batch, Loader};
use crate::numerics::streams::{Domain, StreamKey};

/// How a client trains: the `[client]` table of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingPlan {
    /// Passes over the shard.
    pub epochs: u32,
    /// Samples per step; the last batch of an epoch may be smaller.
    pub batch: usize,
    /// Created anew for every call of [`train`]: no moment survives a round (see [`train_with`]).
    pub optimiser: OptimiserConfig,
    /// The learning rate from epoch to epoch.
    pub schedule: Schedule,
    /// The learning rate from round to round of a phase (see [`TrainingPlan::in_round`]).
    pub round_schedule: Schedule,
    /// Largest global gradient norm; `None` leaves gradients alone.
    pub clip: Option<f64>,
}

impl Default for TrainingPlan {
    /// The HGP benchmark's: five epochs, batches of 16, AdamW at 3e-3, clipped at 1.
    fn default() -> TrainingPlan {
        TrainingPlan {
            epochs: 5,
            batch: 16,
            optimiser: OptimiserConfig::adamw(3e-3),
            schedule: Schedule::Constant,
            round_schedule: Schedule::Constant,
            clip: Some(1.0),
        }
    }
}

impl TrainingPlan {
    /// The plan of round `round` (from 0) of `rounds`: its optimiser starts at the rate that
    /// `round_schedule` gives, and [`schedule`](TrainingPlan::schedule) goes on from there.
    pub fn in_round(&self, round: u32, rounds: u32) -> TrainingPlan {
        let rate = self.round_schedule.rate(self.optimiser.learning_rate(), round, rounds);
        let optimiser = self.optimiser.clone().with_learning_rate(rate);
        TrainingPlan { optimiser, ..self.clone() }
    }
}

/// What happened during [`train`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrainingReport {
    /// Optimiser steps.
    pub steps: u64,
    /// Samples seen, repetitions included.
    pub samples: u64,
    /// Loss of the first batch; 0 when there was none.
    pub loss_first: f32,
    /// Loss of the last batch.
    pub loss_last: f32,
    /// Mean loss over the samples of each epoch.
    pub epoch_losses: Vec<f64>,
}

impl TrainingReport {
    /// What the journal says of a client's training.
    pub fn metrics(&self) -> Vec<(&'static str, f64)> {
        let last = self.epoch_losses.last().copied().unwrap_or(0.0);
        vec![
            ("steps", self.steps as f64),
            ("loss_first", f64::from(self.loss_first)),
            ("loss_last_epoch", last),
        ]
    }
}

/// Trains `trainables` on the shard of `loader`, minimising the mean loss that `forward` gives for
/// a batch (shape `[]`).
///
/// The order of samples is drawn at `key` with domain `Shuffle`, augmentation with domain `Augment`,
/// both per epoch, so a client's training depends on nothing else. An empty shard trains nothing.
///
/// # Errors
/// A loss or gradient that is not finite, a trainable without gradient, a sample that cannot be read.
pub fn train(
    plan: &TrainingPlan,
    loader: &Loader,
    trainables: &[(Arc<str>, Var)],
    key: StreamKey,
    forward: impl FnMut(&Batch) -> Result<Tensor, LearningError>,
) -> Result<TrainingReport, LearningError> {
    let vars: Vec<Var> = trainables.iter().map(|(_, var)| var.clone()).collect();
    let mut optimiser = plan.optimiser.clone().over(vars);
    train_with(plan, &mut optimiser, loader, trainables, key, forward)
}

/// [`train`] with an optimiser over the same variables in the same order: one that goes on from
/// an earlier training, or has different rates for different variables.
///
/// # Errors
/// As [`train`].
pub fn train_with(
    plan: &TrainingPlan,
    optimiser: &mut Optimiser,
    loader: &Loader,
    trainables: &[(Arc<str>, Var)],
    key: StreamKey,
    mut forward: impl FnMut(&Batch) -> Result<Tensor, LearningError>,
) -> Result<TrainingReport, LearningError> {
    let vars: Vec<Var> = trainables.iter().map(|(_, var)| var.clone()).collect();
    let mut report = TrainingReport::default();
    let (shuffle, augment) = (key.domain(Domain::Shuffle), key.domain(Domain::Augment));
    for epoch in 0..plan.epochs {
        let rate = plan.schedule.rate(optimiser.learning_rate(), epoch, plan.epochs);
        let (mut total, mut samples) = (0f64, 0u64);
        for batch in loader.epoch(u64::from(epoch), plan.batch, shuffle, augment) {
            let batch = batch?;
            let loss = forward(&batch)?;
            let value = loss.to_scalar::<f32>()?;
            if !value.is_finite() {
                return Err(LearningError::NonFinite { what: "loss".into(), step: report.steps });
            }
            let gradients = loss.backward()?;
            let missing = trainables.iter().find(|(_, var)| gradients.get(var).is_none());
            if let Some((name, _)) = missing {
                return Err(LearningError::NoGradient { name: name.to_string() });
            }
            let norm = global_norm(&gradients, &vars)?;
            if !norm.is_finite() {
                let spoiled = trainables.iter().find(|(_, var)| {
                    let alone = std::slice::from_ref(var);
                    !global_norm(&gradients, alone).is_ok_and(f64::is_finite)
                });
                let what =
                    spoiled.map_or("gradient".into(), |(name, _)| format!("gradient of {name}"));
                return Err(LearningError::NonFinite { what, step: report.steps });
            }
            let scale = plan.clip.map_or(1.0, |limit| clip_factor(norm, limit));
            optimiser.step(&gradients, rate, scale)?;
            if report.steps == 0 {
                report.loss_first = value;
            }
            report.loss_last = value;
            report.steps += 1;
            samples += batch.len() as u64;
            total += f64::from(value) * batch.len() as f64;
        }
        report.samples += samples;
        if samples > 0 {
            report.epoch_losses.push(total / samples as f64);
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ClassOrder, Curriculum, TaskSizes, Transform, digits};
    use crate::model::ops;
    use candle_core::Device;

    fn loader(samples: u32) -> Loader {
        let digits = digits::embedded().unwrap();
        let curriculum = Curriculum::new(10, &ClassOrder::Native, &TaskSizes::Even(1)).unwrap();
        let transform = Arc::new(Transform::default());
        Loader::new(digits.train, (0..samples).collect(), Arc::new(curriculum), transform)
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
            optimiser: OptimiserConfig::sgd(1.0),
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
            optimiser: OptimiserConfig::sgd(0.4),
            round_schedule,
            ..TrainingPlan::default()
        };
        let rate = |round| plan.in_round(round, 10).optimiser.learning_rate();
        for (round, expected) in [(0, 0.4), (4, 0.4), (5, 0.04), (9, 0.004)] {
            assert!((rate(round) - expected).abs() < 1e-12, "round {round}: {}", rate(round));
        }
        // The rate of a round is where the schedule over its epochs begins.
        let both = TrainingPlan { schedule: Schedule::Cosine, ..plan.in_round(5, 10) };
        assert_eq!(both.schedule.rate(both.optimiser.learning_rate(), 0, 5), rate(5));
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
}
