//! Results that workers compute.

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use tokio::sync::oneshot;

use super::model_tests::{ComparisonRequest, ModelTest};
use super::opening::{OpeningRequest, RoundOpening};
use super::policy_holder::{PolicyHolder, PolicyStep};
use super::policy_steps::{self as steps, Restart, RoundAggregate, ServerState};
use super::{Computation, Compute, ParticipantRef, SuppliedTraining};
use crate::federation::bias::Comparison;
use crate::federation::devices::Work;
use crate::federation::error::FederationError;
use crate::federation::faults::damage;
use crate::federation::fold::{Fold, Outcome, Upload};
use crate::federation::frames::{SentDown, down_header};
use crate::federation::privacy::Masking;
use crate::federation::sink::JobKind;
use crate::federation::snapshot::{Snapshot, SnapshotPlace};
use crate::learning::Tally;
use crate::policy::{Lab, Period, RoundContext, Server};
use crate::quantity::{ClientId, Round};
use crate::wire::{Body, encode};

/// Everything is computed, by the workers that jobs are posted to.
pub(in crate::federation) struct Workers;

impl Compute for Workers {
    fn computes(&self) -> bool {
        true
    }

    fn begin_task(&self, policy: &mut PolicyHolder, period: Period) -> Computation<PolicyStep<()>> {
        step(policy, steps::BEGIN, move |server, lab| steps::begin(server, lab, &period))
    }

    fn open_round(
        &self,
        policy: &mut PolicyHolder,
        request: OpeningRequest,
    ) -> Computation<PolicyStep<RoundOpening>> {
        step(policy, steps::OPEN, move |server, lab| steps::open(server, lab, request))
    }

    fn close_round(
        &self,
        policy: &mut PolicyHolder,
        context: Arc<RoundContext>,
        aggregate: RoundAggregate,
        test: bool,
    ) -> Computation<PolicyStep<ServerState>> {
        step(policy, steps::CLOSE, move |server, lab| {
            steps::close(server, lab, &context, aggregate, test)
        })
    }

    fn end_task(
        &self,
        policy: &mut PolicyHolder,
        period: Period,
        test: bool,
    ) -> Computation<PolicyStep<ServerState>> {
        step(policy, steps::END, move |server, lab| steps::end(server, lab, &period, test))
    }

    fn restart(&self, policy: &mut PolicyHolder, restart: Restart) -> Computation<PolicyStep<()>> {
        drop(policy.lend());
        let anew = move |lab: &Lab| match steps::restart(lab, restart) {
            Ok(server) => PolicyStep { policy: Some(server), result: Ok(()) },
            Err(error) => PolicyStep::supplied(Err(error)),
        };
        Computation::job(JobKind::Server, anew, panicked(steps::RESTART))
    }

    fn fold(&self, fold: &Fold, upload: Upload) -> Option<Work> {
        Some(fold.work(upload))
    }

    fn folded(
        &self,
        _: Round,
        folded: oneshot::Receiver<Outcome>,
    ) -> Computation<Result<Outcome, String>> {
        let result = async move { folded.await.map_err(|_| "a worker is gone".to_string()) };
        Computation::Posted { jobs: Vec::new(), result: Box::pin(result) }
    }

    fn test(&self, test: ModelTest) -> Computation<Result<Vec<Tally>, FederationError>> {
        test.by_workers()
    }

    fn compare(
        &self,
        request: ComparisonRequest,
    ) -> Computation<Result<Comparison, FederationError>> {
        request.by_workers()
    }

    fn known_training(
        &self,
        _: &ParticipantRef<'_>,
        _: Option<&Masking>,
    ) -> Option<Result<SuppliedTraining, FederationError>> {
        None
    }

    fn download_damage(
        &self,
        at: &ParticipantRef<'_>,
        download: &SentDown,
        mut draws: ChaCha8Rng,
    ) -> Option<String> {
        let header = down_header(at.context, at.seat);
        let body = download.message.body();
        damage(encode(&header, &body, &at.world.coding.down).ok()?, &mut draws)
    }

    fn client_state(&self, _: ClientId) -> Option<&Body> {
        None
    }

    fn record_end(&self, _: SnapshotPlace) -> Option<&Snapshot> {
        None
    }
}

/// A step of the policy as a job: the policy goes into it and comes back with the result.
fn step<T: Send + 'static>(
    policy: &mut PolicyHolder,
    name: &'static str,
    work: impl FnOnce(&mut dyn Server, &Lab) -> Result<T, FederationError> + Send + 'static,
) -> Computation<PolicyStep<T>> {
    let mut server = policy.lend();
    let job = move |lab: &Lab| {
        let result = work(&mut *server, lab);
        PolicyStep { policy: Some(server), result }
    };
    Computation::job(JobKind::Server, job, panicked(name))
}

fn panicked<T>(step: &'static str) -> impl FnOnce(String) -> PolicyStep<T> {
    move |message| PolicyStep::supplied(Err(FederationError::Panicked { step, message }))
}
