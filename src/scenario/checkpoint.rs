//! `[record.checkpoint]`: states from which a stopped run resumes.

use clap::ValueEnum;
use serde::{Serialize, Serializer};

use super::reader::{Choice, Keys, Param, TableReader};

/// States from which a stopped run resumes. Changes no result.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
pub struct CheckpointSection {
    /// Rounds after which a checkpoint is written: a word, or a number of rounds.
    #[key(read = Cadence::read(table, doc))]
    pub every: Cadence,
    /// Number of checkpoints kept.
    ///
    /// If one is damaged, the run resumes from the one before.
    #[key(default = 2, at_least = 1.0, at_most = 1000.0)]
    pub keep: u32,
    /// Largest fraction of the run's time for checkpoints; one that is due too soon is skipped.
    #[key(default = 0.05, above = 0.0, at_most = 1.0)]
    pub max_time_fraction: f64,
}

/// Rounds after which a checkpoint is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cadence {
    /// No checkpoints.
    #[default]
    Never,
    /// Last round of each task.
    Tasks,
    /// Every `n` rounds of the run.
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

/// Words of [`Cadence`].
#[derive(Clone, Copy, PartialEq, ValueEnum, Choice)]
enum Word {
    /// After every round; a number: after that many rounds.
    Round,
    /// After every task.
    Task,
    /// No checkpoints: a stopped run starts again from the beginning.
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
