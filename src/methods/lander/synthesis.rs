//! Generation of images at LANDER's server, for the global model and without data.
//!
//! ```text
//! each call   draw the noisy layers; balanced labels y; Adam on generator, layers, mean and deviation
//!   step      x~ = G(noise(T_y)); u = (crop and flip of x~ - mean) / deviation
//!             s norms(u) + l CE(scores(u), y) + v adversarial(u) + lambda max(0, mean (h(u) - T_y)^2 - r)
//!   end       keep the x~ of the lowest loss as bytes; train the student on all images kept
//! ```

use std::sync::Arc;

use candle_core::{DType, Device, Tensor, Var};

use super::objective::Anchors;
use super::{ImageNormalization, Lander};
use crate::learning::inversion::{
    CropFlip, CropWindow, ImagePool, SmoothedMoments, StudentTraining, adversarial, student_start,
};
use crate::learning::optimizer::{Adam, Sgd};
use crate::learning::{Classifier, CountedWork, LearningError, Optimizer, OptimizerConfig};
use crate::methods::image_synthesis::{ImageSynthesis, sample_channels};
use crate::model::ops::{self, BatchNormStatistics, ChannelAffine, ChannelMoments};
use crate::model::{ImageGenerator, LabelNoise, ModelError, NormInput, ParameterSet};
use crate::numerics::distributions::below;
use crate::numerics::streams::StreamKey;
use crate::policy::{ModelFacts, RunContext};

/// Decay of Adam's first moment, for the generator.
const BETA: f64 = 0.5;
/// Units of stream keys that separate the draws of a call; noisy layers have none.
const GENERATOR: u32 = 1;
const STUDENT: u32 = 2;
const LABELS: u32 = 3;
const WINDOWS: u32 = 4;
/// Momentum and weight decay of the student.
const STUDENT_SGD: (f64, f64) = (0.9, 2e-4);
/// Start values of the mean and the standard deviation of pixels.
const PIXELS: (f32, f32) = (0.5, 0.2);

/// Returns the labels of a call: every class equally often, then draws that fill the batch.
pub(super) fn balanced_labels(classes: usize, batch: usize, key: StreamKey) -> Vec<u32> {
    let classes = classes.max(1);
    let mut rng = key.rng();
    let whole = (0..batch / classes).flat_map(|_| 0..classes as u32);
    let rest = (0..batch % classes).map(|_| below(&mut rng, classes as u64) as u32);
    whole.chain(rest).collect()
}

/// Mean and standard deviation of pixels by channel, which are trained.
pub(super) struct PixelNorm {
    pub mean: Var,
    pub deviation: Var,
}

impl PixelNorm {
    /// Creates a normalization with these means and standard deviations by channel.
    pub fn new(channels: &[(f32, f32)], device: &Device) -> Result<PixelNorm, ModelError> {
        let of = |values: Vec<f32>| -> Result<Var, ModelError> {
            Ok(Var::from_tensor(&Tensor::from_vec(values, channels.len(), device)?)?)
        };
        let (mean, deviation) = channels.iter().copied().unzip();
        Ok(PixelNorm { mean: of(mean)?, deviation: of(deviation)? })
    }

    /// Returns images `(b, c, h, w)` normalized as `(x - mean) / deviation`.
    pub fn apply(&self, images: &Tensor) -> candle_core::Result<Tensor> {
        let scale = self.deviation.as_tensor().recip()?;
        let shift = (self.mean.as_tensor() * &scale)?.neg()?;
        // Batch norm with mean 0 and variance 1 adds its gradients up in one order on every machine.
        let (mean, variance) = (scale.detach().zeros_like()?, scale.detach().ones_like()?);
        let moments = ChannelMoments { mean, variance, rows: 0 };
        let affine = ChannelAffine { weight: &scale, bias: &shift, eps: 0.0 };
        let x = images.permute((0, 2, 3, 1))?.contiguous()?;
        let x = ops::batch_norm(&x, affine, BatchNormStatistics::Running(&moments), None, false)?;
        x.permute((0, 3, 1, 2))?.contiguous()
    }
}

/// Generator, its noisy layers, and the normalization of its images.
pub(super) struct LanderGenerator {
    pub noise: LabelNoise,
    pub images: ImageGenerator,
    pub pixels: PixelNorm,
    pub crop: CropFlip,
}

