//! `[partition]`: which client holds which training samples of a task.
//!
//! Definitions: the HGP benchmark's "distribution-based label imbalance" and its two relatives
//! (arXiv 2406.02447 and the public framework of the same group).

use serde::Serialize;

/// Who holds which samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartitionSection {
    /// The rule. Required.
    #[serde(flatten)]
    pub kind: PartitionKind,
    /// Samples every client must have in every task; otherwise the task is drawn again. Default 6.
    pub min_samples: u32,
    /// Draws before giving up. Default 9999.
    pub attempts: u32,
    /// Samples of a client's shard where `participation.population = "fresh"`. Required there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples_per_client: Option<u32>,
}

/// The rule of a partition.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum PartitionKind {
    /// Per class, client shares from `Dirichlet(beta)`; every sample drawn on its own.
    Dirichlet {
        /// Concentration: small is uneven. Required.
        beta: f64,
    },
    /// Shuffled and dealt evenly.
    Iid,
    /// Every client draws so many classes of the task; a class is shared evenly by its holders.
    Quantity {
        /// Classes a client draws. Required.
        classes_per_client: u32,
    },
    /// As `dirichlet`, after every client has reserved a few samples (for many clients).
    Extended {
        /// Concentration of the samples not reserved. Required.
        beta: f64,
        /// Samples reserved per client. Default 7.
        picks: u32,
        /// Concentration of the classes of reserved samples. Default 0.05.
        picks_beta: f64,
    },
}
