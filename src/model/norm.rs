//! Batch norm with its running statistics.

use parking_lot::Mutex;
use std::sync::Arc;

use candle_core::{Result, Tensor};

use crate::model::ModelError;
use crate::model::ops::{self, BatchNormStatistics, ChannelAffine, ChannelMoments};
use crate::model::parameters::{Parameter, ParameterSet};

/// Weight of a batch in the running statistics, PyTorch's default.
const MOMENTUM: f64 = 0.1;
/// Epsilon, PyTorch's default.
pub(crate) const NORM_EPS: f64 = 1e-5;

const MEAN: &str = ".running_mean";
const VARIANCE: &str = ".running_var";

/// Running statistics of a batch norm. Clones of a network share them.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    /// Running mean, `(c)`.
    pub mean: Tensor,
    /// Running variance, `(c)`, unbiased.
    pub variance: Tensor,
    /// Number of batches, `[]`.
    pub batches: Tensor,
}

impl Running {
    /// Updates the statistics with a batch.
    ///
    /// A batch with a single value per channel has no unbiased variance and is skipped, while PyTorch refuses it.
    fn update(&mut self, batch: &ChannelMoments) -> Result<()> {
        if batch.rows < 2 {
            return Ok(());
        }
        let unbiased = batch.rows as f64 / (batch.rows - 1) as f64;
        let mix = |old: &Tensor, new: &Tensor, scale: f64| {
            old.affine(1.0 - MOMENTUM, 0.0)? + new.affine(MOMENTUM * scale, 0.0)?
        };
        self.mean = mix(&self.mean, &batch.mean, 1.0)?;
        self.variance = mix(&self.variance, &batch.variance, unbiased)?;
        self.batches = self.batches.affine(1.0, 1.0)?;
        Ok(())
    }
}

/// Running means and variances of a network's batch norms, by PyTorch's names.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunningMoments(Vec<(String, Arc<Mutex<Running>>)>);

impl RunningMoments {
    /// Returns statistics with these moments, and no batch counted.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn of(mean: Tensor, variance: Tensor) -> Result<Arc<Mutex<Running>>> {
        let batches = Tensor::new(0f32, mean.device())?;
        Ok(Arc::new(Mutex::new(Running { mean, variance, batches })))
    }

    /// Returns the statistics of a norm, whose tensors `tensor` returns by name.
    ///
    /// # Errors
    /// Fails as `tensor` does.
    pub fn of_norm(
        norm: &str,
        mut tensor: impl FnMut(&str) -> std::result::Result<Tensor, ModelError>,
    ) -> std::result::Result<Arc<Mutex<Running>>, ModelError> {
        let mean = tensor(&format!("{norm}{MEAN}"))?;
        Ok(RunningMoments::of(mean, tensor(&format!("{norm}{VARIANCE}"))?)?)
    }

    /// Adds the statistics of another norm.
    pub fn push(&mut self, norm: &str, running: &Arc<Mutex<Running>>) {
        self.0.push((norm.to_owned(), Arc::clone(running)));
    }

    /// Adds the current means and variances to a set.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn record(&self, set: &mut ParameterSet) -> std::result::Result<(), ModelError> {
        for (norm, running) in &self.0 {
            let running = running.lock();
            set.insert(format!("{norm}{MEAN}"), Parameter::of(&running.mean)?);
            set.insert(format!("{norm}{VARIANCE}"), Parameter::of(&running.variance)?);
        }
        Ok(())
    }
}

/// Input of a batch norm in a forward pass, and the norm's running moments.
#[derive(Clone, Debug)]
pub struct NormInput {
    /// Input `(b, h, w, c)`, part of the graph of the pass.
    pub input: Tensor,
    /// Running mean, `(c)`.
    pub running_mean: Tensor,
    /// Running variance, `(c)`, unbiased.
    pub running_variance: Tensor,
}

/// Scale, shift and running statistics of every channel.
#[derive(Clone, Debug)]
pub(crate) struct Norm {
    pub weight: Tensor,
    pub bias: Tensor,
    pub running: Arc<Mutex<Running>>,
    /// True if it uses the moments of the batch and updates the running ones; false if it uses the latter.
    pub trains: bool,
    /// Value added to the variance.
    pub eps: f64,
}

impl Norm {
    /// Returns this input with the current running moments.
    pub fn seen(&self, input: &Tensor) -> NormInput {
        let running = self.running.lock();
        let (running_mean, running_variance) = (running.mean.clone(), running.variance.clone());
        NormInput { input: input.clone(), running_mean, running_variance }
    }

    /// Returns scale and shift of every channel.
    pub fn affine(&self) -> ChannelAffine<'_> {
        ChannelAffine { weight: &self.weight, bias: &self.bias, eps: self.eps }
    }

    /// Updates the running statistics with the moments of a batch.
    pub fn update(&self, batch: &ChannelMoments) -> Result<()> {
        self.running.lock().update(batch)
    }

    /// Normalizes `x` `(.., c)`, adds the shortcut, and rectifies if `rectify`.
    pub fn forward(&self, x: &Tensor, shortcut: Option<&Tensor>, rectify: bool) -> Result<Tensor> {
        let affine = self.affine();
        if self.trains {
            let moments = ops::channel_moments(x)?;
            self.update(&moments)?;
            return ops::batch_norm(
                x,
                affine,
                BatchNormStatistics::Batch(&moments),
                shortcut,
                rectify,
            );
        }
        let moments = {
            let running = self.running.lock();
            let (mean, variance) = (running.mean.clone(), running.variance.clone());
            ChannelMoments { mean, variance, rows: 0 }
        };
        ops::batch_norm(x, affine, BatchNormStatistics::Running(&moments), shortcut, rectify)
    }
}
