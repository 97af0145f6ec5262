//! Settings of Powder: defaults are those of the release, as far as they are known.

use clap::ValueEnum;

use crate::learning::QueryView;
use crate::scenario::reader::{Choice, Keys, TableReader, defaults};

/// Parts of other client tasks that travel to a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum Downlink {
    /// What it mixes with its own components, added up by the server.
    ///
    /// That is the parts of its mixed components that it cannot change.
    #[default]
    Needed,
    /// The components and heads of all client tasks.
    ///
    /// The client adds them up itself.
    Table,
}

/// Client tasks that others use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum Lend {
    /// All that have begun.
    ///
    /// Client tasks that begin together learn from each other at once, in the first stage too.
    #[default]
    Begun,
    /// Those that were trained before the stage began.
    ///
    /// In the first stage a client task learns from itself alone.
    Trained,
}

/// Party that finds out which client tasks are similar.
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

/// Source of most defaults.
const RELEASE: &str = "the release of Powder";

/// The `[method]` table of Powder, with these components and tokens where they are not written.
#[derive(Clone, Debug, PartialEq, Keys)]
#[keys(given(usual: [u32; 2], source: &'static str), function = read_with)]
pub struct PowderConfig {
    /// Components of a client task in a block.
    #[key(default = usual[0], source = source, at_least = 1.0, at_most = 1000.0)]
    pub components: u32,
    /// Tokens of a component.
    #[key(default = usual[1], source = source, at_least = 0.0, at_most = 10_000.0)]
    pub prompt_len: u32,
    /// First block with tokens, from 0.
    #[key(default = 4, source = RELEASE, at_most = 99.0)]
    pub first_block: u32,
    /// Blocks with tokens, at most as many as there are.
    #[key(default = 3, source = RELEASE, at_least = 1.0, at_most = 99.0)]
    pub n_blocks: u32,
    /// Use in a client task of what similar client tasks have learned.
    #[key(default = true, source = "Powder; false is the ablation without")]
    pub transfer: bool,
    /// Client tasks that others use.
    #[key(default = Lend::Begun, source = RELEASE)]
    pub lend: Lend,
    /// Party that finds out which client tasks are similar.
    #[key(default = Similarity::Clients, source = "ours; the release looks at the server")]
    pub similarity: Similarity,
    /// Client tasks whose mixed components a client task uses, its own included.
    #[key(default = 3, source = RELEASE, at_least = 1.0, at_most = 100.0)]
    pub top: u32,
    /// Power of the cosines between client tasks.
    #[key(default = 30, source = RELEASE, at_least = 1.0, at_most = 1000.0)]
    pub exponent: u32,
    /// Weight of the not-true distillation; 0 is none.
    #[key(default = 1.0, source = RELEASE, at_least = 0.0)]
    pub kd_weight: f64,
    /// Temperature of the distillation.
    #[key(default = 3.0, source = RELEASE, above = 0.0)]
    pub kd_temperature: f64,
    /// Image that a query is computed from, where training augments images.
    #[key(
        default = QueryView::Clean,
        source = "saves a pass; the release queries augmented images"
    )]
    pub query: QueryView,
    /// Parts of other client tasks that travel to a client.
    #[key(default = Downlink::Needed, source = "ours; the release keeps one table")]
    pub downlink: Downlink,
}

impl PowderConfig {
    /// Reads the keys of Powder itself.
    pub(super) fn read(table: &mut TableReader<'_>) -> PowderConfig {
        PowderConfig::read_with(table, [10, 8], RELEASE)
    }
}

impl Default for PowderConfig {
    fn default() -> Self {
        defaults(PowderConfig::read)
    }
}
