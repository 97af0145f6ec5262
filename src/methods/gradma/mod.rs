//! **GradMA** (Luo et al., CVPR 2023): steps are projected so that they do not oppose remembered gradients and updates.
//!
//! The projection is done for each tensor. Clients remember the gradients at the model before the last step and at the
//! received model, and the way back to it; the server remembers the updates of clients, also of absent ones. This
//! prevents forgetting of absent clients, not of earlier tasks.
//!
//! ```text
//! client   g, g_prev, g_0: gradients on one batch at theta, at the model before the last step, and at w
//!          theta <- theta - eta P(g; [g_prev, g_0, theta - w], rho_l)
//! server   d_m = w - theta_m,  d = mean d_m;  G_m <- G_m + d_m  for clients that answered, at most M remembered
//!          m <- beta_1 m~ + d;  m~ = P(m; all G_m, rho_g);  w <- w - gamma_g m~;  G_m <- beta_2 G_m
//! P(g; R, rho) = argmin |u - g|^2  s.t.  <R_i, u> >= rho |g| |R_i|
//! ```
//! If no vector satisfies all constraints, the step is not changed. `project` says who projects steps: in GradMA-W only
//! the clients, in GradMA-S only the server. Otherwise the server moves by `gamma_g` of the way to FedAvg's mean, and
//! clients train as in FedAvg. Weight decay is added to every gradient before the projection, except for biases.
//!
//! A full memory makes room for a new client by removing the one with the fewest uploads among those absent from the
//! round; if all its clients are present, the new one is not remembered. With `steps` a round has that number of
//! batches, in a new random order in every round.
//!
//! In the release of GradMA-W a client keeps the model at the end of its last round as the one before its first step in
//! the next (`previous = "last-round"`); in that of the full method it is the received model, so that clients keep
//! nothing.

mod client;
mod memory;

use std::collections::BTreeSet;

use self::client::GradMaObjective;
use self::memory::{ClientDelta, UpdateMemory};
use super::averaging::{
    ClosedRound, Keeper, Objective, PackClient, PackResult, Requirement, Reset, VectorStore,
};
use super::entry::MethodEntry;
use super::fedavg::FedAvg;
use super::parts::{
    AveragingMethod, ClientContext, Demands, LocalTraining, LocalUpdate, ModelAdaptation, Parts,
    ServerUpdate, TaskStart, Workload,
};
use crate::learning::{Classifier, TrainingPlan};
use crate::model::ParameterSet;
use crate::numerics::cone::Program;
use crate::policy::{
    Capability, MemoryFootprint, Metrics, ModelFacts, PolicyError, RoundContext, RunContext,
};
use crate::scenario::reader::{Choice, Keys, TableReader};

use clap::ValueEnum;

/// Sides that project their steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Project {
    /// Clients and server.
    Both,
    /// Clients only (GradMA-W).
    Clients,
    /// Server only (GradMA-S).
    Server,
}

/// Model that counts as the one before a client's first step in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum StepBefore {
    /// Model at the end of the client's last round, which it keeps.
    LastRound,
    /// Model received: the first step is not turned.
    Received,
}

impl StepBefore {
    /// Returns the choice of the release for a projection.
    fn released(project: Project) -> StepBefore {
        match project {
            Project::Clients => StepBefore::LastRound,
            Project::Both | Project::Server => StepBefore::Received,
        }
    }
}

/// Name of the model that a client keeps of its last round.
const LAST: &str = "last";

/// Source of most defaults.
const CODE: &str = "public code, CIFAR-10";

