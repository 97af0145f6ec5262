//! Batch normalization of the last dimension, optionally with a residual block's sum and rectifier.
//!
//! `y = act(z weight + bias + residual)`, `z = (x - mean) / sqrt(var + eps)`, with moments taken over all other
//! dimensions of the batch (training: the gradient goes through them) or running moments (evaluation). With `u` the
//! gradient below the rectifier, in training `dx = weight rstd (u - mean(u) - z mean(u z))` (Ioffe and Szegedy 2015).
//! Sum and rectifier are part of the operation because each would otherwise add two passes over the largest tensors of
//! a network. Passes are bound by memory: wider vectors than the baseline gain nothing here, except in the sums of the
//! backward pass.

use candle_core::{CpuStorage, CustomOp2, CustomOp3, Layout, Result, Shape, Tensor, bail};

use super::channel_moments::ChannelMoments;
use super::relu::{relu, slope_times};
use super::stock;
use super::storage::{lent, served, tensor_like, values, wide_type};
use crate::wide::{WideWork, wide};

/// Statistics that normalize `x`.
#[derive(Clone, Copy, Debug)]
pub enum BatchNormStatistics<'a> {
    /// Moments of this batch, from [`channel_moments`](super::channel_moments()). The gradient includes them.
    Batch(&'a ChannelMoments),
    /// Moments of earlier batches, which are constants.
    Running(&'a ChannelMoments),
}

/// Scale and shift of every channel, and epsilon.
#[derive(Clone, Copy, Debug)]
pub struct ChannelAffine<'a> {
    /// Scale, `(c)`.
    pub weight: &'a Tensor,
    /// Shift, `(c)`.
    pub bias: &'a Tensor,
    /// Value added to the variance.
    pub eps: f64,
}

/// Normalizes `x` `(.., c)`, adds `residual` (shaped as `x`), and rectifies if `rectify`.
///
/// # Errors
/// Returns an error if the shapes do not fit.
pub fn batch_norm(
    x: &Tensor,
    affine: ChannelAffine<'_>,
    statistics: BatchNormStatistics<'_>,
    residual: Option<&Tensor>,
    rectify: bool,
) -> Result<Tensor> {
    let ChannelAffine { weight, bias, eps } = affine;
    let (BatchNormStatistics::Batch(moments) | BatchNormStatistics::Running(moments)) = statistics;
    let channels = x.dims().last().copied().unwrap_or(0);
    let small = [weight, bias, &moments.mean, &moments.variance];
    if small.iter().any(|t| t.dims() != [channels])
        || residual.is_some_and(|r| r.shape() != x.shape())
    {
        bail!(
            "batch norm: input {:?}, weight {:?}, bias {:?}, moments {:?} and residual {:?} do not fit",
            x.shape(),
            weight.shape(),
            bias.shape(),
            moments.mean.shape(),
            residual.map(Tensor::shape)
        );
    }
    if !served(&[x, weight, bias, &moments.mean, &moments.variance])
        || residual.is_some_and(|r| !served(&[r]))
    {
        return composition(x, affine, statistics, residual, rectify);
    }
    let through_moments = matches!(statistics, BatchNormStatistics::Batch(_));
    let op = BatchNorm { through_moments, ..BatchNorm::of_batch(moments, eps, rectify)? };
    // Stacked to one operand, as candle's operations take three at most.
    let affine = Tensor::stack(&[weight, bias], 0)?;
    let x = x.contiguous()?;
    match residual {
        None => x.apply_op2(&affine, op),
        Some(residual) => x.apply_op3(&affine, &residual.contiguous()?, op),
    }
}

