//! The settings of Powder: defaults are those of the release, as far as they are known.

use clap::ValueEnum;

use crate::learning::QueryView;
use crate::scenario::reader::{Choice, Param, TableReader, defaults};

/// What of other slots travels to a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum Downlink {
    /// What it mixes with its own components, added up by the server.
    ///
    /// That is the parts of its mixed components that it cannot change.
    #[default]
    Needed,
    /// The components and heads of all slots.
    ///
    /// The client adds them up itself.
    Table,
}

/// Which slots others may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum Lend {
    /// All that have begun.
    ///
    /// Slots that begin together learn from each other at once, in the first period too.
    #[default]
    Begun,
    /// Those that were trained before the period began.
    ///
    /// In the first period a slot learns from itself alone.
    Trained,
}

/// Who finds out which slots are similar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum Similarity {
    /// Clients, in rounds of their own; no image leaves them.
    #[default]
    Clients,
    /// The server, from the clients' images.
    ///
    /// As the release has it. Nothing of that travels in the simulation, and no federation that is to keep images
    /// where they are could do it.
    Server,
}

/// The `[method]` table of Powder.
#[derive(Clone, Debug, PartialEq)]
pub struct PowderConfig {
    /// Components of a slot in a block.
    pub components: u32,
    /// Tokens of a component.
    pub prompt_len: u32,
    /// The first block that gets tokens.
    pub first_block: u32,
    /// Blocks that get tokens.
    pub n_blocks: u32,
    /// Whether slots use what other slots have learnt.
    pub transfer: bool,
    /// Which slots others use.
    pub lend: Lend,
    /// Who finds out which slots are similar.
    pub similarity: Similarity,
    /// Slots whose mixed components a slot uses, its own included.
    pub top: u32,
    /// The power of cosines between slots.
    pub exponent: u32,
    /// Weight of the distillation.
    pub kd_weight: f64,
    pub kd_temperature: f64,
    /// Which image a query is of, where training augments.
    pub query: QueryView,
    /// What of other slots travels.
    pub downlink: Downlink,
}

impl Default for PowderConfig {
    fn default() -> Self {
        defaults(PowderConfig::read)
    }
}

impl PowderConfig {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> PowderConfig {
        PowderConfig::read_with(table, [10, 8], "the release of Powder")
    }

    /// The same where components and their length have other defaults.
    pub(in crate::methods) fn read_with(
        table: &mut TableReader<'_>,
        [components, length]: [u32; 2],
        source: &'static str,
    ) -> PowderConfig {
        let release = "the release of Powder";
        let components = Param::new("components", components, "components of a slot in a block");
        let length = Param::new("prompt_len", length, "tokens of a component");
        let first = Param::new("first_block", 4, "the first block with tokens, from 0");
        let blocks = Param::new("n_blocks", 3, "blocks with tokens, as many as there are");
        let transfer = Param::new("transfer", true, "slots use what similar slots have learnt");
        let lend = Param::new("lend", Lend::Begun, "which slots others use");
        let similarity =
            Param::new("similarity", Similarity::Clients, "who finds out which slots are similar");
        let top = Param::new("top", 3, "slots whose mixed components are used, the own included");
        let exponent = Param::new("exponent", 30, "power of the cosines between slots");
        let weight = Param::new("kd_weight", 1.0, "weight of the not-true distillation; 0: none");
        let tau = Param::new("kd_temperature", 3.0, "temperature of the distillation");
        let query = Param::new("query", QueryView::Clean, "the image a query is of in training");
        let downlink = Param::new("downlink", Downlink::Needed, "what of other slots travels");
        PowderConfig {
            components: table.get(&components.source(source).at_least(1.0).at_most(1000.0)),
            prompt_len: table.get(&length.source(source).at_least(0.0).at_most(10_000.0)),
            first_block: table.get(&first.source(release).at_most(99.0)),
            n_blocks: table.get(&blocks.source(release).at_least(1.0).at_most(99.0)),
            transfer: table.get(&transfer.source("Powder; false is the ablation without")),
            lend: table.get(&lend.source(release)),
            similarity: table.get(&similarity.source("ours; the release looks at the server")),
            top: table.get(&top.source(release).at_least(1.0).at_most(100.0)),
            exponent: table.get(&exponent.source(release).at_least(1.0).at_most(1000.0)),
            kd_weight: table.get(&weight.source(release).at_least(0.0)),
            kd_temperature: table.get(&tau.source(release).above(0.0)),
            query: table.get(&query.source("saves a pass; the release queries augmented images")),
            downlink: table.get(&downlink.source("ours; the release keeps one table")),
        }
    }
}
