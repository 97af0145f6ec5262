//! Sample count of an upload, by which it is weighted.

use crate::policy::TensorSpec;
use crate::wire::{Dtype, Kind};

/// Name of the sample count in uploads.
pub const SAMPLES: &str = "samples";

/// Returns the specification of the sample count in an upload, a u32.
pub fn sample_count() -> TensorSpec {
    TensorSpec::new(Kind::Statistics, SAMPLES, &[], Dtype::U32)
}
