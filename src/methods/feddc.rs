//! **FedDC** (Gao et al., CVPR 2022): clients track and correct their drift from the server's model.
//!
//! Every client accumulates its drift over all its rounds (`h_m`), pulls `theta + h_m` towards the server's model, and
//! corrects its gradient as SCAFFOLD does. The server adds the mean drift of all clients to the mean of models. Nothing
//! in it prevents forgetting.
//!
//! ```text
//! client   theta <- w;  minimize  CE + alpha_m/2 |theta - (w - h_m)|^2 + <theta, g/omega_m - g_m>
//!          D = theta - w;  h_m <- h_m + D;  g_m+ = g_m - g/omega_m - D / (K eta)
//!          sends theta and dg = omega_m (g_m+ - g_m)
//! server   w <- mean theta + (1/N) sum over all clients of h_m;  g <- g + (1/N) sum dg,  N all clients
//! omega_m = n_m / mean n,  alpha_m = alpha / omega_m
//! ```
//! The newest drift counts twice, so a round without a pull differs from FedAvg's. All clients have equal weights in
//! the mean, from which the server gets the mean drift. `mean n` is the number of training samples of the task divided
//! by the number of clients, which every client knows. `K eta` is, as in the public code, that of the average client at
//! the rate of the first round, or the sum of the rates used (`rates`). Gradients are clipped with all terms included;
//! weight decay of the optimizer is added afterwards. Accuracy is that of `w`, with which clients begin; the release
//! also reports the plain mean of the round's models and that of all clients' last models.
//!
//! Rows of the head that do not train keep their values and their vectors, drift included. With
//! `variates = "server"` the server keeps `h_m` and `g_m` of all clients and sends each its own.

use candle_core::Tensor;
use clap::ValueEnum;

use super::averaging::{
    CONTROL, ClosedRound, ControlVariates, LinearPenalty, LocalTrajectory, Objective,
    ProximalPenalty, Requirement, TrainingStep, Variates, VectorKeeping, VectorStore, fitted,
    with_variates, zeros_like,
};
use super::entry::MethodEntry;
use super::fedavg::FedAvg;
use super::parts::{AveragingMethod, Parts};
use super::trainable::TrainableKeys;
use crate::learning::{Classifier, LearningError};
use crate::model::ParameterSet;
use crate::policy::PolicyError;
use crate::scenario::reader::{Choice, Keys};

/// Learning rates by which a client's total step is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Rates {
    /// Rate of the first round, times the steps of the average client.
    ///
    /// If a schedule lowers the rate, variates are too small by the same factor.
    First,
    /// Rates of the client's own steps.
    Used,
}

/// Keys of the `[method]` table of FedDC.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct FedDc {
    /// Trained parameters and their plain mean.
    #[key(read = FedAvg::read_keys(table, TrainableKeys::FEDAVG.always_uniform()))]
    pub fedavg: FedAvg,
    /// Weight of the proximal term, for a client of mean size.
    #[key(default = 0.01, at_least = 0.0, source = "public code, CIFAR")]
    pub alpha: f64,
    /// Learning rates in a client's variate (`K eta`).
    #[key(default = Rates::First, source = "public code")]
    pub rates: Rates,
    /// Lifetime and keeper of drifts and variates.
    #[key(flatten)]
    pub keeping: VectorKeeping,
}

/// Name of the drift `h_m`, and of its mean over all clients.
const DRIFT: &str = "drift";
/// Name of a client's `g_m` in a download.
const OWN: &str = "own";

/// Returns the correction `g/omega_m - g_m` of a client's gradient.
fn slope(known: &Variates<'_>) -> ParameterSet {
    let size = known.relative_size();
    let step = |all: f32, own: f32| (f64::from(all) / size - f64::from(own)) as f32;
    known.control.zipped(&known.own(CONTROL), step)
}

impl AveragingMethod for FedDc {
    type State = VectorStore;
    type Memory = VectorStore;

    fn parts(&self) -> Parts<'_, VectorStore, VectorStore> {
        with_variates(self, self.fedavg.base())
    }
}

