//! Sources of results that are known without computing.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use tokio::sync::oneshot;

use super::model_tests::{ComparisonRequest, ModelTest};
use super::opening::{OpeningRequest, RoundOpening, first_exchange, seats};
use super::policy_holder::{PolicyHolder, PolicyStep};
use super::policy_steps::{Restart, RoundAggregate, ServerState};
use super::{Computation, Compute, Workers};
use crate::federation::bias::Comparison;
use crate::federation::devices::Work;
use crate::federation::error::FederationError;
use crate::federation::figure::{Digest, Figure};
use crate::federation::fold::{Fold, Outcome, Refusal, Upload};
use crate::federation::frames::{SentDown, SentUp};
use crate::federation::privacy::Masking;
use crate::federation::snapshot::{Snapshot, SnapshotPlace};
use crate::federation::world::World;
use crate::learning::Tally;
use crate::policy::{Failure, Period, RoundContext, Seat};
use crate::quantity::{ClientId, Round, SeatId, TaskId};
use crate::wire::Body;

/// Result of a participant's training that was not computed.
pub(in crate::federation) struct SuppliedTraining {
    pub samples: usize,
    pub result: Result<SuppliedUpdate, Failure>,
}

/// Update of a participant, and the upload that carries it.
pub(in crate::federation) struct SuppliedUpdate {
    pub up: SentUp,
    /// The forgery of a malicious client.
    pub forged: Option<String>,
    pub metrics: BTreeMap<String, Figure>,
    /// Bytes the client keeps from then on.
    pub kept: u64,
}

/// Result of closing a round.
#[derive(Default)]
pub(in crate::federation) struct SuppliedClosing {
    pub digest: u64,
    pub figures: BTreeMap<String, Figure>,
}

/// A participant of a round.
pub(in crate::federation) struct ParticipantRef<'a> {
    pub world: &'a World,
    pub context: &'a RoundContext,
    pub seat: &'a Seat,
}

impl ParticipantRef<'_> {
    /// The round's number and the seat's.
    pub fn place(&self) -> (Round, SeatId) {
        (self.context.round, self.seat.id)
    }
}

/// Results of a run in place of workers and of the server's policy.
pub(in crate::federation) trait ResultSource: Send + Sync {
    /// Returns the snapshot from which on everything is computed, where it was taken here.
    fn ends_at(&self, place: SnapshotPlace) -> Option<&Snapshot> {
        let _ = place;
        None
    }

    /// Returns true if a participant's training is known; otherwise it is computed.
    fn knows(&self, round: Round, seat: SeatId) -> bool {
        let _ = (round, seat);
        true
    }

    /// Returns the downloads of a round, one per seat.
    fn downs(
        &self,
        world: &World,
        context: &RoundContext,
        seats: &[Seat],
    ) -> Result<Vec<Arc<SentDown>>, FederationError>;

    /// Returns the result of a participant's training, and the upload that follows, masked or not.
    fn training(
        &self,
        at: &ParticipantRef<'_>,
        masking: Option<&Masking>,
    ) -> Result<SuppliedTraining, FederationError>;

    /// Returns what a client finds wrong with a download that was damaged on its way.
    fn damage(&self, at: &ParticipantRef<'_>) -> Option<String>;

    /// Returns the uploads of a round that cannot be lifted.
    fn refused(&self, round: Round) -> Vec<Refusal> {
        let _ = round;
        Vec::new()
    }

    /// Returns the result of closing a round.
    fn closing(&self, round: Round) -> Result<SuppliedClosing, FederationError> {
        let _ = round;
        Ok(SuppliedClosing::default())
    }

    /// Returns the server's digest when a task is over.
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

    /// Returns how far client models of a round are apart.
    fn bias(&self, round: Round) -> Result<Comparison, FederationError> {
        Err(FederationError::Unrecorded(format!("client models of {round} are not compared")))
    }

    /// Returns a client's state as the snapshot has it.
    fn saved_state(&self, client: ClientId) -> Option<&Body> {
        let _ = client;
        None
    }
}

impl<S: ResultSource> Compute for S {
    fn computes(&self) -> bool {
        false
    }