/// Composes the norm of candle's operations, in `f32`: half precision is too narrow for sums over a batch.
fn composition(
    x: &Tensor,
    ChannelAffine { weight, bias, eps }: ChannelAffine<'_>,
    statistics: BatchNormStatistics<'_>,
    residual: Option<&Tensor>,
    rectify: bool,
) -> Result<Tensor> {
    let wide = wide_type(x.dtype());
    let broad = x.to_dtype(wide)?;
    let (mean, variance) = match statistics {
        BatchNormStatistics::Running(moments) => {
            (moments.mean.to_dtype(wide)?, moments.variance.to_dtype(wide)?)
        }
        BatchNormStatistics::Batch(_) => {
            let rows = broad.reshape(((), weight.elem_count()))?;
            let mean = stock::mean(&rows, 0)?;
            let variance = stock::mean(&rows.broadcast_sub(&mean)?.sqr()?, 0)?;
            (mean, variance)
        }
    };
    let z = broad.broadcast_sub(&mean)?.broadcast_div(&(variance + eps)?.sqrt()?)?;
    let y = z.broadcast_mul(&weight.to_dtype(wide)?)?.broadcast_add(&bias.to_dtype(wide)?)?;
    let y = match residual {
        Some(residual) => (y + residual.to_dtype(wide)?)?,
        None => y,
    };
    if rectify { relu(&y) } else { Ok(y) }?.to_dtype(x.dtype())
}

pub(super) struct BatchNorm {
    mean: Vec<f32>,
    rstd: Vec<f32>,
    /// True if the moments are those of the batch, so that the gradient includes them.
    through_moments: bool,
    rectify: bool,
}

/// Gradients of all operands of a batch norm.
pub(super) struct BatchNormGradients {
    /// Gradient of the input, in the shape of `x`.
    pub input: Vec<f32>,
    /// Gradient of the weights, then of the biases.
    pub affine: Vec<f32>,
    /// Gradient below the rectifier, which is that of the residual; empty if it is not wanted.
    pub below: Vec<f32>,
}

impl BatchNorm {
    /// Returns the norm of a batch that has these moments.
    pub fn of_batch(moments: &ChannelMoments, eps: f64, rectify: bool) -> Result<BatchNorm> {
        let inverse_deviation = |v: f32| (1.0 / (f64::from(v) + eps).sqrt()) as f32;
        let rstd = moments.variance.to_vec1()?.into_iter().map(inverse_deviation).collect();
        Ok(BatchNorm { mean: moments.mean.to_vec1()?, rstd, through_moments: true, rectify })
    }

    /// Returns true if the gradient below the rectifier is wanted, because a residual needs it.
    pub fn wants_below(&self, residual: &Tensor) -> bool {
        self.rectify && residual.track_op()
    }

    /// Returns the gradient of a residual, from that of the result or below the rectifier.
    pub fn by_residual(
        &self,
        residual: &Tensor,
        g: &Tensor,
        below: Vec<f32>,
    ) -> Result<Option<Tensor>> {
        Ok(match (residual.track_op(), self.rectify) {
            (false, _) => None,
            (true, true) => Some(tensor_like(below, residual)?),
            (true, false) => Some(g.clone()),
        })
    }

    /// Returns the result for rows of `x`. `affine` holds all weights, then all biases.
    pub fn forward(&self, x: &[f32], affine: &[f32], residual: Option<&[f32]>) -> Vec<f32> {
        let channels = self.mean.len();
        let (weight, bias) = affine.split_at(channels);
        let scale: Vec<f32> = weight.iter().zip(&self.rstd).map(|(w, r)| w * r).collect();
        let mut y = Vec::with_capacity(x.len());
        for (at, row) in x.chunks_exact(channels).enumerate() {
            let normed = row.iter().zip(&self.mean).zip(&scale).zip(bias);
            let normed = normed.map(|(((&x, &mean), &scale), &bias)| (x - mean) * scale + bias);
            match residual {
                None => y.extend(normed.map(|y| self.activate(y))),
                Some(residual) => {
                    let residual = &residual[at * channels..][..channels];
                    y.extend(normed.zip(residual).map(|(y, &r)| self.activate(y + r)));
                }
            }
        }
        y
    }

    /// Comparison that lets NaN pass, so that it is noticed.
    #[inline(always)]
    fn activate(&self, y: f32) -> f32 {
        if self.rectify && y < 0.0 { 0.0 } else { y }
    }

