//! Settings of Powder: defaults are those of the release, as far as they are known.

use clap::ValueEnum;

use crate::learning::QueryView;
use crate::scenario::reader::{Choice, Keys, TableReader};

/// Parts of other client tasks that are sent to a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum Downlink {
    /// Sum of what the client mixes with its own components, computed by the server.
    ///
    /// These are the parts of its mixed components that the client cannot change.
    #[default]
    Needed,
    /// Components and heads of all client tasks.
    ///
    /// The client adds them up itself.
    Table,
}

/// Client tasks whose components others use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum SourceTasks {
    /// All client tasks that have started.
    ///
    /// Client tasks that begin together learn from each other at once, in the first stage too.
    #[default]
    Started,
    /// Client tasks that were trained before the stage began.
    ///
    /// In the first stage a client task only uses itself.
    Trained,
}

/// Party that computes the similarities of client tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum Similarity {
    /// Clients, in separate rounds; no image leaves them.
    #[default]
    Clients,
    /// Server, from the clients' images.
    ///
    /// As in the release. The simulation does not send these images, and a federation that keeps images at clients
    /// could not do it.
    Server,
}

/// Source of most defaults.
const RELEASE: &str = "the release of Powder";

/// Keys of the `[method]` table of Powder, with these default numbers of components and tokens.
#[derive(Clone, Debug, PartialEq, Keys)]
#[keys(given(usual: [u32; 2], source: &'static str), function = read_with)]
#[keys(default_given([10, 8], RELEASE))]
pub struct PowderConfig {
    /// Number of components of a client task in a block.
    #[key(default = usual[0], source = source, at_least = 1.0, at_most = 1000.0)]
    pub components: u32,
    /// Number of tokens per component.
    #[key(default = usual[1], source = source, at_least = 0.0, at_most = 10_000.0)]
    pub prompt_len: u32,
    /// First block with tokens, from 0.
    #[key(default = 4, source = RELEASE, at_most = 99.0)]
    pub first_block: u32,
    /// Number of blocks with tokens; at most the blocks of the backbone.
    #[key(default = 3, source = RELEASE, at_least = 1.0, at_most = 99.0)]
    pub n_blocks: u32,
    /// Use of what similar client tasks have learned.
    #[key(default = true, source = "Powder; false is the ablation without")]
    pub transfer: bool,
    /// Client tasks whose components others use.
    #[key(default = SourceTasks::Started, source = RELEASE)]
    pub source_tasks: SourceTasks,
    /// Party that computes the similarities of client tasks.
    #[key(default = Similarity::Clients, source = "ours; the release looks at the server")]
    pub similarity: Similarity,
    /// Number of client tasks whose mixed components a client task uses, with its own.
    #[key(default = 3, source = RELEASE, at_least = 1.0, at_most = 100.0)]
    pub top: u32,
    /// Exponent of the cosines between client tasks.
    #[key(default = 30, source = RELEASE, at_least = 1.0, at_most = 1000.0)]
    pub exponent: u32,
    /// Weight of the not-true distillation; 0: none.
    #[key(default = 1.0, source = RELEASE, at_least = 0.0)]
    pub kd_weight: f64,
    /// Temperature of the distillation.
    #[key(default = 3.0, source = RELEASE, above = 0.0)]
    pub kd_temperature: f64,
    /// Image from which a query is computed, if training augments images.
    #[key(
        default = QueryView::Clean,
        source = "saves a pass; the release queries augmented images"
    )]
    pub query: QueryView,
    /// Parts of other client tasks that are sent to a client.
    #[key(default = Downlink::Needed, source = "ours; the release keeps one table")]
    pub downlink: Downlink,
}

impl PowderConfig {
    /// Reads the keys of Powder itself.
    pub(super) fn read(table: &mut TableReader<'_>) -> PowderConfig {
        PowderConfig::read_with(table, [10, 8], RELEASE)
    }
}
