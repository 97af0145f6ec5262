//! Settings that averaging methods have in common.

use std::ops::Range;

use clap::ValueEnum;

use crate::data::TaskView;
use crate::methods::HeadForm;
use crate::scenario::reader::Choice;

/// Settings of the mean and of head rows in messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AveragingConfig {
    /// Weight of a client in the mean.
    pub weights: ClientWeighting,
    /// Head rows in messages.
    pub head: HeadForm,
}

/// Weight of a client in the mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum ClientWeighting {
    /// In proportion to its samples of the task.
    #[default]
    BySamples,
    /// Equal for all clients with at least one sample.
    Uniform,
}

/// Use of the logits of earlier tasks in a client's loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum OldLogits {
    /// Classes of the current task compete among themselves.
    #[default]
    Mask,
    /// All classes seen compete.
    ///
    /// Logits of classes without samples are pushed down.
    Keep,
}

impl OldLogits {
    /// Returns the head rows that compete, which are those that train.
    pub fn rows(self, view: &TaskView) -> Range<usize> {
        match self {
            OldLogits::Mask => view.rows.clone(),
            OldLogits::Keep => 0..view.seen(),
        }
    }
}
