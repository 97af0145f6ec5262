//! Softmax cross-entropy over a range of columns, the masked loss of most class-incremental methods.
//!
//! `loss = mean_i ( log sum_{c in [lo, hi)} exp z_ic - z_i,y_i )`; logits outside `[lo, hi)` have no influence and a
//! gradient of exactly zero, so head rows of other tasks stay bit-identical under plain SGD.

use std::ops::Range;

use candle_core::{CpuStorage, CustomOp1, D, DType, Layout, Result, Shape, Tensor, bail};

use super::groups::SampleGroups;
use super::stock::{self, log, sum_of_rows};
use super::storage::{lend, served, tensor_like, values};
use crate::wide::{WideWork, exp, largest, sum_of, wide};

/// Returns the mean cross-entropy of `logits` `(b, C)` on the columns `columns`.
///
/// `labels` are head rows (absolute columns), one per sample. The result is a scalar (shape `[]`).
///
/// # Errors
/// Returns an error if the columns are empty or beyond `C`, the batch is empty, or a label lies outside the columns.
pub fn cross_entropy(logits: &Tensor, labels: &[u32], columns: Range<usize>) -> Result<Tensor> {
    let groups = SampleGroups::one(labels.len());
    check(logits, labels, &columns, &groups)?;
    match served(&[logits]) {
        true => logits.contiguous()?.apply_op1(CrossEntropyOp::new(labels, columns, groups, ())),
        false => composition(logits, labels, columns, &groups)?.reshape(()),
    }
}

/// Computes [`cross_entropy`] for the members of a pack: each one's mean over its own samples, `(members)`.
///
/// It is 0 for a member without samples.
///
/// # Errors
/// Fails as [`cross_entropy`] does.
pub fn grouped_cross_entropy(
    logits: &Tensor,
    labels: &[u32],
    columns: Range<usize>,
    groups: &SampleGroups,
) -> Result<Tensor> {
    check(logits, labels, &columns, groups)?;
    if !served(&[logits]) {
        return composition(logits, labels, columns, groups);
    }
    let op = CrossEntropyOp::new(labels, columns, groups.clone(), groups.members());
    logits.contiguous()?.apply_op1(op)
}

fn check(
    logits: &Tensor,
    labels: &[u32],
    columns: &Range<usize>,
    groups: &SampleGroups,
) -> Result<()> {
    let (batch, classes) = logits.dims2()?;
    if columns.is_empty() || columns.end > classes || batch == 0 {
        bail!("cross-entropy: columns {columns:?} of logits {:?}", logits.shape());
    }
    if labels.len() != batch {
        bail!("cross-entropy: {} labels for {batch} samples", labels.len());
    }
    if let Some(label) = labels.iter().find(|&&y| !columns.contains(&(y as usize))) {
        bail!("cross-entropy: label {label} lies outside the columns {columns:?}");
    }
    groups.fit("cross-entropy", batch)
}

/// Composes the losses, `(members)`, of candle's operations.
fn composition(
    logits: &Tensor,
    labels: &[u32],
    columns: Range<usize>,
    groups: &SampleGroups,
) -> Result<Tensor> {
    let slice = logits.narrow(1, columns.start, columns.len())?;
    let slice = if slice.dtype() == DType::F64 { slice } else { slice.to_dtype(DType::F32)? };
    let shifted: Vec<u32> = labels.iter().map(|y| y - columns.start as u32).collect();
    let labels = Tensor::from_vec(shifted, (labels.len(), 1), logits.device())?;
    let centered = slice.broadcast_sub(&slice.max_keepdim(D::Minus1)?.detach())?;
    let log_sum = log(&sum_of_rows(&stock::exp(&centered)?)?)?;
    let each = (log_sum - centered.contiguous()?.gather(&labels, 1)?)?.squeeze(1)?;
    if groups.members() == 1 {
        return stock::mean(&each, 0)?.reshape(1);
    }
    // Summed by index: a matrix product with zeros and ones would let one member's NaN reach the others.
    let shares = groups.sizes().iter().flat_map(|&n| std::iter::repeat_n(1.0 / n as f32, n));
    let shares = Tensor::from_iter(shares, logits.device())?.to_dtype(each.dtype())?;
    let zeros = Tensor::zeros(groups.members(), each.dtype(), logits.device())?;
    zeros.index_add(&groups.index(logits.device())?, &(each * shares)?, 0)
}

struct CrossEntropyOp {
    labels: Vec<u32>,
    columns: Range<usize>,
    groups: SampleGroups,
    /// Shape of the result.
    shape: Shape,
}

impl CrossEntropyOp {
    fn new(
        labels: &[u32],
        columns: Range<usize>,
        groups: SampleGroups,
        shape: impl Into<Shape>,
    ) -> CrossEntropyOp {
        CrossEntropyOp { labels: labels.to_vec(), columns, groups, shape: shape.into() }
    }
}

