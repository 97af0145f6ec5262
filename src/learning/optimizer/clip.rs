//! Gradient clipping by the global norm, as `torch.nn.utils.clip_grad_norm_`.

use candle_core::backprop::GradStore;
use candle_core::{DType, Tensor, Var};

use super::storage::lend;
use crate::learning::LearningError;
use crate::model::ops;
use crate::numerics::wide::{WideWork, wide};

/// Returns the norm of the gradients of `vars` taken as one vector.
///
/// It is summed in f64 in the order of `vars`, and finite exactly if every entry is.
///
/// # Errors
/// Returns an error if a variable has no gradient.
pub fn global_norm(gradients: &GradStore, vars: &[Var]) -> Result<f64, LearningError> {
    Ok(member_norms(gradients, vars, 1)?.into_iter().sum())
}

/// Returns the [`global_norm`] of each member of a pack. The variables hold the stacked values of `members` members. On
/// other devices than the CPU, squares are summed there, in f32.
///
/// # Errors
/// Returns an error if a variable has no gradient.
pub fn member_norms(
    gradients: &GradStore,
    vars: &[Var],
    members: usize,
) -> Result<Vec<f64>, LearningError> {
    let mut squares = vec![0f64; members];
    if !vars.iter().all(|var| ops::served(&[var])) {
        for row in squares_there(gradients, vars, members)?.to_vec2::<f32>()? {
            squares.iter_mut().zip(row).for_each(|(sum, own)| *sum += f64::from(own));
        }
        return Ok(squares.into_iter().map(f64::sqrt).collect());
    }
    for (i, var) in vars.iter().enumerate() {
        lend(gradient(gradients, i, var)?, |g| {
            let own = g.chunks(g.len().div_ceil(members.max(1)).max(1));
            squares.iter_mut().zip(own).for_each(|(sum, own)| *sum += sum_of_squares(own));
            Ok(())
        })?;
    }
    Ok(squares.into_iter().map(f64::sqrt).collect())
}

/// Returns the sums of squares of each variable's gradient for each member, `(vars, members)`. They are computed on the
/// device of the gradients, and finite exactly if all entries are finite and none is above 1e19.
///
/// # Errors
/// Returns an error if a variable has no gradient.
pub(crate) fn squares_there(
    gradients: &GradStore,
    vars: &[Var],
    members: usize,
) -> Result<Tensor, LearningError> {
    let rows = vars.iter().enumerate().map(|(i, var)| {
        let own = var.elem_count() / members.max(1);
        let gradient = gradient(gradients, i, var)?.contiguous()?.reshape((members, own))?;
        Ok(ops::sum(&gradient.to_dtype(DType::F32)?.sqr()?, 1)?)
    });
    Ok(Tensor::stack(&rows.collect::<Result<Vec<_>, LearningError>>()?, 0)?)
}

/// Returns the [`clip_factor`] of each member, `(members)`, from [`squares_there`].
pub(crate) fn clip_factors(squares: &Tensor, limit: f64) -> Result<Tensor, LearningError> {
    let norms = ops::sum(squares, 0)?.sqrt()?;
    Ok(((norms + 1e-6)?.recip()? * limit)?.minimum(1f64)?)
}

fn gradient<'a>(
    gradients: &'a GradStore,
    at: usize,
    var: &Var,
) -> Result<&'a Tensor, LearningError> {
    let missing = || LearningError::NoGradient { name: format!("#{at}") };
    gradients.get(var).ok_or_else(missing)
}

/// Returns `min(1, limit / (norm + 1e-6))`, the factor for gradients of this norm.
pub fn clip_factor(norm: f64, limit: f64) -> f64 {
    (limit / (norm + 1e-6)).min(1.0)
}

/// Returns the sum of squares in f64, from eight partial sums that are added in fixed order.
pub fn sum_of_squares(values: &[f32]) -> f64 {
    wide(SumOfSquares(values))
}

struct SumOfSquares<'a>(&'a [f32]);

impl WideWork for SumOfSquares<'_> {
    type Answer = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        let mut sums = [0f64; 8];
        let (chunks, rest) = self.0.as_chunks();
        for chunk in chunks {
            add_squares(&mut sums, chunk);
        }
        // The padding zeros do not change the sums.
        let mut last = [0f32; 8];
        last[..rest.len()].copy_from_slice(rest);
        add_squares(&mut sums, &last);
        sums.iter().sum()
    }
}

#[inline(always)]
fn add_squares(sums: &mut [f64; 8], values: &[f32; 8]) {
    for at in 0..sums.len() {
        let value = f64::from(values[at]);
        sums[at] += value * value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    #[test]
    fn members_have_norms_of_their_own_wherever_they_are_summed() {
        let x = Var::new(&[[3f32, 4.0], [f32::NAN, 0.0], [6.0, 8.0]], &Device::Cpu).unwrap();
        let gradients = (x.sqr().unwrap() * 0.5).unwrap().backward().unwrap();
        let norms = member_norms(&gradients, std::slice::from_ref(&x), 3).unwrap();
        assert_eq!((norms[0], norms[2]), (5.0, 10.0));
        assert!(norms[1].is_nan());
        let there = squares_there(&gradients, std::slice::from_ref(&x), 3).unwrap();
        let squares: Vec<Vec<f32>> = there.to_vec2().unwrap();
        assert_eq!((squares[0][0], squares[0][2]), (25.0, 100.0));
        let factors: Vec<f32> = clip_factors(&there, 6.0).unwrap().to_vec1().unwrap();
        assert_eq!(factors[0], 1.0, "within the limit");
        assert!((f64::from(factors[2]) - clip_factor(10.0, 6.0)).abs() < 1e-6);
        let elsewhere = ops::without_kernels(|| member_norms(&gradients, &[x], 3).unwrap());
        assert_eq!((elsewhere[0], elsewhere[2]), (5.0, 10.0));
        assert!(elsewhere[1].is_nan());
    }
}
