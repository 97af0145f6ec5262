//! Layers and pieces of samples, shared by both halves.

use std::ops::Range;

use candle_core::{Result, bail};

use super::super::affine::Affine;
use super::super::groups::SampleGroups;
use super::super::layer_norm::{ByInput, LayerNormForward};
use super::super::linear::{LinearWeights, append_rows};
use super::super::matrix::{Matrix, Precision, RightFactor, append_product};
use super::super::storage::{Lent, lent};
use crate::wide::wide;

/// Rows per piece: with 768 values each they take 786 kB, which fits into a second-level cache.
const PIECE: usize = 256;

/// Returns true if kernels support a half's layers: all are frozen, and both linear ones have one precision.
pub(super) fn are_served(norm: &Affine, [first, second]: [&Affine; 2]) -> bool {
    let frozen = [norm, first, second].into_iter().all(Affine::is_frozen);
    frozen && first.precision == second.precision
}

/// Checks that layers go from this width to `inner` values, and from `outer` values back.
///
/// # Errors
/// Returns an error if they do not.
pub(super) fn fit(
    width: usize,
    norm: &Affine,
    [first, second]: [&Affine; 2],
    (inner, outer): (usize, usize),
) -> Result<()> {
    let shapes = [
        (norm.weight.dims() == [width] && norm.bias.dims() == [width], "norm"),
        (first.weight.dims() == [inner, width] && first.bias.dims() == [inner], "first layer"),
        (second.weight.dims() == [width, outer] && second.bias.dims() == [width], "second layer"),
    ];
    match shapes.iter().find(|(fits, _)| !fits) {
        Some((_, what)) => bail!("frozen block: the {what} does not fit a width of {width}"),
        None => Ok(()),
    }
}

/// Layer norm of a frozen block.
pub(super) struct FrozenNorm<'a> {
    weight: Lent<'a>,
    bias: Lent<'a>,
    eps: f32,
}

impl<'a> FrozenNorm<'a> {
    pub fn new(norm: &'a Affine, eps: f64) -> Result<FrozenNorm<'a>> {
        Ok(FrozenNorm { weight: lent(&norm.weight)?, bias: lent(&norm.bias)?, eps: eps as f32 })
    }

    pub fn forward(&self, x: &[f32]) -> Vec<f32> {
        wide(LayerNormForward { x, weight: &self.weight, bias: &self.bias, eps: self.eps })
    }

    /// Returns the gradient of `x` from that of the result.
    pub fn backward(&self, x: &[f32], g: &[f32]) -> Vec<f32> {
        wide(ByInput { x, weight: &self.weight, g, eps: self.eps })
    }
}

/// Linear layer of a frozen block.
pub(super) struct FrozenLinear<'a> {
    weight: Lent<'a>,
    bias: Lent<'a>,
    pub inputs: usize,
    pub outputs: usize,
    precision: Precision,
}

impl<'a> FrozenLinear<'a> {
    pub fn new(layer: &'a Affine) -> Result<FrozenLinear<'a>> {
        let (outputs, inputs) = layer.weight.dims2()?;
        let (weight, bias) = (lent(&layer.weight)?, lent(&layer.bias)?);
        Ok(FrozenLinear { weight, bias, inputs, outputs, precision: layer.precision })
    }

    /// Returns the product of the forward pass. `buffer` may hold its packed factor.
    pub fn forth<'b>(&'b self, buffer: &'b mut Vec<u32>) -> LayerProduct<'b> {
        let weight = Matrix::dense(&self.weight, self.outputs, self.inputs);
        let factor = RightFactor::new(weight.t(), self.precision, buffer);
        LayerProduct { layer: self, factor, back: false }
    }

    /// Returns the product of the backward pass, for gradients of results. `buffer` may hold its packed factor.
    pub fn back<'b>(&'b self, buffer: &'b mut Vec<u32>) -> LayerProduct<'b> {
        let weight = Matrix::dense(&self.weight, self.outputs, self.inputs);
        LayerProduct {
            layer: self,
            factor: RightFactor::new(weight, self.precision, buffer),
            back: true,
        }
    }
}

/// Product of a layer with any number of rows.
pub(super) struct LayerProduct<'a> {
    layer: &'a FrozenLinear<'a>,
    factor: RightFactor<'a>,
    back: bool,
}

impl LayerProduct<'_> {
    /// Appends the results of `rows` to `to`.
    pub fn append(&self, to: &mut Vec<f32>, rows: &[f32]) {
        let FrozenLinear { weight, bias, inputs, outputs, precision } = self.layer;
        if !self.back {
            let layer = LinearWeights { weight, bias: Some(bias), inputs: *inputs };
            return append_rows(to, *precision, rows, layer, &self.factor);
        }
        let rows = Matrix::dense(rows, rows.len() / outputs, *outputs);
        append_product(to, *precision, None, rows, &self.factor);
    }
}

/// Division of samples into pieces that go through a half together.
pub(in super::super) struct Pieces {
    /// Samples of each member of a pack. In `f32` a product has the bits that it has for its member alone.
    groups: SampleGroups,
    precision: Precision,
}

impl Pieces {
    /// Divides a batch.
    ///
    /// # Errors
    /// Returns an error if the groups belong to a batch of another size.
    pub fn of(batch: usize, groups: Option<&SampleGroups>, precision: Precision) -> Result<Pieces> {
        let groups = groups.cloned().unwrap_or_else(|| SampleGroups::one(batch));
        groups.fit("frozen block", batch)?;
        Ok(Pieces { groups, precision })
    }

    /// Returns the rows of each member, for `each` rows per sample.
    pub fn members(&self, each: usize) -> Vec<Range<usize>> {
        self.groups.runs().map(|run| run.start * each..run.end * each).collect()
    }

    /// Returns the consecutive rows of each piece, for `each` rows per sample.
    pub fn rows(&self, each: usize) -> Vec<Range<usize>> {
        match self.precision {
            Precision::F32 => {
                let runs = self.groups.runs().filter(|run| !run.is_empty());
                runs.map(|run| run.start * each..run.end * each).collect()
            }
            Precision::Bf16 => {
                let end = self.groups.samples() * each;
                (0..end).step_by(PIECE).map(|from| from..end.min(from + PIECE)).collect()
            }
        }
    }
}

/// Returns some rows of `values`, which are `width` wide.
pub(super) fn part<'a>(values: &'a [f32], rows: &Range<usize>, width: usize) -> &'a [f32] {
    &values[rows.start * width..rows.end * width]
}