impl ControlVariates for FedDc {
    const VECTORS: &'static [&'static str] = &[CONTROL, DRIFT];
    const SENT: &'static [&'static str] = &[CONTROL, DRIFT, OWN];

    fn keeping(&self) -> VectorKeeping {
        self.keeping
    }

    fn requirements(&self) -> Vec<Requirement> {
        let why =
            "clients accumulate a drift over rounds, but fresh clients have no earlier rounds";
        vec![
            Requirement::returning_clients(why, None),
            Requirement::plain_sgd("FedDC reads gradients", None, None),
        ]
    }

    fn sent(&self, control: &ParameterSet, own: &VectorStore) -> Vec<ParameterSet> {
        let own = |name| fitted(own.get(name), control);
        vec![control.clone(), own(DRIFT), own(CONTROL)]
    }

    fn own_among(&self, sent: &VectorStore) -> VectorStore {
        let own = [(CONTROL, OWN), (DRIFT, DRIFT)];
        own.iter().filter_map(|(name, sent_as)| Some((*name, sent.get(sent_as)?.clone()))).collect()
    }

    fn corrected(
        &self,
        pack: &[Variates<'_>],
        network: &Classifier,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        let drifted = |known: &Variates<'_>| known.from.zipped(&known.own(DRIFT), |w, h| w - h);
        let anchors: Vec<ParameterSet> = pack.iter().map(drifted).collect();
        let alphas = pack.iter().map(|known| self.alpha / known.relative_size()).collect();
        let slopes: Vec<ParameterSet> = pack.iter().map(slope).collect();
        let pull = ProximalPenalty::new(network, (alphas, &anchors), &network.rows())?;
        Ok(Box::new(FedDcObjective(LinearPenalty::new(network, &slopes, &network.rows())?, pull)))
    }

    /// Computes `h_m + D` and `g_m+ = g_m - g/omega_m - D / (K eta)`; `dg = omega_m (g_m+ - g_m)`.
    fn renewed(
        &self,
        known: &Variates<'_>,
        way: &LocalTrajectory<'_>,
    ) -> (VectorStore, ParameterSet) {
        let [control, drift] = [CONTROL, DRIFT].map(|name| known.own(name));
        if known.samples == 0 {
            let change = zeros_like(&control);
            return (VectorStore::from_iter([(CONTROL, control), (DRIFT, drift)]), change);
        }
        let training = &known.ctx.training;
        let mean_steps = || training.steps_of(known.mean_samples().ceil() as usize) as f64;
        let rates = match self.rates {
            Rates::Used => way.rates,
            Rates::First => mean_steps() * training.first_rate(),
        };
        let further = |[drift, from, to]: [f64; 3]| drift + (to - from);
        let drift = known.renewed(&drift, [&drift, &known.from, way.to], |_| further);
        let new = known.mean_gradient(&control, (way.to, rates), &slope(known));
        let size = known.relative_size();
        let change = |new: f32, old: f32| (size * (f64::from(new) - f64::from(old))) as f32;
        let change = new.zipped(&control, change);
        (VectorStore::from_iter([(CONTROL, new), (DRIFT, drift)]), change)
    }

    /// Computes `w <- mean theta + mean of all h_m`; returns the norm of the mean drift.
    fn server_step(
        &self,
        memory: &mut VectorStore,
        closing: &ClosedRound<'_>,
        theta: &mut ParameterSet,
    ) -> Vec<(&'static str, f64)> {
        let up = closing.sent_vectors();
        let mut drift = memory.take_like(DRIFT, closing.before);
        up.add(&mut drift, &up.moved(&closing.aggregate), closing.share());
        let rows = closing.shared.trained_rows(closing.model, &closing.round.stage.view);
        let (mean, sum) = (theta.clone(), |[mean, drift]: [f64; 2]| mean + drift);
        *theta = up.renewed(&mean, &rows, [&mean, &drift], |_| sum);
        let metrics = vec![("drift_norm", drift.norm())];
        memory.set(DRIFT, drift);
        metrics
    }
}

/// Cross-entropy, the linear correction, and the pull of the drifted model to the server's.
struct FedDcObjective(LinearPenalty, ProximalPenalty);

impl Objective for FedDcObjective {
    fn losses(&mut self, pass: &TrainingStep<'_>) -> Result<Tensor, LearningError> {
        let (FedDcObjective(slopes, pull), variables) = (self, pass.model.variables());
        pull.added(slopes.added(pass.outputs()?.losses, variables)?, variables)
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg whose clients track their drift from the server, penalize it and correct their gradients; the \
               server averages models without the drift.",
        source: "Gao et al., FedDC: Federated Learning with Non-IID Data via Local Drift \
                 Decoupling and Correction, CVPR 2022",
        state: "server: the parameters, a mean drift and a mean gradient as large (with \
                `variates = \"server\"` two vectors per client, too); client: its drift and its \
                gradient",
        clip: Some(10.0),
        ..MethodEntry::averaging("feddc", FedDc::read)
    }
}

#[cfg(test)]
mod tests;
