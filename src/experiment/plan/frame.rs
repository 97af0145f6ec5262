//! Sizes of planned frames.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::federation::FrameBytes;
use crate::wire::FrameSize;

/// One frame by part, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
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

impl From<&FrameSize> for PlannedFrame {
    fn from(size: &FrameSize) -> PlannedFrame {
        PlannedFrame {
            frame: size.frame().0,
            control: size.control().0,
            payload: size.payload.0,
            raw: size.raw.0,
            kinds: size.kinds.iter().map(|(kind, b)| (kind.name().to_string(), b.0)).collect(),
        }
    }
}

impl PlannedFrame {
    fn add(&mut self, other: &PlannedFrame) {
        self.frame += other.frame;
        self.control += other.control;
        self.payload += other.payload;
        self.raw += other.raw;
        for (kind, bytes) in &other.kinds {
            *self.kinds.entry(kind.clone()).or_default() += bytes;
        }
    }
}

/// The frames of a phase in one direction: the smallest, the largest, and their sum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FrameRange {
    /// How many.
    pub frames: u64,
    /// The smallest.
    pub smallest: PlannedFrame,
    /// The largest.
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
    /// Whether there are no frames.
    pub fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// Takes one frame in.
    pub fn add(&mut self, frame: PlannedFrame) {
        if self.frames == 0 || frame.frame < self.smallest.frame {
            self.smallest = frame.clone();
        }
        if self.frames == 0 || frame.frame > self.largest.frame {
            self.largest = frame.clone();
        }
        self.frames += 1;
        self.sum.add(&frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_keeps_its_ends_and_its_sum() {
        let frame = |payload| PlannedFrame {
            frame: payload + 50,
            control: 50,
            payload,
            raw: 2 * payload,
            kinds: [("head".to_string(), payload)].into(),
        };
        let mut range = FrameRange::default();
        [10, 4, 8].into_iter().for_each(|payload| range.add(frame(payload)));
        assert_eq!((range.smallest.payload, range.largest.payload), (4, 10));
        assert_eq!((range.frames, range.sum.frame, range.sum.kinds["head"]), (3, 172, 22));
    }
}
