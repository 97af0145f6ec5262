//! Words for directions, outcomes and workers, and sums of frames by both.

use std::collections::BTreeMap;

use crate::federation::ledger::{Charge, Sums};
use crate::federation::{Direction, Event, FrameOutcome, SinkError};

/// The kind under which headers, typed fields and tensor tables are listed.
pub const CONTROL: &str = "control";

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
        FrameOutcome::Duplicate => "duplicate",
    }
}

/// The word for so many workers.
pub fn workers_word(count: usize) -> &'static str {
    if count == 1 { "worker" } else { "workers" }
}

/// Sums of a round or a run by direction and outcome.
#[derive(Clone, Debug, Default)]
pub struct Traffic(pub BTreeMap<(Direction, FrameOutcome), Sums>);

impl Traffic {
    /// Takes a charged frame in; other events are none of its business.
    pub fn take(&mut self, event: &Event) -> Result<(), SinkError> {
        if let Some(charge) = Charge::from_event(event)? {
            self.0.entry((charge.direction, charge.outcome)).or_default().add(&charge);
        }
        Ok(())
    }

    /// Everything of one direction, whatever became of it.
    pub fn direction(&self, direction: Direction) -> Sums {
        let mut all = Sums::default();
        for (_, sums) in self.0.iter().filter(|((way, _), _)| *way == direction) {
            all += *sums;
        }
        all
    }
}
