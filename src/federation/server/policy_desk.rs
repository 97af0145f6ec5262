//! Holder of the server's policy: has its steps run by the supplier, and keeps its last saved state.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::federation::aggregation::{AggregationResult, AggregationTree, Upload};
use crate::federation::assets::AssetCaches;
use crate::federation::bias::BiasMeasurement;
use crate::federation::compute::{
    ComparisonRequest, Computation, ModelTest, PolicyHolder, PolicyRestart, PolicyStep,
    StepRequest, Supplier,
};
use crate::federation::effect::Effect;
use crate::federation::error::FederationError;
use crate::federation::simulation_context::SimulationContext;
use crate::federation::sink::JobKind;
use crate::federation::snapshot::{Snapshot, SnapshotPlace};
use crate::learning::Tally;
use crate::policy::{Predictor, Server, Stage};
use crate::quantity::Round;
use crate::wire::Body;

/// The policy, the supplier of its results, and its state as it was last saved.
pub(super) struct PolicyDesk {
    supplier: Supplier,
    policy: PolicyHolder,
    saved: Body,
    digest: u64,
    tested: Option<TestedModel>,
}

/// Result of the last test, kept because an unchanged model is not tested twice.
struct TestedModel {
    digest: u64,
    seen: usize,
    tally: Tally,
}

impl PolicyDesk {
    /// Creates a desk; `policy` is `None` if all results are supplied.
    pub fn new(supplier: Supplier, policy: Option<Box<dyn Server>>) -> PolicyDesk {
        let policy = PolicyHolder::new(policy);
        PolicyDesk { supplier, policy, saved: Body::default(), digest: 0, tested: None }
    }

    /// Returns true if results are computed, so that there is state to keep and to hand out.
    pub fn computes(&self) -> bool {
        self.supplier.computes()
    }

    /// Returns the state as it was last saved.
    pub fn saved(&self) -> &Body {
        &self.saved
    }

    /// Returns the digest of the state as it was last saved.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Has the policy do a step.
    pub fn step<R: StepRequest>(&mut self, request: R) -> Computation<PolicyStep<R::Answer>> {
        self.supplier.step(&mut self.policy, request)
    }

    /// Creates the policy again after the server was lost in this round.
    ///
    /// It loads the last saved state, and begins the stage that has begun since.
    pub fn restart(
        &mut self,
        simulation: &Arc<SimulationContext>,
        round: Round,
        started: Option<Stage>,
    ) -> Computation<PolicyStep<()>> {
        // Before its first round a server has no saved state, and starts from its initial one.
        let saved = (round > Round(0)).then(|| self.saved.clone());
        let restart = PolicyRestart { simulation: Arc::clone(simulation), saved, started };
        self.supplier.restart(&mut self.policy, restart)
    }

    /// Takes the policy back from a step, and returns the step's result.
    pub fn take_back<T>(&mut self, step: PolicyStep<T>) -> Result<T, FederationError> {
        self.policy.take_back(step)
    }

    /// Keeps the state that a step left.
    pub fn keep(&mut self, digest: u64, saved: Body) {
        (self.digest, self.saved) = (digest, saved);
    }

    /// Adds an upload to its round's aggregation.
    pub fn add_upload(&self, aggregation: &AggregationTree, upload: Upload) -> Option<Effect> {
        self.supplier
            .add_upload(aggregation, upload)
            .map(|work| Effect::Submit(JobKind::Aggregate, work))
    }

    /// Returns the aggregate of a round.
    pub fn aggregate(
        &self,
        round: Round,
        aggregate: oneshot::Receiver<AggregationResult>,
    ) -> Computation<Result<AggregationResult, String>> {
        self.supplier.aggregate(round, aggregate)
    }

    /// Tests the model on these head rows.
    pub fn test(
        &self,
        simulation: &Arc<SimulationContext>,
        after: SnapshotPlace,
        seen: usize,
        predictor: Option<Arc<dyn Predictor>>,
    ) -> Computation<Result<Vec<Tally>, FederationError>> {
        let (simulation, server, digest) =
            (Arc::clone(simulation), self.saved.clone(), self.digest);
        self.supplier.test(ModelTest { simulation, after, predictor, seen, server, digest })
    }

    /// Compares the client models of a round.
    pub fn compare(
        &self,
        request: ComparisonRequest,
    ) -> Computation<Result<BiasMeasurement, FederationError>> {
        self.supplier.compare(request)
    }

    /// Remembers the result of a test of the model as it is now.
    pub fn note_tested(&mut self, seen: usize, tally: Tally) {
        self.tested = Some(TestedModel { digest: self.digest, seen, tally });
    }

    /// Takes the last test's result if model and head rows have not changed since.
    pub fn take_tested(&mut self, seen: usize) -> Option<Tally> {
        let tested = self.tested.take()?;
        (tested.digest == self.digest && tested.seen == seen).then_some(tested.tally)
    }

    /// Switches from the record to workers if the record ends at `place`.
    ///
    /// The policy and the asset caches of clients get the state of the snapshot.
    ///
    /// # Errors
    /// Returns an error if the policy cannot load the state.
    pub fn leave_record(
        &mut self,
        place: SnapshotPlace,
        caches: &mut AssetCaches,
    ) -> Result<(), FederationError> {
        let Some(Snapshot { server, caches: held, .. }) = self.supplier.record_end(place) else {
            return Ok(());
        };
        self.policy.load(server).map_err(|error| {
            let what = format!("the server's state in the checkpoint cannot be read ({error})");
            FederationError::Unrecorded(what)
        })?;
        caches.restore(held);
        self.saved = server.clone();
        self.supplier = Supplier::Workers;
        Ok(())
    }
}
