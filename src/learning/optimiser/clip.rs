//! Clipping by the global norm, as `torch.nn.utils.clip_grad_norm_`.

use candle_core::Var;
use candle_core::backprop::GradStore;

use super::storage::lend;
use crate::learning::LearningError;

/// Norm of all gradients of `vars` taken as one vector, summed in f64 in the order of `vars`.
/// It is finite exactly when every entry is.
///
/// # Errors
/// When a variable has no gradient.
pub fn global_norm(gradients: &GradStore, vars: &[Var]) -> Result<f64, LearningError> {
    let mut squares = 0f64;
    for (i, var) in vars.iter().enumerate() {
        let Some(gradient) = gradients.get(var) else {
            return Err(LearningError::NoGradient { name: format!("#{i}") });
        };
        lend(gradient, |g| {
            squares += sum_of_squares(g);
            Ok(())
        })?;
    }
    Ok(squares.sqrt())
}

/// `min(1, limit / (norm + 1e-6))`: what to multiply gradients of this norm with.
pub fn clip_factor(norm: f64, limit: f64) -> f64 {
    (limit / (norm + 1e-6)).min(1.0)
}

/// Sum of squares in f64: eight running sums, so that it vectorises, folded in fixed order.
pub(crate) fn sum_of_squares(values: &[f32]) -> f64 {
    let mut lanes = [0f64; 8];
    let chunks = values.chunks_exact(8);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &v) in lanes.iter_mut().zip(chunk) {
            *lane += f64::from(v) * f64::from(v);
        }
    }
    for (lane, &v) in lanes.iter_mut().zip(rest) {
        *lane += f64::from(v) * f64::from(v);
    }
    lanes.iter().sum()
}
