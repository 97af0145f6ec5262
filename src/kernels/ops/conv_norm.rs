//! Convolution, batch norm and optionally sum and rectifier, as one operation of a training pass.
//!
//! The value and all gradients have the same bits as those of [`conv2d`](super::conv2d()),
//! [`channel_moments`](super::channel_moments()) and [`batch_norm`](super::batch_norm()). As one operation, the result
//! of the convolution is no node of candle's graph. Its gradient there would first be set to zeros and then added to:
//! four passes over the largest tensors of a network.

use parking_lot::Mutex;

use candle_core::{CpuStorage, CustomOp2, CustomOp3, Layout, Result, Shape, Tensor, bail};

use super::batch_norm::{BatchNorm, ChannelAffine};
use super::bundle::{Bundle, BundleGradients, no_value};
use super::channel_moments::{ChannelMoments, moments_of};
use super::conv2d::Conv2d;
use super::storage::{lent, served, tensor_like};
use super::unfold::ConvolutionGeometry;

/// Convolution without bias, and scale and shift of the norm after it.
#[derive(Clone, Copy, Debug)]
pub struct ConvNormLayers<'a> {
    /// Weight, `(out, c, kh, kw)`.
    pub weight: &'a Tensor,
    /// Stride of the convolution.
    pub stride: usize,
    /// Number of zeros on each side of the image.
    pub padding: usize,
    /// Scale and shift of the norm, `(out)` each.
    pub affine: ChannelAffine<'a>,
}

/// Convolves and normalizes `x` `(b, h, w, c)`, adds `residual`, and rectifies if `rectify`.
///
/// The norm uses the moments of this batch. Returns the result `(b, h', w', out)` and the moments of the convolution's
/// result. Returns `None` if the kernels do not support an operand, a parameter is not contiguous, no parameter trains,
/// the batch is empty or shapes do not fit. The single operations then compute the same, or report the error.
///
/// # Errors
/// Returns an error only if candle fails.
pub fn conv_norm(
    x: &Tensor,
    layers: ConvNormLayers<'_>,
    residual: Option<&Tensor>,
    rectify: bool,
) -> Result<Option<(Tensor, ChannelMoments)>> {
    let ConvNormLayers { weight, stride, padding, affine } = layers;
    let Ok(geometry) = ConvolutionGeometry::new(x.dims(), weight.dims(), stride, padding) else {
        return Ok(None);
    };
    let [height, width] = geometry.output();
    let shape = Shape::from((geometry.samples, height, width, geometry.outputs));
    let parameters = [weight, affine.weight, affine.bias];
    let fits = parameters[1..].iter().all(|t| t.dims() == [geometry.outputs])
        && residual.is_none_or(|residual| *residual.shape() == shape)
        && shape.elem_count() > 0;
    let here = served(&parameters)
        && parameters.iter().all(|t| t.is_contiguous())
        && served(&[x])
        && residual.is_none_or(|residual| served(&[residual]));
    if !fits || !here {
        return Ok(None);
    }
    let Some(Bundle { operand, gradients }) = Bundle::of(&parameters)? else { return Ok(None) };
    let (x, convolution) = (x.contiguous()?, Conv2d::new(geometry));
    let residual = residual.map(Tensor::contiguous).transpose()?;
    let convolved = convolution.forward(&lent(&x)?, &lent(weight)?);
    let moments = moments_of(&convolved, geometry.outputs)?;
    let norm = BatchNorm::of_batch(&moments, affine.eps, rectify)?;
    let scales = [&*lent(affine.weight)?, &*lent(affine.bias)?].concat();
    let y = match &residual {
        None => norm.forward(&convolved, &scales, None),
        Some(residual) => norm.forward(&convolved, &scales, Some(&lent(residual)?)),
    };
    let parameters = parameters.map(Tensor::clone);
    let result = Mutex::new(Some((y, shape)));
    let op = ConvNormOp { convolution, convolved, norm, scales, parameters, gradients, result };
    let y = match &residual {
        None => x.apply_op2(&operand, op),
        Some(residual) => x.apply_op3(&operand, residual, op),
    };
    Ok(Some((y?, moments)))
}

struct ConvNormOp {
    convolution: Conv2d,
    /// Result of the convolution.
    convolved: Vec<f32>,
    norm: BatchNorm,
    /// Scales of all channels, then shifts.
    scales: Vec<f32>,
    /// Weight of the convolution, scale and shift.
    parameters: [Tensor; 3],
    gradients: BundleGradients,
    /// Result of the operation, until its forward pass takes it.
    result: Mutex<Option<(Vec<f32>, Shape)>>,
}

