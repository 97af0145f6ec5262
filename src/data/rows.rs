//! Rows of numbers that stand for samples in place of their pixels.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use super::{DataError, Split};

/// One row of numbers per sample of a split, such as the features a frozen network gives for it.
pub trait SampleRows: Debug + Send + Sync {
    /// Extents of one row: `[dim]` of features, `[tokens, dim]` of a stream of tokens.
    fn shape(&self) -> &[usize];

    /// Appends the row of a sample.
    ///
    /// # Errors
    /// Returns an error if the row is not available.
    fn read(&self, sample: u32, out: &mut Vec<f32>) -> Result<(), DataError>;
}

/// Rows of some samples, in memory.
#[derive(Clone, Debug)]
pub struct HeldRows {
    shape: Vec<usize>,
    /// Index into the values of each sample's row.
    starts: BTreeMap<u32, usize>,
    values: Vec<f32>,
}

impl HeldRows {
    /// Returns the given rows: `values` holds those of `samples`, concatenated, each of this shape.
    pub fn new(samples: &[u32], shape: Vec<usize>, values: Vec<f32>) -> HeldRows {
        let width: usize = shape.iter().product();
        let starts = samples.iter().enumerate().map(|(row, sample)| (*sample, row * width));
        HeldRows { starts: starts.collect(), shape, values }
    }
}

impl SampleRows for HeldRows {
    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn read(&self, sample: u32, out: &mut Vec<f32>) -> Result<(), DataError> {
        let width: usize = self.shape.iter().product();
        let start = self.starts.get(&sample).copied();
        let row = start.and_then(|start| self.values.get(start..start + width));
        let missing = || {
            let reason = format!("nothing was computed for sample {sample}");
            DataError::unfit(reason, "read the rows of the whole shard from the simulation context")
        };
        out.extend_from_slice(row.ok_or_else(missing)?);
        Ok(())
    }
}

/// Rows of a split, read by the sample numbers of another split that was chosen from it.
#[derive(Debug)]
pub(super) struct ChosenRows {
    pub rows: Arc<dyn SampleRows>,
    pub split: Arc<Split>,
}

impl SampleRows for ChosenRows {
    fn shape(&self) -> &[usize] {
        self.rows.shape()
    }

    fn read(&self, sample: u32, out: &mut Vec<f32>) -> Result<(), DataError> {
        self.rows.read(self.split.origin(sample), out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_their_sample() -> Result<(), DataError> {
        let rows = HeldRows::new(&[7, 3], vec![2], vec![0.0, 1.0, 2.0, 3.0]);
        let mut read = Vec::new();
        rows.read(3, &mut read)?;
        rows.read(7, &mut read)?;
        assert_eq!((read, rows.shape()), (vec![2.0, 3.0, 0.0, 1.0], &[2][..]));
        let error = rows.read(4, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("sample 4"), "{error}");
        Ok(())
    }
}
