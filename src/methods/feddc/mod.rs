//! **FedDC** (Gao et al., CVPR 2022): every client remembers how far it has drifted from the server in all its rounds
//! (`h_m`), pulls `theta + h_m` towards the server's model, corrects its gradient as SCAFFOLD does, and the server adds the
//! mean drift of all clients to the mean of models. It has no means against forgetting.
//!
//! ```text
//! client   theta <- w;  minimise  CE + alpha_m/2 |theta - (w - h_m)|^2 + <theta, g/omega_m - g_m>
//!          D = theta - w;  h_m <- h_m + D;  g_m+ = g_m - g/omega_m - D / (K eta)
//!          sends theta and dg = omega_m (g_m+ - g_m)
//! server   w <- mean theta + (1/N) sum over all clients of h_m;  g <- g + (1/N) sum dg,  N all clients
//! omega_m = n_m / mean n,  alpha_m = alpha / omega_m
//! ```
//! The newest drift counts twice: a round without a pull is not FedAvg's. Every client counts alike in the mean, so that
//! the server knows the mean drift from it. `mean n` is the task's training samples by all clients, which everybody knows
//! beforehand. `K eta` is, as in the public code, that of the average client at the rate of the first round, or what was
//! used (`rates`). Gradients are clipped with all terms in them; a weight decay of the optimiser comes on top.
//!
//! Rows of the head that do not train stay where they are and keep their vectors, drift included. With
//! `variates = "server"` the server keeps `h_m` and `g_m` of all clients and sends each its own. A client that keeps them
//! has renewed them when its training is over: the server lacks the change if the upload then is lost.

mod drifts;

use candle_core::Tensor;
use clap::ValueEnum;

use self::drifts::slope;
use super::averaged::{
    Averaged, Beside, Client, Closing, Direction, Keeper, Learnt, Needs, Objective, Pass, Reset,
    Slopes, Trained, Vectors, Weights, fitted, train, upon_variables, zeros_like,
};
use super::fedavg::FedAvg;
use super::registry::MethodEntry;
use crate::learning::losses::proximals;
use crate::learning::{Classifier, LearningError};
use crate::model::ParameterSet;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Holdings, Lab, ModelFacts, Place, PolicyError, Seat, SketchFacts, vector_section,
    vector_tensors,
};
use crate::scenario::reader::{Choice, Param, TableReader, defaults};
use crate::wire::Section;

/// By which learning rates a client's way is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rates {
    /// As many steps as the average client takes, at the rate of the first round.
    ///
    /// Variates are too small by what a schedule has lowered the rate.
    First,
    /// Those of the client's own steps.
    Used,
}

impl Choice for Rates {}

/// The `[method]` table of FedDC.
#[derive(Clone, Debug, PartialEq)]
pub struct FedDc {
    /// What trains and how.
    pub fedavg: FedAvg,
    /// Strength of the pull.
    pub alpha: f64,
    /// `K eta`.
    pub rates: Rates,
    /// What becomes of drifts and variates as a task starts.
    pub reset: Reset,
    /// Who keeps those of clients.
    pub variates: Keeper,
}

impl Default for FedDc {
    fn default() -> Self {
        defaults(FedDc::read)
    }
}

impl FedDc {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> FedDc {
        let alpha =
            Param::new("alpha", 0.01, "weight of the proximal term, for a client of mean size");
        let rates = Param::new("rates", Rates::First, "learning rates in a client's variate");
        FedDc {
            fedavg: FedAvg { weights: Weights::Uniform, ..FedAvg::unweighted(table) },
            alpha: table.get(&alpha.source("public code, CIFAR").at_least(0.0)),
            rates: table.get(&rates.source("public code")),
            reset: table.get(&Reset::param("what becomes of drifts and variates as a task starts")),
            variates: table.get(&Keeper::param("who keeps the drifts and variates of clients")),
        }
    }
}

/// `g`, and `g_m`.
const CONTROL: &str = "control";
/// `h_m`, and its mean over all clients.
const DRIFT: &str = "drift";
/// `g_m` in a Down.
const OWN: &str = "own";

impl Averaged for FedDc {
    type State = Vectors;
    type Memory = Vectors;

    fn fedavg(&self) -> Option<&FedAvg> {
        Some(&self.fedavg)
    }

    fn stateless(&self) -> bool {
        self.variates == Keeper::Server
    }

    fn needs(&self) -> Vec<Needs> {
        let mut needs = self.fedavg.needs();
        needs.push(Needs::ReturningClients {
            why: "a client drifts over its rounds, and fresh clients have none behind them",
            otherwise: None,
        });
        needs.push(Needs::PlainSgd { what: "FedDC reads gradients", otherwise: None, decay: None });
        needs
    }

    fn hears(&self, facts: &SketchFacts<'_>) -> Vec<Place> {
        let down = Beside::of(self, facts.model, facts.view, Direction::Down);
        let sets: &[&str] = match self.variates {
            Keeper::Client => &[CONTROL],
            Keeper::Server => &[CONTROL, DRIFT, OWN],
        };
        sets.iter().flat_map(|name| down.places(name)).collect()
    }

    fn personal(&self) -> bool {
        self.variates == Keeper::Server
    }

