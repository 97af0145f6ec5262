//! The settings of CODA-Prompt.

use clap::ValueEnum;

use crate::methods::prompted::PoolForm;
use crate::scenario::reader::{Choice, Param, TableReader, defaults};

/// When rows are made orthogonal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Orthogonal {
    /// The rows of a task as it starts.
    ///
    /// They are made orthogonal to what the rows of the tasks before have become.
    Task,
    /// All rows before the first task.
    Once,
}

impl Choice for Orthogonal {}

/// The keys of CODA-Prompt's own.
#[derive(Clone, Debug, PartialEq)]
pub struct CodaConfig {
    /// Components of all tasks together.
    pub pool: u32,
    /// Rows of a component in a block, half keys and half values.
    pub prompt_len: u32,
    /// The first block with a prompt.
    pub first_block: u32,
    /// Blocks with a prompt.
    pub n_blocks: u32,
    /// Weight of the orthogonality penalty.
    pub mu: f64,
    /// Whether attention passes a softmax over its entries.
    pub attention_softmax: bool,
    /// When rows are made orthogonal.
    pub orthogonal: Orthogonal,
    /// Which components a Down carries.
    pub components: PoolForm,
}

impl Default for CodaConfig {
    fn default() -> Self {
        defaults(CodaConfig::read)
    }
}

impl CodaConfig {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> CodaConfig {
        let mu = Param::new("mu", 0.0, "weight of the orthogonality penalty");
        let mu = mu.source("0 in the authors' release; 0.1 in the first version of the paper");
        let softmax =
            Param::new("attention_softmax", false, "attention passes a softmax over its entries");
        let orthogonal =
            Param::new("orthogonal", Orthogonal::Task, "when rows are made orthogonal");
        CodaConfig {
            mu: table.get(&mu.at_least(0.0)),
            attention_softmax: table.get(&softmax.source("CODA-Prompt; Fed-CPrompt has true")),
            orthogonal: table.get(&orthogonal.source("CODA-Prompt; Fed-CPrompt has once")),
            ..CodaConfig::sizes(table)
        }
    }

    /// The keys of a pool of components; what is particular to CODA-Prompt stays at its default.
    pub(in crate::methods) fn sizes(table: &mut TableReader<'_>) -> CodaConfig {
        let source = "CODA-Prompt";
        let pool =
            Param::new("pool", 100, "components of all tasks together; each task has as many");
        let length = Param::new("prompt_len", 8, "rows of a component in a block");
        let first = Param::new("first_block", 0, "the first block with a prompt").at_most(99.0);
        let blocks = Param::new("n_blocks", 5, "blocks with a prompt, as many as there are");
        let form = Param::new("components", PoolForm::Fixed, "components in messages");
        let config = CodaConfig {
            pool: table.get(&pool.source(source).at_least(1.0).at_most(100_000.0)),
            prompt_len: table.get(&length.source(source).at_least(2.0).at_most(10_000.0)),
            first_block: table.get(&first.source(source)),
            n_blocks: table.get(&blocks.source(source).at_least(1.0).at_most(99.0)),
            components: table.get(&form.source("the public code of HGP")),
            mu: 0.0,
            attention_softmax: false,
            orthogonal: Orthogonal::Task,
        };
        if !config.prompt_len.is_multiple_of(2) {
            let message = format!("a prompt of {} rows has no two halves", config.prompt_len);
            table.reject("prompt_len", &message, "odd", "give an even number of rows");
        }
        config
    }
}
