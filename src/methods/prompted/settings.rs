//! The settings that all methods with query-dependent prompts share.

use clap::ValueEnum;

use crate::learning::QueryView;
use crate::methods::HeadForm;
use crate::methods::fedavg::Weights;
use crate::methods::transformer::needs_blocks;
use crate::scenario::reader::{Choice, Param, TableReader};
use crate::scenario::{Complaint, Scenario};

/// Whether messages carry all prompts or those of the tasks so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PoolForm {
    /// All from the first round on.
    #[default]
    Fixed,
    /// Those of the tasks so far.
    Growing,
}

impl Choice for PoolForm {}

/// What every such method has in its `[method]` table.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptedConfig {
    /// Which image a query is of, where training augments.
    pub query: QueryView,
    /// How much a client counts.
    pub weights: Weights,
    /// Which head rows messages carry.
    pub head: HeadForm,
}

impl PromptedConfig {
    /// Reads these keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> PromptedConfig {
        let query = Param::new("query", QueryView::Clean, "the image a query is of in training");
        let weights = Param::new("weights", Weights::BySamples, "how much a client counts");
        let head = Param::new("head", HeadForm::Fixed, "head rows in messages");
        PromptedConfig {
            query: table
                .get(&query.source("saves a pass; the public codes query augmented images")),
            weights: table.get(&weights.source("HGP; STSA's comparison has uniform")),
            head: table.get(&head.source("the public code of HGP")),
        }
    }
}

/// A whole number of a `[method]` table, or its default.
pub(in crate::methods) fn given(scenario: &Scenario, key: &str, default: i64) -> i64 {
    let value = scenario.method.parameters.get(key).and_then(toml::Value::as_integer);
    value.unwrap_or(default)
}

/// Prompts need blocks to live in.
pub(in crate::methods) fn check_blocks(scenario: &Scenario) -> Option<Complaint> {
    let instead = "train the head alone with `method.name = \"fedavg\"` and `train = \"head\"`";
    needs_blocks(scenario, "a prompt", instead)
}
