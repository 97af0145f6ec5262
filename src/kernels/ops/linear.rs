//! Linear layer `x W^T + b`, with gradients only for operands that are tracked.
//!
//! With a frozen weight the backward pass is a single product, `dx = g W`; candle's `matmul` would also compute and
//! keep the gradient of the weight.

use std::ops::Range;

use candle_core::{CpuStorage, CustomOp2, CustomOp3, D, Layout, Result, Shape, Tensor, bail};

use super::few_rows;
use super::gpu;
use super::groups::SampleGroups;
use super::matrix::{Matrix, MatrixMut, Precision, RightFactor, append_product};
use super::stock::{self, product};
use super::storage::{lend, served, tensor_like, values};
use super::with_gradient::with_gradients;
use crate::wide::add_rows;

/// Applies a linear layer: `x` `(.., in)`, `weight` `(out, in)`, `bias` `(out)`; gives `(.., out)`.
///
/// # Errors
/// Returns an error if the shapes do not fit.
pub fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    linear_at(Precision::F32, x, weight, bias)
}

/// Computes [`linear`] with matrix products of a given precision.
///
/// Without the kernels, the type of `x` decides.
///
/// # Errors
/// Fails as [`linear`] does.
pub fn linear_at(
    precision: Precision,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let (outputs, inputs) = weight.dims2()?;
    if x.dims().last() != Some(&inputs) || bias.is_some_and(|b| b.dims() != [outputs]) {
        return unfit(x, weight, bias);
    }
    let all = 0..x.elem_count() / inputs.max(1);
    match run(x, weight, bias, LinearOp { runs: vec![all], precision })? {
        Some(y) => Ok(y),
        None => composed(x, weight, bias),
    }
}

/// Computes [`linear`] for the members of a pack. `x` is `(b, .., in)`; `weight` is `(out, in)` for all members, or
/// `(members, out, in)` with a layer each, and `bias` the same without `in`. Returns `(b, .., out)`.
///
/// # Errors
/// Returns an error if the shapes do not fit.
pub fn grouped_linear(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    groups: &SampleGroups,
) -> Result<Tensor> {
    grouped_linear_at(Precision::F32, x, weight, bias, groups)
}

/// Computes [`grouped_linear`] with matrix products of a given precision, as [`linear_at`].
///
/// # Errors
/// Fails as [`grouped_linear`] does.
pub fn grouped_linear_at(
    precision: Precision,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    groups: &SampleGroups,
) -> Result<Tensor> {
    let batch = x.dim(0)?;
    groups.fit("linear", batch)?;
    let (own, outputs, inputs) = match *weight.dims() {
        [outputs, inputs] => (None, outputs, inputs),
        [members, outputs, inputs] if members == groups.members() => {
            (Some(members), outputs, inputs)
        }
        _ => return unfit(x, weight, bias),
    };
    let of_bias: Vec<usize> = own.into_iter().chain([outputs]).collect();
    if x.dims().last() != Some(&inputs) || bias.is_some_and(|b| *b.dims() != *of_bias) {
        return unfit(x, weight, bias);
    }
    let rows = x.elem_count() / (inputs * batch).max(1);
    let runs = groups.runs().map(|run| run.start * rows..run.end * rows).collect();
    match run(x, weight, bias, LinearOp { runs, precision })? {
        Some(y) => Ok(y),
        None if own.is_none() => composed(x, weight, bias),
        None => grouped_composed(x, weight, bias, groups),
    }
}

