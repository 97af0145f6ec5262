//! **FedProx** (Li et al., MLSys 2020): FedAvg whose clients are pulled towards what they received.
//!
//! ```text
//! client   theta <- down;  minimize  CE + mu/2 |theta - down|^2
//! ```

mod objective;

pub use self::objective::Prox;
use super::entry::MethodEntry;
use super::fedavg::FedAvg;
use super::parts::{AveragingMethod, Parts};
use crate::scenario::reader::Keys;

/// Keys of the `[method]` table of FedProx.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct FedProx {
    /// Trained parameters and their aggregation.
    #[key(flatten)]
    pub fedavg: FedAvg,
    /// Weight of the proximal term, which keeps weights near the received ones.
    #[key(default = 0.01, at_least = 0.0, source = "public code of HePCo and MFCL")]
    pub mu: f64,
    /// Form of the proximal term.
    #[key(default = Prox::Squared, source = "Li et al. 2020")]
    pub prox: Prox,
}

impl AveragingMethod for FedProx {
    type State = ();
    type Memory = ();

    fn parts(&self) -> Parts<'_, (), ()> {
        Parts { local: self, ..self.fedavg.base() }
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg whose clients have a proximal term that keeps them near the received weights.",
        source: "Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020",
        state: "server: the parameters; client: nothing",
        ..MethodEntry::averaging("fedprox", FedProx::read)
    }
}
