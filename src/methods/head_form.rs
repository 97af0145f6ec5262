//! Head rows that a message carries.

use std::ops::Range;

use clap::ValueEnum;

use crate::data::TaskView;
use crate::scenario::reader::Choice;

/// Rows of the head in messages: all, or only those of classes seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum HeadForm {
    /// All rows from the first round on.
    #[default]
    Fixed,
    /// Rows of the classes seen so far.
    Growing,
}

impl HeadForm {
    /// Returns the rows a download carries, of a head of `classes` rows.
    pub fn down_rows(self, view: &TaskView, classes: usize) -> Range<usize> {
        match self {
            HeadForm::Fixed => 0..classes,
            HeadForm::Growing => 0..view.seen(),
        }
    }
}
