//! Results of a recorded past, in place of workers and of the server's policy.

use std::sync::Arc;

use super::RecordedRun;
use crate::federation::aggregation::RejectedUpload;
use crate::federation::bias::BiasMeasurement;
use crate::federation::compute::{
    ClientUpdate, ParticipantRef, ResultSource, SuppliedClosing, SuppliedTraining,
};
use crate::federation::error::FederationError;
use crate::federation::frames::{SentDownload, SentUpload};
use crate::federation::metric_value::Digest;
use crate::federation::privacy::Masking;
use crate::federation::simulation_context::SimulationContext;
use crate::federation::snapshot::{Snapshot, SnapshotPlace};
use crate::learning::Tally;
use crate::policy::{Failure, Participant, RoundContext};
use crate::quantity::{ClientId, ParticipantId, Round, TaskId};
use crate::wire::Body;

fn missing(what: String) -> FederationError {
    FederationError::Unrecorded(what)
}

impl RecordedRun {
    /// Returns true if an upload was accepted on arrival and refused only during aggregation.
    fn is_rejected_in_aggregation(&self, round: Round, participant: ParticipantId) -> bool {
        if self.snapshot.is_some() {
            return self.untransformed.contains(&(round, participant));
        }
        let recorded = self
            .participants
            .get(&(round, participant))
            .and_then(|recorded| recorded.rejected.as_ref());
        recorded.is_some_and(|(_, on_arrival)| !on_arrival)
    }
}

impl ResultSource for RecordedRun {
    fn ends_at(&self, place: SnapshotPlace) -> Option<&Snapshot> {
        self.snapshot.as_ref().filter(|snapshot| snapshot.place == place)
    }

    fn knows(&self, round: Round, participant: ParticipantId) -> bool {
        let known = || self.participants.get(&(round, participant));
        let recorded = || {
            known().is_some_and(|recorded| recorded.trained.is_some() || recorded.failed.is_some())
        };
        // A run replayed without a snapshot computes nothing, so every participant has to be in the record.
        !self.out.contains_key(&(round, participant)) && (self.snapshot.is_none() || recorded())
    }

    /// Downloads have their tensors only if a participant will train on them.
    fn downs(
        &self,
        simulation: &SimulationContext,
        context: &RoundContext,
        all: &[Participant],
    ) -> Result<Vec<Arc<SentDownload>>, FederationError> {
        self.downloads(&simulation.coding, context.round, all)
    }

    fn training(
        &self,
        at: &ParticipantRef<'_>,
        _: Option<&Masking>,
    ) -> Result<SuppliedTraining, FederationError> {
        let (round, participant) = at.place();
        let nothing =
            || missing(format!("{participant} of {round} was not trained in the recorded run"));
        let recorded = self.participants.get(&(round, participant)).ok_or_else(nothing)?;
        let Some(training) = &recorded.trained else {
            let (reason, detail) = recorded.failed.clone().ok_or_else(nothing)?;
            let failure = failure(&reason, detail).ok_or_else(nothing)?;
            return Ok(SuppliedTraining { samples: 0, result: Err(failure) });
        };
        let upload = SentUpload {
            body: Some(Body::default()),
            own: None,
            exchange: None,
            bytes: recorded.upload.clone().unwrap_or_default(),
            digest: training.digest,
            fault: recorded
                .rejected
                .as_ref()
                .filter(|_| !self.is_rejected_in_aggregation(round, participant))
                .map(|r| r.0.clone()),
        };
        let (forged, metrics) = (recorded.forged.clone(), training.metrics.clone());
        let result =
            Ok(ClientUpdate { up: upload, forged, metrics, state_bytes: training.state_bytes });
        Ok(SuppliedTraining { samples: training.samples as usize, result })
    }

    fn damage(&self, at: &ParticipantRef<'_>) -> Option<String> {
        let (reason, detail) = self.participants.get(&at.place())?.failed.clone()?;
        (reason == "corrupt").then_some(detail)
    }

    fn refused(&self, round: Round) -> Vec<RejectedUpload> {
        let rejected = self.rounds.get(&round).into_iter().flat_map(|recorded| &recorded.rejected);
        rejected
            .filter(|refusal| self.is_rejected_in_aggregation(refusal.round, refusal.participant))
            .cloned()
            .collect()
    }

    fn closing(&self, context: &RoundContext, _: u32) -> Result<SuppliedClosing, FederationError> {
        let round = context.round;
        let nothing = || missing(format!("{round} was not closed in the recorded run"));
        let recorded = self.rounds.get(&round).ok_or_else(nothing)?;
        Ok(SuppliedClosing { digest: recorded.digest, metrics: recorded.metrics.clone() })
    }

    fn ending(&self, task: TaskId) -> Result<Digest, FederationError> {
        let nothing = || missing(format!("{task} was not over in the recorded run"));
        self.tasks.get(&task).copied().ok_or_else(nothing)
    }

    fn tested_round(&self, round: Round) -> Result<Tally, FederationError> {
        let nothing = || missing(format!("nothing was tested after {round} of the recorded run"));
        self.tested_rounds.get(&round).cloned().ok_or_else(nothing)
    }

    fn tested_task(&self, task: TaskId) -> Result<Tally, FederationError> {
        let nothing = || missing(format!("nothing was tested after {task} of the recorded run"));
        self.tested_tasks.get(&task).cloned().ok_or_else(nothing)
    }

    fn bias(&self, round: Round) -> Result<BiasMeasurement, FederationError> {
        let recorded = self.rounds.get(&round).and_then(|recorded| recorded.bias.clone());
        recorded.ok_or_else(|| missing(format!("client models of {round} were not compared")))
    }

    fn saved_state(&self, client: ClientId) -> Option<&Body> {
        let snapshot = self.snapshot.as_ref()?;
        self.states.get(&client).map(|place| &snapshot.clients[*place].1)
    }
}

/// Returns the failure that a worker would report; `None` for failures that follow from draws.
fn failure(reason: &str, detail: String) -> Option<Failure> {
    Some(match reason {
        "no_data" => Failure::NoData,
        "non_finite" => Failure::NonFinite(detail),
        "out_of_range" => Failure::OutOfRange(detail),
        "policy" => Failure::Policy(detail),
        "panicked" => Failure::Panicked(detail),
        _ => return None,
    })
}
