//! Supplier of results: workers that compute them, or a source that knows them.

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use tokio::sync::oneshot;

use super::computation::Computation;
use super::model_tests::{ComparisonRequest, ModelTest};
use super::policy_holder::{PolicyHolder, PolicyStep};
use super::policy_steps::{PolicyRestart, StepRequest};
use super::result_source::{ParticipantRef, ResultSource, SuppliedTraining};
use crate::federation::aggregation::{AggregationResult, AggregationTree, Upload};
use crate::federation::bias::BiasMeasurement;
use crate::federation::error::FederationError;
use crate::federation::faults::damage;
use crate::federation::frames::{SentDownload, down_header};
use crate::federation::privacy::Masking;
use crate::federation::sink::JobKind;
use crate::federation::snapshot::{Snapshot, SnapshotPlace};
use crate::federation::worker_pool::Work;
use crate::learning::Tally;
use crate::policy::RunContext;
use crate::quantity::{ClientId, Round};
use crate::wire::{Body, encode};

/// Supplier of results: of the server's policy, of aggregates and tests, and of local training.
#[derive(Clone)]
pub(in crate::federation) enum Supplier {
    /// Everything is computed, by the workers that jobs are posted to.
    Workers,
    /// Computes nothing except trainings that the source does not know.
    Source(Arc<dyn ResultSource>),
}

impl Supplier {
    /// Returns true if results are computed, so that there is state to keep and to hand out.
    pub fn computes(&self) -> bool {
        self.source().is_none()
    }

    /// Runs a step of the policy: the policy goes into a job and comes back with the result.
    pub fn step<R: StepRequest>(
        &self,
        policy: &mut PolicyHolder,
        request: R,
    ) -> Computation<PolicyStep<R::Answer>> {
        if let Some(source) = self.source() {
            return Computation::Known(PolicyStep::supplied(request.known(source)));
        }
        let mut server = policy.lend();
        let job = move |ctx: &RunContext| {
            let result = request.work(&mut *server, ctx);
            PolicyStep { policy: Some(server), result }
        };
        Computation::job(JobKind::Server, job, panicked(R::STEP))
    }

    /// Creates the policy again after the server was lost.
    pub fn restart(
        &self,
        policy: &mut PolicyHolder,
        restart: PolicyRestart,
    ) -> Computation<PolicyStep<()>> {
        if !self.computes() {
            return Computation::Known(PolicyStep::supplied(Ok(())));
        }
        drop(policy.lend());
        let restarted = move |ctx: &RunContext| match restart.work(ctx) {
            Ok(server) => PolicyStep { policy: Some(server), result: Ok(()) },
            Err(error) => PolicyStep::supplied(Err(error)),
        };
        Computation::job(JobKind::Server, restarted, panicked(PolicyRestart::STEP))
    }

    /// Returns the work that adds an upload to its round's aggregation.
    ///
    /// `None` if aggregates are not computed.
    pub fn add_upload(&self, aggregation: &AggregationTree, upload: Upload) -> Option<Work> {
        self.computes().then(|| {
            let aggregation = aggregation.clone();
            Work::Local(match upload.meta.staleness {
                0 => Box::new(move |_: &RunContext| aggregation.transform_upload(upload)),
                _ => {
                    // An upload of an earlier round gets its place now.
                    let place = aggregation.expect();
                    Box::new(move |_: &RunContext| aggregation.transform_late(place, upload))
                }
            })
        })
    }

    /// Returns the aggregate of a round; if it is computed, it arrives through the channel `aggregate`.
    pub fn aggregate(
        &self,
        round: Round,
        aggregate: oneshot::Receiver<AggregationResult>,
    ) -> Computation<Result<AggregationResult, String>> {
        if let Some(source) = self.source() {
            let refused = source.refused(round);
            return Computation::Known(Ok(AggregationResult {
                refused,
                ..AggregationResult::default()
            }));
        }
        let result = async move { aggregate.await.map_err(|_| "a worker has ended".to_string()) };
        Computation::Posted { jobs: Vec::new(), result: Box::pin(result) }
    }

    /// Tests the global model, block by block.
    pub fn test(&self, test: ModelTest) -> Computation<Result<Vec<Tally>, FederationError>> {
        let Some(source) = self.source() else { return test.by_workers() };
        let tally = match test.after {
            SnapshotPlace::Round(round) => source.tested_round(round),
            SnapshotPlace::Task(task) => source.tested_task(task),
        };
        Computation::Known(tally.map(|tally| vec![tally]))
    }

    /// Compares the client models of a round before aggregation.
    pub fn compare(
        &self,
        request: ComparisonRequest,
    ) -> Computation<Result<BiasMeasurement, FederationError>> {
        match self.source() {
            Some(source) => Computation::Known(source.bias(request.context.round)),
            None => request.by_workers(),
        }
    }

    /// Returns the result of a participant's training where it is known; otherwise it is to be computed.
    pub fn known_training(
        &self,
        at: &ParticipantRef<'_>,
        masking: Option<&Masking>,
    ) -> Option<Result<SuppliedTraining, FederationError>> {
        self.source_of(at).map(|source| source.training(at, masking))
    }

    /// Returns the description of the damage that a client finds in a download, damaged by these draws.
    pub fn download_damage(
        &self,
        at: &ParticipantRef<'_>,
        download: &SentDownload,
        mut draws: ChaCha8Rng,
    ) -> Option<String> {
        if let Some(source) = self.source_of(at) {
            return source.damage(at);
        }
        let header = down_header(at.context, at.participant);
        let body = download.message.body();
        damage(encode(&header, &body, &at.simulation.coding.down).ok()?, &mut draws)
    }

    /// Returns a client's state in the snapshot at which the source ends, if there is a source.
    pub fn client_state(&self, client: ClientId) -> Option<&Body> {
        self.source()?.saved_state(client)
    }

    /// Returns the snapshot that was taken at `place`, if the source ends there and the rest is computed.
    pub fn record_end(&self, place: SnapshotPlace) -> Option<&Snapshot> {
        self.source()?.ends_at(place)
    }

    fn source(&self) -> Option<&dyn ResultSource> {
        match self {
            Supplier::Workers => None,
            Supplier::Source(source) => Some(&**source),
        }
    }

    /// Returns the source where it knows a participant's training.
    fn source_of(&self, at: &ParticipantRef<'_>) -> Option<&dyn ResultSource> {
        let (round, participant) = at.place();
        self.source().filter(|source| source.knows(round, participant))
    }
}

fn panicked<T>(step: &'static str) -> impl FnOnce(String) -> PolicyStep<T> {
    move |message| PolicyStep::supplied(Err(FederationError::Panicked { step, message }))
}
