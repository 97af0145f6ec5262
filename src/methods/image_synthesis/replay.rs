//! Replay of generated images at a client: a batch for every step, and the old model whose outputs are distilled.

use candle_core::Tensor;

use super::received_images;
use crate::data::{Batch, DataError};
use crate::learning::inversion::PoolReplay;
use crate::learning::losses::{Distillation, distillation};
use crate::learning::{Classifier, LearningError};
use crate::methods::averaging::{TrainingStep, previous};
use crate::methods::parts::Workload;
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{Message, PolicyError, RunContext};

/// Temperature of the clients' distillation on generated images.
const TEMPERATURE: f64 = 2.0;

/// Generated images of a client's steps, and the old model for which they were generated.
pub(in crate::methods) struct OldModelReplay {
    pub old: Classifier,
    pool: PoolReplay,
    /// Number of images in a step.
    images: usize,
    /// True if own samples and images pass the network as one batch.
    joint: bool,
    /// Stream key of the client's draws of images.
    key: StreamKey,
}

impl OldModelReplay {
    /// Returns the replay of a download's images and old model; `None` in the first task.
    ///
    /// The server generated batches of `batch` images. The first `limit` of them by file name are replayed, `images`
    /// per step, under the transform of local training.
    ///
    /// # Errors
    /// When the download has images without the old model, or the model without images.
    pub fn received(
        (download, ctx): (&Message, &RunContext),
        (batch, limit, images): (u32, u32, u32),
        (joint, key): (bool, StreamKey),
    ) -> Result<Option<OldModelReplay>, PolicyError> {
        match (previous::of(download)?, received_images(download, batch as usize)?) {
            (None, None) => Ok(None),
            (Some(old), Some(pool)) => {
                let through = (&ctx.task_sequence, &ctx.train_transform);
                Ok(Some(OldModelReplay {
                    old: Classifier::frozen(&ctx.backbone, &old)?,
                    pool: pool.replay(pool.by_name(limit as usize), through)?,
                    images: images as usize,
                    joint,
                    key: key.domain(Domain::Method),
                }))
            }
            _ => {
                let lacks = "an old model without its images, or images without their model";
                Err(PolicyError::Unsupported(lacks.to_owned()))
            }
        }
    }

    /// Returns the features of own samples and of images (pixels), by one batch if `joint`, else by two.
    ///
    /// # Errors
    /// When a pass of the network fails.
    pub fn features(
        &self,
        network: &Classifier,
        (own, images): (&Tensor, &Tensor),
    ) -> Result<(Tensor, Tensor), LearningError> {
        if !self.joint {
            return Ok((network.features(own)?, network.features(images)?));
        }
        let (first, rest) = (own.dim(0)?, images.dim(0)?);
        let all = network.features(&Tensor::cat(&[own, images], 0)?.contiguous()?)?;
        let part = |from, count| all.narrow(0, from, count)?.contiguous();
        Ok((part(0, first)?, part(first, rest)?))
    }

    /// Draws the images of a training step.
    ///
    /// # Errors
    /// When the pool has no images, or the transform does not fit them.
    pub fn batch(&self, pass: &TrainingStep<'_>) -> Result<Batch, LearningError> {
        let step = pass.step.steps.first().copied().unwrap_or(0);
        Ok(self.pool.batch(step, self.images, self.key)?)
    }
}

/// Returns mean and standard deviation of every channel by which training samples are normalized.
///
/// # Errors
/// When the normalization has another number of channels.
pub(in crate::methods) fn sample_channels(
    ctx: &RunContext,
    channels: usize,
) -> Result<Vec<(f32, f32)>, DataError> {
    ctx.train_transform.normalization.channels(channels)
}

/// Returns the distillation `-mean sum softmax(old / 2) log softmax(new / 2)` of the first `old` rows.
///
/// `logits` and `teacher` are `(b, rows)`.
///
/// # Errors
/// When there are fewer rows of logits.
pub(in crate::methods) fn old_rows_distilled(
    logits: &Tensor,
    teacher: &Tensor,
    old: usize,
) -> candle_core::Result<Tensor> {
    let known = teacher.narrow(1, 0, old)?.contiguous()?.flatten_all()?.to_vec1::<f32>()?;
    let logits = logits.narrow(1, 0, old)?.contiguous()?;
    distillation(&logits, &known, 0..old, TEMPERATURE, Distillation::CrossEntropy)
}

/// Returns the sample passes of a client that replays this number of images in every step.
///
/// An image costs a training pass and a forward pass of the old model.
pub(in crate::methods) fn replay_work(load: &Workload<'_>, images: u32) -> f64 {
    let images = load.plan.steps_of(load.samples) as f64 * f64::from(images);
    load.passes() + images * 4.0 / 3.0
}
