//! Networks below the rows of a head: the module `g` and the head's hidden layer, each frozen or training.
//!
//! A part that trains uses the moments of the batch, updates its running statistics and applies dropout; a frozen part
//! evaluates. So training one part changes no bit of the other, including buffers. A frozen part that teaches may be
//! set to use the moments of the batch, too, as its student does.

use std::sync::Arc;

use candle_core::{Device, Tensor};
use clap::ValueEnum;

use super::Residual;
use super::shape::{HEAD_NORM, HIDDEN, LAYERS, SHORTCUT, of_module};
use crate::model::norm::{NORM_EPS, RunningMoments};
use crate::model::ops::{self, SampleGroups};
use crate::model::resnet::is_buffer;
use crate::model::{Dropout, MaskPlace, ModelError, Norm, ParameterSet, Variables};
use crate::scenario::reader::Choice;

/// Flags for the networks that train.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trains {
    pub module: bool,
    pub head: bool,
}

impl Trains {
    pub const NOTHING: Trains = Trains { module: false, head: false };
    pub const MODULE: Trains = Trains { module: true, head: false };
    pub const HEAD: Trains = Trains { module: false, head: true };
    pub const BOTH: Trains = Trains { module: true, head: true };

    fn includes(self, name: &str) -> bool {
        if of_module(name) { self.module } else { self.head }
    }
}

/// Moments by which the batch norms of a module that trains normalize.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum BatchNormMode {
    /// Running moments, as the first task left them.
    ///
    /// Scales and shifts train.
    Running,
    /// Moments of the batch; running moments are updated with every batch.
    Batch,
}

/// Moments by which a frozen teacher normalizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum TeacherBatchNormMode {
    /// Moments by which the student normalizes, layer by layer.
    ///
    /// A student equal to its teacher then has no distillation loss.
    Student,
    /// Running moments of the teacher.
    Running,
}

impl TeacherBatchNormMode {
    /// Returns the moments of a teacher whose student normalizes by `student`; `None` for running ones.
    pub fn of(self, student: Option<BatchNormMode>) -> Option<BatchNormMode> {
        match self {
            TeacherBatchNormMode::Student => student,
            TeacherBatchNormMode::Running => None,
        }
    }
}

/// Flags for the networks that normalize by the moments of the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByBatch {
    pub module: bool,
    pub head: bool,
}

impl ByBatch {
    pub const NOTHING: ByBatch = ByBatch { module: false, head: false };

    /// Returns the flags in training: a module by its setting, the norm of a head always by the batch.
    pub fn training(trains: Trains, norms: BatchNormMode) -> ByBatch {
        ByBatch { module: trains.module && norms == BatchNormMode::Batch, head: trains.head }
    }

    /// Returns the flags of a teacher whose student has these flags.
    pub fn taught_by(self, teacher: TeacherBatchNormMode) -> ByBatch {
        match teacher {
            TeacherBatchNormMode::Student => self,
            TeacherBatchNormMode::Running => ByBatch::NOTHING,
        }
    }

    /// Returns true if any output depends on its batch.
    pub fn any(self) -> bool {
        self.module || self.head
    }
}

/// Dropout rate, and the place in the random streams of a step's masks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drops {
    pub rate: f64,
    pub place: MaskPlace,
}

impl Drops {
    fn apply(&self, x: &Tensor, layer: usize) -> candle_core::Result<Tensor> {
        if self.rate <= 0.0 {
            return Ok(x.clone());
        }
        let dropout = Dropout { rate: self.rate, places: vec![self.place] };
        dropout.apply(x, layer, &SampleGroups::one(x.dim(0)?))
    }
}

/// Number of the head's masks, after those of the module's layers.
const HEAD_LAYER: usize = LAYERS.len();

#[derive(Clone, Debug)]
struct AdjustmentLinear {
    weight: Tensor,
    bias: Tensor,
}

impl AdjustmentLinear {
    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        ops::linear(x, &self.weight, Some(&self.bias))
    }
}

/// Linear layer and its norm.
#[derive(Clone, Debug)]
struct LinearNorm {
    linear: AdjustmentLinear,
    norm: Norm,
}

#[derive(Clone, Debug)]
struct Module {
    layers: [LinearNorm; 3],
    residual: Residual,
    shortcut: Option<AdjustmentLinear>,
}

/// Module and hidden layer; see the [module docs](self).
#[derive(Clone, Debug)]
pub(crate) struct Adjustment {
    trains: Trains,
    module: Option<Module>,
    hidden: LinearNorm,
    variables: Variables,
    /// Running statistics of all norms.
    running: RunningMoments,
}

impl Adjustment {
    /// Returns true if a set holds such networks.
    pub fn is_in(set: &ParameterSet) -> bool {
        set.get(&format!("{HIDDEN}.weight")).is_some()
    }

