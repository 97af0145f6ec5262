//! The model that clients train and the server averages: its parameters, their rows, and the weights of clients.

use std::ops::Range;

use super::{ModelAdaptation, RowQuery};
use crate::data::TaskView;
use crate::methods::averaging::{AveragingConfig, RowPurpose, RowSelection};
use crate::policy::{ModelFacts, WireForm};

/// Head rows that a client trains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrainedRows {
    /// Rows that the adaptation trains.
    #[default]
    Usual,
    /// All classes seen.
    Seen,
    /// All rows that messages carry.
    Carried,
}

/// Parameters, averaging and trained rows of a method.
///
/// They alone determine the parameters and rows that messages carry.
#[derive(Clone, Copy)]
pub struct SharedModel<'m> {
    /// Trained parameters and their network.
    pub adaptation: &'m dyn ModelAdaptation,
    /// Weights of clients and head rows in messages.
    pub averaging: AveragingConfig,
    /// Head rows that a client trains.
    pub trains: TrainedRows,
}

impl SharedModel<'_> {
    /// Returns the query for rows in the first round of a phase.
    pub fn query<'a>(
        &self,
        model: &'a ModelFacts,
        view: &'a TaskView,
        direction: RowPurpose,
    ) -> RowQuery<'a> {
        RowQuery { model, view, direction, round: 0, head: self.averaging.head }
    }

    /// Returns the rows that a client with this view sends, trains or predicts with, by purpose.
    pub fn cut(&self, model: &ModelFacts, view: &TaskView, direction: RowPurpose) -> RowSelection {
        let mut cut = self.adaptation.rows(&self.query(model, view, direction));
        let sends_trained = direction == RowPurpose::Up && model.form == WireForm::Lean;
        if sends_trained || direction == RowPurpose::Training {
            match self.trains {
                TrainedRows::Usual => {}
                TrainedRows::Seen => cut.head = 0..view.seen(),
                TrainedRows::Carried => {
                    cut.head = self.averaging.head.down_rows(view, model.classes);
                }
            }
        }
        cut
    }

    /// Returns the head rows that a client with this view trains.
    pub fn trained_rows(&self, model: &ModelFacts, view: &TaskView) -> Range<usize> {
        self.cut(model, view, RowPurpose::Training).head
    }
}
