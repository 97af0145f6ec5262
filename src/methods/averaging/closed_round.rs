//! State of the server as a round closes.

use super::{ParameterVectors, RowPurpose};
use crate::methods::parts::SharedModel;
use crate::model::ParameterSet;
use crate::policy::{Aggregate, KeptUpload, ModelFacts, PolicyError, RoundContext, RunContext};

/// A round that closes, for the server's own step after the mean.
pub struct ClosedRound<'a> {
    /// The model's dimensions.
    pub model: &'a ModelFacts,
    /// Parameters that clients train.
    pub shared: SharedModel<'a>,
    /// The parameters before the mean.
    pub before: &'a ParameterSet,
    /// Aggregate of the uploads: the mean that was just applied, sums, and kept uploads.
    pub aggregate: Aggregate,
    /// The round that closes.
    pub round: &'a RoundContext,
    /// The server's run context.
    pub ctx: &'a RunContext,
}

impl ClosedRound<'_> {
    /// Returns the parameters that the client of a kept upload has after its training.
    ///
    /// Head rows that the upload does not carry are those of its download.
    ///
    /// # Errors
    /// When the upload does not fit what was sent.
    pub fn trained(&self, kept: &KeptUpload) -> Result<ParameterSet, PolicyError> {
        let view = &kept.meta.participant.view;
        let of = |purpose| ParameterVectors::of(&self.shared, self.model, view, purpose);
        let from = of(RowPurpose::Down).padded(&kept.sent.parameters);
        Ok(of(RowPurpose::Up).put(&from, &kept.update.parameters)?)
    }

    /// Returns the vectors that clients of the round send.
    pub(in crate::methods) fn sent_vectors(&self) -> ParameterVectors {
        ParameterVectors::of(&self.shared, self.model, &self.round.stage.view, RowPurpose::Up)
    }

    /// Moves the mean to `before + step (mean - before)`.
    pub(in crate::methods) fn step_along(&self, step: f64, mean: &mut ParameterSet) {
        if step != 1.0 {
            let along = |[before, mean]: [f64; 2]| before + step * (mean - before);
            let rows = 0..self.model.classes;
            *mean = self.sent_vectors().renewed(mean, &rows, [self.before, mean], |_| along);
        }
    }

    /// Returns the part of one client in a mean over all there are.
    pub(in crate::methods) fn share(&self) -> f64 {
        1.0 / self.model.clients.max(1) as f64
    }
}