fn unfit<T>(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<T> {
    bail!(
        "linear: input {:?}, weight {:?} and bias {:?} do not fit",
        x.shape(),
        weight.shape(),
        bias.map(Tensor::shape)
    )
}

/// Runs our kernel if it supports the operands.
fn run(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, op: LinearOp) -> Result<Option<Tensor>> {
    match bias {
        Some(bias) if served(&[x, weight, bias]) => {
            x.contiguous()?.apply_op3(&weight.contiguous()?, &bias.contiguous()?, op).map(Some)
        }
        None if served(&[x, weight]) => {
            x.contiguous()?.apply_op2(&weight.contiguous()?, op).map(Some)
        }
        _ => Ok(None),
    }
}

/// Composes the layer of candle's operations, in the type of `x`; the weight may have a wider type.
fn composed(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let kept = x.detach();
    let narrow = weight.detach().to_dtype(x.dtype())?;
    let value = composed_value(&kept, &narrow, bias.map(Tensor::detach).as_ref())?;
    let want = [x.track_op(), weight.track_op(), bias.is_some_and(Tensor::track_op)];
    // Without a bias, the weight is passed in its place, but gets no second gradient.
    let bias = bias.unwrap_or(weight);
    let (weight_type, bias_type) = (weight.dtype(), bias.dtype());
    with_gradients([x, weight, bias], value, move |g| {
        let by_x = || composed_gradient(g, &narrow);
        let by_weight =
            || product(&matrix(g)?.t()?.contiguous()?, &matrix(&kept)?)?.to_dtype(weight_type);
        let by_bias = || stock::sum(&matrix(g)?.to_dtype(bias_type)?, 0);
        Ok([
            want[0].then(by_x).transpose()?,
            want[1].then(by_weight).transpose()?,
            want[2].then(by_bias).transpose()?,
        ])
    })
}

/// Returns the output of the layer for operands without a graph, on any device.
///
/// `weight` has the type of `x`.
pub(super) fn composed_value(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let y = product(&matrix(x)?, &weight.t()?)?.reshape(with_width(x, weight.dim(0)?))?;
    let Some(bias) = bias else { return Ok(y) };
    let bias = bias.to_dtype(x.dtype())?;
    match gpu::serves(&[&y, &bias]) {
        true => gpu::add_bias(&y, &bias),
        false => y.broadcast_add(&bias),
    }
}

/// Returns the gradient of the layer's input from that of its output, on any device.
pub(super) fn composed_gradient(g: &Tensor, weight: &Tensor) -> Result<Tensor> {
    product(&matrix(g)?, weight)?.reshape(with_width(g, weight.dim(1)?))
}

/// Returns the rows of a tensor as a matrix.
fn matrix(x: &Tensor) -> Result<Tensor> {
    let width = x.dim(D::Minus1)?;
    x.contiguous()?.reshape((x.elem_count() / width.max(1), width))
}

/// Returns the shape of `x` with another width.
fn with_width(x: &Tensor, width: usize) -> Vec<usize> {
    let mut shape = x.dims().to_vec();
    if let Some(last) = shape.last_mut() {
        *last = width;
    }
    shape
}

/// Applies a layer per member, as one batched product if all have equally many samples.
fn grouped_composed(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    groups: &SampleGroups,
) -> Result<Tensor> {
    let (members, outputs, inputs) = weight.dims3()?;
    if groups.equal_size().is_some() {
        let shape = with_width(x, outputs);
        let rows = x.elem_count() / (members * inputs).max(1);
        let weight = weight.to_dtype(x.dtype())?.transpose(1, 2)?.contiguous()?;
        let y = product(&x.contiguous()?.reshape((members, rows, inputs))?, &weight)?;
        return match bias {
            Some(bias) => y.broadcast_add(&bias.to_dtype(x.dtype())?.unsqueeze(1)?)?.reshape(shape),
            None => y.reshape(shape),
        };
    }
    let runs = groups.runs().enumerate().filter(|(_, run)| !run.is_empty());
    let parts = runs.map(|(member, run)| {
        let x = x.narrow(0, run.start, run.len())?.contiguous()?;
        let bias = bias.map(|bias| bias.get(member)).transpose()?;
        composed(&x, &weight.get(member)?, bias.as_ref())
    });
    Tensor::cat(&parts.collect::<Result<Vec<_>>>()?, 0)
}

/// Linear layer with one product per range of rows, each of the shape that it has for its member alone.
struct LinearOp {
    runs: Vec<Range<usize>>,
    precision: Precision,
}

/// Returns `(outputs, inputs)` of a layer, and true if each member has a separate one.
fn extents(weight: &Shape) -> Result<(usize, usize, bool)> {
    match *weight.dims() {
        [outputs, inputs] => Ok((outputs, inputs, false)),
        [_, outputs, inputs] => Ok((outputs, inputs, true)),
        _ => bail!("linear: weight {weight:?} is no matrix"),
    }
}

/// Returns a member's part of `values`: the `member`-th `len` values if `own`, otherwise all of them.
fn part(values: &[f32], len: usize, member: usize, own: bool) -> &[f32] {
    let start = if own { member * len } else { 0 };
    &values[start..start + len]
}

/// Weight and bias of a layer with `inputs` inputs.
#[derive(Clone, Copy)]
pub(super) struct LinearWeights<'a> {
    pub weight: &'a [f32],
    pub bias: Option<&'a [f32]>,
    pub inputs: usize,
}

