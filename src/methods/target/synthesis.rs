//! Generation of images at TARGET's server, for the global model and without data.
//!
//! ```text
//! each call   draw noise z and labels y; a copy G' of the generator G; Adam on G' and z
//!   step      x~ = G'(z); u = (crop and flip of x~ - mean) / deviation, as samples are normalized
//!             s norms(u) + l CE(scores(u), y) + v adversarial(u)
//!   end       G takes a step of another Adam by the gradients of G'; keep the x~ of the lowest loss as bytes;
//!             train the student on all images kept
//! ```

use std::sync::Arc;

use candle_core::{DType, Tensor, Var};

use super::config::{AnswerRows, MetaStep, TargetMethod};
use crate::data::ChannelScales;
use crate::learning::inversion::{
    CropFlip, CropWindow, ImagePool, SmoothedMoments, StudentTraining, adversarial, student_start,
};
use crate::learning::optimizer::{Adam, OptimizerState, Sgd};
use crate::learning::{Classifier, CountedWork, LearningError, Optimizer, OptimizerConfig};
use crate::methods::image_synthesis::sample_channels;
use crate::model::{ImageGenerator, ModelError, NormInput, ParameterSet, ops};
use crate::numerics::distributions::{below, fill_normal};
use crate::numerics::streams::StreamKey;
use crate::policy::{ModelFacts, RunContext};

/// Decay of Adam's first moment, for the generator and its copies.
const BETA: f64 = 0.5;
/// Factor on the difference of generator and copy that replaces a gradient in `MetaStep::Reptile`.
const REPTILE: f32 = 67.0;
/// Units of stream keys that separate the draws of a call.
const GENERATOR: u32 = 1;
const STUDENT: u32 = 2;
const LABELS: u32 = 3;
const WINDOWS: u32 = 4;
const NOISE: u32 = 5;
/// Momentum and weight decay of the student.
const STUDENT_SGD: (f64, f64) = (0.9, 1e-4);

/// Draws the labels of a call, uniformly and independently among the classes.
fn drawn_labels(classes: usize, batch: usize, key: StreamKey) -> Vec<u32> {
    let mut rng = key.rng();
    (0..batch).map(|_| below(&mut rng, classes.max(1) as u64) as u32).collect()
}

/// Copy of the generator in a call, with its noise and the normalization of its images.
struct GeneratorCopy<'a> {
    images: ImageGenerator,
    noise: Var,
    crop: CropFlip,
    norm: &'a ChannelScales,
}

impl GeneratorCopy<'_> {
    /// Returns generated images, and the normalized windows of them that the model sees.
    fn forward(&self, windows: &[CropWindow]) -> Result<(Tensor, Tensor), ModelError> {
        let images = self.images.images(&self.noise)?;
        let seen = self.norm.normalized(&self.crop.apply(&images, windows)?)?;
        Ok((images, seen))
    }

    /// Returns Adam over the copy and its noise, which has its own learning rate.
    fn optimizer(&self, rate: f64, noise_rate: f64) -> Optimizer {
        let mut variables = self.images.vars();
        let mut factors = vec![1.0; variables.len()];
        variables.push(self.noise.clone());
        factors.push(noise_rate / rate);
        let mut optimizer = adam(rate).over(variables);
        optimizer.set_rate_factors(factors);
        optimizer
    }
}

fn adam(learning_rate: f64) -> OptimizerConfig {
    OptimizerConfig::Adam(Adam { learning_rate, beta1: BETA, ..Adam::default() })
}

/// Outputs of the model for a batch of images.
struct GeneratorAnswers<'a> {
    /// Scores `(b, K)`.
    scores: &'a Tensor,
    /// Inputs of batch norms, whose moments are compared with the running ones.
    norms: &'a [NormInput],
    /// Scores of the student, where it takes part.
    student: Option<&'a Tensor>,
}

/// Returns the terms of the generator's loss before weighting: labels, norms, adversarial.
fn terms(
    seen: &GeneratorAnswers<'_>,
    labels: &[u32],
    moments: &mut SmoothedMoments,
) -> candle_core::Result<[Tensor; 3]> {
    let nothing = || Tensor::zeros((), DType::F32, seen.scores.device());
    let norms = moments.distance(seen.norms)?.map_or_else(nothing, Ok)?;
    let own = ops::cross_entropy(seen.scores, labels, 0..seen.scores.dim(1)?)?;
    let student = match seen.student {
        Some(student) => adversarial(seen.scores, student)?,
        None => nothing()?,
    };
    Ok([own, norms, student])
}

