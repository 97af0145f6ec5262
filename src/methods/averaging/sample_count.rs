//! The number of samples that an upload counts for.

use crate::policy::TensorSpec;
use crate::wire::{Dtype, Kind};

/// Name of the sample count in an upload.
pub const SAMPLES: &str = "samples";

/// Returns the place of the sample count in an upload.
pub fn sample_count() -> TensorSpec {
    TensorSpec::new(Kind::Statistics, SAMPLES, &[], Dtype::U32)
}
