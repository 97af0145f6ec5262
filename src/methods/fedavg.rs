//! **FedAvg** (McMahan et al., AISTATS 2017): the server averages the clients' models by sample counts.
//!
//! Every client trains the received model on its shard. In class-incremental benchmarks FedAvg is the lower bound: only
//! the mask of the loss (rows of the current task compete among themselves) protects earlier classes.
//!
//! ```text
//! client   theta <- down;  E epochs: minimize CE over the rows of the current task, or of all seen
//! server   theta <- theta + sum_m n_m (theta_m - theta) / sum_m n_m
//! ```
//! The key `train` chooses the parameters theta ([`Trainable`]); FedHAF's module and head give FedHAF's baselines. With
//! `old_logits = "keep"`, uniform weights and clipping at 1 it is HePCo's lower bound FedAvg-FT. Clients keep nothing
//! between rounds.

use super::entry::MethodEntry;
use super::parts::{AveragingMethod, Parts};
pub use super::trainable::{Train, Trainable};

/// Settings of FedAvg: the trained parameters and their aggregation.
pub type FedAvg = Trainable;

impl AveragingMethod for FedAvg {
    type State = ();
    type Memory = ();

    fn parts(&self) -> Parts<'_, (), ()> {
        self.base()
    }
}

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
