//! **FedWEIT** (Yoon et al., ICML 2021): weights composed of a shared base and adaptive parts of each task.
//!
//! The base is shared by all clients and masked for the task. A client adds its adaptive parts and those of other
//! clients, weighted by its attention.
//!
//! ```text
//! theta_l = B_l sg(m_l) + A_l + sum_i alpha_(l,i) K_(l,i)        m: one per output unit; K: adaptive parts of clients
//! client   B <- down, where it is not zero;  m, A, alpha, biases, norms and the head are the client's in every task
//!          minimize  CE over the task's rows + decay/2 (|A|^2 + |m|^2 [+ |B|^2 in its first task])
//!                    + lambda_1 (|A|_1 + sum_(s<t) |A_s|_1) + lambda_2/2 sum_(s<t) |B sg(m_s) + A_s - start_s|^2
//!          sends the units of B whose |m| exceeds the 0.3-quantile of its layer
//! server   B_e <- mean over the clients that sent number e, 0 for none
//! share    as a task ends: clients send A where |A| > lambda_1;  K of the next task <- A of all clients that sent it
//! ```
//! `start_s` is the weight of task `s` without `K` at the start of the current task. For predictions `A` is thresholded
//! as in messages; masks are never. Adam starts without moments in every round; its rate is divided by 3 after 3 rounds
//! without a better loss on the samples that a client holds back (`validation`).
//!
//! # Predictions
//! FedWEIT's models are personal and need the task of an image. In a simulation the server predicts in place of the
//! clients: it combines the parts that each client reported (`share`) with the server's base. With client tasks
//! (`tasks.arrival = "client-tasks"`) the model of the given client task predicts, as in the paper: `avg` and `aia`.
//! If the task is unknown, every model predicts for its own rows (with the mean of scores if several clients trained
//! them), and the largest score of all heads wins. This class-incremental accuracy is the only one of runs whose tasks
//! are shared by all clients. The paper does not measure it, and nothing in the loss prepares for it; in such runs, the
//! metric `validation_accuracy` of a client is that of its samples held back, with the task given. Masks, attention,
//! biases, norms and heads are reported for these predictions alone: they are the bytes of kind `statistics` in
//! `share`, and FedWEIT's own messages do not contain them.
//!
//! # Release and paper
//! * The release trains only the current task's parts, so that the last term constrains only the base, and the `l1` of
//!   earlier parts is a constant; in the paper earlier parts train, too (`retroactive = true`).
//! * `start_s` is composed with the base that a client has before it takes over the one received
//!   (`drift_start = "received"` for that one).
//! * The release stops a client at a rate of 1e-10, which has no effect: it continues to train.
//! * The release counts the sent values that are not zero as communication, without their positions; they are the
//!   metric `nonzero_sent`. Messages here have a bit for every unit, or for every value of adaptive parts.
//! * In the release clients that are not selected train as well; here those outside of a cohort do nothing.
//! * Attention has as many entries as clients reported; the release has one for each client.
//! * The adaptive parts of a client that starts late begin at a third of the first base that it received, those of the
//!   release at a third of the run's first base.
//! * The network of the release is LeNet. Batch norms of a ResNet, which it does not have, are a client's own, like
//!   biases.
//!
//! In the benchmark of Powder and C²Prompt, FedWEIT is a port (`weit_weight` of Powder's release): a head per client
//! task whose scores add those of all other client tasks, each with a learned weight, and those of a shared head. That
//! is the composition above for a split head (`train = "head"`) without masks, and with a knowledge base of all client
//! tasks so far.

mod config;
#[cfg(test)]
mod golden;
mod layers;
mod learner;
mod messages;
mod requirements;
mod server;
mod sparse;
mod state;
mod steps;
mod terms;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use self::config::{DriftStart, FedWeit, SplitLayers};
pub use self::layers::{SplitLayer, WeitShape};
use self::learner::WeitClient;
use self::messages::{
    contribution, contribution_spec, download_spec, knowledge_spec, read_report, report_spec,
    upload_spec,
};
use self::server::WeitServer;
pub use self::state::WeitState;
use super::Requirement;
use super::entry::MethodEntry;
use super::recipe::Recipe;
use crate::data::TaskView;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    ClientResult, CohortRule, ExchangeFacts, Failure, Member, MemoryFootprint, Message,
    MessageKind, MessageSpec, Method, MethodProfile, ModelFacts, Phase, PolicyError, RoundContext,
    RoundWork, RunContext, SampleCost, Server, Stage,
};

/// FedWEIT as a [`Method`], for a model of certain dimensions.
#[derive(Clone, Debug)]
pub struct FedWeitMethod {
    /// Settings of the `[method]` table.
    pub config: FedWeit,
    model: ModelFacts,
}

impl FedWeitMethod {
    /// Returns the method for a model of these dimensions.
    pub fn new(config: FedWeit, model: &ModelFacts) -> FedWeitMethod {
        FedWeitMethod { config, model: model.clone() }
    }

    /// Returns true if clients train in a phase; in the other one (`share`) they report.
    pub(super) fn trains(phase: usize) -> bool {
        phase == 0
    }

    /// Returns the names and shapes that a client trains for a task of `classes` classes.
    pub fn shape(&self, classes: usize) -> WeitShape {
        WeitShape::new(self.config.train, &self.model, classes)
    }

    /// Returns the largest number of entries of a task's knowledge base: one per client, none in the first task.
    fn entries(&self, view: &TaskView) -> usize {
        if view.task.0 > 0 { self.model.clients } else { 0 }
    }

