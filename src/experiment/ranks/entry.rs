//! Entries of ranks in the manifest of a run.

use serde::{Deserialize, Serialize};

use crate::document::Document;
use crate::experiment::machine::Machine;
use crate::federation::remote::Rank;

/// A rank, as the manifest has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Document)]
pub struct RankEntry {
    /// Number of a process, where several compute the run together.
    pub rank: Rank,
    /// Name of its machine.
    pub host: String,
    /// Number of its worker threads.
    pub workers: usize,
    /// Devices that it computed on.
    pub devices: Vec<String>,
    /// Number of jobs that it computed for rank 0, since the run began or was resumed.
    pub jobs: u64,
    /// Arithmetic and resources of its machine.
    pub machine: Machine,
}

/// A rank that was lost during the run, as the manifest has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Document)]
pub struct LostRank {
    /// Number of a process that was lost during the run.
    pub rank: Rank,
    /// Name of its machine.
    pub host: String,
    /// Number of its jobs that other ranks computed.
    pub jobs: usize,
    /// Reason, as reported by the launcher.
    pub why: String,
}
