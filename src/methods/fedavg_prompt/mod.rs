//! **FedAvg-Prompt**: HePCo's client with plain averaging on the server.
//!
//! ```text
//! client   pools (P, k) and head W,b  <- down
//!          q = feature of the unprompted frozen transformer, no gradient
//!          rho_j = sum_m cos(q, k_jm) P_jm  is the prefix of block j              (pool)
//!          E epochs: minimize CE over the rows of the current task
//! server   P, k, W, b  <- mean over the clients that have a sample, with equal weights
//! ```
//! Baseline of "HePCo: Data-Free Heterogeneous Prompt Consolidation for Continual Federated Learning" (FL@FM, NeurIPS
//! 2023). The mean prompts with the mean keys do not give the mean of the clients' prefixes: [HePCo](super::hepco)
//! corrects this. Clients keep nothing between rounds.

mod pool;

use std::sync::Arc;

pub use pool::{PoolShape, WeightedPool, keys_name, prompts_name};

use super::HeadForm;
use super::averaging::{AveragingConfig, ClientWeighting, Parameters, Requirement, ServerState};
use super::entry::MethodEntry;
use super::parts::{AveragingMethod, Demands, ModelAdaptation, Parts, TrainingSettings};
use super::prompted::prompt_has_halves;
use crate::data::TaskView;
use crate::learning::{Prompting, QueryView};
use crate::methods::parts::sample_cost::{of_prefix, with_prompts};
use crate::model::{HeadKind, LinearHead, ParameterSet};
use crate::numerics::streams::StreamKey;
use crate::policy::{ClientState, ModelFacts, PolicyError, RunContext, SampleCost};
use crate::scenario::reader::Keys;

/// Keys of the `[method]` table of FedAvg-Prompt.
#[derive(Clone, Copy, Debug, PartialEq, Keys)]
#[keys(check = prompt_has_halves(table, section.prompt_len))]
pub struct FedAvgPrompt {
    /// Number of prompts per block, each with a key.
    #[key(default = 100, source = "HePCo", at_least = 1.0, at_most = 100_000.0)]
    pub pool: u32,
    /// Rows of a prompt, half keys and half values.
    #[key(default = 20, source = "HePCo", at_least = 2.0, at_most = 10_000.0)]
    pub prompt_len: u32,
    /// Number of blocks with a pool, from the first; at most the depth of the backbone.
    #[key(default = 5, source = "HePCo", at_least = 1.0, at_most = 99.0)]
    pub n_blocks: u32,
    /// Upper bound of the uniform start values of a prompt, from 0.
    ///
    /// Start values of keys are between 0 and 1; their length has no effect.
    #[key(default = 1.0, source = "HePCo's code", at_least = 0.0)]
    pub prompt_init: f64,
    /// Image from which a query is computed, if training augments images.
    #[key(default = QueryView::Clean, source = "augmented in HePCo's code, which pays for it")]
    pub query: QueryView,
    /// Weight of a client in the mean.
    #[key(default = ClientWeighting::Uniform, source = "HePCo")]
    pub client_weighting: ClientWeighting,
    /// Rows of the head in messages.
    #[key(default = HeadForm::Fixed, source = "HePCo")]
    pub head_form: HeadForm,
}

impl FedAvgPrompt {
    /// Returns the shape of the pools for a model.
    pub fn pools(&self, model: &ModelFacts) -> PoolShape {
        let depth = model.backbone.vit().map_or(0, |vit| vit.depth);
        PoolShape {
            blocks: depth.min(self.n_blocks as usize),
            pool: self.pool as usize,
            length: self.prompt_len as usize,
            dim: model.backbone.dim(),
        }
    }
}

impl ModelAdaptation for FedAvgPrompt {
    fn parameters(&self, model: &ModelFacts) -> Parameters {
        let pools = Parameters::shared(self.pools(model).shapes());
        pools.head(HeadKind::Linear, model.classes, model.backbone.dim())
    }

    fn initial(
        &self,
        model: &ModelFacts,
        _ctx: &RunContext,
        init: StreamKey,
    ) -> Result<ParameterSet, PolicyError> {
        let pools = self.pools(model).initial_parameters(init, self.prompt_init);
        let dim = model.backbone.dim();
        Ok(pools.merge(&LinearHead::initial_parameters(model.classes, dim, init)))
    }

    /// Requires blocks for the pools.
    fn demands(&self) -> Demands {
        let instead = "use `method.name = \"fedavg\"`";
        Demands::requiring([Requirement::blocks("a pool of prompts", instead)])
    }

    /// Counts the prefix of each block, the sum of all prompts of its pool, and their weights by keys.
    fn sample_cost(&self, model: &ModelFacts, task: usize) -> SampleCost {
        let PoolShape { blocks, pool, length, dim } = self.pools(model);
        let prompts =
            blocks as f64 * (of_prefix(model, length) + (pool * (length + 1) * dim) as f64);
        with_prompts(self, model, task, prompts)
    }

    fn prompting(
        &self,
        model: &ModelFacts,
        _task: usize,
        _trains: bool,
    ) -> Option<Arc<dyn Prompting>> {
        Some(Arc::new(WeightedPool { blocks: self.pools(model).blocks }))
    }

    fn settings(&self, _view: &TaskView) -> TrainingSettings {
        TrainingSettings { query: Some(self.query), ..TrainingSettings::default() }
    }
}

impl FedAvgPrompt {
    /// Returns the parts of FedAvg that train pools of prompts.
    pub fn base<S: ClientState, M: ServerState>(&self) -> Parts<'_, S, M> {
        Parts::fedavg(
            self,
            AveragingConfig { weights: self.client_weighting, head: self.head_form },
        )
    }
}

impl AveragingMethod for FedAvgPrompt {
    type State = ();
    type Memory = ();

    fn parts(&self) -> Parts<'_, (), ()> {
        self.base()
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "HePCo's client with plain averaging: a pool of prompts per block, all of them used, weighted by \
               the cosines of their keys with a query, and a linear head.",
        source: "Halbe, Smith, Tian, Kira: HePCo: Data-Free Heterogeneous Prompt Consolidation for Continual \
                 Federated Learning, FL@FM, NeurIPS 2023 (a baseline)",
        state: "server: prompts, keys, head; client: nothing",
        ..MethodEntry::averaging("fedavg-prompt", FedAvgPrompt::read)
    }
}
