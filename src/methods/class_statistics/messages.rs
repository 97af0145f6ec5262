//! Gaussians in messages: counts, means and spreads of the classes that control fields name.

use std::sync::Arc;

use super::{ClassGaussian, ClassStatistics, CovarianceForm, mixture};
use crate::numerics::gaussian::{DiagonalGaussian, FullGaussian};
use crate::policy::{ClassCounts, Message, PolicyError, TensorSpec};
use crate::wire::{Dtype, Kind, MetaWriter, NamedTensor, Section, WireError};

/// Returns the head rows of the classes that a client describes: those with at least `least` samples.
pub fn described(counts: &ClassCounts, least: u32) -> Vec<u32> {
    counts.iter().filter(|(_, count)| **count >= least).map(|(row, _)| *row).collect()
}

/// Returns the class statistics of an upload; its control fields name the classes.
///
/// # Errors
/// When control fields or tensors are missing or do not fit.
pub fn statistics_of(update: &Message) -> Result<Vec<Arc<ClassStatistics>>, WireError> {
    read(&described_in(update)?, |name| update.tensor(Kind::Prototypes, name))
}

/// Returns the control fields of an upload: its first head row, and the head rows of described classes.
pub fn fields(first_row: usize, described: &[u32]) -> Vec<u8> {
    let mut control = MetaWriter::new();
    control.u64(first_row as u64).u32s(described);
    control.finish()
}

/// Returns the head rows of the classes that an upload's control fields name.
///
/// # Errors
/// When the control fields were not written by [`fields`].
pub fn described_in(update: &Message) -> Result<Vec<u32>, WireError> {
    let mut control = update.fields();
    control.u64()?;
    let rows = control.u32s()?;
    control.finish()?;
    Ok(rows)
}

/// Validates that features can be drawn from the Gaussians of an upload.
///
/// # Errors
/// When a Gaussian is not finite or not positive definite. The error rejects the upload, but does not end the run.
pub fn check_drawable(update: &Message, scale: f64) -> Result<(), PolicyError> {
    for class in statistics_of(update)? {
        class.gaussian.sampler(scale, mixture::ADDED)?;
    }
    Ok(())
}

pub const COUNTS: &str = "counts";
pub const MEANS: &str = "means";
const VARIANCES: &str = "variances";
const COVARIANCES: &str = "covariances";

/// Returns the tensors that describe Gaussians, or `None` without classes.
///
/// They are counts, `(n)`, means, `(n, dim)`, and spreads, `(n, spread)`. All Gaussians must have one form and
/// dimension, as those of one client or server do.
pub fn section(classes: &[Arc<ClassStatistics>]) -> Option<Section> {
    let n = classes.len();
    let (mut counts, mut means, mut spreads) = (Vec::with_capacity(n), Vec::new(), Vec::new());
    let mut name = VARIANCES;
    let narrow = |values: &[f64], to: &mut Vec<f32>| to.extend(values.iter().map(|v| *v as f32));
    for class in classes {
        match &class.gaussian {
            ClassGaussian::Diagonal(DiagonalGaussian { count, mean, variance }) => {
                counts.push(*count as u32);
                narrow(mean, &mut means);
                narrow(variance, &mut spreads);
            }
            ClassGaussian::Full(gaussian) => {
                name = COVARIANCES;
                counts.push(gaussian.count as u32);
                narrow(&gaussian.mean, &mut means);
                narrow(&gaussian.packed(), &mut spreads);
            }
        }
    }
    let (dim, spread) = (means.len().checked_div(n)?, spreads.len() / n);
    let tensors = || -> Result<Vec<NamedTensor>, WireError> {
        Ok(vec![
            NamedTensor::u32(COUNTS, [n], counts)?,
            NamedTensor::f32(MEANS, [n, dim], means)?,
            NamedTensor::f32(name, [n, spread], spreads)?,
        ])
    };
    let tensors = tensors().expect("Gaussians in one message are of one form");
    Some(Section::new(Kind::Prototypes, tensors))
}

/// Returns the specifications of [`section`] for `n` classes, kept by the server.
pub fn places(n: usize, dim: usize, form: CovarianceForm) -> Vec<TensorSpec> {
    let (name, spread) = match form {
        CovarianceForm::Diagonal => (VARIANCES, dim),
        CovarianceForm::Full => (COVARIANCES, dim * (dim + 1) / 2),
    };
    let place =
        |name, shape: &[usize], dtype| TensorSpec::new(Kind::Prototypes, name, shape, dtype).kept();
    match n {
        0 => Vec::new(),
        _ => vec![
            place(COUNTS, &[n], Dtype::U32),
            place(MEANS, &[n, dim], Dtype::F32),
            place(name, &[n, spread], Dtype::F32),
        ],
    }
}

/// Returns the Gaussians in the tensors of [`section`].
///
/// `rows` are the head rows of their classes, in order. `tensor` returns a tensor by name.
pub fn read<'t>(
    rows: &[u32],
    tensor: impl Fn(&str) -> Result<&'t NamedTensor, WireError>,
) -> Result<Vec<Arc<ClassStatistics>>, WireError> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let n = rows.len();
    let counts = tensor(COUNTS)?.shaped(&[n])?.as_u32()?;
    let means = tensor(MEANS)?;
    let dim = means.shape().last().copied().unwrap_or(0);
    let means = means.shaped(&[n, dim])?.as_f32()?;
    let full = tensor(VARIANCES).is_err();
    let (name, spread) = if full { (COVARIANCES, dim * (dim + 1) / 2) } else { (VARIANCES, dim) };
    let spreads = tensor(name)?.shaped(&[n, spread])?.as_f32()?;
    let widen = |values: &[f32], at: usize, width: usize| -> Vec<f64> {
        values[at * width..(at + 1) * width].iter().map(|v| f64::from(*v)).collect()
    };
    let class = |(at, row): (usize, &u32)| {
        let (count, mean) = (u64::from(counts[at]), widen(means, at, dim));
        let around = widen(spreads, at, spread);
        let gaussian = if full {
            let full = FullGaussian::from_packed(count, mean, &around);
            ClassGaussian::Full(full.ok_or_else(|| {
                WireError::Malformed("a packed covariance has another length".into())
            })?)
        } else {
            ClassGaussian::Diagonal(DiagonalGaussian { count, mean, variance: around })
        };
        Ok(Arc::new(ClassStatistics { row: *row, gaussian }))
    };
    rows.iter().enumerate().map(class).collect()
}
