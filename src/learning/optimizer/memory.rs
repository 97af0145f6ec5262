//! Storage of an optimizer's state, and steps of all variables there.

use candle_core::{Tensor, Var};

use super::on_device::{self, DeviceMoments, StepFactors};
use super::{Moments, OptimizerConfig, Stride};
use crate::learning::LearningError;

/// State of all variables; its place determines where steps are computed.
#[derive(Debug)]
pub(super) enum OptimizerMemory {
    /// Slices on the host, for variables that are slices, too.
    Host(Vec<Moments>),
    /// Tensors on the device of the variables.
    Device(Vec<DeviceMoments>),
}

/// Updates all variables on their device.
pub(super) fn step_there(
    rule: &OptimizerConfig,
    (vars, factors): (&[Var], &[f64]),
    gradients: &[&Tensor],
    moments_on_device: &mut [DeviceMoments],
    taken: (&[Option<Stride>], &[u64]),
    scales: Option<&Tensor>,
) -> Result<(), LearningError> {
    let mut columns: Option<(f64, StepFactors)> = None;
    for (((var, factor), gradient), moments_on_device) in
        vars.iter().zip(factors).zip(gradients).zip(moments_on_device)
    {
        // Usually all variables have the same factor.
        let mine = match columns.take() {
            Some((of, columns)) if of == *factor => columns,
            _ => StepFactors::new(rule, taken, *factor, scales, var.device())?,
        };
        on_device::step(rule, var, gradient, moments_on_device, &mine)?;
        columns = Some((*factor, mine));
    }
    Ok(())
}

/// Returns strides whose gradient factors are multiplied by `scales`.
pub(super) fn rescaled(
    strides: &[Option<Stride>],
    scales: &Tensor,
) -> Result<Vec<Option<Stride>>, LearningError> {
    let scales = scales.to_vec1::<f32>()?;
    let each = strides.iter().zip(scales);
    let rescale = |(stride, by): (&Option<Stride>, f32)| {
        stride.map(|Stride { rate, scale }| Stride { rate, scale: scale * f64::from(by) })
    };
    Ok(each.map(rescale).collect())
}

/// Updates each member's part of one variable.
pub(super) fn advance(
    rule: &OptimizerConfig,
    values: &mut [f32],
    gradient: &[f32],
    moments: &mut Moments,
    (strides, steps): (&[Option<Stride>], &[u64]),
    factor: f64,
) {
    let len = values.len() / strides.len().max(1);
    for (member, (stride, step)) in strides.iter().zip(steps).enumerate() {
        let Some(Stride { rate, scale }) = *stride else { continue };
        let run = member * len..(member + 1) * len;
        let stride = Stride { rate: rate * factor, scale };
        let moments = moments.of(run.clone());
        rule.advance(&mut values[run.clone()], &gradient[run], stride, moments, *step);
    }
}