    fn tell_seat(
        &self,
        model: &ModelFacts,
        memory: &Vectors,
        seat: &Seat,
    ) -> Result<Vec<Section>, PolicyError> {
        let down = Beside::of(self, model, &seat.view, Direction::Down);
        let control = memory.get(CONTROL).cloned().unwrap_or_default();
        let mut told = vector_section(CONTROL, &down.take(&control)?);
        if self.variates == Keeper::Server {
            for (as_what, name) in [(DRIFT, DRIFT), (OWN, CONTROL)] {
                let own = memory.get(&Vectors::of_client(name, seat.client));
                let own = down.take(&fitted(own, &control))?;
                told.tensors.extend(vector_tensors(as_what, &own));
            }
        }
        Ok(vec![told])
    }

    fn says(&self, facts: &SketchFacts<'_>) -> Vec<Place> {
        self.variates.says(self, facts, CONTROL)
    }

    fn keeps(&self) -> bool {
        self.variates == Keeper::Server
    }

    fn learn(
        &self,
        model: &ModelFacts,
        pack: &mut [Client<'_, Vectors>],
        lab: &Lab,
    ) -> Result<Learnt, PolicyError> {
        pack.iter_mut().for_each(|member| member.state.begin(member.seat.view.task, self.reset));
        let mut learnt = train(self, model, pack, lab)?;
        for (member, trained) in pack.iter_mut().zip(&mut learnt) {
            if let (Keeper::Client, Ok(trained)) = (self.variates, trained) {
                self.renew(model, member, trained, lab)?;
            }
        }
        Ok(learnt)
    }

    fn objective(
        &self,
        model: &ModelFacts,
        pack: &[Client<'_, Vectors>],
        network: &Classifier,
        lab: &Lab,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        let (mut alphas, mut anchors, mut slopes) = (Vec::new(), Vec::new(), Vec::new());
        for member in pack {
            let size = self.size(model, &member.seat.view, member.shard.len(), lab);
            let (known, control) = self.known(model, member)?;
            alphas.push(self.alpha / size);
            anchors.push(member.received.zipped(&known.drift, |w, h| w - h));
            slopes.push(slope(&control, &known, size));
        }
        let rows = network.rows();
        Ok(Box::new(Decoupled {
            alphas,
            anchors: upon_variables(network, &anchors, &rows)?,
            slopes: Slopes::new(network, &slopes, &rows)?,
        }))
    }

    fn describe(
        &self,
        _member: &Client<'_, Vectors>,
        trained: &Trained,
        _lab: &Lab,
    ) -> Result<Vec<Section>, PolicyError> {
        Ok(vec![self.variates.describe(trained, CONTROL)?])
    }

    fn holdings(&self, model: &ModelFacts) -> Option<Holdings> {
        Some(self.variates.holdings(self, model, (2, 2)))
    }

    fn begin_task(
        &self,
        _model: &ModelFacts,
        memory: &mut Vectors,
        _task: usize,
        theta: ParameterSet,
        _init: StreamKey,
    ) -> ParameterSet {
        if self.reset == Reset::Task || memory.get(CONTROL).is_none() {
            memory.clear();
            memory.set(CONTROL, zeros_like(&theta));
            memory.set(DRIFT, zeros_like(&theta));
        }
        theta
    }

    /// `w <- mean theta + mean of all h_m;  g <- g + (1/N) sum dg`
    fn after_mean(
        &self,
        memory: &mut Vectors,
        closing: Closing<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Vec<(&'static str, f64)>, PolicyError> {
        let (model, before, view) = (closing.model, closing.before, &closing.round.period.view);
        let up = Beside::of(self, model, view, Direction::Up);
        let share = 1.0 / model.clients.max(1) as f64;
        let mut drift = memory.take(DRIFT).unwrap_or_else(|| zeros_like(before));
        let mut control = memory.take(CONTROL).unwrap_or_else(|| zeros_like(before));
        let changes = match self.variates {
            Keeper::Client => up.sums(CONTROL, &closing.folded)?,
            Keeper::Server => self.renew_clients(memory, &control, &closing)?,
        };
        up.add(&mut control, &changes, share);
        up.add(&mut drift, &up.moved(&closing.folded), share);
        let rows = self.trained_rows(model, view);
        let mean = theta.clone();
        *theta =
            up.renewed(&mean, &rows, [&mean, &drift], |_| |[mean, drift]: [f64; 2]| mean + drift);
        let figures = vec![("drift_norm", drift.norm()), ("control_norm", control.norm())];
        memory.set(DRIFT, drift);
        memory.set(CONTROL, control);
        Ok(figures)
    }
}

/// The cross-entropy, the pull of a drifted model to the server's, and the correction.
struct Decoupled {
    alphas: Vec<f64>,
    /// `w - h_m`, of every variable.
    anchors: Vec<Vec<f32>>,
    slopes: Slopes,
}

impl Objective for Decoupled {
    fn losses(&mut self, pass: &Pass<'_>) -> Result<Tensor, LearningError> {
        let variables = pass.model.variables();
        let mut losses = self.slopes.added(pass.outputs()?.losses, variables)?;
        if self.alphas.iter().any(|alpha| *alpha > 0.0) {
            for ((_, variable), anchor) in variables.iter().zip(&self.anchors) {
                losses = losses.broadcast_add(&proximals(variable, anchor, &self.alphas)?)?;
            }
        }
        Ok(losses)
    }
}

/// Its line in the registry.
pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg whose clients know how far they have drifted from the server, pull their \
               drifted model back and correct their gradients; the server averages models with \
               the drift taken out.",
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
