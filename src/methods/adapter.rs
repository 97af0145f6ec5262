//! **Adapters**: a bottleneck adapter beside the perceptron of every block of a frozen transformer, and a
//! cosine head, averaged over clients. The first stage of STSA (arXiv 2506.01327, section 2 and table of
//! hyperparameters), as a method of its own: name it in `[method.first]`, or run it alone. It is `fedavg` with
//! `train = "adapter"`, a cosine head and STSA's defaults.
//!
//! ```text
//! client   theta <- down;  E epochs: minimise CE over the rows of the current task, dropout in adapters
//! server   theta <- theta + mean_m (theta_m - theta)
//! ```
//! On ViT-B/16 with a bottleneck of 64 the adapters are 1,189,632 parameters, and 7,681 the head of ten
//! classes. Messages are FedAvg's; clients keep nothing between rounds.

use super::HeadForm;
use super::averaged::Weights;
use super::entry::MethodEntry;
use super::fedavg::{FedAvg, Train};
use crate::model::HeadKind;
use crate::scenario::reader::{Param, TableReader, defaults};

/// FedAvg of adapters and a cosine head, with the defaults of STSA.
pub fn adapters() -> FedAvg {
    defaults(read)
}

/// Reads the keys of a `[method]` table.
pub fn read(table: &mut TableReader<'_>) -> FedAvg {
    let dropout = Param::new("dropout", 0.1, "share of hidden entries dropped in training");
    let weights = Param::new("weights", Weights::Uniform, "how much a client counts");
    let head = Param::new("head", HeadForm::Growing, "head rows in messages");
    FedAvg {
        train: Train::Adapter,
        classifier: HeadKind::Cosine,
        bottleneck: table.get(&FedAvg::bottleneck("width between an adapter's two layers")),
        dropout: table.get(&dropout.source("STSA").at_least(0.0).below(1.0)),
        weights: table.get(&weights.source("the public code of STSA: plain mean")),
        head: table.get(&head.source("STSA: the classes of its one task")),
        ..FedAvg::default()
    }
}

/// Its line in the registry.
pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "A bottleneck adapter in every block of a frozen transformer and a cosine head, \
               averaged over clients; STSA's first stage.",
        source: "STSA: Federated Class-Incremental Learning via Spatial-Temporal Statistics \
                 Aggregation, arXiv 2506.01327; adapters: Chen et al., AdaptFormer, NeurIPS 2022",
        state: "server: adapters and head; client: nothing",
        ..MethodEntry::averaging("adapter", read)
    }
}