impl LanderGenerator {
    /// Returns generated images, and the normalized windows of them that the model sees.
    pub fn forward(
        &self,
        embeddings: &Tensor,
        windows: &[CropWindow],
    ) -> Result<(Tensor, Tensor), ModelError> {
        let images = self.images.images(&self.noise.forward(embeddings)?)?;
        let seen = self.pixels.apply(&self.crop.apply(&images, windows)?)?;
        Ok((images, seen))
    }

    /// Returns Adam over generator, noisy layers and normalization; the latter has its own learning rate.
    pub fn optimizer(&self, rate: f64, normalization_rate: f64) -> Optimizer {
        let adam = Adam { learning_rate: rate, beta1: BETA, ..Adam::default() };
        let mut variables = self.images.vars();
        variables.extend(self.noise.variables().iter().map(|(_, var)| var.clone()));
        let mut factors = vec![1.0; variables.len()];
        variables.extend([self.pixels.mean.clone(), self.pixels.deviation.clone()]);
        factors.extend([normalization_rate / rate; 2]);
        let mut optimizer = OptimizerConfig::Adam(adam).over(variables);
        optimizer.set_rate_factors(factors);
        optimizer
    }
}

/// Outputs of the model for a batch of images.
pub(super) struct SeenImages<'a> {
    /// Scores of the classes seen, `(b, K)`.
    pub scores: &'a Tensor,
    /// Mapped features, `(b, width)`.
    pub mapped: &'a Tensor,
    /// Inputs of batch norms, whose moments are compared with the running ones.
    pub norms: &'a [NormInput],
    /// Scores of the student, where it takes part.
    pub student: Option<&'a Tensor>,
}

/// Returns the terms of the generator's loss before weighting: norms, labels, adversarial, bound.
pub(super) fn terms(
    seen: &SeenImages<'_>,
    labels: &[u32],
    moments: &mut SmoothedMoments,
    anchors: &Anchors,
) -> candle_core::Result<[Tensor; 4]> {
    let nothing = || Tensor::zeros((), DType::F32, seen.scores.device());
    let norms = moments.distance(seen.norms)?.map_or_else(nothing, Ok)?;
    let classes = seen.scores.dim(1)?;
    let own = ops::cross_entropy(seen.scores, labels, 0..classes)?;
    let student = match seen.student {
        Some(student) => adversarial(seen.scores, student)?,
        None => nothing()?,
    };
    Ok([norms, own, student, anchors.bound(seen.mapped, labels, 1.0)?])
}

/// Returns the sum of terms by their weights.
pub(super) fn weighted(terms: &[Tensor; 4], weights: [f64; 4]) -> candle_core::Result<Tensor> {
    let mut total = Tensor::zeros((), DType::F32, terms[0].device())?;
    for (term, weight) in terms.iter().zip(weights) {
        total = (total + (term * weight)?)?;
    }
    Ok(total)
}

/// Generation of images at the end of a task.
pub(super) struct Synthesis<'a> {
    pub method: &'a Lander,
    pub anchors: &'a Anchors,
    pub model: &'a ModelFacts,
    pub ctx: &'a RunContext,
    /// Stream key of all draws.
    pub key: StreamKey,
}

