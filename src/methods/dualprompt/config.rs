//! The settings of DualPrompt.

use crate::scenario::reader::{Param, TableReader, defaults};

/// The keys of DualPrompt's own.
#[derive(Clone, Debug, PartialEq)]
pub struct DualPromptConfig {
    /// Experts.
    pub pool: u32,
    /// Keys, and as many values, of a general prefix.
    pub g_len: u32,
    /// Blocks with a general prefix, from block 0 on.
    pub g_blocks: u32,
    /// Keys, and as many values, of an expert's prefix.
    pub e_len: u32,
    /// Blocks with an expert's prefix, behind the general ones.
    pub e_blocks: u32,
    /// Weight of the term that pulls the key of the task to queries.
    pub pull_weight: f64,
    /// Whether experts of tasks to come cannot be chosen.
    pub match_seen_only: bool,
    /// Whether an expert starts as a copy of the one before.
    pub copy_previous: bool,
}

impl Default for DualPromptConfig {
    fn default() -> Self {
        defaults(DualPromptConfig::read)
    }
}

impl DualPromptConfig {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> DualPromptConfig {
        let number = |name, default: u32, doc| {
            Param::new(name, default, doc).source("DualPrompt").at_most(10_000.0)
        };
        let pool = number("pool", 10, "experts, one per task; later tasks share the last");
        let g_len = number("g_len", 5, "keys, and as many values, of a general prefix");
        let g_blocks = number("g_blocks", 2, "blocks with a general prefix, from block 0 on");
        let e_len = number("e_len", 20, "keys, and as many values, of an expert's prefix");
        let e_blocks =
            number("e_blocks", 3, "blocks with an expert's prefix, behind the general ones");
        let pull =
            Param::new("pull_weight", 0.0, "weight of the term that pulls a task's key to queries");
        let pull = pull.source("0 in the public code of HGP; 1 in DualPrompt").at_least(0.0);
        let seen = Param::new("match_seen_only", false, "choose among experts of tasks seen only");
        let copy =
            Param::new("copy_previous", false, "an expert starts as a copy of the one before");
        DualPromptConfig {
            pool: table.get(&pool.at_least(1.0)),
            g_len: table.get(&g_len.at_least(0.0)),
            g_blocks: table.get(&g_blocks.at_least(0.0)),
            e_len: table.get(&e_len.at_least(0.0)),
            e_blocks: table.get(&e_blocks.at_least(1.0)),
            pull_weight: table.get(&pull),
            match_seen_only: table.get(&seen.source("the public code of HGP")),
            copy_previous: table.get(&copy.source("the public code of HGP; the port has true")),
        }
    }
}