    /// Returns the gradients of input and parameters, and that below the rectifier if it is wanted.
    ///
    /// The latter may be wanted only if there is a rectifier.
    pub fn backward(
        &self,
        x: &[f32],
        affine: &[f32],
        y: &[f32],
        g: &[f32],
        want_below: bool,
    ) -> BatchNormGradients {
        let channels = self.mean.len();
        let mut below = Vec::with_capacity(if want_below { x.len() } else { 0 });
        let sums = self.sums(x, y, g, want_below.then_some(&mut below));
        let (by_weight, by_bias) = sums.split_at(channels);
        let count = (x.len() / channels) as f32;
        let share = |sum: &f32| if self.through_moments { sum / count } else { 0.0 };
        let mean_u: Vec<f32> = by_bias.iter().map(share).collect();
        let mean_uz: Vec<f32> = by_weight.iter().map(share).collect();
        let scale: Vec<f32> = affine.iter().zip(&self.rstd).map(|(w, r)| w * r).collect();
        let means = [&mean_u[..], &mean_uz];
        let mut input = Vec::with_capacity(x.len());
        if self.rectify && !want_below {
            let rows = x.chunks_exact(channels).zip(g.chunks_exact(channels));
            for ((x, g), y) in rows.zip(y.chunks_exact(channels)) {
                let u = y.iter().zip(g).map(|(&y, &g)| slope_times(y, g));
                self.append_by_x(&mut input, x, u, &scale, means);
            }
        } else {
            let u = if want_below { &below[..] } else { g };
            for (x, u) in x.chunks_exact(channels).zip(u.chunks_exact(channels)) {
                self.append_by_x(&mut input, x, u.iter().copied(), &scale, means);
            }
        }
        BatchNormGradients { input, affine: sums, below }
    }

    /// Appends the gradient of a row of the input, from those below the rectifier.
    #[inline(always)]
    fn append_by_x(
        &self,
        to: &mut Vec<f32>,
        x: &[f32],
        u: impl Iterator<Item = f32>,
        scale: &[f32],
        [mean_u, mean_uz]: [&[f32]; 2],
    ) {
        let moments = self.mean.iter().zip(&self.rstd);
        let each = x.iter().zip(u).zip(moments).zip(scale).zip(mean_u.iter().zip(mean_uz));
        to.extend(each.map(|((((&x, u), (&mean, &rstd)), &scale), (&mean_u, &mean_uz))| {
            scale * (u - mean_u - (x - mean) * rstd * mean_uz)
        }));
    }

    /// Returns `sum u z` and `sum u` of every channel, added up in blocks to keep long sums precise.
    ///
    /// Appends `u`, the gradient below the rectifier, to `below`.
    fn sums(&self, x: &[f32], y: &[f32], g: &[f32], mut below: Option<&mut Vec<f32>>) -> Vec<f32> {
        const BLOCK: usize = 256;
        let channels = self.mean.len();
        let (mut by_weight, mut by_bias) = (vec![0f64; channels], vec![0f64; channels]);
        let (mut uz, mut all) = (vec![0f32; channels], vec![0f32; channels]);
        let mut block = Vec::new();
        for start in (0..x.len()).step_by(BLOCK * channels) {
            let range = start..(start + BLOCK * channels).min(x.len());
            let (x, g) = (&x[range.clone()], &g[range.clone()]);
            uz.fill(0.0);
            all.fill(0.0);
            let u = if self.rectify {
                let to = below.as_deref_mut().unwrap_or_else(|| {
                    block.clear();
                    &mut block
                });
                let from = to.len();
                to.extend(y[range].iter().zip(g).map(|(&y, &g)| slope_times(y, g)));
                &to[from..]
            } else {
                g
            };
            wide(BlockSums { x, u, mean: &self.mean, uz: &mut uz, all: &mut all });
            for ((total, &uz), &rstd) in by_weight.iter_mut().zip(&uz).zip(&self.rstd) {
                *total += f64::from(uz * rstd);
            }
            for (total, &all) in by_bias.iter_mut().zip(&all) {
                *total += f64::from(all);
            }
        }
        by_weight.iter().chain(&by_bias).map(|sum| *sum as f32).collect()
    }