/// Gradient of the generator at the end of a call, collected from its copy.
struct MetaGradient {
    kind: MetaStep,
    /// Sums of the copy's gradients, by variable.
    sums: Vec<Vec<f32>>,
}

impl MetaGradient {
    fn new(kind: MetaStep, variables: &[Var]) -> MetaGradient {
        let sums = variables.iter().map(|var| vec![0.0; var.elem_count()]).collect();
        MetaGradient { kind, sums }
    }

    /// Adds the gradients of a step of the copy.
    fn add(
        &mut self,
        gradients: &candle_core::backprop::GradStore,
        copy: &[Var],
    ) -> Result<(), LearningError> {
        if self.kind != MetaStep::Fomaml {
            return Ok(());
        }
        for (at, (sum, var)) in self.sums.iter_mut().zip(copy).enumerate() {
            let lacks = || LearningError::NoGradient { name: format!("#{at}") };
            let own = gradients.get(var).ok_or_else(lacks)?.flatten_all()?.to_vec1::<f32>()?;
            sum.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
        }
        Ok(())
    }

    /// Returns the gradient of the generator: the sum of the copy's, or the scaled difference from the copy.
    fn finish(mut self, own: &[Var], copy: &[Var]) -> candle_core::Result<Vec<Vec<f32>>> {
        if self.kind == MetaStep::Reptile {
            for (sum, (own, copy)) in self.sums.iter_mut().zip(own.iter().zip(copy)) {
                let (own, copy) = (own.flatten_all()?.to_vec1::<f32>()?, copy.flatten_all()?);
                let gaps = own.iter().zip(copy.to_vec1::<f32>()?).map(|(own, copy)| own - copy);
                *sum = gaps.map(|gap| REPTILE * gap).collect();
            }
        }
        Ok(self.sums)
    }
}

/// Generation of images at the end of a task.
pub(super) struct TargetSynthesis<'a> {
    pub method: &'a TargetMethod,
    pub model: &'a ModelFacts,
    pub ctx: &'a RunContext,
    /// Stream key of all draws.
    pub key: StreamKey,
}

/// Models that score the images of a call.
struct Answering<'a> {
    teacher: &'a Classifier,
    student: Option<Classifier>,
    /// Number of head rows whose scores are used.
    rows: usize,
    /// Number of classes of which images are generated.
    classes: usize,
}

impl Answering<'_> {
    fn scores(&self, of: &Classifier, features: &Tensor) -> Result<Tensor, LearningError> {
        Ok(of.logits(features)?.narrow(1, 0, self.rows)?.contiguous()?)
    }
}

