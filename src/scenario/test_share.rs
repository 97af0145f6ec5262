//! `data.test_share`: a part to test on of data that nobody has divided.

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Param, TableReader};

/// A part of the samples to be tested, drawn: for data that nobody has divided. In a file `test_share`, `test_drawn` and
/// `test_seed` of `[data]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TestShare {
    /// Which part.
    #[serde(rename = "test_share")]
    pub share: f64,
    /// Of what. Default `by-class`.
    #[serde(rename = "test_drawn", skip_serializing_if = "TestDraw::is_by_class")]
    pub drawn: TestDraw,
    /// Of the draw. Default 0. Not the run's: the split belongs to the benchmark.
    #[serde(rename = "test_seed")]
    pub seed: u64,
}

/// Of what a part is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum TestDraw {
    /// Of every class the share, rounded down; one at least and never all.
    #[default]
    ByClass,
    /// Of all samples together, so that classes give more or less than the share, as HePCo's release draws.
    Together,
}

impl TestDraw {
    fn is_by_class(&self) -> bool {
        *self == TestDraw::ByClass
    }
}

/// The keys, the first of which must be there for the others.
const KEYS: [&str; 3] = ["test_share", "test_drawn", "test_seed"];

impl TestShare {
    /// The share of every class with seed 0, as most data are divided.
    pub fn of_every_class(share: f64) -> TestShare {
        TestShare { share, drawn: TestDraw::ByClass, seed: 0 }
    }

    /// Where it is written.
    pub(super) fn read(table: &mut TableReader<'_>) -> Option<TestShare> {
        let share =
            Param::unset(KEYS[0], "part that is tested, drawn, where there is no test part");
        let share = table.optional(&share.above(0.0).below(1.0));
        if !table.given(KEYS[0]) {
            table.foreign(&KEYS[1..], "no `test_share`");
            return None;
        }
        let drawn = Param::new(KEYS[1], TestDraw::ByClass, "of what it is drawn");
        let seed = Param::new(KEYS[2], 0, "of that draw; not the run's");
        // Where the share is wrong by itself, they are not.
        let (drawn, seed) = (table.get(&drawn), table.get(&seed));
        share.map(|share| TestShare { share, drawn, seed })
    }

    /// Where it can have no meaning.
    pub(super) fn refuse(table: &mut TableReader<'_>, beside: &str) {
        table.foreign(&KEYS, beside);
    }
}
