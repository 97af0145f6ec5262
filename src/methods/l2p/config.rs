//! The settings of L2P.

use clap::ValueEnum;

use crate::model::Pooling;
use crate::scenario::reader::{Choice, Param, TableReader, defaults};

/// Most prompts a pool may have.
pub(super) const LARGEST_POOL: u32 = 1_000;

/// The positions of prompt tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PromptPlace {
    /// All prompts carry the position of CLS.
    #[value(name = "cls_copy")]
    ClsCopy,
    /// Prompts carry no position.
    None,
    /// Random offsets put first, so that CLS carries the first of them: HGP's code.
    Misordered,
}

impl Choice for PromptPlace {}

/// The keys of L2P's own.
#[derive(Clone, Debug, PartialEq)]
pub struct L2pConfig {
    /// Prompts in the pool.
    pub pool: u32,
    /// Tokens of a prompt.
    pub prompt_len: u32,
    /// Prompts of an image.
    pub top: u32,
    /// Weight of the term that pulls chosen keys to queries.
    pub pull_weight: f64,
    /// Positions of prompt tokens.
    pub prompt_pos: PromptPlace,
    /// Where random offsets are drawn, for [`PromptPlace::Misordered`]; shared by everybody.
    pub offset_seed: u32,
    /// What a feature is made of.
    pub pooling: Pooling,
}

impl Default for L2pConfig {
    fn default() -> Self {
        defaults(L2pConfig::read)
    }
}

impl L2pConfig {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> L2pConfig {
        let number = |name, default: u32, doc| {
            Param::new(name, default, doc).source("L2P").at_most(f64::from(LARGEST_POOL))
        };
        let pool = number("pool", 10, "prompts in the pool").at_least(1.0);
        let length = number("prompt_len", 5, "tokens of a prompt; 0: a linear probe");
        let top =
            number("top", 5, "prompts of an image: those whose keys are nearest to its query");
        let pull =
            Param::new("pull_weight", 0.0, "weight of the term that pulls chosen keys to queries");
        let pull = pull.source("0 in the public code of HGP; 0.1 in L2P").at_least(0.0);
        let place = Param::new("prompt_pos", PromptPlace::ClsCopy, "positions of prompt tokens");
        let seed = Param::new("offset_seed", 0, "where the offsets of `misordered` are drawn");
        let pooling = Param::new("pooling", Pooling::ClsAndPrompts, "what a feature is made of");
        let pooling = pooling.source("the public code of HGP; the port has prompts");
        L2pConfig {
            pool: table.get(&pool),
            prompt_len: table.get(&length.at_least(0.0)),
            top: table.get(&top.at_least(1.0)),
            pull_weight: table.get(&pull),
            prompt_pos: table.get(&place.source("the port of L2P; HGP's code has misordered")),
            offset_seed: table.get(&seed),
            pooling: table.get(&pooling),
        }
    }
}