    /// Returns the networks that `set` holds, over new variables if they train.
    ///
    /// # Errors
    /// Returns an error if a parameter is missing.
    pub fn new(
        set: &ParameterSet,
        residual: Residual,
        trains: Trains,
        by_batch: ByBatch,
        device: &Device,
    ) -> Result<Adjustment, ModelError> {
        let mut builder =
            Builder { set, trains, device, variables: vec![], running: RunningMoments::default() };
        let has_module = set.get(&format!("{}.weight", LAYERS[0])).is_some();
        let module = match has_module {
            false => None,
            true => {
                let [first, second, third] = LAYERS
                    .map(|name| builder.layer(name, &format!("{name}.norm"), by_batch.module));
                let has_shortcut = matches!(residual, Residual::Last | Residual::Whole);
                let shortcut = has_shortcut.then(|| builder.linear(SHORTCUT)).transpose()?;
                Some(Module { layers: [first?, second?, third?], residual, shortcut })
            }
        };
        let hidden = builder.layer(HIDDEN, HEAD_NORM, by_batch.head)?;
        let Builder { mut variables, running, .. } = builder;
        variables.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Adjustment { trains, module, hidden, variables, running })
    }

    /// Returns the trainable variables, sorted by name.
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// Returns adjusted features `g`, `(b, 256)`, of frozen features `(b, d)`.
    ///
    /// # Errors
    /// Returns an error if the features do not fit.
    pub fn adjust(&self, features: &Tensor, drops: Option<Drops>) -> candle_core::Result<Tensor> {
        let Some(Module { layers, residual, shortcut }) = &self.module else {
            return Ok(features.clone());
        };
        let drops = drops.filter(|_| self.trains.module);
        let hidden = |x: &Tensor, at: usize| {
            let y = layers[at].norm.forward(&layers[at].linear.forward(x)?, None, true)?;
            drops.map_or(Ok(y.clone()), |drops| drops.apply(&y, at))
        };
        let first = hidden(features, 0)?;
        let second = match residual {
            Residual::Identity => (hidden(&first, 1)? + &first)?,
            _ => hidden(&first, 1)?,
        };
        let residual_input = match (residual, shortcut) {
            (Residual::Last, Some(shortcut)) => Some(shortcut.forward(&second)?),
            (Residual::Whole, Some(shortcut)) => Some(shortcut.forward(features)?),
            _ => None,
        };
        layers[2].norm.forward(&layers[2].linear.forward(&second)?, residual_input.as_ref(), false)
    }

    /// Returns the input of the head's rows, `(b, 128)`, for adjusted features `(b, 256)`.
    ///
    /// This is the output of the head's hidden layer.
    ///
    /// # Errors
    /// Returns an error if the features do not fit.
    pub fn hidden(&self, adjusted: &Tensor, drops: Option<Drops>) -> candle_core::Result<Tensor> {
        let hidden = self.hidden.linear.forward(adjusted)?;
        let hidden = self.hidden.norm.forward(&hidden, None, true)?;
        match drops.filter(|_| self.trains.head) {
            Some(drops) => drops.apply(&hidden, HEAD_LAYER),
            None => Ok(hidden),
        }
    }

    /// Returns the current values of running statistics that were updated.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn buffers(&self) -> Result<ParameterSet, ModelError> {
        let mut buffers = ParameterSet::new();
        self.running.record(&mut buffers)?;
        Ok(buffers)
    }
}

/// Construction of layers from a set's tensors, as variables if they train.
struct Builder<'a> {
    set: &'a ParameterSet,
    trains: Trains,
    device: &'a Device,
    variables: Variables,
    running: RunningMoments,
}

impl Builder<'_> {
    fn tensor(&mut self, name: &str) -> Result<Tensor, ModelError> {
        let parameter = self.set.get(name).ok_or_else(|| ModelError::Input {
            reason: format!("`{name}` is not among the parameters of module and head"),
        })?;
        if !self.trains.includes(name) || is_buffer(name) {
            return parameter.tensor(self.device);
        }
        let variable = parameter.variable(self.device)?;
        let tensor = variable.as_tensor().clone();
        self.variables.push((Arc::from(name), variable));
        Ok(tensor)
    }

    fn linear(&mut self, name: &str) -> Result<AdjustmentLinear, ModelError> {
        let weight = self.tensor(&format!("{name}.weight"))?;
        Ok(AdjustmentLinear { weight, bias: self.tensor(&format!("{name}.bias"))? })
    }

    /// Returns a linear layer and its norm; `batch` is true if it normalizes by the moments of the batch.
    fn layer(&mut self, name: &str, norm: &str, batch: bool) -> Result<LinearNorm, ModelError> {
        let linear = self.linear(name)?;
        let running = RunningMoments::of_norm(norm, |name| self.tensor(name))?;
        if batch && self.trains.includes(name) {
            self.running.push(norm, &running);
        }
        let weight = self.tensor(&format!("{norm}.weight"))?;
        let bias = self.tensor(&format!("{norm}.bias"))?;
        Ok(LinearNorm {
            linear,
            norm: Norm { weight, bias, running, trains: batch, eps: NORM_EPS },
        })
    }
}