impl Synthesis<'_> {
    /// Generates the images for a model with parameters `theta` that has seen `classes` classes.
    ///
    /// # Errors
    /// When a loss is not finite, or a pass of a network fails.
    pub fn run(&self, theta: &ParameterSet, classes: usize) -> Result<ImagePool, LearningError> {
        let Synthesis { method, anchors, model, ctx, key } = *self;
        let settings = &method.synthesis;
        let (config, device) = (settings.config(model), &ctx.device);
        let start = ImageGenerator::initial_parameters(&config, key.unit(GENERATOR));
        let widths = (anchors.table.width(), settings.latent as usize);
        let blocks = (settings.batch as usize, method.noise_block as usize);
        let channels = match method.image_normalization {
            ImageNormalization::Learned => vec![PIXELS; config.channels],
            ImageNormalization::Data => sample_channels(ctx, config.channels)?,
        };
        let generator = LanderGenerator {
            noise: LabelNoise::new(widths, blocks, device)?,
            images: ImageGenerator::trainable(config, &start, device)?,
            pixels: PixelNorm::new(&channels, device)?,
            crop: settings.crop(),
        };
        let teacher = Classifier::frozen(&ctx.backbone, theta)?;
        let mut student = student_start(theta, key.unit(STUDENT));
        let mut moments = SmoothedMoments::new(settings.momentum);
        let mut pool = ImagePool::new(settings.image_shape(model), settings.batch as usize);
        let steps = u64::from(method.calls()) * u64::from(settings.steps);
        let work = ctx.server_steps.begin("generator", steps);
        for call in 1..=method.calls() {
            let adversary = match method.has_adversary(call) {
                true => Some(Classifier::frozen(&ctx.backbone, &student)?),
                false => None,
            };
            let models = (&teacher, adversary.as_ref(), classes);
            let best = self.call((call, &work), &generator, models, &mut moments)?;
            moments.end_call();
            if method.keeps(call) {
                pool.add(&best)?;
                student = self.train_student((&teacher, classes), &student, &pool, call)?;
            }
        }
        Ok(pool)
    }

    /// Trains the generator for one call and returns its images `(batch, c, h, w)` at the lowest loss.
    fn call(
        &self,
        (call, work): (u32, &CountedWork<'_>),
        generator: &LanderGenerator,
        (teacher, student, classes): (&Classifier, Option<&Classifier>, usize),
        moments: &mut SmoothedMoments,
    ) -> Result<Tensor, LearningError> {
        let Synthesis { method, anchors, ctx, .. } = *self;
        let settings = &method.synthesis;
        let key = self.key.round(call);
        generator.noise.redraw(key)?;
        let labels = balanced_labels(classes, settings.batch as usize, key.unit(LABELS));
        let shape = (labels.len(), anchors.table.width());
        let embeddings = Tensor::from_vec(anchors.of(&labels), shape, &ctx.device)?;
        let rate = match method.image_normalization {
            ImageNormalization::Learned => method.normalization_lr,
            ImageNormalization::Data => 0.0,
        };
        let mut optimizer = generator.optimizer(settings.rate, rate);
        let ImageSynthesis { statistics, labels: label_weight, adversarial, .. } = *settings;
        let weights = [statistics, label_weight, adversarial, anchors.weight];
        let mut best: Option<(f32, Tensor)> = None;
        for step in 0..u64::from(settings.steps) {
            let windows = generator.crop.windows(labels.len(), key.unit(WINDOWS).step(step));
            let (images, seen) = generator.forward(&embeddings, &windows)?;
            let (features, norms) = teacher.backbone().tapped_features(&seen)?;
            let scores = teacher.logits(&features)?.narrow(1, 0, classes)?.contiguous()?;
            let missing = || LearningError::Shape("a model without a map of features".to_owned());
            let mapped = teacher.mapped(&features)?.ok_or_else(missing)?;
            let of_student = |student: &Classifier| -> Result<Tensor, LearningError> {
                let scores = student.logits(&student.features(&seen)?)?;
                Ok(scores.narrow(1, 0, classes)?.contiguous()?)
            };
            let of_student = student.map(of_student).transpose()?;
            let known = SeenImages {
                scores: &scores,
                mapped: &mapped,
                norms: &norms,
                student: of_student.as_ref(),
            };
            let total = weighted(&terms(&known, &labels, moments, anchors)?, weights)?;
            let value = total.to_scalar::<f32>()?;
            if !value.is_finite() {
                return Err(LearningError::NonFinite {
                    what: "loss of the generator".into(),
                    step,
                });
            }
            if best.as_ref().is_none_or(|(lowest, _)| value < *lowest) {
                best = Some((value, images.detach()));
            }
            optimizer.step(&total.backward()?, settings.rate, 1.0)?;
            work.step();
        }
        let none = || LearningError::Shape("a call without a step".to_owned());
        best.map(|(_, images)| images).ok_or_else(none)
    }

    fn train_student(
        &self,
        teacher: (&Classifier, usize),
        student: &ParameterSet,
        pool: &ImagePool,
        call: u32,
    ) -> Result<ParameterSet, LearningError> {
        let Synthesis { method, ctx, .. } = *self;
        let settings = &method.synthesis;
        let (momentum, weight_decay) = STUDENT_SGD;
        let learning_rate = settings.student_rate;
        let training = StudentTraining {
            steps: settings.student_steps,
            batch: settings.student_batch as usize,
            sgd: Sgd { learning_rate, momentum, weight_decay },
            temperature: settings.temperature,
            anchor_weight: self.anchors.weight,
            clip: None,
        };
        let through = (&ctx.task_sequence, &ctx.train_transform);
        let images = pool.replay(pool.by_name(method.replayed_images as usize), through)?;
        let key = self.key.round(call).unit(STUDENT);
        training.train((&Arc::clone(&ctx.backbone), student), teacher, (&images, key))
    }
}

#[cfg(test)]
mod tests;