impl ConvNormOp {
    fn take_result(&self) -> Result<(CpuStorage, Shape)> {
        match self.result.lock().take() {
            Some((y, shape)) => Ok((CpuStorage::F32(y), shape)),
            None => bail!("a value was asked for twice"),
        }
    }

    /// Returns the gradient of `x` and, if it is wanted, that below the rectifier.
    ///
    /// The gradients of parameters go to the bundle.
    fn backward(
        &self,
        x: &Tensor,
        y: &Tensor,
        g: &Tensor,
        want_below: bool,
    ) -> Result<(Option<Tensor>, Vec<f32>)> {
        let [weight, scale, shift] = &self.parameters;
        let g = g.contiguous()?;
        let of_norm =
            self.norm.backward(&self.convolved, &self.scales, &lent(y)?, &lent(&g)?, want_below);
        let wanted = [x.track_op(), weight.track_op()];
        let of_convolution =
            self.convolution.backward(&lent(x)?, &lent(weight)?, &of_norm.input, wanted);
        let like = |values: Option<Vec<f32>>, like: &Tensor| {
            values.map(|values| tensor_like(values, like)).transpose()
        };
        let (by_scale, by_shift) = of_norm.affine.split_at(scale.elem_count());
        self.gradients.put(vec![
            like(of_convolution.weight, weight)?,
            like(scale.track_op().then(|| by_scale.to_vec()), scale)?,
            like(shift.track_op().then(|| by_shift.to_vec()), shift)?,
        ]);
        Ok((like(of_convolution.input, x)?, of_norm.below))
    }
}

impl CustomOp2 for ConvNormOp {
    fn name(&self) -> &'static str {
        "conv-norm"
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.take_result()
    }

    fn bwd(
        &self,
        x: &Tensor,
        _bundle: &Tensor,
        y: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (by_x, _) = self.backward(x, y, g, false)?;
        Ok((by_x, Some(no_value()?)))
    }
}

