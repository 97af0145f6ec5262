//! **SCAFFOLD** (Karimireddy et al., ICML 2020): every client knows its own gradient from its last round (`c_m`), the
//! server that of all clients (`c`), and local steps go along `g - c_m + c`: what pulls at a client alone is taken out.
//! It has no means against forgetting.
//!
//! ```text
//! client   y <- x;  every step: y <- y - eta (g(y) - c_m + c)
//!          II: c_m+ = c_m - c + (x - y) / sum of eta      I: c_m+ = gradient of its whole loss at x
//!          sends y and dc = c_m+ - c_m, keeps c_m+
//! server   x <- x + eta_g mean (y - x);  c <- c + (1 / N) sum dc,  N all clients
//! ```
//! The correction is a linear term of the loss, so a gradient is clipped with it. The mean of `y` is FedAvg's, also by
//! samples; `c` is a mean over all clients whoever takes part. Rows of the head that do not train keep their variates.
//! A weight decay of the optimiser is a part of everybody's loss, and of variates by option II.
//!
//! With `variates = "server"` the server keeps all `c_m`, sends `c - c_m`, and finds `c_m+` from what comes back: clients
//! keep nothing. A client that keeps `c_m` has replaced it when its training is over, so `c` lacks the change if the upload
//! then is lost; a server that keeps them never disagrees with itself.

mod variates;

use candle_core::Tensor;
use clap::ValueEnum;

use super::averaged::{
    Averaged, Beside, Client, Closing, Direction, Keeper, Learnt, Needs, Objective, Pass, Reset,
    Slopes, Trained, Vectors, train, zeros_like,
};
use super::fedavg::FedAvg;
use super::registry::MethodEntry;
use crate::learning::{Classifier, LearningError, TrainingPlan};
use crate::model::ParameterSet;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Holdings, Lab, ModelFacts, Place, PolicyError, Seat, SketchFacts, vector_section,
};
use crate::scenario::reader::{Choice, Param, TableReader, defaults};
use crate::wire::Section;

/// How a client renews its variate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Renewal {
    /// The gradient of its whole loss at the model received.
    ///
    /// By a further pass over its samples; with any optimiser.
    #[value(name = "I")]
    Gradient,
    /// The mean of the gradients along its way.
    ///
    /// For nothing; with plain SGD.
    #[value(name = "II")]
    Way,
}

impl Choice for Renewal {}

/// The `[method]` table of SCAFFOLD.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaffold {
    /// What trains and how.
    pub fedavg: FedAvg,
    /// How variates are renewed.
    pub option: Renewal,
    /// `eta_g`.
    pub server_lr: f64,
    /// What becomes of variates as a task starts.
    pub reset: Reset,
    /// Who keeps those of clients.
    pub variates: Keeper,
}

impl Default for Scaffold {
    fn default() -> Self {
        defaults(Scaffold::read)
    }
}

impl Scaffold {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> Scaffold {
        let option = Param::new("option", Renewal::Way, "how a client renews its variate");
        let server_lr = Param::new("server_lr", 1.0, "step of the server along the mean");
        let config = Scaffold {
            fedavg: FedAvg::read(table),
            option: table.get(&option.source("Karimireddy et al.")),
            server_lr: table.get(&server_lr.source("Karimireddy et al.").above(0.0)),
            reset: table.get(&Reset::param("what becomes of variates as a task starts")),
            variates: table.get(&Keeper::param("who keeps the variates of clients")),
        };
        if (config.option, config.variates) == (Renewal::Gradient, Keeper::Server) {
            let message = "a server cannot compute the gradient of a client's loss";
            let help = "set `method.option = \"II\"`, or `method.variates = \"client\"`";
            table.reject("variates", message, "not with option I", help);
        }
        config
    }
}

/// `c`, and `c_m`.
const CONTROL: &str = "control";
/// `c - c_m`, where the server keeps both.
const CORRECTION: &str = "correction";