/// Work that computes `scale (softmax(z) - one-hot)` of every row, zero outside the columns.
struct Slopes<'a> {
    logits: &'a [f32],
    gradient: &'a mut [f32],
    classes: usize,
    labels: &'a [u32],
    columns: Range<usize>,
    scale: f32,
}

impl WideWork for Slopes<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let Slopes { logits, gradient, classes, labels, columns, scale } = self;
        let rows = logits.chunks_exact(classes).zip(gradient.chunks_exact_mut(classes));
        for ((row, out), &label) in rows.zip(labels) {
            let slice = &row[columns.clone()];
            let out_slice = &mut out[columns.clone()];
            let top = largest(slice);
            for (p, &z) in out_slice.iter_mut().zip(slice) {
                *p = exp(z - top);
            }
            let inverse = scale / sum_of(out_slice, |p| p);
            for p in out_slice.iter_mut() {
                *p *= inverse;
            }
            out[label as usize] -= scale;
        }
    }
}

impl CustomOp1 for CrossEntropyOp {
    fn name(&self) -> &'static str {
        "cross-entropy"
    }

    fn cpu_fwd(&self, logits: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (_, classes) = layout.shape().dims2()?;
        let logits = values(logits, layout)?;
        let mean = |run: Range<usize>| {
            let mut total = 0f64;
            for sample in run.clone() {
                let (row, label) = (&logits[sample * classes..][..classes], self.labels[sample]);
                let slice = &row[self.columns.clone()];
                let top = largest(slice);
                let sum = sum_of(slice, |z| exp(z - top));
                // By libm: no result depends on the loss, but it is written to the journal.
                total +=
                    libm::log(f64::from(sum)) + f64::from(top) - f64::from(row[label as usize]);
            }
            (total / run.len().max(1) as f64) as f32
        };
        Ok((CpuStorage::F32(self.groups.runs().map(mean).collect()), self.shape.clone()))
    }

    fn bwd(&self, logits: &Tensor, _result: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        let (batch, classes) = logits.dims2()?;
        let slopes = g.flatten_all()?.to_vec1::<f32>()?;
        let mut gradient = vec![0f32; batch * classes];
        lend(logits, |logits| {
            for (run, slope) in self.groups.runs().zip(slopes) {
                let scale = slope / run.len() as f32;
                let values = run.start * classes..run.end * classes;
                wide(Slopes {
                    logits: &logits[values.clone()],
                    gradient: &mut gradient[values],
                    classes,
                    labels: &self.labels[run],
                    columns: self.columns.clone(),
                    scale,
                });
            }
            Ok(())
        })?;
        tensor_like(gradient, logits).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{agrees_everywhere, draw, finite_difference};
    use super::*;
    use candle_core::{Device, Var};

    const LABELS: [u32; 4] = [3, 5, 4, 3];

    #[test]
    fn agrees_with_the_composition_and_finite_differences() {
        let z = (draw("z", (4, 9)) * 3.0).unwrap();
        agrees_everywhere(&[&z], |t| cross_entropy(&t[0], &LABELS, 3..7));
        finite_difference(&[&z], |t| cross_entropy(&t[0], &LABELS, 3..7));
    }

    #[test]
    fn columns_outside_the_slice_get_exactly_zero() -> Result<()> {
        let z = Var::from_tensor(&draw("z", (4, 9)))?;
        let grads = cross_entropy(&z, &LABELS, 3..7)?.backward()?;
        for row in grads.get(&z).unwrap().to_vec2::<f32>()? {
            assert!(row[..3].iter().chain(&row[7..]).all(|g| *g == 0.0));
            assert!(row[3..7].iter().all(|g| *g != 0.0));
        }
        Ok(())
    }

    #[test]
    fn uniform_logits_cost_the_logarithm_of_the_classes() -> Result<()> {
        let z = Tensor::zeros((2, 10), DType::F32, &Device::Cpu)?;
        let loss = cross_entropy(&z, &[0, 1], 0..4)?.to_scalar::<f32>()?;
        assert!((loss - 4f32.ln()).abs() < 1e-6);
        Ok(())
    }

    #[test]
    fn members_have_losses_of_their_own() -> Result<()> {
        let z = (draw("z", (4, 9)) * 3.0)?;
        let groups = SampleGroups::new([1, 0, 3]);
        let op = |t: &[Tensor]| grouped_cross_entropy(&t[0], &LABELS, 3..7, &groups);
        agrees_everywhere(&[&z], op);
        finite_difference(&[&z], op);
        let losses = op(std::slice::from_ref(&z))?.to_vec1::<f32>()?;
        let alone = |run: Range<usize>| {
            cross_entropy(&z.narrow(0, run.start, run.len())?, &LABELS[run], 3..7)?.to_scalar()
        };
        assert_eq!(losses, [alone(0..1)?, 0.0, alone(1..4)?]);
        Ok(())
    }

    #[test]
    fn a_label_outside_the_slice_is_an_error() {
        let error = cross_entropy(&draw("z", (1, 9)), &[8], 3..7).unwrap_err().to_string();
        assert!(error.contains("label 8"), "{error}");
    }
}
