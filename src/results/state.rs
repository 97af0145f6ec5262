//! State of a run, from its manifest and its lock.

use std::fmt;

use serde::Serialize;

use super::RunRecord;
use crate::document::Document;
use crate::experiment::{Status, was_killed};

/// State of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Document)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// A process writes the run.
    Running,
    /// The manifest says `running`, but no process writes the run any more.
    Killed,
    /// The run is complete.
    Done,
    /// Stopped by the user.
    Interrupted,
    /// Ended by an error.
    Failed,
}

impl State {
    /// Every state with its word.
    pub const ALL: [(State, &'static str); 5] = [
        (State::Running, "running"),
        (State::Killed, "killed"),
        (State::Done, "done"),
        (State::Interrupted, "interrupted"),
        (State::Failed, "failed"),
    ];

    /// Returns the state of a run.
    pub fn of(run: &RunRecord) -> State {
        match run.manifest.status {
            Status::Running if was_killed(&run.path, &run.manifest) => State::Killed,
            Status::Running => State::Running,
            Status::Done => State::Done,
            Status::Interrupted => State::Interrupted,
            Status::Failed => State::Failed,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = State::ALL.iter().find(|(state, _)| state == self).map_or("", |(_, word)| word);
        f.write_str(word)
    }
}
