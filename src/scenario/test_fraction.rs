//! `data.test_fraction`: drawn test part of data without a test split.

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Param, TableReader};

/// Drawn test part of data without a test split.
///
/// In a file `test_fraction`, `test_drawn` and `test_seed` of `[data]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TestFraction {
    /// Fraction of the samples.
    #[serde(rename = "test_fraction")]
    pub fraction: f64,
    /// Way of drawing. Default `by-class`.
    #[serde(rename = "test_drawn", skip_serializing_if = "TestDraw::is_by_class")]
    pub drawn: TestDraw,
    /// Seed of the draw. Default 0. It is independent of the run's, because the split belongs to the benchmark.
    #[serde(rename = "test_seed")]
    pub seed: u64,
}

/// Way of drawing the test part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum TestDraw {
    /// The fraction of every class, rounded down; at least one sample and never all.
    #[default]
    ByClass,
    /// The fraction of all samples together, so that classes differ, as in HePCo's release.
    Together,
}

impl TestDraw {
    fn is_by_class(&self) -> bool {
        *self == TestDraw::ByClass
    }
}

/// Keys, of which the first must be given for the others.
const KEYS: [&str; 3] = ["test_fraction", "test_drawn", "test_seed"];

impl TestFraction {
    /// Returns the fraction `fraction` of every class with seed 0, the usual division.
    pub fn of_every_class(fraction: f64) -> TestFraction {
        TestFraction { fraction, drawn: TestDraw::ByClass, seed: 0 }
    }

    /// Reads the keys for sources that may have a test part.
    pub(super) fn read(table: &mut TableReader<'_>) -> Option<TestFraction> {
        let fraction = Param::unset(
            KEYS[0],
            "fraction of samples drawn for testing, for data without a test split",
        );
        let fraction = table.optional(&fraction.above(0.0).below(1.0));
        if !table.given(KEYS[0]) {
            table.foreign(&KEYS[1..], "no `test_fraction`");
            return None;
        }
        let drawn = Param::new(KEYS[1], TestDraw::ByClass, "way of drawing the test part");
        let seed = Param::new(KEYS[2], 0, "seed of the test split, independent of `seed.run`");
        // An invalid fraction is one error; the other keys are still valid then.
        let (drawn, seed) = (table.get(&drawn), table.get(&seed));
        fraction.map(|fraction| TestFraction { fraction, drawn, seed })
    }

    /// Reports the keys for sources that have none.
    pub(super) fn refuse(table: &mut TableReader<'_>, condition: &str) {
        table.foreign(&KEYS, condition);
    }
}
