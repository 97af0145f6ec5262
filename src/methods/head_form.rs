//! Which rows of the classifier a message carries.

use std::ops::Range;

use clap::ValueEnum;

use crate::data::TaskView;
use crate::policy::WireForm;
use crate::scenario::reader::Choice;

/// Whether messages carry the whole head or only the rows of classes seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum HeadForm {
    /// All rows from the first round on.
    #[default]
    Fixed,
    /// Rows of the classes seen so far.
    Growing,
}

impl HeadForm {
    /// Rows a Down carries, of a head of `classes` rows.
    pub fn down_rows(self, view: &TaskView, classes: usize) -> Range<usize> {
        match self {
            HeadForm::Fixed => 0..classes,
            HeadForm::Growing => 0..view.seen(),
        }
    }

    /// Rows an Up carries: in the lean form only those that a client of the task can change.
    pub fn up_rows(self, view: &TaskView, classes: usize, form: WireForm) -> Range<usize> {
        match form {
            WireForm::Full => self.down_rows(view, classes),
            WireForm::Lean => view.rows.clone(),
        }
    }
}

impl HeadForm {
    /// Whether seats of one round may learn different tasks: not where a Down carries the rows of the newest.
    pub fn mixed(self) -> Result<(), &'static str> {
        match self {
            HeadForm::Fixed => Ok(()),
            HeadForm::Growing => {
                Err("its messages carry the rows of classes seen so far; set `head = \"fixed\"`")
            }
        }
    }
}

impl Choice for HeadForm {}
