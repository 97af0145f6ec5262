//! Sizes of planned frames.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::document::Document;
use crate::federation::FrameBytes;

/// One frame by part, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Document)]
pub struct PlannedFrame {
    /// The whole frame: `control + payload`.
    pub frame: u64,
    /// Header, typed fields and tensor table.
    pub control: u64,
    /// Tensor data after the codec.
    pub payload: u64,
    /// Tensor data before the codec.
    pub raw: u64,
    /// `payload` by kind.
    pub kinds: BTreeMap<String, u64>,
}

impl PlannedFrame {
    fn add(&mut self, bytes: &FrameBytes) {
        self.frame += bytes.frame();
        self.control += bytes.control();
        self.payload += bytes.payload;
        self.raw += bytes.raw;
        for (kind, bytes) in &bytes.kinds {
            match self.kinds.get_mut(kind) {
                Some(sum) => *sum += bytes,
                None => _ = self.kinds.insert(kind.clone(), *bytes),
            }
        }
    }
}

/// The frames of a phase in one direction: the smallest, the largest, and their sum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Document)]
pub struct FrameRange {
    /// Number of frames.
    pub frames: u64,
    /// First frame of the fewest bytes; zeros without frames.
    pub smallest: PlannedFrame,
    /// First frame of the most bytes; zeros without frames.
    pub largest: PlannedFrame,
    /// All of them together.
    pub sum: PlannedFrame,
}

impl From<&FrameBytes> for PlannedFrame {
    fn from(bytes: &FrameBytes) -> PlannedFrame {
        PlannedFrame {
            frame: bytes.frame(),
            control: bytes.control(),
            payload: bytes.payload,
            raw: bytes.raw,
            kinds: bytes.kinds.clone(),
        }
    }
}

impl FrameRange {
    /// Returns true if there are no frames.
    pub fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// Takes one frame in.
    pub fn add(&mut self, bytes: &FrameBytes) {
        if self.frames == 0 || bytes.frame() < self.smallest.frame {
            self.smallest = PlannedFrame::from(bytes);
        }
        if self.frames == 0 || bytes.frame() > self.largest.frame {
            self.largest = PlannedFrame::from(bytes);
        }
        self.frames += 1;
        self.sum.add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_keeps_its_ends_and_its_sum() {
        let frame = |payload| FrameBytes {
            header: 30,
            table: 20,
            payload,
            raw: 2 * payload,
            kinds: [("head".to_string(), payload)].into(),
            ..FrameBytes::default()
        };
        let mut range = FrameRange::default();
        [10, 4, 8].into_iter().for_each(|payload| range.add(&frame(payload)));
        assert_eq!((range.smallest.payload, range.largest.payload), (4, 10));
        assert_eq!((range.frames, range.sum.frame, range.sum.kinds["head"]), (3, 172, 22));
    }
}
