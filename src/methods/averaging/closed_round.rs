//! Round whose mean was just applied, for the method's server update.

use super::{ParameterVectors, RowPurpose};
use crate::methods::parts::SharedModel;
use crate::model::ParameterSet;
use crate::policy::{Aggregate, KeptUpload, ModelFacts, PolicyError, RoundContext, RunContext};

/// Round whose mean is applied, as the method's server update gets it.
pub struct ClosedRound<'a> {
    /// The model's dimensions.
    pub model: &'a ModelFacts,
    /// Parameters that clients train.
    pub shared: SharedModel<'a>,
    /// Parameters before the mean.
    pub before: &'a ParameterSet,
    /// Aggregate of the uploads: the mean that was just applied, sums, and kept uploads.
    pub aggregate: Aggregate,
    /// Round that closes.
    pub round: &'a RoundContext,
    /// The server's run context.
    pub ctx: &'a RunContext,
}

impl ClosedRound<'_> {
    /// Returns the parameters of a kept upload's client after its training.
    ///
    /// Head rows that the upload does not contain are those of the client's download.
    ///
    /// # Errors
    /// When the upload does not fit the download.
    pub fn trained(&self, kept: &KeptUpload) -> Result<ParameterSet, PolicyError> {
        let view = &kept.meta.participant.view;
        let of = |purpose| ParameterVectors::of(&self.shared, self.model, view, purpose);
        let from = of(RowPurpose::Down).padded(&kept.sent.parameters);
        Ok(of(RowPurpose::Up).put(&from, &kept.update.parameters)?)
    }

    /// Returns the selection of the vectors that clients upload in this round.
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

    /// Returns a client's weight in a mean over all `N` clients of the federation, `1 / N`.
    pub(in crate::methods) fn share(&self) -> f64 {
        1.0 / self.model.clients.max(1) as f64
    }
}