/// Keys of the `[method]` table of GradMA.
#[derive(Clone, Debug, PartialEq, Keys)]
#[keys(check = section.refuse_unused(table))]
pub struct GradMa {
    /// Trained parameters and their aggregation.
    #[key(flatten)]
    pub fedavg: FedAvg,
    /// Sides that project their steps: clients, server, or both.
    #[key(default = Project::Both, source = "Luo et al.")]
    pub project: Project,
    /// Batches per round (`K`), in place of `client.epochs` over the shard; the paper has 5.
    #[key(at_least = 1.0)]
    pub steps: Option<u32>,
    /// Margin of a client's step within its cone (`rho_l`).
    #[key(when = project != Project::Server, default = 0.0, at_least = 0.0, at_most = 1.0, source = CODE)]
    pub client_margin: f64,
    /// Model that counts as the one before a client's first step in a round.
    #[key(
        when = project != Project::Server,
        default = StepBefore::released(project),
        source = "public code: last-round in GradMA-W, received in GradMA"
    )]
    pub previous: StepBefore,
    /// Margin of the server's step within its cone (`rho_g`).
    #[key(when = project != Project::Clients, default = 0.0, at_least = 0.0, at_most = 1.0, source = CODE)]
    pub server_margin: f64,
    /// Server learning rate (`gamma_g`).
    #[key(default = 1.0, above = 0.0, source = CODE)]
    pub server_lr: f64,
    /// Factor on the server's last step in the next one (`beta_1`).
    #[key(when = project != Project::Clients, default = 0.5, at_least = 0.0, at_most = 1.0, source = CODE)]
    pub momentum: f64,
    /// Factor on remembered updates after every round (`beta_2`).
    #[key(when = project != Project::Clients, default = 0.5, at_least = 0.0, at_most = 1.0, source = CODE)]
    pub memory_decay: f64,
    /// Number of clients whose updates the server remembers (`M`).
    #[key(when = project != Project::Clients, default = 100, at_least = 1.0, source = CODE)]
    pub memory_clients: u32,
    /// Weight decay of all parameters but biases.
    #[key(default = 0.0, at_least = 0.0, source = CODE)]
    pub decay: f64,
    /// Memory and momentum at the start of a task.
    #[key(
        when = project != Project::Clients || previous == StepBefore::LastRound,
        default = Reset::Task,
        source = Reset::SOURCE
    )]
    pub reset: Reset,
}

impl GradMa {
    /// Reports keys of a side that does not project steps, and `reset` if nothing is remembered.
    fn refuse_unused(&self, table: &mut TableReader<'_>) {
        let project = format!("project = \"{}\"", self.project.word());
        table.foreign(&["client_margin", "previous"], &project);
        let of_server = ["server_margin", "momentum", "memory_decay", "memory_clients"];
        table.foreign(&of_server, &project);
        table.foreign(&["reset"], "previous = \"received\"");
    }

    fn at_clients(&self) -> bool {
        self.project != Project::Server
    }

    /// Returns the number of values of all parameters.
    fn numbers(&self, model: &ModelFacts) -> usize {
        self.fedavg.parameters(model).numbers()
    }

    fn at_server(&self) -> bool {
        self.project != Project::Clients
    }

    /// Returns true if clients keep the model at the end of their last round.
    fn keeps_last(&self) -> bool {
        self.at_clients() && self.previous == StepBefore::LastRound
    }
}

impl AveragingMethod for GradMa {
    type State = VectorStore;
    type Memory = UpdateMemory;

    fn parts(&self) -> Parts<'_, VectorStore, UpdateMemory> {
        Parts {
            local: self,
            server: self,
            keeps_uploads: self.at_server(),
            stateless: !self.keeps_last(),
            ..self.fedavg.base()
        }
    }
}

impl LocalUpdate<VectorStore> for GradMa {
    fn objective(
        &self,
        context: &ClientContext<'_>,
        pack: &[PackClient<'_, VectorStore>],
        network: &Classifier,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        Ok(Box::new(GradMaObjective::new(self, context, pack, network)?))
    }

    fn client_update(
        &self,
        training: &LocalTraining<'_, VectorStore>,
        pack: &mut [PackClient<'_, VectorStore>],
    ) -> Result<PackResult, PolicyError> {
        let (ctx, steps) = (training.context.ctx, self.steps.map(u64::from));
        let plan = TrainingPlan { steps, ..ctx.training.clone() };
        if self.keeps_last() {
            let begin = |member: &mut PackClient<'_, VectorStore>| {
                member.state.begin(member.participant.view.task, self.reset);
            };
            pack.iter_mut().for_each(begin);
        }
        let results =
            training.in_context(&RunContext { training: plan, ..ctx.clone() }).train(pack)?;
        if self.keeps_last() {
            for (member, trained) in pack.iter_mut().zip(&results) {
                if let Ok(trained) = trained {
                    member.state.set(LAST, trained.parameters.clone());
                }
            }
        }
        Ok(results)
    }

    fn max_pack(&self, _usual: usize) -> usize {
        1
    }

    /// Charges three passes for every pass of FedAvg, and a quadratic program of three rows in every step.
    ///
    /// The first step has no program if clients keep nothing.
    fn work(&self, load: &Workload<'_>) -> f64 {
        let Workload { model, samples, plan, .. } = *load;
        let passes = match self.steps {
            Some(steps) => f64::from(steps) * samples.min(plan.batch) as f64,
            None => load.passes(),
        };
        if !self.at_clients() {
            return passes;
        }
        let epoch = samples.div_ceil(plan.batch.max(1)) as u64;
        let steps = self.steps.map_or(epoch * u64::from(plan.epochs), u64::from);
        let program = Program::multiplications(3) * self.numbers(model);
        let turned = steps.saturating_sub(u64::from(!self.keeps_last()));
        3.0 * passes + model.passes(turned as f64 * program as f64)
    }

    fn demands(&self) -> Demands {
        let (instead, decay) = (Some("`method.project = \"server\"`"), Some("`method.decay`"));
        let plain = || Requirement::plain_sgd("GradMA turns gradients", instead, decay);
        let why = "clients keep the model of their last round, but fresh clients have none";
        let received = Some("`method.previous = \"received\"`");
        let returning = || Requirement::returning_clients(why, received);
        let plain = self.at_clients().then(plain);
        Demands::requiring(plain.into_iter().chain(self.keeps_last().then(returning)))
    }
}

impl ServerUpdate<UpdateMemory> for GradMa {
    fn begin_task(&self, _: TaskStart<'_>, memory: &mut UpdateMemory, _: &mut ParameterSet) {
        if self.reset == Reset::Task {
            memory.forget();
        }
    }

