//! Port to whatever supplies the results that a run needs.
//!
//! A run is walked in one way only: cohorts, clocks, links, faults and closing rules are the same whoever supplies
//! results. [`Workers`] compute them; a [recorded run](super::RecordedRun) and [layouts alone](super::dry_run()) know them without
//! computing and are [sources](ResultSource) of results.

mod computation;
mod model_tests;
mod opening;
mod policy_holder;
mod policy_steps;
mod result_source;
mod workers;

pub(super) use computation::Computation;
pub(super) use model_tests::{ComparisonRequest, ModelTest, OwnModel};
pub(super) use opening::{OpeningRequest, RoundOpening};
pub(super) use policy_holder::{PolicyHolder, PolicyStep};
pub(super) use policy_steps::{Restart, RoundAggregate, ServerState};
pub(super) use result_source::{
    ParticipantRef, ResultSource, SuppliedClosing, SuppliedTraining, SuppliedUpdate,
};
pub(super) use workers::Workers;

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use tokio::sync::oneshot;

use super::bias::Comparison;
use super::devices::Work;
use super::error::FederationError;
use super::fold::{Fold, Outcome, Upload};
use super::frames::SentDown;
use super::privacy::Masking;
use super::snapshot::{Snapshot, SnapshotPlace};
use crate::learning::Tally;
use crate::policy::{Period, RoundContext};
use crate::quantity::{ClientId, Round};
use crate::wire::Body;

/// Supplier of results: of the server's policy, of folds and tests, and of local training.
pub(super) trait Compute: Send + Sync {
    /// Returns true if results are computed, so that there is state to keep and to hand out.
    fn computes(&self) -> bool;

    /// Tells the policy of a task that begins.
    fn begin_task(&self, policy: &mut PolicyHolder, period: Period) -> Computation<PolicyStep<()>>;

    /// Opens a round: participants, their downloads, and the frames that carry them.
    fn open_round(
        &self,
        policy: &mut PolicyHolder,
        request: OpeningRequest,
    ) -> Computation<PolicyStep<RoundOpening>>;

    /// Takes what a round folded to into the policy; its model is needed where it is to be tested.
    fn close_round(
        &self,
        policy: &mut PolicyHolder,
        context: Arc<RoundContext>,
        aggregate: RoundAggregate,
        test: bool,
    ) -> Computation<PolicyStep<ServerState>>;

    /// Tells the policy that all phases of a task are over; its model is needed where it is to be tested.
    fn end_task(
        &self,
        policy: &mut PolicyHolder,
        period: Period,
        test: bool,
    ) -> Computation<PolicyStep<ServerState>>;

    /// Makes a policy in the place of a lost one.
    fn restart(&self, policy: &mut PolicyHolder, restart: Restart) -> Computation<PolicyStep<()>>;

    /// Returns the work that adds an upload to its round's fold; nothing where folds are not computed.
    fn fold(&self, fold: &Fold, upload: Upload) -> Option<Work>;

    /// Returns what a round folded to; `folded` is where its fold will tell.
    fn folded(
        &self,
        round: Round,
        folded: oneshot::Receiver<Outcome>,
    ) -> Computation<Result<Outcome, String>>;

    /// Tests the global model, block by block.
    fn test(&self, test: ModelTest) -> Computation<Result<Vec<Tally>, FederationError>>;

    /// Compares the client models of a round before synchronization.
    fn compare(
        &self,
        request: ComparisonRequest,
    ) -> Computation<Result<Comparison, FederationError>>;

    /// Returns the result of a participant's training where it is known; otherwise it is to be computed.
    fn known_training(
        &self,
        at: &ParticipantRef<'_>,
        masking: Option<&Masking>,
    ) -> Option<Result<SuppliedTraining, FederationError>>;

    /// Returns what a client finds wrong with a download that was damaged on its way by these draws.
    fn download_damage(
        &self,
        at: &ParticipantRef<'_>,
        download: &SentDown,
        draws: ChaCha8Rng,
    ) -> Option<String>;

    /// Returns a client's state where it was saved before anything was computed.
    fn client_state(&self, client: ClientId) -> Option<&Body>;

    /// Returns the snapshot from which on everything is computed, where it was taken here.
    fn record_end(&self, place: SnapshotPlace) -> Option<&Snapshot>;
}
