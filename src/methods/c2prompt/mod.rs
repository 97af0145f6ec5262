//! **C2Prompt** ("C2Prompt: Class-aware Client Knowledge Interaction for Federated Continual Learning", NeurIPS 2025,
//! arXiv 2509.19674), after a review of the paper: its code is not public.
//!
//! It extends [Powder](super::powder) by two class-aware interactions of clients:
//!
//! * **LCDC** (local class distribution compensation). In a round 0 of every task clients report moments of the frozen
//!   network's features by class; the server returns the Gaussian of all clients' samples, and each client trains
//!   three tokens per class that move its features there. A training step has them with probability 0.5, so that the
//!   client task learns from features as all clients have them.
//! * **CPA** (class-aware prompt aggregation). While a client task is trained its client records how well every
//!   component matches every class; the server mixes the components of a round's client tasks by the similarity of
//!   these rows.
//!
//! ```text
//! round 0  client  mu_ki, var_ki, n_ki of class i                               up
//!          server  mu_i = sum p mu_k,  var_i = sum p (mu_k^2 + var_k) - mu_i^2  down
//!          client  minimize 1/2 (f - mu_i)^T diag(1 / var_i) (f - mu_i) over the tokens of class i, which it keeps
//! rounds   client  Powder's round, tokens of the true class behind the patches in half of the steps; H = mean scores
//!          server  client task <- upload;  but for the last round: W = softmax(H H^T / tau);  (K, A, P) <- W (K, A, P)
//! ```
//! Without compensation prompts (`lcdc = false`, or `probability = 0`) and mixing (`cpa = false`) it is Powder, bit for
//! bit. Inference is Powder's.
//!
//! # Choices where the review is silent
//! * Components are in the same blocks as Powder's; heads are not mixed.
//! * `H` is a mean over the samples of a class and over blocks, 0 where negative; its rows get unit length. A row of
//!   zeros keeps itself ([affinity](crate::numerics::affinity)). At a `tau` of 0.03 a component kept 0.73 of itself in
//!   the study on digits; at 1 CPA would be the plain mean of all clients' components. `cpa_scores = "sums"` takes
//!   the review's cumulative scores, without normalization.
//! * The triple of key, attention and tokens is mixed with one `W`, over the client tasks of all clients of a round;
//!   columns are the classes that any of them has.
//! * CPA replaces Powder's mixing of client tasks, as the review says, unless `cpa_transfer` is set. Without that
//!   mixing keys of other client tasks are not scored either, and the distillation weighs all samples of a batch
//!   equally.
//! * Components are not mixed after the last round of a stage, unless `cpa_last` is set: the heads that are tested
//!   then, and that remain of client tasks whose owners move on, were trained with unmixed prompts. With one round in a
//!   stage nothing is mixed.
//! * Gaussians pool the samples of all clients that have reported a class so far (`moments = "all"`). Many classes have
//!   one holder in a stage, and where client tasks of a stage share a class they may have the same images (Powder's
//!   release), so that with `moments = "stage"` there is little to compensate, or nothing: tokens chosen by the true
//!   label then pull features to the client's own class mean.
//! * It is decided for every batch of a client whether it has compensation prompts, so such clients do not train in
//!   packs. The teacher gets the same input.
//! * A client that continues a client task keeps its compensation prompts, which were trained for the Gaussians known
//!   when it began. It takes part in round 0 nevertheless, as it may not have been sampled when the client task began,
//!   and reports the same moments again.
//!
//! # In the journal
//! Round 0: of the classes of new client tasks, `lcdc_second_holders` is the share that another client has reported,
//! too, and `lcdc_other_samples` the share of which another client has other samples; the Gaussians of the rest are the
//! client's own. If components are mixed: `cpa_own_weight`, the mean weight of a component in its own mixture;
//! `cpa_kept_rows`, the number of components that match no class and stay unmixed; `cpa_cosine_within` and
//! `cpa_cosine_between`, mean cosines of mixed components' tokens of one client and of two. With `cpa_accuracy` also
//! `cpa_accuracy_before` and `cpa_accuracy_after`: on the test images of the client tasks that the round trained, with
//! the task known. Of a client's round of training: `compensated_steps`, and `ce_compensated` and `ce_plain`, the mean
//! cross-entropy of these steps and of the others.

mod accuracy;
mod affinity;
mod aggregation;
mod client;
mod compensation;
mod config;
mod messages;
mod moments;
mod reports;
mod server;
mod state;

use crate::data::TaskView;
use std::sync::Arc;

pub use affinity::{Histogram, Scores, affinity};
pub use compensation::Compensated;
pub use config::C2PromptConfig;
pub use moments::{ClientTaskMoments, Gaussians, pooled};
pub use reports::{PooledMoments, Report, Reports};
pub use server::C2PromptServer;
pub use state::{Compensation, Prompts};