/// Appends `x W^T + b` for dense rows; `factor` is `W^T`.
pub(super) fn append_rows(
    y: &mut Vec<f32>,
    precision: Precision,
    x: &[f32],
    LinearWeights { weight, bias, inputs }: LinearWeights<'_>,
    factor: &RightFactor<'_>,
) {
    let rows = x.len() / inputs.max(1);
    if precision == Precision::F32 && few_rows::applies(rows, weight) {
        let from = y.len();
        match bias {
            Some(bias) => (0..rows).for_each(|_| y.extend_from_slice(bias)),
            None => y.resize(from + weight.len() / inputs * rows, 0f32),
        }
        return few_rows::add(x, weight, &mut y[from..], inputs);
    }
    append_product(y, precision, bias, Matrix::dense(x, rows, inputs), factor);
}

impl LinearOp {
    fn forward(
        &self,
        x: &[f32],
        x_shape: &Shape,
        weight: &[f32],
        weight_shape: &Shape,
        bias: Option<&[f32]>,
    ) -> Result<(CpuStorage, Shape)> {
        let (outputs, inputs, own) = extents(weight_shape)?;
        let rows = x.len() / inputs.max(1);
        let mut y = Vec::with_capacity(rows * outputs);
        // Ranges follow one another without gaps.
        for (member, run) in self.runs.iter().enumerate().filter(|(_, run)| !run.is_empty()) {
            let x = &x[run.start * inputs..run.end * inputs];
            let weight = part(weight, outputs * inputs, member, own);
            let bias = bias.map(|bias| part(bias, outputs, member, own));
            let factor = RightFactor::Plain(Matrix::dense(weight, outputs, inputs).t());
            append_rows(&mut y, self.precision, x, LinearWeights { weight, bias, inputs }, &factor);
        }
        let mut shape = x_shape.dims().to_vec();
        if let Some(last) = shape.last_mut() {
            *last = outputs;
        }
        Ok((CpuStorage::F32(y), Shape::from(shape)))
    }

    fn gradient_of_input(&self, x: &Tensor, weight: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        if !x.track_op() {
            return Ok(None);
        }
        let (outputs, inputs, own) = extents(weight.shape())?;
        let mut gradient = Vec::with_capacity(x.elem_count());
        lend(g, |g| {
            lend(weight, |weight| {
                for (member, run) in self.runs.iter().enumerate().filter(|(_, r)| !r.is_empty()) {
                    let weight = part(weight, outputs * inputs, member, own);
                    let g = Matrix::dense(&g[run.start * outputs..], run.len(), outputs);
                    let weight = RightFactor::Plain(Matrix::dense(weight, outputs, inputs));
                    append_product(&mut gradient, self.precision, None, g, &weight);
                }
                Ok(())
            })
        })?;
        tensor_like(gradient, x).map(Some)
    }

    /// Returns the ranges whose rows are summed in one gradient: each member's, or all rows of a shared layer.
    fn summed(&self, own: bool) -> Vec<Range<usize>> {
        match (own, self.runs.last()) {
            (false, Some(last)) => {
                let all = 0..last.end;
                vec![all]
            }
            _ => self.runs.clone(),
        }
    }

    fn gradient_of_weight(
        &self,
        x: &Tensor,
        weight: &Tensor,
        g: &Tensor,
    ) -> Result<Option<Tensor>> {
        if !weight.track_op() {
            return Ok(None);
        }
        let (outputs, inputs, own) = extents(weight.shape())?;
        let mut gradient = vec![0f32; weight.elem_count()];
        lend(g, |g| {
            lend(x, |x| {
                let layers = gradient.chunks_exact_mut((outputs * inputs).max(1));
                for (run, out) in self.summed(own).into_iter().zip(layers) {
                    if run.is_empty() {
                        continue;
                    }
                    let g = Matrix::dense(&g[run.start * outputs..], run.len(), outputs);
                    let x = Matrix::dense(&x[run.start * inputs..], run.len(), inputs);
                    MatrixMut::dense(out, outputs, inputs).at(self.precision).set(1.0, g.t(), x);
                }
                Ok(())
            })
        })?;
        tensor_like(gradient, weight).map(Some)
    }

    fn gradient_of_bias(&self, bias: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        if !bias.track_op() {
            return Ok(None);
        }
        let own = bias.rank() == 2;
        let outputs = bias.dims().last().copied().unwrap_or(0);
        let mut gradient = vec![0f32; bias.elem_count()];
        lend(g, |g| {
            let layers = gradient.chunks_exact_mut(outputs.max(1));
            for (run, sums) in self.summed(own).into_iter().zip(layers) {
                add_rows(sums, &g[run.start * outputs..run.end * outputs]);
            }
            Ok(())
        })?;
        tensor_like(gradient, bias).map(Some)
    }
}

