//! Mean and variance of a batch's channels, with a gradient for losses and without for batch norms.
//!
//! With `m` the mean, `n` the number of rows and `g`, `h` the gradients of mean and variance, that of an entry is
//! `(g + 2 (x - m) h) / n`.

use candle_core::{CpuStorage, CustomOp1, D, Device, Layout, Result, Shape, Tensor, bail};

use super::stock;
use super::storage::{lend, served, tensor_like, values, wide_type};
use crate::wide::add_rows;

/// Moments of channels, of a batch or running ones.
#[derive(Clone, Debug)]
pub struct ChannelMoments {
    /// Means, `(c)`.
    pub mean: Tensor,
    /// Variances, `(c)`, divided by the number of rows (biased).
    pub variance: Tensor,
    /// Number of values per channel that the moments are of.
    pub rows: usize,
}

/// Returns the moments of `x` `(.., c)` over all dimensions but the last.
///
/// # Errors
/// Returns an error if `x` is empty.
pub fn channel_moments(x: &Tensor) -> Result<ChannelMoments> {
    let channels = x.dim(D::Minus1)?;
    if x.elem_count() == 0 {
        bail!("batch norm: the moments of an empty batch {:?} are not defined", x.shape());
    }
    let rows = x.elem_count() / channels;
    if served(&[x]) { lend(x, |x| moments_of(x, channels)) } else { composition(x, channels, rows) }
}

/// Returns means and biased variances `(2, c)` of `x` `(.., c)`, with a gradient.
///
/// They are over all dimensions but the last.
///
/// # Errors
/// Returns an error if `x` is empty.
pub fn differentiable_moments(x: &Tensor) -> Result<Tensor> {
    let channels = x.dim(D::Minus1)?;
    if x.elem_count() == 0 {
        bail!("the moments of an empty batch {:?} are not defined", x.shape());
    }
    if served(&[x]) {
        return x.contiguous()?.apply_op1(ChannelMomentsOp { channels });
    }
    let (mean, variance) = composed_moments(x, channels)?;
    Tensor::stack(&[mean, variance], 0)
}

/// Returns the moments of rows of `channels` values.
pub(super) fn moments_of(x: &[f32], channels: usize) -> Result<ChannelMoments> {
    let (mean, variance) = moments(x, channels);
    let tensor = |values: Vec<f64>| {
        let values: Vec<f32> = values.into_iter().map(|v| v as f32).collect();
        Tensor::from_vec(values, channels, &Device::Cpu)
    };
    Ok(ChannelMoments {
        mean: tensor(mean)?,
        variance: tensor(variance)?,
        rows: x.len() / channels,
    })
}

fn composition(x: &Tensor, channels: usize, rows: usize) -> Result<ChannelMoments> {
    let (mean, variance) = composed_moments(&x.detach(), channels)?;
    Ok(ChannelMoments { mean, variance, rows })
}

fn composed_moments(x: &Tensor, channels: usize) -> Result<(Tensor, Tensor)> {
    let x = x.reshape(((), channels))?.to_dtype(wide_type(x.dtype()))?;
    let mean = stock::mean(&x, 0)?;
    let variance = stock::mean(&x.broadcast_sub(&mean)?.sqr()?, 0)?;
    Ok((mean, variance))
}

struct ChannelMomentsOp {
    channels: usize,
}

impl CustomOp1 for ChannelMomentsOp {
    fn name(&self) -> &'static str {
        "moments"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (mean, variance) = moments(values(x, layout)?, self.channels);
        let both = mean.into_iter().chain(variance).map(|value| value as f32).collect();
        Ok((CpuStorage::F32(both), (2, self.channels).into()))
    }

    fn bwd(&self, x: &Tensor, result: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        let channels = self.channels;
        let gradient = lend(x, |x| {
            lend(result, |moments| {
                lend(g, |g| {
                    let share = 1.0 / (x.len() / channels) as f32;
                    let scaled: Vec<f32> = g.iter().map(|g| g * share).collect();
                    let (by_mean, by_variance) = scaled.split_at(channels);
                    let mut gradient = Vec::with_capacity(x.len());
                    for row in x.chunks_exact(channels) {
                        let each =
                            row.iter().zip(&moments[..channels]).zip(by_mean).zip(by_variance);
                        gradient.extend(each.map(|(((x, mean), by_mean), by_variance)| {
                            by_mean + 2.0 * (x - mean) * by_variance
                        }));
                    }
                    Ok(gradient)
                })
            })
        })?;
        tensor_like(gradient, x).map(Some)
    }
}

