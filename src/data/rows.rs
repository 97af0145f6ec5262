//! Rows that stand for samples in place of their pixels.

use std::fmt::Debug;

use super::DataError;

/// One row of numbers per sample of a split, such as the features a frozen network gives for it.
pub trait SampleRows: Debug + Send + Sync {
    /// Extents of one row: `[dim]` of features, `[tokens, dim]` of a stream of tokens.
    fn shape(&self) -> &[usize];

    /// Appends the row of a sample.
    ///
    /// # Errors
    /// When it is not there.
    fn read(&self, sample: u32, out: &mut Vec<f32>) -> Result<(), DataError>;
}
