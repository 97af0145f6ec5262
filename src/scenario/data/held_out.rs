//! `data.validation_fraction` and `data.evaluate`: samples held out of training, and samples that are tested.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::document::Document;
use crate::scenario::reader::Choice;

/// Samples on which accuracies are measured.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum, Choice, Document,
)]
#[serde(rename_all = "kebab-case")]
pub enum Evaluated {
    /// Test set.
    #[default]
    Test,
    /// Samples that `data.validation_fraction` holds out of the training data; the test set is not used.
    Validation,
}

/// Training samples of every class that are held out, and their purpose.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, Document)]
pub struct HeldOut {
    /// Fraction of every class that is held out of training.
    #[document(unit = "share")]
    pub fraction: f64,
    /// Samples on which accuracies are measured.
    pub evaluate: Evaluated,
}

impl fmt::Display for HeldOut {
    /// Formats the set in one line for tables.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = self.fraction;
        match self.evaluate {
            Evaluated::Validation => write!(
                f,
                "VALIDATION: accuracies are on held-out training samples ({share} of every class), not on the test \
                 set"
            ),
            Evaluated::Test => write!(
                f,
                "held out: {share} of every class's training samples, not used; accuracies are on the test set"
            ),
        }
    }
}

impl Evaluated {
    pub(super) fn is_test(&self) -> bool {
        *self == Evaluated::Test
    }
}
