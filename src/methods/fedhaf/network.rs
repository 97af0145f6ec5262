//! FedHAF's two small networks over frozen features: the module `g` and the head `h`, each frozen or in training.
//!
//! A part that trains takes the moments of the batch, moves its running statistics and drops entries; one that
//! is frozen evaluates. So a stage that trains one part leaves every bit of the other, buffers included.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{Device, Tensor, Var};

use super::shape::{HEAD_NORM, HIDDEN, LAYERS, SHORTCUT, of_module};
use super::{NetworkShape, Residual};
use crate::learning::{head_rows, with_head_rows};
use crate::model::ops::{self, Groups};
use crate::model::resnet::is_buffer;
use crate::model::{
    Dropout, LinearHead, MaskPlace, ModelError, Norm, Parameter, ParameterSet, Running, Variables,
};

/// Which of the two networks train.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trains {
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

/// Where a step draws its masks, and how much it drops.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drops {
    pub rate: f64,
    pub place: MaskPlace,
}

impl Drops {
    fn apply(&self, x: &Tensor, layer: usize) -> candle_core::Result<Tensor> {
        if self.rate <= 0.0 {
            return Ok(x.clone());
        }
        let dropout = Dropout { rate: self.rate, places: vec![self.place] };
        dropout.apply(x, layer, &Groups::one(x.dim(0)?))
    }
}

/// Masks of the head lie behind those of the module's layers.
const HEAD_LAYER: usize = LAYERS.len();

#[derive(Clone, Debug)]
struct Linear {
    weight: Tensor,
    bias: Tensor,
}

impl Linear {
    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        ops::linear(x, &self.weight, Some(&self.bias))
    }
}

/// A linear layer and its norm.
#[derive(Clone, Debug)]
struct Layer {
    linear: Linear,
    norm: Norm,
}

#[derive(Clone, Debug)]
struct Module {
    layers: [Layer; 3],
    residual: Residual,
    shortcut: Option<Linear>,
}

/// Module and head; see the [module docs](self).
#[derive(Clone, Debug)]
pub(super) struct Network {
    trains: Trains,
    module: Option<Module>,
    hidden: Layer,
    classifier: Linear,
    rows: Range<usize>,
    variables: Variables,
    /// Running statistics by the name of their norm.
    running: Vec<(String, Arc<Mutex<Running>>)>,
    received: ParameterSet,
}

impl Network {
    /// Of `received`, the parts that `trains` names over fresh variables; the head answers for `rows`.
    ///
    /// # Errors
    /// When a parameter is missing or of another shape.
    pub fn new(
        shape: &NetworkShape,
        received: &ParameterSet,
        trains: Trains,
        rows: Range<usize>,
        device: &Device,
    ) -> Result<Network, ModelError> {
        let own = head_rows(received, rows.clone())?;
        let mut builder = Builder { set: &own, trains, device, variables: vec![], running: vec![] };
        let module = match shape.module {
            None => None,
            Some(module) => {
                let [first, second, third] =
                    LAYERS.map(|name| builder.layer(name, &format!("{name}.norm"), trains.module));
                let has_shortcut = matches!(module.residual, Residual::Last | Residual::Whole);
                let shortcut = has_shortcut.then(|| builder.linear(SHORTCUT)).transpose()?;
                let layers = [first?, second?, third?];
                Some(Module { layers, residual: module.residual, shortcut })
            }
        };
        let hidden = builder.layer(HIDDEN, HEAD_NORM, trains.head)?;
        let classifier = Linear {
            weight: builder.tensor(LinearHead::WEIGHT)?,
            bias: builder.tensor(LinearHead::BIAS)?,
        };
        let Builder { mut variables, running, .. } = builder;
        variables.sort_by(|a, b| a.0.cmp(&b.0));
        let received = received.clone();
        Ok(Network { trains, module, hidden, classifier, rows, variables, running, received })
    }

    /// What trains, sorted by name.
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// The same without their names.
    pub fn vars(&self) -> Vec<Var> {
        self.variables.iter().map(|(_, var)| var.clone()).collect()
    }

    /// The head rows it answers for.
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// `g`: frozen features `(b, d)` to adjusted ones `(b, 256)`.
    ///
    /// # Errors
    /// When the features do not fit.
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
        let beside = match (residual, shortcut) {
            (Residual::Last, Some(shortcut)) => Some(shortcut.forward(&second)?),
            (Residual::Whole, Some(shortcut)) => Some(shortcut.forward(features)?),
            _ => None,
        };
        layers[2].norm.forward(&layers[2].linear.forward(&second)?, beside.as_ref(), false)
    }

    /// `h`: adjusted features `(b, 256)` to logits `(b, rows)`.
    ///
    /// # Errors
    /// When the features do not fit.
    pub fn logits(&self, adjusted: &Tensor, drops: Option<Drops>) -> candle_core::Result<Tensor> {
        let hidden = self.hidden.linear.forward(adjusted)?;
        let hidden = self.hidden.norm.forward(&hidden, None, true)?;
        let hidden = match drops.filter(|_| self.trains.head) {
            Some(drops) => drops.apply(&hidden, HEAD_LAYER)?,
            None => hidden,
        };
        self.classifier.forward(&hidden)
    }

    /// Everything received, with what trained and its running statistics as they are now.
    ///
    /// # Errors
    /// What the device reports.
    pub fn parameters(&self) -> Result<ParameterSet, ModelError> {
        let mut own = head_rows(&self.received, self.rows.clone())?;
        for (name, variable) in &self.variables {
            own.insert(Arc::clone(name), Parameter::of(variable)?);
        }
        for (norm, running) in &self.running {
            let running = running.lock().unwrap_or_else(PoisonError::into_inner);
            own.insert(format!("{norm}.running_mean"), Parameter::of(&running.mean)?);
            own.insert(format!("{norm}.running_var"), Parameter::of(&running.variance)?);
        }
        with_head_rows(&self.received, &own, self.rows.start)
    }
}

/// Takes tensors out of a set, as variables where they train.
struct Builder<'a> {
    set: &'a ParameterSet,
    trains: Trains,
    device: &'a Device,
    variables: Variables,
    running: Vec<(String, Arc<Mutex<Running>>)>,
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

    fn linear(&mut self, name: &str) -> Result<Linear, ModelError> {
        let weight = self.tensor(&format!("{name}.weight"))?;
        Ok(Linear { weight, bias: self.tensor(&format!("{name}.bias"))? })
    }

    fn layer(&mut self, name: &str, norm: &str, trains: bool) -> Result<Layer, ModelError> {
        let linear = self.linear(name)?;
        let running = Arc::new(Mutex::new(Running {
            mean: self.tensor(&format!("{norm}.running_mean"))?,
            variance: self.tensor(&format!("{norm}.running_var"))?,
            // How many batches it saw is not asked anywhere.
            batches: Tensor::new(0f32, self.device)?,
        }));
        if trains {
            self.running.push((norm.to_owned(), Arc::clone(&running)));
        }
        let weight = self.tensor(&format!("{norm}.weight"))?;
        let bias = self.tensor(&format!("{norm}.bias"))?;
        Ok(Layer { linear, norm: Norm { weight, bias, running, trains } })
    }
}
