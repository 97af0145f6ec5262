//! Settings that averaging methods have in common.

use std::ops::Range;

use clap::ValueEnum;

use crate::data::TaskView;
use crate::methods::HeadForm;
use crate::scenario::reader::Choice;

/// How uploads are averaged and which head rows travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Averaging {
    /// How much a client counts.
    pub weights: Weights,
    /// Which head rows messages carry.
    pub head: HeadForm,
}

/// How much a client counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum Weights {
    /// In proportion to its samples of the task.
    #[default]
    BySamples,
    /// As much as any other that has a sample.
    Uniform,
}

/// What the loss of a client does with the logits of earlier tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum OldLogits {
    /// Classes of the current task compete among themselves.
    #[default]
    Mask,
    /// All classes seen compete.
    ///
    /// Those nobody holds are pushed down.
    Keep,
}

impl OldLogits {
    /// The head rows that compete, which are those that train.
    pub fn rows(self, view: &TaskView) -> Range<usize> {
        match self {
            OldLogits::Mask => view.rows.clone(),
            OldLogits::Keep => 0..view.seen(),
        }
    }
}
