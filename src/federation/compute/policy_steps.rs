//! Steps of the server's policy, as workers do them and as sources know them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::result_source::{ResultSource, SuppliedClosing};
use crate::federation::aggregation::PartialAggregate;
use crate::federation::error::FederationError;
use crate::federation::exchange::Exchange;
use crate::federation::metric_value::{Digest, MetricValue};
use crate::federation::privacy::Masking;
use crate::federation::robust::{AggregationRule, RobustMetrics};
use crate::federation::simulation_context::SimulationContext;
use crate::federation::sink::JobKind;
use crate::federation::timesheet::count_as;
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{Aggregate, PolicyError, Predictor, RoundContext, RunContext, Server, Stage};
use crate::wire::Body;

/// Request for a step of the policy.
pub(in crate::federation) trait StepRequest: Send + 'static {
    /// Name of the step in errors.
    const STEP: &'static str;
    type Answer: Send + 'static;

    /// Has the policy do the step.
    fn work(
        self,
        server: &mut dyn Server,
        ctx: &RunContext,
    ) -> Result<Self::Answer, FederationError>;

    /// Takes the answer from a source, without the policy.
    fn known(self, source: &dyn ResultSource) -> Result<Self::Answer, FederationError>;
}

/// Request to begin a task.
pub(in crate::federation) struct BeginRequest {
    pub stage: Stage,
}

/// Request to take the aggregate of a round into the policy.
pub(in crate::federation) struct ClosingRequest {
    pub context: Arc<RoundContext>,
    pub aggregate: RoundAggregate,
    /// Number of uploads that are aggregated.
    pub updates: u32,
    /// True if the model is to be tested.
    pub test: bool,
}

/// Request to end a task, whose phases are all over.
pub(in crate::federation) struct EndRequest {
    pub stage: Stage,
    /// True if the model is to be tested.
    pub test: bool,
}

/// The server after a step that changed it.
pub(crate) struct PolicyStepResult {
    /// Full state; empty if a source supplied the result.
    pub saved: Body,
    pub digest: u64,
    /// Metrics of the policy for the round.
    pub metrics: BTreeMap<String, MetricValue>,
    /// Model to be tested, if the result of the test is not known.
    pub predictor: Option<Arc<dyn Predictor>>,
}

/// Request to create the policy again after the server was lost.
pub(in crate::federation) struct PolicyRestart {
    pub simulation: Arc<SimulationContext>,
    /// Last saved state; `None` before the first round: the policy then starts from its initial state.
    pub saved: Option<Body>,
    /// Stage that has begun since that state was saved.
    pub started: Option<Stage>,
}

/// Result of a round's aggregation, as the policy takes it.
pub(in crate::federation) struct RoundAggregate {
    pub part: Option<PartialAggregate>,
    /// Agreement of the members of secure aggregation, and the exchange that all of them share.
    pub masking: Option<(Arc<Masking>, Arc<Exchange>)>,
    pub rule: AggregationRule,
}

impl PolicyRestart {
    /// Name of the step in errors.
    pub const STEP: &'static str = "restart";

    /// Creates the policy, loads its saved state, and begins the stage that has begun since.
    pub fn work(self, ctx: &RunContext) -> Result<Box<dyn Server>, FederationError> {
        let PolicyRestart { simulation, saved, started } = self;
        let restarted = || {
            let init = StreamKey::new(simulation.rules.seed, Domain::Init);
            let mut server = simulation.method.server(ctx, init)?;
            if let Some(saved) = saved {
                server.load(&saved)?;
            }
            if let Some(stage) = started {
                server.begin_stage(&stage, ctx)?;
            }
            Ok(server)
        };
        restarted().map_err(policy(Self::STEP))
    }
}

impl PolicyStepResult {
    /// Returns the state that a step left, with the model if it is to be tested.
    fn of(
        server: &dyn Server,
        ctx: &RunContext,
        test: bool,
    ) -> Result<PolicyStepResult, FederationError> {
        let (saved, digest) = count_as(JobKind::Codec, || {
            let saved = server.save();
            let digest = saved.digest();
            (saved, digest)
        });
        let predictor =
            test.then(|| server.predictor(ctx)).transpose().map_err(policy("show its model"))?;
        let metrics = server.metrics().into_iter();
        let metrics =
            metrics.map(|(name, figure)| (name.to_string(), MetricValue(figure))).collect();
        Ok(PolicyStepResult { saved, digest, metrics, predictor })
    }