    fn gradients(
        &self,
        x: &Tensor,
        affine: &Tensor,
        y: &Tensor,
        (g, want_below): (&Tensor, bool),
    ) -> Result<BatchNormGradients> {
        let (x, affine, y, g) =
            (x.contiguous()?, affine.contiguous()?, y.contiguous()?, g.contiguous()?);
        let (x, affine, y, g) = (lent(&x)?, lent(&affine)?, lent(&y)?, lent(&g)?);
        Ok(self.backward(&x, &affine, &y, &g, want_below))
    }
}

/// Work that computes `sum u (x - mean)` and `sum u` of every channel over the rows of a block.
struct BlockSums<'a> {
    x: &'a [f32],
    u: &'a [f32],
    mean: &'a [f32],
    uz: &'a mut [f32],
    all: &'a mut [f32],
}

impl WideWork for BlockSums<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let BlockSums { x, u, mean, uz, all } = self;
        let channels = mean.len();
        for (x, u) in x.chunks_exact(channels).zip(u.chunks_exact(channels)) {
            let sums = uz.iter_mut().zip(all.iter_mut());
            for (((&x, &u), &mean), (uz, all)) in x.iter().zip(u).zip(mean).zip(sums) {
                *uz += u * (x - mean);
                *all += u;
            }
        }
    }
}

