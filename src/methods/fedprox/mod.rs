//! **FedProx** (Li et al., MLSys 2020): FedAvg whose clients are pulled towards what they received.
//!
//! ```text
//! client   theta <- down;  minimise  CE + mu/2 |theta - down|^2
//! server   as FedAvg
//! ```
//! It has no means against forgetting. The term is over all that trains; running statistics are not in it. At the
//! first step of a round it is zero, so a round of one step is FedAvg's. With SGD it is stable for `lr mu < 2`; Adam
//! divides it by the same moments as the rest of the gradient.

mod objective;

pub use self::objective::Prox;

use self::objective::Pulled;
use super::averaged::{Client, Objective};
use super::entry::MethodEntry;
use super::fedavg::FedAvg;
use super::parts::{AveragingMethod, ClientContext, LocalUpdate, Parts};
use crate::learning::Classifier;
use crate::model::Parameter;
use crate::policy::PolicyError;
use crate::scenario::reader::{Param, TableReader, defaults};

/// The `[method]` table of FedProx.
#[derive(Clone, Debug, PartialEq)]
pub struct FedProx {
    /// What trains and how.
    pub fedavg: FedAvg,
    /// Strength of the pull.
    pub mu: f64,
    /// Its form.
    pub prox: Prox,
}

impl Default for FedProx {
    fn default() -> Self {
        defaults(FedProx::read)
    }
}

impl FedProx {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> FedProx {
        let mu = Param::new(
            "mu",
            0.01,
            "weight of the proximal term, which keeps weights near those that were received",
        )
        .source("public code of HePCo and MFCL")
        .at_least(0.0);
        let prox = Param::new("prox", Prox::Squared, "form of the proximal term");
        FedProx {
            fedavg: FedAvg::read(table),
            mu: table.get(&mu),
            prox: table.get(&prox.source("Li et al. 2020")),
        }
    }
}

impl AveragingMethod for FedProx {
    type State = ();
    type Memory = ();

    fn parts(&self) -> Parts<'_, (), ()> {
        Parts { local: self, ..self.fedavg.base() }
    }
}

impl LocalUpdate<()> for FedProx {
    fn objective(
        &self,
        _context: &ClientContext<'_>,
        _pack: &[Client<'_, ()>],
        network: &Classifier,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        let anchors = network.variables().iter().map(|(_, variable)| Parameter::of(variable));
        let anchors = anchors.collect::<Result<_, _>>()?;
        Ok(Box::new(Pulled { mu: self.mu, prox: self.prox, anchors }))
    }

    fn max_pack(&self, _usual: usize) -> usize {
        1
    }
}

/// Its line in the registry.
pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg whose clients have a proximal term: they stay near the weights they received.",
        source: "Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020",
        state: "server: the parameters; client: nothing",
        ..MethodEntry::averaging("fedprox", FedProx::read)
    }
}
