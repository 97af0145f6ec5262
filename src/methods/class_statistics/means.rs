//! Means of classes in uploads, for methods that do not need the spread.

use super::messages::{COUNTS, MEANS, described_in};
use crate::policy::{Message, TensorSpec};
use crate::wire::{Dtype, Kind, NamedTensor, Section, WireError};

/// Number of samples of a class and the mean of their features.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassMean {
    /// Head row of the class.
    pub row: u32,
    /// Number of samples.
    pub count: u64,
    /// Mean feature, `(dim)`.
    pub mean: Vec<f64>,
}

impl ClassMean {
    /// Returns the tensors of counts, `(n)`, and means, `(n, dim)`; `None` without classes.
    ///
    /// The control fields of the upload name the classes.
    pub fn section(classes: &[ClassMean]) -> Option<Section> {
        let (n, dim) = (classes.len(), classes.first()?.mean.len());
        let means = classes.iter().flat_map(|class| class.mean.iter().map(|v| *v as f32));
        let tensors = || -> Result<Vec<NamedTensor>, WireError> {
            let counts = classes.iter().map(|class| class.count as u32).collect::<Vec<u32>>();
            Ok(vec![
                NamedTensor::u32(COUNTS, [n], counts)?,
                NamedTensor::f32(MEANS, [n, dim], means.collect::<Vec<f32>>())?,
            ])
        };
        let tensors = tensors().expect("means in one message are of one width");
        Some(Section::new(Kind::Prototypes, tensors))
    }

    /// Returns the specifications of [`section`](ClassMean::section) for `n` classes, kept by the server.
    pub fn places(n: usize, dim: usize) -> Vec<TensorSpec> {
        let counts = TensorSpec::new(Kind::Prototypes, COUNTS, &[n], Dtype::U32).kept();
        let means = TensorSpec::new(Kind::Prototypes, MEANS, &[n, dim], Dtype::F32).kept();
        if n == 0 { Vec::new() } else { vec![counts, means] }
    }

    /// Returns the class means of an upload; its control fields name the classes.
    ///
    /// # Errors
    /// When control fields or tensors are missing or do not fit.
    pub fn reported(update: &Message) -> Result<Vec<ClassMean>, WireError> {
        let rows = described_in(update)?;
        let n = rows.len();
        if n == 0 {
            return Ok(Vec::new());
        }
        let counts = update.tensor(Kind::Prototypes, COUNTS)?.shaped(&[n])?.as_u32()?;
        let means = update.tensor(Kind::Prototypes, MEANS)?;
        let dim = means.shape().last().copied().unwrap_or(0);
        let means = means.shaped(&[n, dim])?.as_f32()?;
        let class = |(at, row): (usize, &u32)| ClassMean {
            row: *row,
            count: u64::from(counts[at]),
            mean: means[at * dim..(at + 1) * dim].iter().map(|v| f64::from(*v)).collect(),
        };
        Ok(rows.iter().enumerate().map(class).collect())
    }
}