impl CustomOp2 for BatchNorm {
    fn name(&self) -> &'static str {
        "batch-norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        affine: &CpuStorage,
        affine_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let y = self.forward(values(x, x_layout)?, values(affine, affine_layout)?, None);
        Ok((CpuStorage::F32(y), x_layout.shape().clone()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        affine: &Tensor,
        result: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let BatchNormGradients { input, affine: of_affine, .. } =
            self.gradients(x, affine, result, (g, false))?;
        let input = x.track_op().then(|| tensor_like(input, x)).transpose()?;
        Ok((input, affine.track_op().then(|| tensor_like(of_affine, affine)).transpose()?))
    }
}

impl CustomOp3 for BatchNorm {
    fn name(&self) -> &'static str {
        "batch-norm-residual"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        affine: &CpuStorage,
        affine_layout: &Layout,
        residual: &CpuStorage,
        residual_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let residual = values(residual, residual_layout)?;
        let y = self.forward(values(x, x_layout)?, values(affine, affine_layout)?, Some(residual));
        Ok((CpuStorage::F32(y), x_layout.shape().clone()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        affine: &Tensor,
        residual: &Tensor,
        result: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let BatchNormGradients { input, affine: of_affine, below } =
            self.gradients(x, affine, result, (g, self.wants_below(residual)))?;
        let input = x.track_op().then(|| tensor_like(input, x)).transpose()?;
        let of_affine = affine.track_op().then(|| tensor_like(of_affine, affine)).transpose()?;
        Ok((input, of_affine, self.by_residual(residual, g, below)?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::channel_moments::channel_moments;
    use super::super::testing::{
        agree, agrees_everywhere, draw, finite_difference, values as values_of,
    };
    use super::super::without_kernels;
    use super::*;
    use crate::vectors::Vectors;
    use candle_core::Var;

    const EPS: f64 = 1e-5;

    /// `t` is `x`, weight, bias and perhaps a residual.
    fn apply(t: &[Tensor], fixed: Option<&ChannelMoments>, rectify: bool) -> Result<Tensor> {
        let own = channel_moments(&t[0])?;
        let statistics =
            fixed.map_or(BatchNormStatistics::Batch(&own), BatchNormStatistics::Running);
        let affine = ChannelAffine { weight: &t[1], bias: &t[2], eps: EPS };
        batch_norm(&t[0], affine, statistics, t.get(3), rectify)
    }

    fn fixed() -> ChannelMoments {
        let variance = draw("variance", 5).sqr().unwrap() + 0.3;
        ChannelMoments { mean: draw("mean", 5), variance: variance.unwrap(), rows: 12 }
    }

    #[test]
    fn agrees_with_the_composition_in_every_form() {
        let (x, w, b) = (draw("x", (2, 3, 2, 5)), draw("w", 5), draw("b", 5));
        let residual = draw("residual", (2, 3, 2, 5));
        let fixed = fixed();
        for statistics in [None, Some(&fixed)] {
            agrees_everywhere(&[&x, &w, &b], |t| apply(t, statistics, false));
            agrees_everywhere(&[&x, &w, &b, &residual], |t| apply(t, statistics, false));
            // Not by finite differences: a kink within their step would blur them.
            for inputs in [&[&x, &w, &b][..], &[&x, &w, &b, &residual]] {
                let composed = |t: &[Tensor]| without_kernels(|| apply(t, statistics, true));
                agree(inputs, |t| apply(t, statistics, true), composed);
            }
        }
    }

    #[test]
    fn gradients_are_finite_differences() {
        let inputs = [&draw("x", (3, 2, 2, 4)), &draw("w", 4), &draw("b", 4)];
        finite_difference(&inputs, |t| apply(t, None, false));
        let fixed = fixed();
        let residual = draw("residual", (3, 2, 2, 5));
        let inputs = [&draw("x", (3, 2, 2, 5)), &draw("w", 5), &draw("b", 5), &residual];
        finite_difference(&inputs, |t| apply(t, Some(&fixed), false));
    }

    /// Over several blocks: the gradients are those without a rectifier, of the gradient below it.
    #[test]
    fn rectified_gradients_keep_their_bits() -> Result<()> {
        let (rows, channels) = (700, 7);
        let drawn = |name: &str| values_of(&draw(name, (rows, channels)));
        let (x, y, g) = (drawn("x"), drawn("y"), drawn("g"));
        let affine = values_of(&draw("affine", (2, channels)));
        let moments = channel_moments(&draw("x", (rows, channels)))?;
        let norm = |rectify| BatchNorm::of_batch(&moments, EPS, rectify);
        let below: Vec<f32> =
            y.iter().zip(&g).map(|(&y, &g)| if y > 0.0 { g } else { 0.0 }).collect();
        let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        for vectors in Vectors::ALL {
            vectors.limit(|| -> Result<()> {
                let wanted = norm(false)?.backward(&x, &affine, &y, &below, false);
                for want_below in [false, true] {
                    let found = norm(true)?.backward(&x, &affine, &y, &g, want_below);
                    assert_eq!(bits(&found.input), bits(&wanted.input), "{vectors:?}");
                    assert_eq!(bits(&found.affine), bits(&wanted.affine), "{vectors:?}");
                    let expected = if want_below { &below[..] } else { &[] };
                    assert_eq!(bits(&found.below), bits(expected), "{vectors:?}");
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    #[test]
    fn a_batch_comes_out_centred_and_scaled() -> Result<()> {
        let x = (draw("x", (50, 3)) * 7.0)?.affine(1.0, 30.0)?;
        let (ones, zeros) = (draw("w", 3).ones_like()?, draw("w", 3).zeros_like()?);
        let out = channel_moments(&apply(&[x, ones, zeros], None, false)?)?;
        for (mean, variance) in
            out.mean.to_vec1::<f32>()?.iter().zip(out.variance.to_vec1::<f32>()?)
        {
            assert!(mean.abs() < 1e-5 && (variance - 1.0).abs() < 1e-4, "{mean} {variance}");
        }
        Ok(())
    }

    #[test]
    fn frozen_operands_get_no_gradient_and_pass_it_on() -> Result<()> {
        let (w, b, residual) = (draw("w", 5), draw("b", 5), draw("residual", (4, 5)));
        let x = Var::from_tensor(&draw("x", (4, 5)))?;
        let t = [x.as_tensor().clone(), w.clone(), b.clone(), residual.clone()];
        let grads = apply(&t, None, true)?.sqr()?.sum_all()?.backward()?;
        assert!([&w, &b, &residual].iter().all(|t| grads.get(t).is_none()));
        let gradient = grads.get(&x).expect("a gradient through the frozen norm");
        assert!(gradient.abs()?.sum_all()?.to_scalar::<f32>()? > 1e-3);
        let frozen = [draw("x", (4, 5)), w, b, residual];
        assert!(!apply(&frozen, None, true)?.track_op());
        Ok(())
    }

    #[test]
    fn shapes_that_do_not_fit_are_errors() {
        let t = [draw("x", (4, 5)), draw("w", 4), draw("b", 5)];
        let error = apply(&t, None, true).unwrap_err().to_string();
        assert!(error.contains("do not fit"), "{error}");
    }
}
