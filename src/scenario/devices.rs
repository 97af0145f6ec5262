//! `[devices]`: what computes.

use serde::{Serialize, Serializer};

/// What computes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DevicesSection {
    /// Threads that train and evaluate. Changes no result. Default `auto`.
    pub workers: Workers,
    /// Clients trained together on one worker. Changes the last bits of numbers. Default 1.
    pub pack: u32,
    /// Samples of a step of evaluation. Changes the last bits of numbers. Default 64.
    pub evaluation_batch: u32,
}

/// How many workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// One per core.
    Auto,
    /// So many.
    Count(u32),
}

impl Serialize for Workers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Workers::Auto => serializer.serialize_str("auto"),
            Workers::Count(count) => serializer.serialize_u32(*count),
        }
    }
}
