//! **Adapters**: FedAvg of adapters in a frozen transformer and a cosine head, the first stage of STSA.
//!
//! Every block has a bottleneck adapter parallel to its perceptron (arXiv 2506.01327, section 2 and table of
//! hyperparameters). Name the method in `[method.first]`, or run it alone. It is `fedavg` with `train = "adapter"`, a
//! cosine head and STSA's defaults.
//!
//! ```text
//! client   theta <- down;  E epochs: minimize CE over the rows of the current task, dropout in adapters
//! server   theta <- theta + mean_m (theta_m - theta)
//! ```
//! On ViT-B/16 with a bottleneck of 64 the adapters have 1,189,632 parameters, and the head of ten classes has 7,681.
//! Messages are FedAvg's; clients keep nothing between rounds.

use super::HeadForm;
use super::averaging::ClientWeighting;
use super::entry::MethodEntry;
use super::fedavg::{FedAvg, Train};
use crate::model::HeadKind;
use crate::scenario::reader::{Keys, TableReader};

/// FedAvg of adapters and a cosine head, with the defaults of STSA.
pub fn adapters() -> FedAvg {
    AdapterKeys::default().into()
}

/// Keys of the `[method]` table of `adapter`.
#[derive(Keys)]
struct AdapterKeys {
    /// Width between the two layers of an adapter.
    #[key(default = 64, at_least = 1.0, at_most = 65_536.0, source = "STSA")]
    bottleneck: u32,
    /// Fraction of hidden entries dropped in training.
    #[key(default = 0.1, at_least = 0.0, below = 1.0, source = "STSA")]
    dropout: f64,
    /// Weight of a client in the mean.
    #[key(default = ClientWeighting::Uniform, source = "public code of STSA: plain mean")]
    client_weighting: ClientWeighting,
    /// Rows of the head in messages.
    #[key(default = HeadForm::Growing, source = "STSA: classes of its one task")]
    head_form: HeadForm,
}

impl From<AdapterKeys> for FedAvg {
    fn from(
        AdapterKeys { bottleneck, dropout, client_weighting, head_form }: AdapterKeys,
    ) -> FedAvg {
        let (train, classifier) = (Train::Adapter, HeadKind::Cosine);
        FedAvg {
            train,
            classifier,
            bottleneck,
            dropout,
            client_weighting,
            head_form,
            ..FedAvg::default()
        }
    }
}

/// Reads the keys of a `[method]` table into FedAvg's settings.
pub fn read(table: &mut TableReader<'_>) -> FedAvg {
    AdapterKeys::read(table).into()
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "Bottleneck adapter in every block of a frozen transformer and a cosine head, averaged over clients; \
               STSA's first stage.",
        source: "STSA: Federated Class-Incremental Learning via Spatial-Temporal Statistics \
                 Aggregation, arXiv 2506.01327; adapters: Chen et al., AdaptFormer, NeurIPS 2022",
        state: "server: adapters and head; client: nothing",
        ..MethodEntry::averaging("adapter", read)
    }
}
