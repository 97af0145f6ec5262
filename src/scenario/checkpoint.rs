//! `[record.checkpoint]`: from where a killed run can go on.

use clap::ValueEnum;
use serde::{Serialize, Serializer};

use super::reader::{Choice, Keys, Param, TableReader};

/// From where a killed run can go on. Changes no result.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
pub struct CheckpointSection {
    /// After which rounds a killed run can go on: a word, or a number of rounds.
    #[key(read = Cadence::read(table, doc))]
    pub every: Cadence,
    /// How many are kept.
    ///
    /// A damaged one falls back to the one before.
    #[key(default = 2, at_least = 1.0, at_most = 1000.0)]
    pub keep: u32,
    /// Largest part of the run's time that goes into them.
    ///
    /// One that comes too soon is left out.
    #[key(default = 0.05, above = 0.0, at_most = 1.0)]
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
#[derive(Clone, Copy, PartialEq, ValueEnum, Choice)]
enum Word {
    /// After every round; or a number: after so many.
    Round,
    /// After every task.
    Task,
    /// Never: a killed run begins again.
    Never,
}

impl Cadence {
    fn read(table: &mut TableReader<'_>, doc: &'static str) -> Cadence {
        match table.given_string("every") || !table.given("every") {
            true => match table.get(&Param::new("every", Word::Round, doc)) {
                Word::Round => Cadence::Rounds(1),
                Word::Task => Cadence::Tasks,
                Word::Never => Cadence::Never,
            },
            false => {
                let rounds = Param::new("every", 1_u32, doc).at_least(1.0);
                Cadence::Rounds(table.get(&rounds))
            }
        }
    }
}
