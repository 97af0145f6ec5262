//! Update rules as tensor operations on stacked variables, for GPUs. Fetching gradients and values from there would
//! cost more than the step itself.
//!
//! A variable is seen as `(members, values of one)`; learning rates, clipping factors and Adam's corrections are
//! columns `(members, 1)` that are uploaded together, once per step. A member that rests keeps its values and moments,
//! regardless of its gradient.

use candle_core::{DType, Device, Result, Tensor, Var};

use super::{Adam, Decay, Moments, OptimizerConfig, Sgd, Stride};

/// State of one variable on the variable's device, `(members, values)`. `None` before the first step stands for zeros.
#[derive(Clone, Debug, Default)]
pub(super) struct DeviceMoments {
    first: Option<Tensor>,
    second: Option<Tensor>,
}

impl DeviceMoments {
    /// Moves moments to the device of `var`.
    pub fn new(moments: &Moments, var: &Var, members: usize) -> Result<DeviceMoments> {
        let place = |values: &[f32]| -> Result<Option<Tensor>> {
            let own = values.len() / members.max(1);
            let there = || Tensor::from_slice(values, (members, own), var.device());
            (!values.is_empty()).then(there).transpose()
        };
        Ok(DeviceMoments { first: place(&moments.first)?, second: place(&moments.second)? })
    }

    /// Returns the moments on the host, written over `fresh` ones.
    pub fn fetch(&self, mut fresh: Moments) -> Result<Moments> {
        for (held, into) in [(&self.first, &mut fresh.first), (&self.second, &mut fresh.second)] {
            if let Some(held) = held {
                *into = held.flatten_all()?.to_vec1()?;
            }
        }
        Ok(fresh)
    }
}

/// Factors of one step, a row for each member, including those that rest.
pub(super) struct StepFactors {
    /// Factor of the gradient.
    scale: Tensor,
    /// Learning rate; with Adam divided by the correction of the first moment.
    stride: Tensor,
    /// Factor of the value, applied before the step: decoupled weight decay.
    shrink: Tensor,
    /// Inverse root of Adam's correction of the second moment.
    widen: Tensor,
    /// 1 for members that step and 0 for those that rest; `None` if all step.
    moves: Option<Tensor>,
}

impl StepFactors {
    /// Creates the columns of a step.
    ///
    /// `steps` count from 1 for members that step; `factor` multiplies the learning rate, and `scales` `(members)`
    /// multiply the gradient factors of the strides.
    pub fn new(
        rule: &OptimizerConfig,
        (strides, steps): (&[Option<Stride>], &[u64]),
        factor: f64,
        scales: Option<&Tensor>,
        device: &Device,
    ) -> Result<StepFactors> {
        let members = strides.len();
        let mut table = vec![0f32; 4 * members];
        for (member, (stride, step)) in strides.iter().zip(steps).enumerate() {
            // Any valid numbers will do for a member that rests, as its result is not used.
            let Stride { rate, scale } = stride.unwrap_or(Stride { rate: 0.0, scale: 0.0 });
            let (stride, shrink, widen) = rule.column(rate * factor, (*step).max(1));
            for (row, value) in [scale, stride, shrink, widen].into_iter().enumerate() {
                table[row * members + member] = value as f32;
            }
        }
        let table = Tensor::from_vec(table, (4, members, 1), device)?;
        let moves = strides.iter().map(|stride| u8::from(stride.is_some())).collect::<Vec<_>>();
        let moves = match moves.contains(&0) {
            true => Some(Tensor::from_vec(moves, (members, 1), device)?),
            false => None,
        };
        let scale = match scales {
            Some(scales) => (table.get(0)? * scales.reshape((members, 1))?)?,
            None => table.get(0)?,
        };
        let (stride, shrink, widen) = (table.get(1)?, table.get(2)?, table.get(3)?);
        Ok(StepFactors { scale, stride, shrink, widen, moves })
    }