use self::messages::{closed, histogram, opened, tagged};
use super::Requirement;
use super::entry::MethodEntry;
use super::powder::{ClientTaskDownload, Powder, PowderServer};
use super::recipe::Recipe;
use crate::model::FrozenPart;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    ClientResult, ClientState, CohortRule, Disclosures, ExchangeFacts, Failure, FeatureMap, Member,
    Message, MessageKind, MessageSpec, Method, MethodInspection, MethodProfile, ModelFacts, Phase,
    PolicyError, RoundContext, RoundWork, RunContext, SampleCost, Server, Stage,
};
use crate::wire::{Body, Saved, WireError};

/// C2Prompt as a [`Method`]: its settings, and the Powder method that it extends.
#[derive(Clone, Debug)]
pub struct C2Prompt {
    /// Settings of the `[method]` table.
    pub config: C2PromptConfig,
    /// Powder method that C2Prompt extends.
    pub powder: Powder,
    dim: usize,
}

/// First of two phases that precede Powder's training as round 0: reports of moments.
const STATISTICS: usize = 1;
const COMPENSATE: usize = 2;

impl C2Prompt {
    /// Returns the method for a model of these dimensions.
    pub fn new(config: C2PromptConfig, facts: &ModelFacts) -> C2Prompt {
        let powder = Powder::new(config.learner(), facts);
        C2Prompt { config, powder, dim: facts.backbone.dim() }
    }

    /// Returns the number of a phase among Powder's phases, or `None` if it belongs to round 0.
    fn inner(phase: usize) -> Option<usize> {
        match phase {
            0 => Some(0),
            STATISTICS | COMPENSATE => None,
            later => Some(later - 2),
        }
    }

    /// Returns the specification of a download, without the first control byte.
    fn download(&self, facts: &ExchangeFacts<'_>) -> MessageSpec {
        match C2Prompt::inner(facts.phase) {
            Some(phase) => self.powder.message_spec(MessageKind::Download, &inner_of(facts, phase)),
            None if C2Prompt::asks(facts.phase) => MessageSpec::default(),
            None => Gaussians::layout(facts.view.rows.len(), self.dim),
        }
    }

    /// Returns the specification of an upload, without the first control byte.
    ///
    /// Uploads after the training of compensation prompts are empty.
    fn contribution(&self, facts: &ExchangeFacts<'_>) -> MessageSpec {
        let classes = facts.view.rows.len();
        match C2Prompt::inner(facts.phase) {
            Some(phase) => {
                let facts = inner_of(facts, phase);
                let mut layout = self.powder.message_spec(MessageKind::Contribution, &facts);
                if self.config.cpa && Powder::trains(phase) {
                    layout.extra.push(histogram(self.powder.shape.components, classes));
                }
                layout
            }
            None if C2Prompt::asks(facts.phase) => ClientTaskMoments::layout(classes, self.dim),
            None => MessageSpec::default(),
        }
    }

    /// Returns true if clients report moments in a phase.
    fn asks(phase: usize) -> bool {
        phase == STATISTICS
    }

    /// Returns true if client tasks are trained in a phase.
    fn trains(phase: usize) -> bool {
        C2Prompt::inner(phase).is_some_and(Powder::trains)
    }
}

/// Returns the facts of an exchange with `phase` as the number of its phase.
fn inner_of<'a>(facts: &ExchangeFacts<'a>, phase: usize) -> ExchangeFacts<'a> {
    ExchangeFacts { phase, ..facts.clone() }
}

impl Method for C2Prompt {
    fn server(&self, ctx: &RunContext, init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        ctx.backbone.config().blocks_for("a prompt")?;
        let powder = PowderServer::new(Arc::new(self.powder.clone()), init);
        let (method, reports) = (Arc::new(self.clone()), Reports::default());
        Ok(Box::new(C2PromptServer { method, powder, reports, metrics: Vec::new() }))
    }

    fn profile(&self) -> MethodProfile {
        MethodProfile { stateless: false, ..self.powder.profile() }
    }

    fn phases(&self, stage: &Stage, rounds: u32) -> Vec<Phase> {
        let mut phases = self.powder.phases(stage, rounds);
        if self.config.tosses() {
            phases.iter_mut().for_each(|phase| phase.max_pack_size = 1);
        }
        let rounds = u32::from(self.config.compensates());
        phases.insert(STATISTICS, Phase::new("statistics", rounds, CohortRule::Sampled));
        phases.insert(COMPENSATE, Phase::new("compensate", rounds, CohortRule::Participants));
        phases
    }

    fn message_spec(&self, message: MessageKind, facts: &ExchangeFacts<'_>) -> MessageSpec {
        let layout = match message {
            MessageKind::Download => self.download(facts),
            MessageKind::Upload => self.contribution(facts),
            MessageKind::Contribution => return self.contribution(facts),
        };
        MessageSpec { control: tagged(facts.phase, &layout.control), ..layout }
    }