impl CustomOp2 for LinearOp {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, weight) = (values(x, x_layout)?, values(weight, weight_layout)?);
        self.forward(x, x_layout.shape(), weight, weight_layout.shape(), None)
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _result: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        Ok((self.gradient_of_input(x, weight, g)?, self.gradient_of_weight(x, weight, g)?))
    }
}

impl CustomOp3 for LinearOp {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, weight) = (values(x, x_layout)?, values(weight, weight_layout)?);
        let bias = values(bias, bias_layout)?;
        self.forward(x, x_layout.shape(), weight, weight_layout.shape(), Some(bias))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        bias: &Tensor,
        _result: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        Ok((
            self.gradient_of_input(x, weight, g)?,
            self.gradient_of_weight(x, weight, g)?,
            self.gradient_of_bias(bias, g)?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{agrees_everywhere, draw, finite_difference};
    use super::*;
    use candle_core::{Device, Var};

    #[test]
    fn agrees_with_the_composition() {
        let (x, w, b) = (draw("x", (2, 5, 7)), draw("w", (3, 7)), draw("b", 3));
        agrees_everywhere(&[&x, &w, &b], |t| linear(&t[0], &t[1], Some(&t[2])));
        agrees_everywhere(&[&x, &w], |t| linear(&t[0], &t[1], None));
    }

    #[test]
    fn gradients_are_finite_differences() {
        let inputs = [&draw("x", (4, 7)), &draw("w", (3, 7)), &draw("b", 3)];
        finite_difference(&inputs, |t| linear(&t[0], &t[1], Some(&t[2])));
    }

    #[test]
    fn frozen_operands_get_no_gradient_and_pass_it_on() -> Result<()> {
        let x = Var::from_tensor(&draw("x", (4, 7)))?;
        let (w, b) = (draw("w", (3, 7)), draw("b", 3));
        let grads = linear(&x, &w, Some(&b))?.sum_all()?.backward()?;
        assert!(grads.get(&w).is_none() && grads.get(&b).is_none());
        assert!(grads.get(&x).is_some());
        let y = linear(x.as_detached_tensor().as_ref(), &w, Some(&b))?;
        assert!(!y.track_op(), "a frozen layer on a frozen input builds no graph");
        Ok(())
    }

    #[test]
    fn a_layer_per_member_agrees_with_the_composition_and_finite_differences() {
        for sizes in [[2, 2], [3, 1], [0, 4]] {
            let groups = SampleGroups::new(sizes);
            let inputs = [&draw("x", (4, 2, 7)), &draw("w", (2, 3, 7)), &draw("b", (2, 3))];
            let op = |t: &[Tensor]| grouped_linear(&t[0], &t[1], Some(&t[2]), &groups);
            agrees_everywhere(&inputs, op);
            finite_difference(&inputs, op);
        }
    }

    /// Forward and all gradients, also where a member alone has a single row.
    #[test]
    fn a_member_gets_the_bits_it_gets_alone() -> Result<()> {
        let (x, groups) = (draw("x", (8, 64)), SampleGroups::new([1, 5, 2]));
        for own in [true, false] {
            let stack: &[usize] = if own { &[3] } else { &[] };
            let shaped = |rest: &[usize]| [stack, rest].concat();
            let weight = draw("w", shaped(&[10, 64]));
            let bias = draw("b", shaped(&[10]));
            let x = Var::from_tensor(&x)?;
            let y = grouped_linear(&x, &weight, Some(&bias), &groups)?;
            let by_x = y.sqr()?.backward()?.remove(&x).expect("a gradient").to_vec2::<f32>()?;
            for (member, run) in groups.runs().enumerate() {
                let of = |t: &Tensor| if own { t.get(member) } else { Ok(t.clone()) };
                let alone = Var::from_tensor(&x.narrow(0, run.start, run.len())?.copy()?)?;
                let y_alone = linear(&alone, &of(&weight)?, Some(&of(&bias)?))?;
                let by_alone = y_alone.sqr()?.backward()?.remove(&alone).expect("a gradient");
                assert_eq!(y.to_vec2::<f32>()?[run.clone()], y_alone.to_vec2::<f32>()?);
                assert_eq!(by_x[run], by_alone.to_vec2::<f32>()?);
            }
        }
        Ok(())
    }

    #[test]
    fn shapes_that_do_not_fit_are_errors() {
        let zeros = |shape: &[usize]| Tensor::zeros(shape, candle_core::DType::F32, &Device::Cpu);
        let (x, w) = (zeros(&[2, 4]).unwrap(), zeros(&[3, 5]).unwrap());
        let error = linear(&x, &w, None).unwrap_err().to_string();
        assert!(error.contains("do not fit"), "{error}");
    }
}