    /// Returns `new` for members that step, and `old` (zeros if there is none) for those that rest.
    fn chosen(&self, new: Tensor, old: Option<&Tensor>) -> Result<Tensor> {
        let Some(moves) = &self.moves else { return Ok(new) };
        let old = old.map_or_else(|| new.zeros_like(), |old| Ok(old.clone()))?;
        moves.broadcast_as(new.shape())?.contiguous()?.where_cond(&new, &old)
    }
}

impl OptimizerConfig {
    /// Returns stride, shrink and widen factors (see [`StepFactors`]) at this rate and step.
    fn column(&self, rate: f64, step: u64) -> (f64, f64, f64) {
        match self {
            OptimizerConfig::Sgd(_) => (rate, 1.0, 1.0),
            OptimizerConfig::Adam(adam) => {
                let shrink = match adam.decay {
                    Decay::Decoupled => 1.0 - rate * adam.weight_decay,
                    Decay::Coupled => 1.0,
                };
                let correction = |beta| 1.0 - libm::pow(beta, step as f64);
                (rate / correction(adam.beta1), shrink, 1.0 / correction(adam.beta2).sqrt())
            }
        }
    }
}

/// Takes one step of a variable.
pub(super) fn step(
    rule: &OptimizerConfig,
    var: &Var,
    gradient: &Tensor,
    held: &mut DeviceMoments,
    columns: &StepFactors,
) -> Result<()> {
    let members = columns.scale.dim(0)?;
    let table = (members, var.elem_count() / members.max(1));
    let values = var.as_detached_tensor().to_dtype(DType::F32)?.reshape(table)?;
    let gradient = gradient.detach().to_dtype(DType::F32)?.contiguous()?.reshape(table)?;
    let gradient = gradient.broadcast_mul(&columns.scale)?;
    let moved = match rule {
        OptimizerConfig::Sgd(sgd) => sgd_step(sgd, &values, gradient, held, columns)?,
        OptimizerConfig::Adam(adam) => adam_step(adam, &values, gradient, held, columns)?,
    };
    let moved = columns.chosen(moved, Some(&values))?;
    var.set(&moved.reshape(var.shape())?.to_dtype(var.dtype())?)
}

fn sgd_step(
    sgd: &Sgd,
    values: &Tensor,
    gradient: Tensor,
    held: &mut DeviceMoments,
    columns: &StepFactors,
) -> Result<Tensor> {
    let mut towards = decayed(gradient, values, sgd.weight_decay)?;
    if sgd.momentum != 0.0 {
        if let Some(buffer) = &held.first {
            towards = ((buffer * sgd.momentum)? + towards)?;
        }
        held.first = Some(columns.chosen(towards.clone(), held.first.as_ref())?);
    }
    values - towards.broadcast_mul(&columns.stride)?
}

fn adam_step(
    adam: &Adam,
    values: &Tensor,
    gradient: Tensor,
    held: &mut DeviceMoments,
    columns: &StepFactors,
) -> Result<Tensor> {
    let coupled = if adam.decay == Decay::Coupled { adam.weight_decay } else { 0.0 };
    let gradient = decayed(gradient, values, coupled)?;
    let (rest1, rest2) = (1.0 - adam.beta1, 1.0 - adam.beta2);
    let mean = match &held.first {
        Some(first) => (first + ((&gradient - first)? * rest1)?)?,
        None => (&gradient * rest1)?,
    };
    let fresh = (gradient.sqr()? * rest2)?;
    let square = match &held.second {
        Some(second) => ((second * adam.beta2)? + fresh)?,
        None => fresh,
    };
    let root = (square.sqrt()?.broadcast_mul(&columns.widen)? + adam.epsilon)?;
    let moved = mean.broadcast_mul(&columns.stride)?.div(&root)?;
    held.first = Some(columns.chosen(mean, held.first.as_ref())?);
    held.second = Some(columns.chosen(square, held.second.as_ref())?);
    values.broadcast_mul(&columns.shrink)? - moved
}

fn decayed(gradient: Tensor, values: &Tensor, decay: f64) -> Result<Tensor> {
    if decay == 0.0 { Ok(gradient) } else { gradient + (values * decay)? }
}
