//! Ranks as the manifest of a run has them.

use serde::{Deserialize, Serialize};

use crate::experiment::machine::Machine;
use crate::federation::remote::Rank;

/// A rank, as the manifest has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankEntry {
    pub rank: Rank,
    /// The name of its machine.
    pub host: String,
    pub workers: usize,
    pub devices: Vec<String>,
    /// Jobs that it has done for rank 0, when the run ended.
    pub jobs: u64,
    pub machine: Machine,
}

/// A rank that was lost during the run, as the manifest has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostRank {
    pub rank: Rank,
    pub host: String,
    /// So many jobs it had, which others did.
    pub jobs: usize,
    pub why: String,
}
