//! Sums of frames: by direction, outcome and kind.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::federation::{Direction, FrameBytes, FrameOutcome};

/// The kind under which headers, typed fields and tensor tables are summed.
pub const CONTROL: &str = "control";

/// Frames of one direction and outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Number of frames.
    pub frames: u64,
    /// Whole frames: `control + payload`.
    pub bytes: u64,
    /// What crossed the link; less than `bytes` where frames were lost on the way.
    pub sent: u64,
    /// Bytes of frames that are not copies of another frame of their round.
    pub distinct: u64,
    /// Header, typed fields and tensor tables.
    pub control: u64,
    /// Tensor data after the codec.
    pub payload: u64,
    /// Tensor data before the codec.
    pub raw: u64,
    /// `payload` by kind.
    pub kinds: BTreeMap<String, u64>,
}

impl Traffic {
    /// Adds one frame.
    pub fn add(&mut self, frame: &FrameBytes, sent: u64, copy: bool) {
        self.frames += 1;
        self.bytes += frame.frame();
        self.sent += sent;
        self.distinct += if copy { 0 } else { frame.frame() };
        self.control += frame.control();
        self.payload += frame.payload;
        self.raw += frame.raw;
        for (kind, bytes) in &frame.kinds {
            *self.kinds.entry(kind.clone()).or_default() += bytes;
        }
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Traffic) {
        self.frames += other.frames;
        self.bytes += other.bytes;
        self.sent += other.sent;
        self.distinct += other.distinct;
        self.control += other.control;
        self.payload += other.payload;
        self.raw += other.raw;
        for (kind, bytes) in &other.kinds {
            *self.kinds.entry(kind.clone()).or_default() += bytes;
        }
    }
}

/// Sums by direction and outcome.
pub type TrafficBy = BTreeMap<(Direction, FrameOutcome), Traffic>;

/// Everything of one direction, whatever became of it.
pub fn total(traffic: &TrafficBy, direction: Direction) -> Traffic {
    let mut sum = Traffic::default();
    for (_, part) in traffic.iter().filter(|((way, _), _)| *way == direction) {
        sum.merge(part);
    }
    sum
}

/// The word for a direction in tables.
pub fn direction_word(direction: Direction) -> &'static str {
    match direction {
        Direction::Down => "down",
        Direction::Up => "up",
    }
}

/// The word for an outcome in tables.
pub fn outcome_word(outcome: FrameOutcome) -> &'static str {
    match outcome {
        FrameOutcome::Delivered => "delivered",
        FrameOutcome::Late => "late",
        FrameOutcome::Lost => "lost",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_frame_counts_what_crossed_and_a_copy_is_not_distinct() {
        let frame = FrameBytes {
            header: 40,
            meta: 2,
            table: 8,
            raw: 400,
            payload: 200,
            kinds: [("prompt".to_string(), 150), ("head".to_string(), 50)].into(),
        };
        let mut sum = Traffic::default();
        sum.add(&frame, 250, false);
        sum.add(&frame, 90, true);
        assert_eq!((sum.frames, sum.bytes, sum.sent, sum.distinct), (2, 500, 340, 250));
        assert_eq!(sum.control + sum.payload, sum.bytes);
        assert_eq!(sum.kinds.values().sum::<u64>(), sum.payload);
        let mut twice = sum.clone();
        twice.merge(&sum);
        assert_eq!((twice.raw, twice.kinds["head"]), (1_600, 200));
    }
}
