//! The settings of FedAvg-Prompt, which are those of HePCo's clients.

use super::PoolShape;
use crate::learning::QueryView;
use crate::methods::HeadForm;
use crate::methods::fedavg::Weights;
use crate::policy::ModelFacts;
use crate::scenario::reader::{Param, TableReader, defaults};

/// The `[method]` table of FedAvg-Prompt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FedAvgPromptConfig {
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

impl Default for FedAvgPromptConfig {
    fn default() -> Self {
        defaults(FedAvgPromptConfig::read)
    }
}

impl FedAvgPromptConfig {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> FedAvgPromptConfig {
        let pool = Param::new("pool", 100, "prompts of a block, each with a key").source("HePCo");
        let pool = table.get(&pool.at_least(1.0).at_most(100_000.0));
        let length = Param::new("prompt_len", 20, "rows of a prompt, half keys, half values");
        let prompt_len: u32 = table.get(&length.source("HePCo").at_least(2.0).at_most(10_000.0));
        if !prompt_len.is_multiple_of(2) {
            let message = format!("a prompt of {prompt_len} rows has no two halves");
            table.reject("prompt_len", &message, "odd", "give an even number of rows");
        }
        let n_blocks =
            Param::new("n_blocks", 5, "prompted blocks from the first on, at most the depth");
        let init = Param::new("prompt_init", 1.0, "prompts begin evenly spread from 0 to this");
        let query = Param::new("query", QueryView::Clean, "what a query is of under augmentation");
        let weights = Param::new("weights", Weights::Uniform, "how much a client counts");
        let head = Param::new("head", HeadForm::Fixed, "head rows in messages");
        FedAvgPromptConfig {
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
    pub fn shape(&self, facts: &ModelFacts) -> PoolShape {
        let depth = facts.backbone.vit().map_or(0, |vit| vit.depth);
        PoolShape {
            blocks: depth.min(self.n_blocks as usize),
            pool: self.pool as usize,
            length: self.prompt_len as usize,
            dim: facts.backbone.dim(),
        }
    }
}
