//! Accuracy of a model on the reconstructed images.
//!
//! ```text
//! GLFC   share of the images that the model classifies correctly
//! LGA    share of noisy copies  f + r e  of their features that the head classifies correctly,
//!        e ~ N(0, diag(s)^2) of the class, drawn again while |r e|^2 > 0.1 sum s
//! ```
//! `s` are the standard deviations of a class's features (in the release the squares of their variances, by what looks
//! like a slip, which makes noise far too small). A deviation may make every draw too long: after a hundred draws the
//! last one is shortened.

use std::collections::BTreeMap;

use clap::ValueEnum;

use super::Seen;
use crate::data::Shard;
use crate::learning::Classifier;
use crate::learning::evaluation::argmax;
use crate::methods::glfc::images::PassTransform;
use crate::methods::herded::{Candidates, features_by_row};
use crate::model::ParameterSet;
use crate::numerics::distributions::standard_normal;
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{Message, PolicyError, RunContext};
use crate::quantity::ClientId;
use crate::scenario::reader::{Choice, Keys};
use crate::wire::{Kind, WireError};

/// Name of the tensor of spreads in uploads; the next is that of their head rows and sample counts.
pub const TRACES: &str = "traces";
pub const TRACED: &str = "traced";

/// Scale of the noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Scale {
    /// Standard deviation of each feature.
    Deviation,
    /// Square of the variance of each feature (the release).
    SquaredVariance,
}

/// Noisy copies of features.
#[derive(Clone, Copy, Debug, PartialEq, Keys)]
pub struct Augment {
    /// Radius of noisy copies of features in the first task; 0: images are scored.
    ///
    /// Also later if clients do not report a spread.
    #[key(default = 0.15, at_least = 0.0, source = "the release of LGA")]
    pub radius: f64,
    /// Radius of later tasks from the spread of clients' features in the first task.
    #[key(
        name = "radius_from_clients",
        default = true,
        source = "the release reads all images at the server"
    )]
    pub from_clients: bool,
    /// Scale of the noise.
    #[key(
        name = "noise_scale",
        default = Scale::Deviation,
        source = "what is meant; the release has squared-variance"
    )]
    pub scale: Scale,
}

/// Number of noisy copies of a feature.
const COPIES: usize = 5;
/// Largest number of draws for a copy.
const DRAWS: usize = 100;

impl Augment {
    /// Returns the augmentation with the radius `found`, if it is positive.
    pub fn at(self, found: f64) -> Augment {
        Augment { radius: if found > 0.0 { found } else { self.radius }, ..self }
    }
}

/// Returns the score of a model over its first `rows` head rows; 0 if there are no images yet.
///
/// # Errors
/// When parameters or images do not fit.
pub fn of(
    seen: &Seen,
    theta: &ParameterSet,
    rows: usize,
    (transform, augment): (PassTransform, Option<Augment>),
    (key, ctx): (StreamKey, &RunContext),
) -> Result<f64, PolicyError> {
    if seen.labels.is_empty() {
        return Ok(0.0);
    }
    let model = Classifier::frozen(&ctx.backbone, theta)?;
    let split = seen.split(ctx.task_sequence.classes().max(rows))?;
    let loader = transform.loader_of_found(split, seen.shape, ctx)?;
    let mut features = Vec::with_capacity(loader.len());
    for batch in loader.in_order_drawn(ctx.evaluation_batch, key.domain(Domain::Augment)) {
        features.extend(model.features(&ctx.pixels(&batch?)?)?.to_vec2::<f32>()?);
    }
    let (features, labels) = match augment.filter(|augment| augment.radius > 0.0) {
        Some(augment) => copies(&features, &seen.labels, augment, key),
        None => (features, seen.labels.clone()),
    };
    let mut right = 0;
    for (features, labels) in features.chunks(256).zip(labels.chunks(256)) {
        let shape = (features.len(), features[0].len());
        let batch = candle_core::Tensor::from_vec(features.concat(), shape, &ctx.device)?;
        let logits = model.logits(&batch)?.narrow(1, 0, rows)?.contiguous()?.to_vec2::<f32>()?;
        let answers = logits.iter().map(|row| argmax(row)).zip(labels);
        right += answers.filter(|(answer, label)| *answer == Some(**label as usize)).count();
    }
    Ok(right as f64 / labels.len() as f64)
}

