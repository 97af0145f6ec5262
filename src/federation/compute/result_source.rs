//! Sources of results that are known without computing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::client_update::ClientUpdate;
use crate::federation::aggregation::RejectedUpload;
use crate::federation::bias::BiasMeasurement;
use crate::federation::error::FederationError;
use crate::federation::frames::SentDownload;
use crate::federation::metric_value::{Digest, MetricValue};
use crate::federation::privacy::Masking;
use crate::federation::simulation_context::SimulationContext;
use crate::federation::snapshot::{Snapshot, SnapshotPlace};
use crate::learning::Tally;
use crate::policy::{Failure, Participant, RoundContext};
use crate::quantity::{ClientId, ParticipantId, Round, TaskId};
use crate::wire::Body;

/// Result of a participant's training that was not computed.
pub(in crate::federation) struct SuppliedTraining {
    pub samples: usize,
    pub result: Result<ClientUpdate, Failure>,
}

/// Result of closing a round.
#[derive(Default)]
pub(in crate::federation) struct SuppliedClosing {
    pub digest: u64,
    pub metrics: BTreeMap<String, MetricValue>,
}

/// A participant of a round.
pub(in crate::federation) struct ParticipantRef<'a> {
    pub simulation: &'a SimulationContext,
    pub context: &'a RoundContext,
    pub participant: &'a Participant,
}

impl ParticipantRef<'_> {
    /// Returns the round's number and the participant's.
    pub fn place(&self) -> (Round, ParticipantId) {
        (self.context.round, self.participant.id)
    }
}

/// Source of known results, in place of workers and of the server's policy.
pub(in crate::federation) trait ResultSource: Send + Sync {
    /// Returns the snapshot that was taken at `place`, if the source ends there and the rest is computed.
    fn ends_at(&self, place: SnapshotPlace) -> Option<&Snapshot> {
        let _ = place;
        None
    }

    /// Returns true if a participant's training is known; otherwise it is computed.
    fn knows(&self, round: Round, participant: ParticipantId) -> bool {
        let _ = (round, participant);
        true
    }

    /// Returns the downloads of a round, one per participant.
    fn downs(
        &self,
        simulation: &SimulationContext,
        context: &RoundContext,
        participants: &[Participant],
    ) -> Result<Vec<Arc<SentDownload>>, FederationError>;

    /// Returns the result of a participant's training, and the upload that follows, masked or not.
    fn training(
        &self,
        at: &ParticipantRef<'_>,
        masking: Option<&Masking>,
    ) -> Result<SuppliedTraining, FederationError>;

    /// Returns the description of the damage that a client finds in a download.
    fn damage(&self, at: &ParticipantRef<'_>) -> Option<String>;

    /// Returns the uploads of a round that cannot be aggregated.
    fn refused(&self, round: Round) -> Vec<RejectedUpload> {
        let _ = round;
        Vec::new()
    }

    /// Returns the result of closing a round that aggregates this number of uploads.
    fn closing(
        &self,
        context: &RoundContext,
        updates: u32,
    ) -> Result<SuppliedClosing, FederationError> {
        let _ = (context, updates);
        Ok(SuppliedClosing::default())
    }

    /// Returns the digest of the server's state at the end of a task.
    fn ending(&self, task: TaskId) -> Result<Digest, FederationError> {
        let _ = task;
        Ok(Digest(0))
    }

    /// Returns the result of the test after a round.
    fn tested_round(&self, round: Round) -> Result<Tally, FederationError> {
        Err(FederationError::Unrecorded(format!("nothing is tested after {round}")))
    }

    /// Returns the result of the test after a task.
    fn tested_task(&self, task: TaskId) -> Result<Tally, FederationError> {
        Err(FederationError::Unrecorded(format!("nothing is tested after {task}")))
    }

    /// Returns the distances between the client models of a round before aggregation.
    fn bias(&self, round: Round) -> Result<BiasMeasurement, FederationError> {
        Err(FederationError::Unrecorded(format!("client models of {round} are not compared")))
    }

    /// Returns a client's state in the snapshot at which the source ends.
    fn saved_state(&self, client: ClientId) -> Option<&Body> {
        let _ = client;
        None
    }
}
