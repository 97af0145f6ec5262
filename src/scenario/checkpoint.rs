//! `[record.checkpoint]`: from where a killed run can go on.

use clap::ValueEnum;
use serde::{Serialize, Serializer};

use super::reader::{Choice, Param, TableReader, defaults};

/// From where a killed run can go on. Changes no result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckpointSection {
    /// After which rounds one is written. Default `round`.
    pub every: Cadence,
    /// How many are kept; a damaged one falls back to the one before. Default 2.
    pub keep: u32,
    /// The largest part of the run's time that may go into them: one that comes too soon is left
    /// out. Default 0.05.
    pub share: f64,
}

/// After which rounds a checkpoint is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cadence {
    /// None.
    #[default]
    Never,
    /// After the last of a task.
    Tasks,
    /// After every so many rounds of the run.
    Rounds(u32),
}

impl Serialize for Cadence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Cadence::Never => serializer.serialize_str("never"),
            Cadence::Tasks => serializer.serialize_str("task"),
            Cadence::Rounds(1) => serializer.serialize_str("round"),
            Cadence::Rounds(rounds) => serializer.serialize_u32(*rounds),
        }
    }
}

/// [`Cadence`] as a word.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Word {
    /// After every round; or a number: after so many.
    Round,
    /// After every task.
    Task,
    /// Never: a killed run begins anew.
    Never,
}

impl Choice for Word {}

impl CheckpointSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> CheckpointSection {
        let doc = "after which rounds a killed run can go on: a word, or a number of rounds";
        let every = match table.given_string("every") || !table.given("every") {
            true => match table.get(&Param::new("every", Word::Round, doc)) {
                Word::Round => Cadence::Rounds(1),
                Word::Task => Cadence::Tasks,
                Word::Never => Cadence::Never,
            },
            false => {
                let rounds = Param::new("every", 1_u32, doc).at_least(1.0);
                Cadence::Rounds(table.get(&rounds))
            }
        };
        let keep = Param::new("keep", 2_u32, "how many are kept").at_least(1.0).at_most(1000.0);
        let doc = "largest part of the run's time that goes into them";
        let share = Param::new("share", 0.05, doc).above(0.0).at_most(1.0);
        CheckpointSection { every, keep: table.get(&keep), share: table.get(&share) }
    }
}

impl Default for CheckpointSection {
    fn default() -> Self {
        defaults(Self::read)
    }
}