/// Returns noisy copies of features and their labels, class by class.
fn copies(
    features: &[Vec<f32>],
    labels: &[u32],
    augment: Augment,
    key: StreamKey,
) -> (Vec<Vec<f32>>, Vec<u32>) {
    let mut known: Vec<u32> = labels.to_vec();
    known.sort_unstable();
    known.dedup();
    let mut rng = key.rng();
    let (mut copied, mut of) = (Vec::new(), Vec::new());
    for label in known {
        let own: Vec<&Vec<f32>> =
            features.iter().zip(labels).filter(|(_, l)| **l == label).map(|(f, _)| f).collect();
        let scales: Vec<f64> = variances(&own)
            .into_iter()
            .map(|variance| match augment.scale {
                Scale::Deviation => variance.sqrt(),
                Scale::SquaredVariance => variance * variance,
            })
            .collect();
        // The release multiplies by the radius before it measures the length.
        let most = 0.1 * scales.iter().sum::<f64>() / (augment.radius * augment.radius);
        for feature in own {
            for _ in 0..COPIES {
                let mut draw = || -> Vec<f64> {
                    scales.iter().map(|scale| scale * standard_normal(&mut rng)).collect()
                };
                let length = |noise: &[f64]| noise.iter().map(|e| e * e).sum::<f64>();
                let mut noise = draw();
                for _ in 1..DRAWS {
                    if length(&noise) <= most {
                        break;
                    }
                    noise = draw();
                }
                let too_long = (most / length(&noise).max(f64::MIN_POSITIVE)).sqrt().min(1.0);
                let moved = feature.iter().zip(&noise);
                let moved = moved.map(|(f, e)| f + (augment.radius * too_long * e) as f32);
                copied.push(moved.collect());
                of.push(label);
            }
        }
    }
    (copied, of)
}

/// Returns the variance of every entry of the features; zeros for a single feature.
fn variances(features: &[&Vec<f32>]) -> Vec<f64> {
    let (n, dim) = (features.len() as f64, features.first().map_or(0, |feature| feature.len()));
    let of = |at: usize| {
        let mean = features.iter().map(|feature| f64::from(feature[at])).sum::<f64>() / n;
        let squares = features.iter().map(|feature| (f64::from(feature[at]) - mean).powi(2));
        squares.sum::<f64>() / (n - 1.0).max(1.0)
    };
    (0..dim).map(of).collect()
}

/// Returns head row, trace and sample count of each class.
///
/// The trace is that of the covariance of features, divided by their width.
///
/// # Errors
/// When a sample cannot be read, or the parameters do not fit.
pub fn trace(
    parameters: &ParameterSet,
    shard: &Shard,
    ctx: &RunContext,
) -> Result<Vec<(u32, f64, u32)>, PolicyError> {
    let model = Classifier::frozen(&ctx.backbone, parameters)?;
    let classes = features_by_row(shard, &model, ctx)?;
    let of = |(row, class): (u32, Candidates)| {
        let rows: Vec<Vec<f32>> =
            class.features.chunks(class.dim().max(1)).map(<[f32]>::to_vec).collect();
        let spread = variances(&rows.iter().collect::<Vec<_>>());
        let mean = spread.iter().sum::<f64>() / spread.len().max(1) as f64;
        (row, mean, class.samples.len() as u32)
    };
    Ok(classes.into_iter().map(of).collect())
}

/// Spread of the features of a class at a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassSpread {
    /// Head row of the class.
    pub row: u32,
    /// Trace of the covariance, divided by the width of a feature.
    pub trace: f64,
    /// Number of samples.
    pub samples: u32,
}

impl Seen {
    /// Replaces a client's spreads of features by those of its upload.
    ///
    /// They describe features of the latest model; those at the end of the first task are used.
    pub(super) fn take_traces(
        &mut self,
        client: ClientId,
        update: &Message,
    ) -> Result<(), WireError> {
        let Some(traces) = update.find(Kind::Statistics, TRACES) else { return Ok(()) };
        let counts = update.tensor(Kind::Statistics, TRACED)?.shaped(&[2, traces.shape()[0]])?;
        let (rows, samples) = counts.as_u32()?.split_at(traces.shape()[0]);
        let each = rows.iter().zip(samples).zip(traces.numbers());
        let spreads = each.map(|((row, samples), trace)| {
            let (row, samples) = (*row, *samples);
            ClassSpread { row, trace, samples }
        });
        self.traces.insert(client, spreads.collect());
        Ok(())
    }