    /// Returns the state as far as it is known without the policy.
    fn known(digest: u64, metrics: BTreeMap<String, MetricValue>) -> PolicyStepResult {
        PolicyStepResult { saved: Body::default(), digest, metrics, predictor: None }
    }
}

impl RoundAggregate {
    /// Returns the aggregate, with masks removed and robust rules applied, and the metrics of these rules.
    fn open(self) -> Result<(Option<Aggregate>, RobustMetrics), PolicyError> {
        match (self.part, self.masking) {
            (None, _) => Ok((None, RobustMetrics::new())),
            (Some(PartialAggregate::Plain(aggregate)), _) => {
                Ok((Some(aggregate), RobustMetrics::new()))
            }
            (Some(PartialAggregate::Robust(updates)), _) => Ok(updates.aggregate(self.rule)),
            (Some(PartialAggregate::Masked(sum)), Some((masking, exchange))) => {
                let (download, upload) = (&exchange.download.layout, &exchange.upload.layout);
                Ok((
                    Some(Aggregate::of_sum(&masking.open(sum)?, download, upload)?),
                    RobustMetrics::new(),
                ))
            }
            (Some(PartialAggregate::Masked(_)), None) => {
                Err(PolicyError::Unsupported("a masked sum without members".to_owned()))
            }
        }
    }
}

/// Returns the error of a policy that failed in `step`.
pub(super) fn policy(step: &'static str) -> impl FnOnce(PolicyError) -> FederationError {
    move |source| match source {
        PolicyError::Data(error) => FederationError::Data(error.to_string()),
        source => FederationError::Policy { step, source: Box::new(source) },
    }
}

impl StepRequest for BeginRequest {
    const STEP: &'static str = "begin a task";
    type Answer = ();

    fn work(self, server: &mut dyn Server, ctx: &RunContext) -> Result<(), FederationError> {
        server.begin_stage(&self.stage, ctx).map_err(policy(Self::STEP))
    }

    fn known(self, _: &dyn ResultSource) -> Result<(), FederationError> {
        Ok(())
    }
}

impl StepRequest for ClosingRequest {
    const STEP: &'static str = "close a round";
    type Answer = PolicyStepResult;

    fn work(
        self,
        server: &mut dyn Server,
        ctx: &RunContext,
    ) -> Result<PolicyStepResult, FederationError> {
        let ClosingRequest { context, aggregate, test, .. } = self;
        let (aggregate, metrics) = aggregate.open().map_err(policy("fold uploads"))?;
        server.end_round(&context, aggregate, ctx).map_err(policy(Self::STEP))?;
        let mut state = PolicyStepResult::of(server, ctx, test)?;
        let named = |(name, figure): (&str, f64)| (name.to_string(), MetricValue(figure));
        state.metrics.extend(metrics.into_iter().map(named));
        Ok(state)
    }

    fn known(self, source: &dyn ResultSource) -> Result<PolicyStepResult, FederationError> {
        let SuppliedClosing { digest, metrics } = source.closing(&self.context, self.updates)?;
        Ok(PolicyStepResult::known(digest, metrics))
    }
}

impl StepRequest for EndRequest {
    const STEP: &'static str = "end a task";
    type Answer = PolicyStepResult;

    fn work(
        self,
        server: &mut dyn Server,
        ctx: &RunContext,
    ) -> Result<PolicyStepResult, FederationError> {
        server.end_stage(&self.stage, ctx).map_err(policy(Self::STEP))?;
        PolicyStepResult::of(server, ctx, self.test)
    }

    fn known(self, source: &dyn ResultSource) -> Result<PolicyStepResult, FederationError> {
        let Digest(digest) = source.ending(self.stage.task)?;
        Ok(PolicyStepResult::known(digest, BTreeMap::new()))
    }
}
