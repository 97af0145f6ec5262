//! A frame on its way: where it goes, what becomes of it, what it weighs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::scenario::Direction;
use crate::wire::Kind;

/// Outcome of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameOutcome {
    /// Arrived in time.
    Delivered,
    /// Arrived after its round had closed and was discarded.
    Late,
    /// Lost: the frame, its sender or its receiver vanished.
    Lost,
    /// Arrived a second time and was discarded.
    Duplicate,
}

/// Bytes of a frame by part: `frame = header + meta + table + payload`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameBytes {
    /// The fixed header.
    pub header: u64,
    /// Typed fields that are not tensors.
    pub meta: u64,
    /// The tensor table.
    pub table: u64,
    /// Tensor data before the codec.
    pub raw: u64,
    /// Tensor data after the codec.
    pub payload: u64,
    /// `payload` split by kind (weights, prompt, head, prototypes ...).
    pub kinds: BTreeMap<String, u64>,
}

impl FrameBytes {
    /// Returns `header + meta + table`.
    pub fn control(&self) -> u64 {
        self.header + self.meta + self.table
    }

    /// Returns true if it is a frame of secure aggregation, in addition to the uploads.
    pub fn is_protocol(&self) -> bool {
        self.kinds.contains_key(Kind::SecureAggregation.name())
    }

    /// Returns the bytes of everything that crosses the link.
    pub fn frame(&self) -> u64 {
        self.control() + self.payload
    }
}