    /// Ends the first task: sets the radius from the spreads that clients reported.
    ///
    /// It is the square root of the mean over classes.
    pub(super) fn end_first_task(&mut self, augment: &Augment) {
        let traces = std::mem::take(&mut self.traces);
        if !augment.from_clients || traces.is_empty() {
            return;
        }
        let mut classes: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for ClassSpread { row, trace, samples } in traces.into_values().flatten() {
            let (samples, class) = (f64::from(samples), classes.entry(row).or_default());
            *class = (class.0 + trace * samples, class.1 + samples);
        }
        let means = classes.values().map(|(sum, count)| sum / count.max(1.0));
        self.radius = (means.sum::<f64>() / classes.len() as f64).sqrt();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::streams::Domain;
    use crate::wire::{NamedTensor, Section};

    /// LGA card, section 6: noise is not longer than a tenth of its scales; with radius 0 a copy equals the feature.
    #[test]
    fn copies_lie_around_features() {
        let features: Vec<Vec<f32>> =
            (0..12).map(|i| (0..4).map(|j| ((5 * i + j) as f32).sin() * 0.2).collect()).collect();
        let labels: Vec<u32> = (0..12).map(|i| i % 2).collect();
        let key = StreamKey::new(3, Domain::Init);
        for scale in [Scale::Deviation, Scale::SquaredVariance] {
            let augment = Augment { radius: 1.0, from_clients: false, scale };
            let (copied, of) = copies(&features, &labels, augment, key);
            assert_eq!((copied.len(), of.iter().filter(|label| **label == 1).count()), (60, 30));
            let own: Vec<&Vec<f32>> = features.iter().step_by(2).collect();
            let scales = variances(&own).into_iter().map(|variance| match scale {
                Scale::Deviation => variance.sqrt(),
                Scale::SquaredVariance => variance * variance,
            });
            let most = 0.1 * scales.sum::<f64>();
            for (copy, feature) in copied.chunks(5).zip(own) {
                for copy in copy {
                    let gaps = copy.iter().zip(feature).map(|(a, b)| f64::from(a - b).powi(2));
                    let length = gaps.sum::<f64>();
                    assert!(length <= most * 1.001 + 1e-9, "{length} {most}");
                }
            }
            let none = Augment { radius: 0.0, ..augment };
            assert_eq!(copies(&features, &labels, none, key).0[0], features[0]);
        }
        assert_eq!(
            Augment { radius: 0.15, from_clients: true, scale: Scale::Deviation }.at(0.0).radius,
            0.15
        );
    }

    /// The first draw of noise is taken if it is short enough: scale by scale, times the radius.
    #[test]
    fn a_copy_is_a_feature_and_its_noise() {
        let features = vec![vec![1.0f32, 20.0], vec![1.002, 20.003], vec![1.004, 20.006]];
        let own: Vec<&Vec<f32>> = features.iter().collect();
        let key = StreamKey::new(9, Domain::Init);
        let augment = Augment { radius: 2.0, from_clients: false, scale: Scale::Deviation };
        let (copied, _) = copies(&features, &[4, 4, 4], augment, key);
        let mut rng = key.rng();
        for (at, copy) in copied.iter().enumerate() {
            let feature = &features[at / COPIES];
            for (value, (mean, variance)) in copy.iter().zip(feature.iter().zip(variances(&own))) {
                let noise = variance.sqrt() * standard_normal(&mut rng);
                assert!((f64::from(value - mean) - 2.0 * noise).abs() < 4e-6, "{value} {mean}");
            }
        }
    }

    /// A small radius makes long noise short enough, so that the first draw is taken.
    #[test]
    fn noise_is_measured_after_the_radius() {
        let wide = |i: usize| (0..6).map(|j| if i == j { 1.2f32 } else { 0.0 }).collect();
        let features: Vec<Vec<f32>> = (0..6).map(wide).collect();
        let own: Vec<&Vec<f32>> = features.iter().collect();
        let scales: Vec<f64> = variances(&own).into_iter().map(f64::sqrt).collect();
        let key = StreamKey::new(5, Domain::Init);
        let augment = Augment { radius: 0.15, from_clients: false, scale: Scale::Deviation };
        let (copied, _) = copies(&features, &[2; 6], augment, key);
        let mut rng = key.rng();
        let mut too_long_without = 0;
        for (at, copy) in copied.iter().enumerate() {
            let noise: Vec<f64> = scales.iter().map(|s| s * standard_normal(&mut rng)).collect();
            let length = noise.iter().map(|e| e * e).sum::<f64>();
            too_long_without += usize::from(length > 0.1 * scales.iter().sum::<f64>());
            for ((value, mean), noise) in copy.iter().zip(&features[at / COPIES]).zip(noise) {
                assert!((f64::from(value - mean) - 0.15 * noise).abs() < 1e-6, "{value} {mean}");
            }
        }
        assert!(too_long_without > 20, "{too_long_without}");
    }

    /// For features far apart no draw is short enough, and the last is cut to a tenth of the scales.
    #[test]
    fn noise_that_is_too_long_is_cut() {
        let features: Vec<Vec<f32>> =
            (0..3).map(|i| (0..6).map(|j| 20.0 * ((i * j) as f32).cos()).collect()).collect();
        let own: Vec<&Vec<f32>> = features.iter().collect();
        let most = 0.1 * variances(&own).into_iter().map(f64::sqrt).sum::<f64>();
        let augment = Augment { radius: 3.0, from_clients: false, scale: Scale::Deviation };
        let (copied, _) = copies(&features, &[1; 3], augment, StreamKey::new(3, Domain::Init));
        for (copy, feature) in copied.iter().zip(own.iter().flat_map(|own| [own; COPIES])) {
            let gaps = copy.iter().zip(feature.iter()).map(|(a, b)| f64::from(a - b).powi(2));
            let length = gaps.sum::<f64>();
            assert!((length - most).abs() < 1e-3 * most, "{length} {most}");
        }
    }

    /// Model that assigns a picture to the class whose pixel is brightest.
    ///
    /// Its features, which clients describe, are pixels.
    #[test]
    fn scores_are_shares_and_traces_mean_variances() {
        use crate::data::{ClassPermutation, TaskSequence, TaskSizes, digits};
        use crate::model::{Backbone, LinearHead, Parameter, PixelShape};
        let pixels = PixelShape { channels: 1, image: 8 };
        let task_sequence =
            TaskSequence::new(10, &ClassPermutation::Native, &TaskSizes::Even(2)).unwrap();
        let ctx =
            RunContext::new(Backbone::Pixels(pixels), digits::embedded().unwrap(), task_sequence);
        let mut weight = vec![0f32; 640];
        (0..10).for_each(|class| weight[64 * class + class] = 1.0);
        let mut head = ParameterSet::new();
        let of = |shape: &[usize], values: Vec<f32>| Parameter {
            shape: shape.to_vec(),
            values: values.into(),
        };
        head.insert(LinearHead::WEIGHT, of(&[10, 64], weight));
        head.insert(LinearHead::BIAS, of(&[10], vec![0.0; 10]));
        // Four pictures of 2, 2, 4 and 0, of which the last looks like 3.
        let mut images = vec![0u8; 4 * 64];
        [2, 2, 4, 3]
            .into_iter()
            .enumerate()
            .for_each(|(at, bright)| images[64 * at + bright] = 200);
        let (shape, labels) = ([1, 8, 8], vec![2, 2, 4, 0]);
        let seen = Seen { images, shape, labels, ..Seen::default() };
        let key = StreamKey::new(1, Domain::Init);
        let score = |augment| {
            super::of(&seen, &head, 5, (PassTransform::Train, augment), (key, &ctx)).unwrap()
        };
        assert_eq!(score(None), 0.75);
        // A class with one picture, or with two equal ones, has no noise.
        let augment = Augment { radius: 1.0, from_clients: false, scale: Scale::Deviation };
        assert_eq!(score(Some(augment)), 0.75);
        assert_eq!(
            super::of(&Seen::default(), &head, 5, (PassTransform::Train, None), (key, &ctx))
                .unwrap(),
            0.0
        );

        let shard: Shard = ctx.dataset.train.by_class()[3][..9].to_vec().into();
        let batch = ctx.statistics_loader(&shard).in_order(9).next().unwrap().unwrap();
        let rows = ctx.pixels(&batch).unwrap().flatten_from(1).unwrap().to_vec2::<f32>().unwrap();
        let spread = variances(&rows.iter().collect::<Vec<_>>());
        let traces = trace(&head, &shard, &ctx).unwrap();
        assert_eq!((traces.len(), traces[0].0, traces[0].2), (1, 3, 9));
        assert!(
            (traces[0].1 - spread.iter().sum::<f64>() / 64.0).abs() < 1e-6 && traces[0].1 > 0.0
        );
    }

    /// Pictures are mirrored if the training transform does so, and never by the statistics transform.
    #[test]
    fn scored_images_pass_the_transform_of_the_key() {
        use crate::data::{ClassPermutation, Step, TaskSequence, TaskSizes, Transform, digits};
        use crate::model::{Backbone, LinearHead, Parameter, PixelShape};
        let backbone = Backbone::Pixels(PixelShape { channels: 1, image: 8 });
        let task_sequence =
            TaskSequence::new(10, &ClassPermutation::Native, &TaskSizes::Even(2)).unwrap();
        let ctx = RunContext::new(backbone, digits::embedded().unwrap(), task_sequence);
        let training = |step| {
            let train_transform = Transform { steps: vec![step], ..Transform::default() }.into();
            RunContext { train_transform, ..ctx.clone() }
        };
        // The class of a picture is the column that is bright.
        let mut weight = vec![0f32; 640];
        (0..8).for_each(|class| weight[64 * class + class] = 1.0);
        let mut head = ParameterSet::new();
        let matrix = Parameter { shape: vec![10, 64], values: weight.into() };
        head.insert(LinearHead::WEIGHT, matrix);
        head.insert(LinearHead::BIAS, Parameter { shape: vec![10], values: vec![0.0; 10].into() });
        let mut images = vec![0u8; 3 * 64];
        [1, 2, 6].into_iter().enumerate().for_each(|(at, bright)| images[64 * at + bright] = 200);
        // Mirrored, the pictures are of columns 6, 5 and 1.
        let seen = Seen { images, shape: [1, 8, 8], labels: vec![1, 5, 6], ..Seen::default() };
        let key = StreamKey::new(1, Domain::Init);
        let score =
            |by, ctx: &RunContext| super::of(&seen, &head, 8, (by, None), (key, ctx)).unwrap();
        let mirrors = training(Step::Flip { probability: 1.0 });
        assert_eq!(score(PassTransform::Statistics, &mirrors), 2.0 / 3.0);
        assert_eq!(score(PassTransform::Train, &mirrors), 1.0 / 3.0);
        assert_eq!(score(PassTransform::Train, &ctx), 2.0 / 3.0);
        let crops = training(Step::CenterCrop { side: 4 });
        let by = (PassTransform::Train, None);
        let refused = super::of(&seen, &head, 8, by, (key, &crops)).unwrap_err().to_string();
        assert!(refused.contains("4 x 4") && refused.contains("proxy_transform"), "{refused}");
        assert_eq!(score(PassTransform::Statistics, &crops), 2.0 / 3.0);
    }

    #[test]
    fn variances_are_around_the_mean_of_one_fewer() {
        let features = [vec![1.0f32, 10.0], vec![3.0, 10.0], vec![8.0, 13.0]];
        let own: Vec<&Vec<f32>> = features.iter().collect();
        let found = variances(&own);
        assert!(found.iter().zip([13.0, 3.0]).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
        assert_eq!(variances(&own[..1]), [0.0, 0.0]);
    }

    #[test]
    fn a_radius_is_the_root_of_the_mean_trace() {
        let augment = Augment { radius: 0.15, from_clients: true, scale: Scale::Deviation };
        let mut seen = Seen::default();
        let mut report = |client, said: &[(u32, f64, u32)]| {
            let (mut traces, mut rows, mut samples) = (Vec::new(), Vec::new(), Vec::new());
            for (row, trace, count) in said {
                traces.push(*trace);
                rows.push(*row);
                samples.push(*count);
            }
            let traces = NamedTensor::f64(TRACES, [said.len()], traces).unwrap();
            let traced = [rows, samples].concat();
            let traced = NamedTensor::u32(TRACED, [2, said.len()], traced).unwrap();
            let extra = vec![Section::new(Kind::Statistics, vec![traces, traced])];
            let update = Message { extra, ..Message::default() };
            seen.take_traces(ClientId(client), &update).unwrap();
        };
        // The traces of a hardly trained model do not count once there are newer ones.
        report(5, &[(0, 900.0, 2), (3, 900.0, 1)]);
        report(2, &[(0, 2.0, 1)]);
        report(5, &[(0, 5.0, 3), (3, 3.75, 1)]);
        seen.end_first_task(&augment);
        // (2 * 1 + 5 * 3) / 4 = 4.25 and 3.75, whose mean is 4.
        assert_eq!(augment.at(seen.radius).radius, 2.0);
        assert!(seen.traces.is_empty());
        let deaf = Augment { from_clients: false, ..augment };
        let mut seen = Seen::default();
        seen.traces.insert(ClientId(0), vec![ClassSpread { row: 0, trace: 4.0, samples: 1 }]);
        seen.end_first_task(&deaf);
        assert_eq!((deaf.at(seen.radius).radius, seen.traces.len()), (0.15, 0));
    }
}