impl TargetSynthesis<'_> {
    /// Generates the images for a model with parameters `theta` that has seen `seen` classes.
    ///
    /// # Errors
    /// When a loss is not finite, or a pass of a network fails.
    pub fn run(&self, theta: &ParameterSet, seen: usize) -> Result<ImagePool, LearningError> {
        let TargetSynthesis { method, model, ctx, key } = *self;
        let settings = &method.synthesis;
        let (config, shape) = (settings.config(model), settings.image_shape(model));
        let channels = sample_channels(ctx, shape[0])?;
        let norm = ChannelScales::new(&channels, &ctx.device)?;
        let start = ImageGenerator::initial_parameters(&config, key.unit(GENERATOR));
        let generator = ImageGenerator::trainable(config, &start, &ctx.device)?;
        let rate = settings.rate * f64::from(settings.steps);
        let mut meta = adam(rate).over(generator.vars());
        let teacher = Classifier::frozen(&ctx.backbone, theta)?;
        let rows = match method.answer_rows {
            AnswerRows::Seen => seen,
            AnswerRows::All => teacher.rows().len(),
        };
        let classes = method.generated_classes(seen);
        let mut student = student_start(theta, key.unit(STUDENT));
        let mut state = None;
        let mut moments = SmoothedMoments::new(settings.momentum);
        let mut pool = ImagePool::new(shape, settings.batch as usize);
        let steps = u64::from(method.synthesis_rounds) * u64::from(settings.steps);
        let work = ctx.server_steps.begin("generator", steps);
        for call in 1..=method.synthesis_rounds {
            let adversary = match method.has_adversary(call) {
                true => Some(Classifier::frozen(&ctx.backbone, &student)?),
                false => None,
            };
            let answering = Answering { teacher: &teacher, student: adversary, rows, classes };
            let copy = GeneratorCopy {
                images: ImageGenerator::trainable(config, &generator.parameters()?, &ctx.device)?,
                noise: self.noise(call)?,
                crop: settings.crop(),
                norm: &norm,
            };
            let (best, gradient) = self.call((call, &work), &copy, &answering, &mut moments)?;
            moments.end_call();
            let gradient = gradient.finish(&generator.vars(), &copy.images.vars())?;
            meta.step_slices(&gradient, rate, 1.0)?;
            pool.add(&best)?;
            if method.distills(call) {
                let known = (&student, state.take());
                let (taught, kept) = self.teach((&teacher, rows), known, &pool, call)?;
                (student, state) = (taught, Some(kept));
            }
        }
        Ok(pool.first_by_name(method.replayed_images as usize))
    }

    fn noise(&self, call: u32) -> Result<Var, LearningError> {
        let TargetSynthesis { method, ctx, key, .. } = *self;
        let shape = (method.synthesis.batch as usize, method.synthesis.latent as usize);
        let mut values = vec![0.0; shape.0 * shape.1];
        let mut rng = key.round(call).unit(NOISE).rng();
        fill_normal(&mut rng, &mut values);
        Ok(Var::from_tensor(&Tensor::from_vec(values, shape, &ctx.device)?)?)
    }

    /// Trains a copy of the generator for one call.
    ///
    /// Returns its images `(batch, c, h, w)` at the lowest loss, and the gradient of the generator.
    fn call(
        &self,
        (call, work): (u32, &CountedWork<'_>),
        copy: &GeneratorCopy<'_>,
        answering: &Answering<'_>,
        moments: &mut SmoothedMoments,
    ) -> Result<(Tensor, MetaGradient), LearningError> {
        let method = self.method;
        let (settings, key) = (&method.synthesis, self.key.round(call));
        let batch = settings.batch as usize;
        let labels = drawn_labels(answering.classes, batch, key.unit(LABELS));
        let mut optimizer = copy.optimizer(settings.rate, method.latent_lr);
        let mut gradient = MetaGradient::new(method.meta, &copy.images.vars());
        let weights = [settings.labels, settings.statistics, settings.adversarial];
        let mut best: Option<(f32, Tensor)> = None;
        for step in 0..u64::from(settings.steps) {
            let windows = copy.crop.windows(batch, key.unit(WINDOWS).step(step));
            let (images, seen) = copy.forward(&windows)?;
            let (features, norms) = answering.teacher.backbone().tapped_features(&seen)?;
            let scores = answering.scores(answering.teacher, &features)?;
            let of_student =
                |student: &Classifier| answering.scores(student, &student.features(&seen)?);
            let student = answering.student.as_ref().map(of_student).transpose()?;
            let known =
                GeneratorAnswers { scores: &scores, norms: &norms, student: student.as_ref() };
            let mut total = Tensor::zeros((), DType::F32, scores.device())?;
            for (term, weight) in terms(&known, &labels, moments)?.iter().zip(weights) {
                total = (total + (term * weight)?)?;
            }
            let value = total.to_scalar::<f32>()?;
            if !value.is_finite() {
                let what = "loss of the generator".into();
                return Err(LearningError::NonFinite { what, step });
            }
            if best.as_ref().is_none_or(|(lowest, _)| value < *lowest) {
                best = Some((value, images.detach()));
            }
            let gradients = total.backward()?;
            gradient.add(&gradients, &copy.images.vars())?;
            optimizer.step(&gradients, settings.rate, 1.0)?;
            work.step();
        }
        let none = || LearningError::Shape("a call without a step".to_owned());
        Ok((best.map(|(_, images)| images).ok_or_else(none)?, gradient))
    }

    /// Trains the student on all images kept; its optimizer state continues from call to call.
    fn teach(
        &self,
        teacher: (&Classifier, usize),
        (student, state): (&ParameterSet, Option<OptimizerState>),
        pool: &ImagePool,
        call: u32,
    ) -> Result<(ParameterSet, OptimizerState), LearningError> {
        let TargetSynthesis { method, ctx, .. } = *self;
        let settings = &method.synthesis;
        let (momentum, weight_decay) = STUDENT_SGD;
        let learning_rate = method.student_rate(call);
        let training = StudentTraining {
            steps: settings.student_steps,
            batch: settings.student_batch as usize,
            sgd: Sgd { learning_rate, momentum, weight_decay },
            temperature: settings.temperature,
            anchor_weight: 0.0,
            clip: Some(method.student_clip).filter(|limit| *limit > 0.0),
        };
        let through = (&ctx.task_sequence, &ctx.train_transform);
        let images = pool.replay(pool.by_name(method.replayed_images as usize), through)?;
        let key = self.key.round(call).unit(STUDENT);
        training.train_on((&Arc::clone(&ctx.backbone), student), state, teacher, (&images, key))
    }
}

#[cfg(test)]
mod tests;
