//! The number of samples that an upload counts for.

use crate::policy::Place;
use crate::wire::{Dtype, Kind};

/// Name of the sample count in an upload.
pub const SAMPLES: &str = "samples";

/// The place of the sample count in an upload.
pub fn sample_count() -> Place {
    Place::new(Kind::Statistics, SAMPLES, &[], Dtype::U32)
}