    /// Returns the number of tasks with parts in a client's report.
    fn reported(&self, view: &TaskView) -> usize {
        if self.config.retroactive { view.task.index() + 1 } else { 1 }
    }

    fn client<'c>(&'c self, shape: &'c WeitShape, ctx: &'c RunContext) -> WeitClient<'c> {
        WeitClient { config: &self.config, shape, ctx }
    }
}

impl Method for FedWeitMethod {
    fn server(&self, _ctx: &RunContext, init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        Ok(Box::new(WeitServer::new(self.clone(), init)))
    }

    fn profile(&self) -> MethodProfile {
        let classes = self.model.classes.div_ceil(self.model.tasks.max(1));
        let shape = self.shape(classes);
        let (base, own) = (shape.numbers(), shape.units() + shape.local_numbers());
        let (tasks, clients) = (self.model.tasks as u64, self.model.clients as u64);
        // Adaptive parts and their sum over the knowledge base, masks and other parameters.
        let part = 4 * (2 * base + own) as u64;
        let entries = 4 * clients * base as u64;
        let server = 8 * base as u64 + tasks * (clients * part + entries);
        // The client's base and the first one; for every earlier task the weight at the start.
        let client = 4 * (2 * base as u64 + tasks * base as u64) + tasks * part;
        MethodProfile {
            stateless: false,
            memory_footprint: Some(MemoryFootprint { server, client }),
            ..MethodProfile::default()
        }
    }

    fn phases(&self, _stage: &Stage, rounds: u32) -> Vec<Phase> {
        vec![Phase::train(rounds), Phase::new("share", 1, CohortRule::Participants)]
    }

    fn message_spec(&self, message: MessageKind, facts: &ExchangeFacts<'_>) -> MessageSpec {
        let (view, shape) = (facts.view, self.shape(facts.view.rows.len()));
        match (message, FedWeitMethod::trains(facts.phase)) {
            (MessageKind::Download, false) => MessageSpec::default(),
            (MessageKind::Download, true) => {
                let version = u32::from(view.task.0);
                let asset = || knowledge_spec(&shape, self.entries(view), version);
                let assets = (version > 0).then(asset).into_iter().collect();
                download_spec(&shape, assets)
            }
            (MessageKind::Upload, true) => upload_spec(&shape, self.config.dropped),
            (MessageKind::Contribution, true) => contribution_spec(&shape),
            (_, false) => report_spec(&shape, self.reported(view), self.entries(view)),
        }
    }

    /// Returns the contribution of an upload: the whole base, of whose values the sent ones count.
    ///
    /// A report is returned unchanged, if its shapes are right.
    fn transform_upload(
        &self,
        facts: &ExchangeFacts<'_>,
        sent: &Message,
        update: Message,
    ) -> Result<Message, PolicyError> {
        let shape = self.shape(facts.view.rows.len());
        if FedWeitMethod::trains(facts.phase) {
            return Ok(contribution(&shape, &sent.parameters, &update)?);
        }
        read_report(&shape, &update)?;
        Ok(update)
    }

    /// Returns the passes over training and validation samples, and of composing weights in every step.
    fn cost(&self, round: &RoundContext, work: &RoundWork<'_>) -> f64 {
        let RoundWork::Participant { participant, samples, plan } = *work else { return 0.0 };
        if !FedWeitMethod::trains(round.phase) {
            return 0.0;
        }
        let view = &participant.view;
        let held = samples as f64 * self.config.validation;
        let passes = (samples as f64 - held) * f64::from(plan.epochs) + held / 3.0;
        let each = self.shape(view.rows.len()).numbers()
            * (4 + 2 * self.entries(view) + 3 * view.task.index());
        let steps = plan.steps_of(samples) as f64;
        passes + self.model.passes(steps * each as f64)
    }

    fn sample_cost(&self, model: &ModelFacts, view: &TaskView, _phase: usize) -> SampleCost {
        let head = (model.backbone.dim() * view.rows.len()) as f64;
        let below = model.backbone.multiplications();
        let answering = (model.clients * (view.task.index() + 1)) as f64;
        let forward = below + head;
        let (backward, inference) = match self.config.train {
            SplitLayers::Network => (2.0 * forward, answering * forward),
            SplitLayers::Head => (head, below + answering * head),
        };
        SampleCost { forward, backward, inference, work: None }
    }

    fn train(
        &self,
        members: &mut [Member],
        ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        let work = |member: &mut Member| {
            let shape = self.shape(member.participant.view.rows.len());
            let client = self.client(&shape, ctx);
            let result = match FedWeitMethod::trains(member.phase) {
                true => client.train(member),
                false => client.report(member),
            };
            result.map_err(Failure::from)
        };
        members.iter_mut().map(work).collect()
    }
}

impl Recipe for FedWeit {
    fn build(&self, facts: &ModelFacts) -> Arc<dyn Method> {
        Arc::new(FedWeitMethod::new(self.clone(), facts))
    }

    fn requirements(&self) -> Vec<Requirement> {
        FedWeit::requirements(self)
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "Every weight is a shared base, masked for the task, and sparse adaptive parts; a client adds the \
               adaptive parts of other clients, each with its attention.",
        source: "Yoon, Jeong, Lee, Yang, Hwang: Federated Continual Learning with Weighted \
                 Inter-client Transfer, ICML 2021",
        state: "server: the base, adaptive parts of all clients and tasks, and what clients report for answers; \
                client: its base, parts of all its tasks, weights of earlier tasks at the start of the current one",
        ..MethodEntry::of("fedweit", FedWeit::read)
    }
}