    fn transform_upload(
        &self,
        facts: &ExchangeFacts<'_>,
        sent: &Message,
        update: Message,
    ) -> Result<Message, PolicyError> {
        let update = opened(facts.phase, update)?;
        match C2Prompt::inner(facts.phase) {
            Some(phase) => self.powder.transform_upload(&inner_of(facts, phase), sent, update),
            None => Ok(update),
        }
    }

    /// Returns Powder's cost, a forward pass for moments, and the training of compensation prompts.
    ///
    /// A client that continues a client task is charged no training of compensation prompts, as it keeps them. Under
    /// partial participation this is too little for a client that was not sampled when its task began: it trains its
    /// prompts in the first round 0 in which it is sampled.
    fn cost(&self, round: &RoundContext, work: &RoundWork<'_>) -> f64 {
        let RoundWork::Participant { participant, samples, plan } = *work else { return 0.0 };
        match C2Prompt::inner(round.phase) {
            Some(phase) => self.powder.passes(phase, samples, plan),
            None if C2Prompt::asks(round.phase) => samples as f64 / 3.0,
            None if participant.view.task != round.stage.task => 0.0,
            None => samples as f64 * f64::from(self.config.compensation_epochs),
        }
    }

    fn sample_cost(&self, model: &ModelFacts, view: &TaskView, phase: usize) -> SampleCost {
        self.powder.sample_cost(model, view, phase)
    }

    fn state_bytes(&self, state: &Body) -> Result<u64, WireError> {
        Ok(Compensation::of(state)?.state_bytes())
    }

    fn train(
        &self,
        members: &mut [Member],
        ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        let states = members.iter().map(client::entered).collect::<Result<Vec<_>, _>>();
        let mut states = match states {
            Ok(states) => states,
            Err(error) => return Failure::of_all(members.len(), error),
        };
        let mut outcomes = match members.iter().all(|member| C2Prompt::trains(member.phase)) {
            true => self.learn(members, &states, ctx),
            false => {
                let each = members.iter().zip(&mut states);
                each.map(|(member, state)| Ok(self.exchange(member, state, ctx)?)).collect()
            }
        };
        for ((member, state), outcome) in members.iter_mut().zip(states).zip(&mut outcomes) {
            member.state = state.save();
            if let Ok(ClientResult { upload, .. }) = outcome {
                *upload = closed(member.phase, std::mem::take(upload));
            }
        }
        outcomes
    }

    fn inspection(&self) -> Option<&dyn MethodInspection> {
        Some(self)
    }
}

impl MethodInspection for C2Prompt {
    /// Returns the moments of classes, or the update of the client task in a round of training.
    fn disclosures(
        &self,
        member: &Member,
        upload: &Message,
        ctx: &RunContext,
    ) -> Result<Option<Disclosures>, PolicyError> {
        let upload = opened(member.phase, Message::clone(upload))?;
        if C2Prompt::asks(member.phase) {
            let rows = &member.participant.view.rows;
            let classes = ClientTaskMoments::read(&upload)?.disclosed(rows, self.dim);
            let backbone = Arc::clone(&ctx.backbone);
            let map: FeatureMap =
                Box::new(move |pixels| Ok(backbone.frozen(pixels, FrozenPart::Whole)?));
            return Ok((!classes.is_empty()).then_some(Disclosures::Means { map, classes }));
        }
        if !C2Prompt::trains(member.phase) {
            return Ok(None);
        }
        let download = opened(member.phase, Message::clone(&member.download))?;
        let download = ClientTaskDownload::read(&download)?;
        self.powder.moved_client_task(member, &download, &upload, ctx)
    }
}

impl Recipe for C2PromptConfig {
    fn build(&self, facts: &ModelFacts) -> Arc<dyn Method> {
        Arc::new(C2Prompt::new(self.clone(), facts))
    }

    /// Requires what Powder does, and clients that come back with their compensation prompts.
    fn requirements(&self) -> Vec<Requirement> {
        let mut requirements = self.powder.requirements();
        let why = "clients keep compensation prompts, but fresh clients have none";
        requirements.push(Requirement::returning_clients(why, None));
        requirements
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "Powder with class-aware interaction: tokens per class move a client's features to the Gaussian of all \
               clients' features in half of the training steps, and the server mixes components by the classes that \
               they match.",
        source: "C2Prompt: Class-aware Client Knowledge Interaction for Federated Continual Learning, NeurIPS 2025, \
                 arXiv 2509.19674 (a review of it)",
        state: "server: all client tasks, their similarities, moments of classes; client: three tokens per class of \
                its client task",
        ..MethodEntry::of("c2prompt", C2PromptConfig::read)
    }
}
