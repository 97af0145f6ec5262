//! **SCAFFOLD** (Karimireddy et al., ICML 2020): every client keeps an estimate of its gradient (`c_m`), the server
//! one of all clients' (`c`), and local steps follow `g - c_m + c`, which corrects the drift of a single client. It has
//! no means against forgetting.
//!
//! ```text
//! client   y <- x;  every step: y <- y - eta (g(y) - c_m + c)
//!          II: c_m+ = c_m - c + (x - y) / sum of eta      I: c_m+ = gradient of its whole loss at x
//!          sends y and dc = c_m+ - c_m, keeps c_m+
//! server   x <- x + eta_g mean (y - x);  c <- c + (1 / N) sum dc,  N all clients
//! ```
//! The correction is a linear term of the loss, so a gradient is clipped with it. The mean of `y` is plain, as in
//! algorithm 1, or by samples; `c` is a mean over all clients regardless of participation. Untrained rows keep theirs.

mod correction;
mod renewal;

use self::correction::{CORRECTION, between, correction};
pub use self::renewal::Renewal;
use super::averaging::{
    CONTROL, ControlVariates, LinearPenalty, LocalTrajectory, Objective, Requirement, Variates,
    VectorKeeping, VectorStore, fitted, with_variates,
};
use super::entry::MethodEntry;
use super::fedavg::FedAvg;
use super::parts::{AveragingMethod, Parts};
use super::trainable::TrainableKeys;
use crate::learning::Classifier;
use crate::model::ParameterSet;
use crate::policy::PolicyError;
use crate::scenario::reader::Keys;

/// Algorithm 1 takes plain means over the clients of a round; no release of its authors is known.
const FEDAVG_KEYS: TrainableKeys = TrainableKeys::FEDAVG.uniform("Karimireddy et al.");

/// Keys of the `[method]` table of SCAFFOLD.
#[derive(Clone, Debug, PartialEq, Keys)]
#[keys(check = section.option.check(section.keeping.keeper, table))]
pub struct Scaffold {
    /// Trained parameters and their aggregation.
    #[key(read = FedAvg::read_keys(table, FEDAVG_KEYS))]
    pub fedavg: FedAvg,
    /// Rule by which a client renews its control variate.
    #[key(default = Renewal::Way, source = "Karimireddy et al.")]
    pub option: Renewal,
    /// Server learning rate along the mean update (`eta_g`).
    #[key(default = 1.0, above = 0.0, source = "Karimireddy et al.")]
    pub server_lr: f64,
    /// Lifetime and keeper of control variates.
    #[key(flatten)]
    pub keeping: VectorKeeping,
}

impl AveragingMethod for Scaffold {
    type State = VectorStore;
    type Memory = VectorStore;

    fn parts(&self) -> Parts<'_, VectorStore, VectorStore> {
        with_variates(self, self.fedavg.base())
    }
}

impl ControlVariates for Scaffold {
    const VECTORS: &'static [&'static str] = &[CONTROL];
    const SENT: &'static [&'static str] = &[CORRECTION];

    fn keeping(&self) -> VectorKeeping {
        self.keeping
    }

    fn requirements(&self) -> Vec<Requirement> {
        self.option.requirements()
    }

    fn sent(&self, control: &ParameterSet, own: &VectorStore) -> Vec<ParameterSet> {
        vec![between(control, own)]
    }

    /// Returns the objective of a pack: the cross-entropy plus `<y, c - c_m>`.
    fn corrected(
        &self,
        pack: &[Variates<'_>],
        network: &Classifier,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        let corrections: Vec<ParameterSet> = pack.iter().map(correction).collect();
        Ok(Box::new(LinearPenalty::new(network, &corrections, &network.rows())?))
    }

    fn reads_gradient(&self) -> bool {
        self.option == Renewal::Gradient
    }

    /// Returns the new variate `c_m+` and its change `dc`.
    ///
    /// The variate is the gradient at the received model or `c_m - c + (x - y) / sum of eta`; it is unchanged if no
    /// step was taken.
    fn renewed(
        &self,
        known: &Variates<'_>,
        way: &LocalTrajectory<'_>,
    ) -> (VectorStore, ParameterSet) {
        let correction = correction(known);
        let old = fitted(known.own.get(CONTROL), &correction);
        let new = match &way.gradient {
            Some(gradient) => known.renewed(&old, [gradient], |_| |[slope]: [f64; 1]| slope),
            None if way.rates <= 0.0 => old.clone(),
            None => known.mean_gradient(&old, (way.to, way.rates), &correction),
        };
        let change = new.zipped(&old, |new, old| new - old);
        (VectorStore::from_iter([(CONTROL, new)]), change)
    }

    fn server_lr(&self) -> f64 {
        self.server_lr
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg whose clients correct every step with control variates of their own and of all clients, so \
               that uneven clients do not drift apart.",
        source: "Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated \
                 Learning, ICML 2020",
        state: "server: the parameters and a control variate as large (with `variates = \"server\"` \
                one per client, too); client: its control variate",
        ..MethodEntry::averaging("scaffold", Scaffold::read)
    }
}

#[cfg(test)]
pub(in crate::methods) mod tests;
