//! Words for directions, outcomes and workers, and sums of frames by direction and outcome.

use std::collections::BTreeMap;

use crate::federation::ledger::{Charge, Sums};
use crate::federation::{Direction, Event, FrameOutcome, SinkError};

/// Kind under which headers, typed fields and tensor tables are listed.
pub const CONTROL: &str = "control";

/// Returns the word for a direction in tables.
pub fn direction_word(direction: Direction) -> &'static str {
    match direction {
        Direction::Down => "down",
        Direction::Up => "up",
    }
}

/// Returns the word for an outcome in tables.
pub fn outcome_word(outcome: FrameOutcome) -> &'static str {
    match outcome {
        FrameOutcome::Delivered => "delivered",
        FrameOutcome::Late => "late",
        FrameOutcome::Lost => "lost",
        FrameOutcome::Duplicate => "duplicate",
    }
}

/// Returns `worker` or `workers`, by their number.
pub fn workers_word(count: usize) -> &'static str {
    if count == 1 { "worker" } else { "workers" }
}

/// Sums over a round or a run, by direction and outcome.
#[derive(Clone, Debug, Default)]
pub struct Traffic(pub BTreeMap<(Direction, FrameOutcome), Sums>);

impl Traffic {
    /// Adds a charged frame; other events have no effect.
    pub fn take(&mut self, event: &Event) -> Result<(), SinkError> {
        if let Some(charge) = Charge::from_event(event)? {
            self.0.entry((charge.direction, charge.outcome)).or_default().add(&charge);
        }
        Ok(())
    }

    /// Returns the sums of one direction over all outcomes.
    pub fn direction(&self, direction: Direction) -> Sums {
        let mut all = Sums::default();
        for (_, sums) in self.0.iter().filter(|((way, _), _)| *way == direction) {
            all += *sums;
        }
        all
    }
}