/// Returns means and variances in one pass. Blocks that stay in the cache are centered on their own mean, and merged in
/// `f64` (Chan, Golub, LeVeque 1983).
fn moments(x: &[f32], channels: usize) -> (Vec<f64>, Vec<f64>) {
    const BLOCK: usize = 128;
    let (mut mean, mut scatter) = (vec![0f64; channels], vec![0f64; channels]);
    let (mut sum, mut squares) = (vec![0f32; channels], vec![0f32; channels]);
    let mut seen = 0f64;
    for block in x.chunks(BLOCK * channels) {
        let rows = block.len() / channels;
        sum.fill(0.0);
        squares.fill(0.0);
        add_rows(&mut sum, block);
        let inverse = 1.0 / rows as f32;
        for sum in &mut sum {
            *sum *= inverse;
        }
        for row in block.chunks_exact(channels) {
            for ((squares, &x), &mean) in squares.iter_mut().zip(row).zip(&sum) {
                *squares += (x - mean) * (x - mean);
            }
        }
        let rows = rows as f64;
        let total = seen + rows;
        let each = mean.iter_mut().zip(&mut scatter).zip(sum.iter().zip(&squares));
        for ((mean, scatter), (&block_mean, &squares)) in each {
            let step = f64::from(block_mean) - *mean;
            *mean += step * rows / total;
            *scatter += f64::from(squares) + step * step * seen * rows / total;
        }
        seen = total;
    }
    scatter.iter_mut().for_each(|scatter| *scatter /= seen);
    (mean, scatter)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{agrees_everywhere, draw, finite_difference};
    use super::*;

    /// Both are the same numbers, and with a gradient.
    #[test]
    fn moments_with_a_gradient_are_the_same() -> Result<()> {
        let x = draw("x", (5, 9, 7, 3));
        let (both, alone) = (differentiable_moments(&x)?.to_vec2::<f32>()?, channel_moments(&x)?);
        assert_eq!(both, [alone.mean.to_vec1::<f32>()?, alone.variance.to_vec1::<f32>()?]);
        let x = draw("x", (2, 3, 2, 4));
        agrees_everywhere(&[&x], |t| differentiable_moments(&t[0]));
        finite_difference(&[&x], |t| differentiable_moments(&t[0]));
        assert!(differentiable_moments(&draw("x", (0, 2))).is_err());
        Ok(())
    }

    #[test]
    fn agrees_with_the_definition_over_several_blocks() -> Result<()> {
        // Far from zero, where a sum of squares would cancel.
        let x = draw("x", (5, 9, 7, 3)).affine(2.0, 100.0)?;
        let (ours, exact) = (channel_moments(&x)?, composition(&x, 3, 315)?);
        assert_eq!(ours.rows, 315);
        let pairs = [(&ours.mean, &exact.mean, 1e-5), (&ours.variance, &exact.variance, 1e-4)];
        for (ours, exact, tolerance) in pairs {
            for (a, b) in ours.to_vec1::<f32>()?.into_iter().zip(exact.to_vec1::<f32>()?) {
                assert!((a - b).abs() <= tolerance * b.abs(), "{a} instead of {b}");
            }
        }
        Ok(())
    }

    #[test]
    fn a_constant_channel_has_no_variance_and_an_empty_batch_no_moments() -> Result<()> {
        let flat = channel_moments(&draw("x", (300, 2)).zeros_like()?.affine(1.0, 0.1)?)?;
        assert!(flat.variance.to_vec1::<f32>()?.iter().all(|v| *v < 1e-12));
        assert!(channel_moments(&draw("x", (0, 2))).is_err());
        Ok(())
    }
}