    fn server_update(
        &self,
        memory: &mut UpdateMemory,
        closing: ClosedRound<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Metrics, PolicyError> {
        let weight: f64 = closing.aggregate.means.values().map(|mean| mean.weight()).sum();
        if weight <= 0.0 {
            return Ok(Vec::new());
        }
        if !self.at_server() {
            // GradMA-W computes `w <- w - gamma_g d`, where `w - d` is FedAvg's mean.
            closing.step_along(self.server_lr, theta);
            return Ok(Vec::new());
        }
        let ClosedRound { model, shared, before, aggregate, .. } = closing;
        let answers =
            aggregate.kept_uploads.iter().map(|kept| ClientDelta::of(&shared, model, kept));
        let answers = answers.collect::<Result<Vec<_>, _>>()?;
        let present: BTreeSet<_> = answers.iter().map(|answer| answer.client).collect();
        memory.admit(&present, self.memory_clients as usize);
        answers.iter().for_each(|answer| memory.add(answer));
        let sum = |name: &str| aggregate.means.values().find_map(|mean| mean.sum(name));
        let turned = memory.step(self, before, sum, weight);
        *theta = std::mem::take(theta).merge(&turned.theta);
        Ok(vec![
            ("remembered", memory.len() as f64),
            ("turned_tensors", f64::from(turned.turned)),
            ("unsolved_tensors", f64::from(turned.unsolved)),
        ])
    }

    /// Returns the work of the momentum, of the quadratic program, and of the decay of updates.
    ///
    /// The program has a row for every client that may have uploaded.
    fn work(&self, model: &ModelFacts, round: &RoundContext, updates: usize) -> f64 {
        if !self.at_server() {
            return 0.0;
        }
        let rounds = match self.reset {
            Reset::Task => round.round_in_phase,
            Reset::Keep => round.round.0,
        };
        let answered = updates.saturating_mul(rounds as usize + 1).min(model.clients);
        let rows = answered.min(self.memory_clients as usize);
        let each = 1 + Program::multiplications(rows) + rows;
        model.passes(each as f64 * self.numbers(model) as f64)
    }

    fn memory_footprint(&self, model: &ModelFacts) -> Option<MemoryFootprint> {
        let remembered = u64::from(self.memory_clients).min(model.clients as u64);
        let vectors = if self.at_server() { 1 + remembered } else { 0 };
        Some(Keeper::Client.memory_footprint(&self.parts().shared(), model, (vectors, 0)))
    }

    fn demands(&self) -> Demands {
        match self.at_server() {
            true => Demands::restricting(
                &[Capability::MixedTasks],
                "updates that it remembers are of one task",
            ),
            false => Demands::default(),
        }
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg whose clients and server project their steps so that they do not oppose remembered gradients \
               and updates, also of absent clients.",
        source: "Luo et al., GradMA: A Gradient-Memory-based Accelerated Federated Learning with \
                 Alleviated Catastrophic Forgetting, CVPR 2023, arXiv 2302.14307",
        state: "server: the parameters, a momentum and the updates of at most `memory_clients` clients, \
                each as large; client: nothing, or the model of its last round",
        ..MethodEntry::averaging("gradma", GradMa::read)
    }
}

#[cfg(test)]
mod tests;
