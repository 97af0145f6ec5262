//! **FedAvg** (McMahan et al., AISTATS 2017): every client trains what the server sent on its
//! shard, the server takes the mean weighted by sample counts.
//!
//! In class-incremental benchmarks it is the lower bound: nothing but the mask of the
//! loss (only rows of the current task compete) keeps old classes alive.
//!
//! ```text
//! client   theta <- down;  E epochs: minimize CE over the rows of the current task, or of all seen
//! server   theta <- theta + sum_m n_m (theta_m - theta) / sum_m n_m
//! ```
//! `train` says what theta is ([`Trainable`]); FedHAF's module and head make FedHAF's baselines. With
//! `old_logits = "keep"`, uniform weights and clipping at 1 it is HePCo's lower bound FedAvg-FT. Clients keep nothing
//! between rounds.

use super::entry::MethodEntry;
use super::parts::{AveragingMethod, Parts};
pub use super::trainable::{Train, Trainable};

/// The `[method]` table of FedAvg: what trains and how clients are averaged, and nothing more.
pub type FedAvg = Trainable;

impl AveragingMethod for FedAvg {
    type State = ();
    type Memory = ();

    fn parts(&self) -> Parts<'_, (), ()> {
        self.base()
    }
}

/// Returns the method's entry of the registry.
pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "Every client trains the received parameters; the server takes the mean weighted by sample counts. \
               Only the loss mask protects old classes: the lower bound.",
        source: "McMahan et al.: Communication-Efficient Learning of Deep Networks from \
                 Decentralized Data, AISTATS 2017",
        state: "server: the parameters that train; client: nothing",
        ..MethodEntry::averaging("fedavg", FedAvg::read)
    }
}
