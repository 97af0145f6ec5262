//! **FedAvg-Prompt**: HePCo's client with plain averaging on the server.
//!
//! ```text
//! client   pools (P, k) and head W,b  <- down
//!          q = feature of the unprompted frozen transformer, no gradient
//!          rho_j = sum_m cos(q, k_jm) P_jm  is the prefix of block j              (pool)
//!          E epochs: minimise CE over the rows of the current task
//! server   P, k, W, b  <- mean over the clients that have a sample, each as much as any other
//! ```
//! Baseline of "Continual Adaptation of Vision Transformers for Federated Learning" (TMLR 2024). The mean of
//! prompts and the mean of keys are not the mean of what they do together: that is what
//! [HePCo](super::hepco) repairs. Clients keep nothing between rounds.

mod pool;

use std::sync::Arc;

pub use pool::{PoolShape, WeightedPool, keys_name, prompts_name};

use super::HeadForm;
use super::averaged::{Averaging, Memory, Parameters, Requirement, Weights};
use super::entry::MethodEntry;
use super::parts::{Adaptation, AveragingMethod, Parts, TrainingSettings};
use super::prompted::prompt_has_halves;
use crate::data::TaskView;
use crate::learning::{Prompting, QueryView};
use crate::model::{HeadKind, LinearHead, ParameterSet};
use crate::numerics::streams::StreamKey;
use crate::policy::{ClientState, Lab, ModelFacts, PolicyError};
use crate::scenario::reader::{Param, TableReader, defaults};

/// The `[method]` table of FedAvg-Prompt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FedAvgPrompt {
    /// Prompts of a block, and keys.
    pub pool: u32,
    /// Rows of a prompt, half keys and half values.
    pub prompt_len: u32,
    /// Blocks with a pool, from the first; at most the depth of the backbone.
    pub n_blocks: u32,
    /// Prompts begin between 0 and this; keys, whose length says nothing, between 0 and 1.
    pub prompt_init: f64,
    /// Which image a query is of where training augments.
    pub query: QueryView,
    /// How much a client counts.
    pub weights: Weights,
    /// Which head rows messages carry.
    pub head: HeadForm,
}

impl Default for FedAvgPrompt {
    fn default() -> Self {
        defaults(FedAvgPrompt::read)
    }
}

impl FedAvgPrompt {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> FedAvgPrompt {
        let pool = Param::new("pool", 100, "prompts of a block, each with a key").source("HePCo");
        let pool = table.get(&pool.at_least(1.0).at_most(100_000.0));
        let length = Param::new("prompt_len", 20, "rows of a prompt, half keys, half values");
        let prompt_len: u32 = table.get(&length.source("HePCo").at_least(2.0).at_most(10_000.0));
        prompt_has_halves(table, prompt_len);
        let n_blocks =
            Param::new("n_blocks", 5, "prompted blocks from the first on, at most the depth");
        let init = Param::new("prompt_init", 1.0, "prompts begin evenly spread from 0 to this");
        let query = Param::new("query", QueryView::Clean, "what a query is of under augmentation");
        let weights = Param::new("weights", Weights::Uniform, "how much a client counts");
        let head = Param::new("head", HeadForm::Fixed, "head rows in messages");
        FedAvgPrompt {
            pool,
            prompt_len,
            n_blocks: table.get(&n_blocks.source("HePCo").at_least(1.0).at_most(99.0)),
            prompt_init: table.get(&init.source("HePCo's code").at_least(0.0)),
            query: table.get(&query.source("augmented in HePCo's code, which pays for it")),
            weights: table.get(&weights.source("HePCo")),
            head: table.get(&head.source("HePCo")),
        }
    }

    /// The pools of a model.
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

impl Adaptation for FedAvgPrompt {
    fn parameters(&self, model: &ModelFacts) -> Parameters {
        let pools = Parameters::shared(self.pools(model).shapes());
        pools.head(HeadKind::Linear, model.classes, model.backbone.dim())
    }

    fn initial(
        &self,
        model: &ModelFacts,
        _lab: &Lab,
        init: StreamKey,
    ) -> Result<ParameterSet, PolicyError> {
        let pools = self.pools(model).initial_parameters(init, self.prompt_init);
        let dim = model.backbone.dim();
        Ok(pools.merge(&LinearHead::initial_parameters(model.classes, dim, init)))
    }

    /// Pools need blocks to live in.
    fn requirements(&self) -> Vec<Requirement> {
        let instead = "use `method.name = \"fedavg\"`";
        vec![Requirement::blocks("a pool of prompts", instead)]
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
    /// Returns the parts of FedAvg upon pools of prompts.
    pub fn base<S: ClientState, M: Memory>(&self) -> Parts<'_, S, M> {
        Parts::fedavg(self, Averaging { weights: self.weights, head: self.head })
    }
}

impl AveragingMethod for FedAvgPrompt {
    type State = ();
    type Memory = ();

    fn parts(&self) -> Parts<'_, (), ()> {
        self.base()
    }
}

/// Its line in the registry.
pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "HePCo's client with plain averaging: a pool of prompts per block, all of them used, weighted by \
               the cosines of their keys with a query, and a linear head.",
        source: "Halbe, Smith, Tian, Kira: Continual Adaptation of Vision Transformers for Federated \
                 Learning, TMLR 2024 (a baseline)",
        state: "server: prompts, keys, head; client: nothing",
        ..MethodEntry::averaging("fedavg-prompt", FedAvgPrompt::read)
    }
}