impl Averaged for Scaffold {
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
            why: "a client's variate is of its last round, and fresh clients have none",
            otherwise: None,
        });
        if self.option == Renewal::Way {
            needs.push(Needs::PlainSgd {
                what: "option II of SCAFFOLD reads gradients",
                otherwise: Some("`method.option = \"I\"`"),
                decay: None,
            });
        }
        needs
    }

    fn hears(&self, facts: &SketchFacts<'_>) -> Vec<Place> {
        let down = Beside::of(self, facts.model, facts.view, Direction::Down);
        down.places(match self.variates {
            Keeper::Client => CONTROL,
            Keeper::Server => CORRECTION,
        })
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
        Ok(vec![match self.variates {
            Keeper::Client => vector_section(CONTROL, &down.take(&control)?),
            Keeper::Server => {
                let own = memory.get(&Vectors::of_client(CONTROL, seat.client));
                let correction = variates::correction(control, own);
                vector_section(CORRECTION, &down.take(&correction)?)
            }
        }])
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
        _lab: &Lab,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        let corrections = pack.iter().map(|member| self.correction_of(model, member));
        let corrections = corrections.collect::<Result<Vec<_>, _>>()?;
        Ok(Box::new(Corrected(Slopes::new(network, &corrections, &network.rows())?)))
    }

    fn describe(
        &self,
        _member: &Client<'_, Vectors>,
        trained: &Trained,
        _lab: &Lab,
    ) -> Result<Vec<Section>, PolicyError> {
        Ok(vec![self.variates.describe(trained, CONTROL)?])
    }

    fn work(&self, samples: usize, plan: &TrainingPlan) -> f64 {
        let further = if self.option == Renewal::Gradient { samples as f64 } else { 0.0 };
        self.fedavg.work(samples, plan) + further
    }

    fn holdings(&self, model: &ModelFacts) -> Option<Holdings> {
        Some(self.variates.holdings(self, model, (1, 1)))
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
        }
        theta
    }

    /// `x <- x + eta_g mean (y - x);  c <- c + (1 / N) sum dc`
    fn after_mean(
        &self,
        memory: &mut Vectors,
        closing: Closing<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Vec<(&'static str, f64)>, PolicyError> {
        let (model, before) = (closing.model, closing.before);
        let up = Beside::of(self, model, &closing.round.period.view, Direction::Up);
        if self.server_lr != 1.0 {
            let (mean, step) = (theta.clone(), self.server_lr);
            let along = |[before, mean]: [f64; 2]| before + step * (mean - before);
            *theta = up.renewed(&mean, &(0..model.classes), [before, &mean], |_| along);
        }
        let mut control = memory.take(CONTROL).unwrap_or_else(|| zeros_like(before));
        let changes = match self.variates {
            Keeper::Client => up.sums(CONTROL, &closing.folded)?,
            Keeper::Server => self.renew_clients(memory, &closing)?,
        };
        up.add(&mut control, &changes, 1.0 / model.clients.max(1) as f64);
        let norm = control.norm();
        memory.set(CONTROL, control);
        Ok(vec![("control_norm", norm)])
    }
}

/// The cross-entropy and `<y, c - c_m>`.
struct Corrected(Slopes);

impl Objective for Corrected {
    fn losses(&mut self, pass: &Pass<'_>) -> Result<Tensor, LearningError> {
        self.0.added(pass.outputs()?.losses, pass.model.variables())
    }
}

/// Its line in the registry.
pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg whose clients correct every step by what they and all others know of their \
               gradients, so that uneven clients do not drift apart.",
        source: "Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated \
                 Learning, ICML 2020",
        state: "server: the parameters and a control variate as large (with `variates = \"server\"` \
                one per client, too); client: its control variate",
        ..MethodEntry::averaging("scaffold", Scaffold::read)
    }
}

#[cfg(test)]
pub(in crate::methods) mod tests;