impl CustomOp3 for ConvNormOp {
    fn name(&self) -> &'static str {
        "conv-norm-residual"
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.take_result()
    }

    fn bwd(
        &self,
        x: &Tensor,
        _bundle: &Tensor,
        residual: &Tensor,
        y: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let (by_x, below) = self.backward(x, y, g, self.norm.wants_below(residual))?;
        Ok((by_x, Some(no_value()?), self.norm.by_residual(residual, g, below)?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{draw, pass};
    use super::super::{BatchNormStatistics, batch_norm, channel_moments, conv2d, without_kernels};
    use super::*;
    use crate::vectors::Vectors;
    use candle_core::{DType, Var};

    const EPS: f64 = 1e-5;

    /// `t` is `x`, weight, scale, shift and perhaps a residual.
    fn layers(t: &[Tensor], stride: usize) -> ConvNormLayers<'_> {
        let affine = ChannelAffine { weight: &t[2], bias: &t[3], eps: EPS };
        let padding = t[1].dims()[3] / 2;
        ConvNormLayers { weight: &t[1], stride, padding, affine }
    }

    fn as_one(t: &[Tensor], stride: usize, rectify: bool) -> Result<Tensor> {
        let (y, _) = conv_norm(&t[0], layers(t, stride), t.get(4), rectify)?.expect("served");
        Ok(y)
    }

    fn layer_by_layer(t: &[Tensor], stride: usize, rectify: bool) -> Result<Tensor> {
        let ConvNormLayers { weight, padding, affine, .. } = layers(t, stride);
        let x = conv2d(&t[0], weight, stride, padding)?;
        let own = channel_moments(&x)?;
        batch_norm(&x, affine, BatchNormStatistics::Batch(&own), t.get(4), rectify)
    }

    /// In tiles and not, with and without a residual and a rectifier, for every instruction set.
    #[test]
    fn bits_are_those_of_the_layers() {
        for (channels, outputs, kernel, stride) in [(16, 32, 3, 1), (3, 5, 3, 2), (4, 6, 1, 2)] {
            let shape = (3, 6, 7, channels);
            let (x, w) = (draw("x", shape), draw("w", (outputs, channels, kernel, kernel)));
            let (scale, shift) = (draw("scale", outputs), draw("shift", outputs));
            let y = conv2d(&x, &w, stride, kernel / 2).unwrap();
            let residual = draw("residual", y.shape().clone());
            let inputs = [&x, &w, &scale, &shift, &residual];
            for (inputs, rectify) in
                [(&inputs[..4], false), (&inputs[..4], true), (&inputs, false), (&inputs, true)]
            {
                for vectors in Vectors::ALL {
                    vectors.limit(|| {
                        let [one, layered] = [as_one, layer_by_layer]
                            .map(|op| pass(inputs, DType::F32, |t| op(t, stride, rectify)).bits());
                        assert!(one == layered, "{outputs} {} {rectify} {vectors:?}", inputs.len());
                    });
                }
            }
        }
    }

    #[test]
    fn moments_are_those_of_the_convolution() -> Result<()> {
        let t = [draw("x", (2, 5, 4, 3)), draw("w", (6, 3, 3, 3)), draw("s", 6), draw("b", 6)];
        let w = Var::from_tensor(&t[1])?;
        let t = [t[0].clone(), w.as_tensor().clone(), t[2].clone(), t[3].clone()];
        let (_, found) = conv_norm(&t[0], layers(&t, 1), None, true)?.expect("served");
        let wanted = channel_moments(&conv2d(&t[0], &t[1], 1, 1)?)?;
        assert_eq!(found.mean.to_vec1::<f32>()?, wanted.mean.to_vec1::<f32>()?);
        assert_eq!(found.variance.to_vec1::<f32>()?, wanted.variance.to_vec1::<f32>()?);
        assert_eq!(found.rows, 40);
        Ok(())
    }

    /// Whichever operands train get the gradients that they get with all others, in tiles and not.
    #[test]
    fn frozen_operands_get_no_gradient_and_pass_it_on() -> Result<()> {
        gradients_of_any_operands_agree(3)?;
        gradients_of_any_operands_agree(16)
    }

    fn gradients_of_any_operands_agree(channels: usize) -> Result<()> {
        let outputs = 2 * channels;
        let drawn = [
            draw("x", (2, 4, 4, channels)),
            draw("w", (outputs, channels, 3, 3)),
            draw("s", outputs),
            draw("b", outputs),
            draw("r", (2, 4, 4, outputs)),
        ];
        let gradients = |trains: [bool; 5]| -> Result<Vec<Option<Vec<f32>>>> {
            let vars = drawn.iter().map(Var::from_tensor).collect::<Result<Vec<_>>>()?;
            let tensor = |(var, trains): (&Var, bool)| match trains {
                true => var.as_tensor().clone(),
                false => var.as_detached_tensor(),
            };
            let t: Vec<Tensor> = vars.iter().zip(trains).map(tensor).collect();
            let grads = as_one(&t, 1, true)?.sqr()?.sum_all()?.backward()?;
            let of = |var: &Var| grads.get(var).map(|g| g.flatten_all()?.to_vec1()).transpose();
            vars.iter().map(of).collect()
        };
        let all = gradients([true; 5])?;
        for bits in 1u32..32 {
            let trains = std::array::from_fn(|at| bits >> at & 1 == 1);
            // A parameter has to train for the op to serve.
            if !trains[1..4].contains(&true) {
                continue;
            }
            for (found, (wanted, trains)) in gradients(trains)?.iter().zip(all.iter().zip(trains)) {
                assert_eq!(found.as_ref(), trains.then_some(wanted.as_ref()).flatten());
            }
        }
        Ok(())
    }

    #[test]
    fn others_are_left_to_the_layers() -> Result<()> {
        let t = [draw("x", (2, 4, 4, 3)), draw("w", (6, 3, 3, 3)), draw("s", 6), draw("b", 6)];
        assert!(conv_norm(&t[0], layers(&t, 1), None, true)?.is_none(), "nothing trains");
        let w = Var::from_tensor(&t[1])?;
        let t = [t[0].clone(), w.as_tensor().clone(), t[2].clone(), t[3].clone()];
        assert!(conv_norm(&t[0], layers(&t, 1), None, true)?.is_some());
        let elsewhere = without_kernels(|| conv_norm(&t[0], layers(&t, 1), None, true))?;
        assert!(elsewhere.is_none());
        let short = draw("r", (2, 4, 3, 6));
        assert!(conv_norm(&t[0], layers(&t, 1), Some(&short), true)?.is_none());
        let x = draw("x", (2, 4, 4, 2));
        assert!(conv_norm(&x, layers(&t, 1), None, true)?.is_none());
        Ok(())
    }
}
