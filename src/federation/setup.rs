//! Run before it begins, and the context that it begins in.

use std::sync::Arc;

use super::client_data::{ClientData, Samples, ShardSource};
use super::compute::Supplier;
use super::error::FederationError;
use super::frames::Coding;
use super::recorded_run::RecordedRun;
use super::remote::RemoteRanks;
use super::rules::Rules;
use super::simulation_context::{RunSpec, SimulationContext};
use super::workforce::Workforce;
use crate::data::{Shard, Transform};
use crate::policy::{Method, ModelFacts, RunContext};
use crate::quantity::TaskId;

/// A run before it begins.
pub struct Setup {
    /// Sampling, timing and faults.
    pub rules: Rules,
    /// Name of the method, for the journal.
    pub name: String,
    /// Method that the server and the clients follow.
    pub method: Arc<dyn Method>,
    /// Device, backbone, data; every worker gets a clone.
    pub ctx: RunContext,
    /// Transform of test samples; deterministic.
    pub test_transform: Arc<Transform>,
    /// Samples of every client.
    pub shards: ShardSource,
    /// Facts of the model that layouts of messages follow from.
    pub facts: ModelFacts,
    /// Codecs of messages.
    pub coding: Coding,
    /// True if messages cross a link.
    ///
    /// False for upper bounds such as Joint, whose exchanges cost nothing and take no time.
    pub charged: bool,
    /// Workers that compute.
    pub workers: Workforce,
    /// Other ranks that compute as well; they change no result.
    pub fleet: Option<RemoteRanks>,
    /// Test mode: workers take jobs out of order and finish late. Changes no result.
    pub shaker: Option<u64>,
    /// Record of the whole run or of its beginning, whose results are not computed again.
    pub recorded: Option<Arc<RecordedRun>>,
    /// Earlier settings of a forked run, in order. The record has to cover the time for which they hold.
    pub before: Vec<RunSegment>,
}

/// Settings that were used until a task was over.
pub struct RunSegment {
    /// Last task that the settings were used for, from 0.
    pub until: TaskId,
    /// Definition of the run until then.
    pub terms: RunSpec,
}

impl Setup {
    /// Creates a run of `method` in `ctx` under `rules` on these shards (per task, one per client).
    ///
    /// It has two workers, plain coding and the run context's transform of statistics for tests. `name` is the
    /// method's.
    pub fn new(
        name: &str,
        method: Arc<dyn Method>,
        ctx: RunContext,
        shards: Vec<Vec<Shard>>,
        rules: Rules,
    ) -> Setup {
        let facts = ctx.facts(rules.clients_of_a_task());
        Setup {
            rules,
            name: name.to_owned(),
            charged: method.profile().uses_network,
            method,
            test_transform: Arc::clone(&ctx.statistics_transform),
            facts,
            ctx,
            shards: ShardSource::Drawn(shards),
            coding: Coding::default(),
            workers: 2.into(),
            fleet: None,
            shaker: None,
            recorded: None,
            before: Vec::new(),
        }
    }

    /// Returns the definition of the run, and the data of its clients.
    pub(super) fn terms_and_data(&self) -> (RunSpec, ClientData) {
        let terms = RunSpec {
            rules: self.rules.clone(),
            name: self.name.clone(),
            method: Arc::clone(&self.method),
            task_sequence: Arc::clone(&self.ctx.task_sequence),
            training: self.ctx.training.clone(),
            facts: self.facts.clone(),
            coding: self.coding.clone(),
            charged: self.charged,
        };
        let samples = Samples {
            dataset: Arc::clone(&self.ctx.dataset),
            shards: self.shards.clone(),
            test_transform: Arc::clone(&self.test_transform),
        };
        (terms, ClientData::Samples(samples))
    }

    /// Returns the supplier of the run's results.
    pub(super) fn supplier(&self) -> Supplier {
        match &self.recorded {
            Some(recorded) => Supplier::Source(recorded.clone()),
            None => Supplier::Workers,
        }
    }
}

impl SimulationContext {
    /// Returns the context in which a run begins.
    ///
    /// The run is computed, or comes from a record as far as that reaches.
    pub fn first(setup: &Setup) -> Result<Arc<SimulationContext>, FederationError> {
        let mut simulation = Arc::new(SimulationContext::new(setup)?);
        for RunSegment { until, terms } in setup.before.iter().rev() {
            let before = SimulationContext::of(terms.clone(), simulation.holdings.clone())?;
            let next = Some((*until, simulation));
            simulation = Arc::new(SimulationContext { next, ..before });
        }
        Ok(simulation)
    }

    /// Returns the context of a run whose settings never change.
    pub fn new(setup: &Setup) -> Result<SimulationContext, FederationError> {
        let (terms, data) = setup.terms_and_data();
        SimulationContext::of(terms, data)
    }
}