    fn begin_task(&self, _: &mut PolicyHolder, _: Period) -> Computation<PolicyStep<()>> {
        Computation::Known(PolicyStep::supplied(Ok(())))
    }

    fn open_round(
        &self,
        _: &mut PolicyHolder,
        request: OpeningRequest,
    ) -> Computation<PolicyStep<RoundOpening>> {
        Computation::Known(PolicyStep::supplied(supplied_opening(self, request)))
    }

    fn close_round(
        &self,
        _: &mut PolicyHolder,
        context: Arc<RoundContext>,
        _: RoundAggregate,
        _: bool,
    ) -> Computation<PolicyStep<ServerState>> {
        let closing = self.closing(context.round);
        let state = closing.map(|SuppliedClosing { digest, figures }| supplied(digest, figures));
        Computation::Known(PolicyStep::supplied(state))
    }

    fn end_task(
        &self,
        _: &mut PolicyHolder,
        period: Period,
        _: bool,
    ) -> Computation<PolicyStep<ServerState>> {
        let state =
            self.ending(period.task).map(|Digest(digest)| supplied(digest, BTreeMap::new()));
        Computation::Known(PolicyStep::supplied(state))
    }

    fn restart(&self, _: &mut PolicyHolder, _: Restart) -> Computation<PolicyStep<()>> {
        Computation::Known(PolicyStep::supplied(Ok(())))
    }

    fn fold(&self, _: &Fold, _: Upload) -> Option<Work> {
        None
    }

    fn folded(
        &self,
        round: Round,
        _: oneshot::Receiver<Outcome>,
    ) -> Computation<Result<Outcome, String>> {
        let refused = self.refused(round);
        Computation::Known(Ok(Outcome { part: None, refused, broken: None }))
    }

    fn test(&self, test: ModelTest) -> Computation<Result<Vec<Tally>, FederationError>> {
        let tally = match test.after {
            SnapshotPlace::Round(round) => self.tested_round(round),
            SnapshotPlace::Task(task) => self.tested_task(task),
        };
        Computation::Known(tally.map(|tally| vec![tally]))
    }

    fn compare(
        &self,
        request: ComparisonRequest,
    ) -> Computation<Result<Comparison, FederationError>> {
        Computation::Known(self.bias(request.context.round))
    }

    fn known_training(
        &self,
        at: &ParticipantRef<'_>,
        masking: Option<&Masking>,
    ) -> Option<Result<SuppliedTraining, FederationError>> {
        let (round, seat) = at.place();
        self.knows(round, seat).then(|| self.training(at, masking))
    }

    fn download_damage(
        &self,
        at: &ParticipantRef<'_>,
        download: &SentDown,
        draws: ChaCha8Rng,
    ) -> Option<String> {
        let (round, seat) = at.place();
        match self.knows(round, seat) {
            true => self.damage(at),
            false => Workers.download_damage(at, download, draws),
        }
    }

    fn client_state(&self, client: ClientId) -> Option<&Body> {
        self.saved_state(client)
    }

    fn record_end(&self, place: SnapshotPlace) -> Option<&Snapshot> {
        self.ends_at(place)
    }
}

/// The server's state as far as it is known without its policy.
fn supplied(digest: u64, figures: BTreeMap<String, Figure>) -> ServerState {
    ServerState { saved: Body::default(), digest, figures, predictor: None }
}

/// Opens a round without its policy.
fn supplied_opening(
    source: &impl ResultSource,
    request: OpeningRequest,
) -> Result<RoundOpening, FederationError> {
    let OpeningRequest { world, context, cohort } = request;
    let mut seats = seats(&world, &context, &cohort)?;
    let first = first_exchange(&world, &context, &seats);
    let load = world.load_seats(context.phase_name, &seats, &context.period);
    seats.extend(load.into_iter().map(|(seat, _)| seat));
    let downs = source.downs(&world, &context, &seats)?;
    Ok(RoundOpening { cohort, seats, downs, first })
}
