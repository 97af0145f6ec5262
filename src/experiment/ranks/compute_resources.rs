//! Workers and ranks that compute a run, as the command line asks for.

use super::Ranks;

/// Workers of this process, and other ranks.
#[derive(Clone, Debug, Default)]
pub struct ComputeResources {
    /// Worker threads (on GPUs: of each); the scenario's by default.
    pub workers: Option<u32>,
    /// The other ranks, where there are any. They work for one run.
    pub ranks: Option<Ranks>,
}

impl From<Option<u32>> for ComputeResources {
    fn from(workers: Option<u32>) -> ComputeResources {
        ComputeResources { workers, ranks: None }
    }
}
