//! **Powder** (ICML 2024), after its released code.
//!
//! "Federated Continual Learning via Prompt-based Dual Knowledge Transfer".
//!
//! A *client task* is what one client learns in one task: components as CODA-Prompt has them, whose weighted sum
//! becomes *tokens* in some blocks, and its own head rows. The server keeps client tasks side by side and averages
//! nothing. What clients learn from each other comes from mixing: client tasks whose samples attend to the same
//! components are similar, and a client task uses, besides its own components, those that its most similar client tasks
//! would use.
//!
//! ```text
//! server   W = cos^30 of mean scores, rows sum to 1              as a stage begins
//! client   K~_i = W_ig K_g + sum_(j != g) W_ij K_j      for the 3 client tasks i nearest to its own g; same for A, P
//!          tokens of a block = (1/3) sum_c cos(q A~_c, K~_c) P~_c
//!          E epochs: minimize CE over the client task's classes + tau^2 sum_b v_b KL(teacher || student, without y_b)
//! server   client task g <- what its owner sends
//! ```
//! Only `K_g`, `A_g`, `P_g` and the head rows of `g` train. The teacher is the client task as it arrived, in every
//! round but the run's first; `v`, a softmax over the batch, is larger for classes that have close relatives in other
//! client tasks.
//!
//! Client tasks that begin in a stage take part in `W` and are used by others at once (`source_tasks`), in the first
//! stage too: as their owners last sent them.
//!
//! # Computation of similarities
//! `W` needs the scores of a client task's samples on the components of all client tasks, mixed as in their last
//! training. The release computes them at the server from the clients' images (`similarity = "server"`), and nothing of
//! it travels. Here, by default, clients compute them, since they alone have the samples: in a phase `look` of one
//! round as a stage ends, before clients go on to their next client task, and in one as the next stage begins, so that
//! a new client task can use others from its first round on. Keys and attention travel then as bytes of a kind of their
//! own, `similarity`: they are fedcast's, not Powder's. Both give the same `W`, which holds for a stage. A client that
//! goes on with its client task has sent its scores as the last stage ended, and nothing was trained since: as the next
//! begins it only scores client tasks that began since. (A plan cannot know which clients did, and counts as if none
//! had.)
//!
//! # Choices where the sources are silent
//! * `downlink = "needed"`: a download holds the client task and, instead of all others, the three sums over `j != g`
//!   above.
//! * A client task whose samples were not scored uses its own components alone.
//! * A negative cosine is no similarity, though its 30th power is positive. Samples are scored as the statistics
//!   transform sees them; the release scores augmented ones, and means over batches.
//! * The published script compares client tasks 10 to 14 among each other on the last five client tasks alone; here all
//!   that both were scored against count.
//! * Rows of new components are orthogonal to as many earlier ones as there is room for in their width.
//! * Without a task id every client task scores its own rows and the largest score wins.

mod config;
mod cosines;
mod distillation;
mod learner;
mod messages;
mod predictor;
mod prompts;
mod server;
mod shape;
mod similarity;
mod table;
#[cfg(test)]
mod vectors;

use crate::data::TaskView;
use std::sync::Arc;

pub use config::{Downlink, PowderConfig, Similarity, SourceTasks};
pub use distillation::{NotTrue, batch_shares};
pub use learner::{Learner, LearnerStep, TrainingExtension};
pub use messages::{ClientTaskDownload, SharedTable, SimilarityKeys, trained_client_task};
pub use predictor::{ClientTaskModel, ClientTaskModels};
pub use prompts::{ClientTaskPrompts, OWN_SHARE, OWN_TOKENS, is_own, others_name};
pub use server::PowderServer;
pub use shape::{ClientTaskForm, ClientTaskShape};
pub use similarity::{Attention, Likeness, most_similar};
pub use table::{ClientTaskEntry, ClientTaskKey, ClientTaskTable};

use super::Requirement;
use super::entry::MethodEntry;
use super::prompted::blocks;
use super::recipe::Recipe;
use crate::learning::TrainingPlan;
use crate::methods::parts::sample_cost::of_backward;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    ClientResult, CohortRule, Disclosures, ExchangeFacts, Failure, Member, Message, MessageKind,
    MessageSpec, Method, MethodInspection, MethodProfile, ModelFacts, Phase, PolicyError,
    RoundContext, RoundWork, RunContext, SampleCost, Server, Stage,
};

/// Powder for a model: settings, and shapes of client tasks.
#[derive(Clone, Debug)]
pub struct Powder {
    /// Keys of the `[method]` table.
    pub config: PowderConfig,
    /// Names and shapes of a client task's parameters.
    pub shape: ClientTaskShape,
    /// Number of head rows of the model.
    classes: usize,
}

/// Index of the phase that computes similarities as a stage begins. Phases that a stage does not need have no rounds.
pub(super) const OPENING: usize = 0;
/// Index of the phase of training without other client tasks.
const ALONE: usize = 1;
/// Index of the phase of training with other client tasks.
const MIXED: usize = 2;

impl Powder {
    /// Returns the method for a model of these dimensions.
    pub fn new(config: PowderConfig, facts: &ModelFacts) -> Powder {
        let shape = ClientTaskShape::new(&config, facts);
        Powder { config, shape, classes: facts.classes }
    }

    /// Returns Fed-CODAP as in Powder's benchmark, `CodaPrompt` of its release.
    ///
    /// There is a client task per client and task, prefixes of all client tasks' components side by side, and no
    /// similarities (the identity).
    pub fn side_by_side(config: PowderConfig, facts: &ModelFacts) -> Powder {
        let downlink = Downlink::Table;
        let mut powder = Powder::new(PowderConfig { downlink, top: 1, ..config }, facts);
        powder.shape.form = ClientTaskForm::Prefixes;
        powder
    }

    /// Returns the number of client tasks in a run, started or not, if each has `rows` own head rows.
    fn client_tasks(&self, rows: usize) -> usize {
        self.classes / rows.max(1)
    }

    /// Returns the sample passes of a client in a phase.
    ///
    /// Training costs a pass per epoch and a third of one for the teacher; queries cost a third once, in every phase.
    pub(super) fn passes(&self, phase: usize, samples: usize, plan: &TrainingPlan) -> f64 {
        let teacher = if self.config.kd_weight > 0.0 { 1.0 / 3.0 } else { 0.0 };
        let epochs = if Powder::trains(phase) { plan.epochs as f64 * (1.0 + teacher) } else { 0.0 };
        samples as f64 * (epochs + 1.0 / 3.0)
    }

    /// Returns true if client tasks are trained in a phase.
    pub fn trains(phase: usize) -> bool {
        phase == ALONE || phase == MIXED
    }

    /// Returns true if client tasks arrive in a phase with the mixture of other client tasks.
    fn mixes(phase: usize) -> bool {
        phase == MIXED
    }

    /// Returns true if the server computes the similarities of client tasks.
    fn looks_at_server(&self) -> bool {
        self.shape.form == ClientTaskForm::Tokens && self.config.similarity == Similarity::Server
    }

    fn likeness(&self) -> Likeness {
        let ClientTaskShape { blocks, components, .. } = &self.shape;
        let exponent = self.config.exponent;
        Likeness { blocks: blocks.len(), components: *components, exponent }
    }
}

/// Returns the largest set of client tasks that can have started in a stage: one per client and stage so far.
fn started_client_tasks(ExchangeFacts { model, stage, .. }: &ExchangeFacts<'_>) -> Vec<u32> {
    (0..(model.clients * (stage.index() + 1)) as u32).collect()
}

impl Method for Powder {
    fn server(&self, ctx: &RunContext, init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        ctx.backbone.config().blocks_for("a prompt")?;
        Ok(Box::new(PowderServer::new(Arc::new(self.clone()), init)))
    }

    fn profile(&self) -> MethodProfile {
        MethodProfile { discloses: true, ..MethodProfile::default() }
    }

    fn phases(&self, stage: &Stage, rounds: u32) -> Vec<Phase> {
        let (first, last) = (stage.task.index() == 0, stage.task.index() + 1 == stage.tasks);
        let similar = self.shape.form == ClientTaskForm::Tokens;
        let mixes =
            self.config.transfer && (self.config.source_tasks == SourceTasks::Started || !first);
        let asks = similar && self.config.similarity == Similarity::Clients;
        let look = |rounds, cohort| Phase::new("look", rounds, cohort);
        let train = |rounds| Phase::train(rounds).packed(usize::MAX);
        let closes = self.config.transfer && asks && !last;
        vec![
            look(u32::from(mixes && asks), CohortRule::Sampled),
            train(if mixes { 0 } else { rounds }),
            train(if mixes { rounds } else { 0 }),
            look(u32::from(closes), CohortRule::Participants),
        ]
    }

    /// Returns the specifications of keys, client tasks and attention by phase; uploads are kept whole.
    fn message_spec(&self, message: MessageKind, facts: &ExchangeFacts<'_>) -> MessageSpec {
        let classes = facts.view.rows.len();
        match (message, Powder::trains(facts.phase)) {
            (MessageKind::Download, false) => {
                SimilarityKeys::layout(&self.shape, &started_client_tasks(facts))
            }
            (MessageKind::Download, true) => {
                let table =
                    (self.config.downlink == Downlink::Table).then(|| self.client_tasks(classes));
                ClientTaskDownload::layout(
                    &self.shape,
                    classes,
                    (false, Powder::mixes(facts.phase)),
                    table,
                )
            }
            (_, true) => trained_client_task(&self.shape, classes),
            (_, false) => Attention::layout(&self.shape, classes, &started_client_tasks(facts)),
        }
    }

    /// Returns the upload as it is, after a check of the attention's length, which no specification knows.
    fn transform_upload(
        &self,
        facts: &ExchangeFacts<'_>,
        _sent: &Message,
        update: Message,
    ) -> Result<Message, PolicyError> {
        if !Powder::trains(facts.phase) {
            let Attention { over, means, counts } = Attention::read(&update)?;
            let (classes, width) = (facts.view.rows.len(), self.shape.scores(over.len()));
            if counts.len() != classes || means.len() != classes * width {
                return Err(PolicyError::Unsupported(format!(
                    "{} mean scores of {} classes, where {classes} classes have {width} each",
                    means.len(),
                    counts.len()
                )));
            }
        }
        Ok(update)
    }

    /// Returns the cost of a sample.
    ///
    /// At inference every client task that has started predicts, after one pass for the query.
    fn sample_cost(&self, model: &ModelFacts, view: &TaskView, _phase: usize) -> SampleCost {
        let (below, adapted) =
            (model.backbone.multiplications(), self.shape.multiplications(model));
        let head = (self.shape.dim * view.rows.len()) as f64;
        let forward = below + adapted + head;
        let backward = of_backward(&model.backbone, self.shape.blocks.start, adapted + head);
        let started = (model.clients * (view.task.index() + 1)) as f64;
        let inference = below + started * forward;
        SampleCost { forward, backward, inference, work: None }
    }

    fn cost(&self, round: &RoundContext, work: &RoundWork<'_>) -> f64 {
        match *work {
            RoundWork::Participant { samples, plan, .. } => self.passes(round.phase, samples, plan),
            RoundWork::Server { .. } => 0.0,
        }
    }

    fn train(
        &self,
        members: &mut [Member],
        ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        if !members.iter().all(|member| Powder::trains(member.phase)) {
            let look = |member: &Member| Ok(self.look(member, &member.download, ctx)?);
            return members.iter().map(look).collect();
        }
        let downloads = members.iter().map(|member| ClientTaskDownload::read(&member.download));
        let downloads: Vec<ClientTaskDownload> = match downloads.collect::<Result<_, _>>() {
            Ok(downloads) => downloads,
            Err(error) => return Failure::of_all(members.len(), error),
        };
        let learners: Vec<Learner<'_>> = members.iter().zip(&downloads).map(Learner::of).collect();
        learners.chunk_by(Learner::alike).flat_map(|pack| self.learn(pack, ctx, &mut ())).collect()
    }

    fn inspection(&self) -> Option<&dyn MethodInspection> {
        Some(self)
    }
}

impl MethodInspection for Powder {
    fn disclosures(
        &self,
        member: &Member,
        upload: &Message,
        ctx: &RunContext,
    ) -> Result<Option<Disclosures>, PolicyError> {
        if !Powder::trains(member.phase) {
            return Ok(None);
        }
        self.moved_client_task(member, &ClientTaskDownload::read(&member.download)?, upload, ctx)
    }
}

impl Recipe for PowderConfig {
    fn build(&self, facts: &ModelFacts) -> Arc<dyn Method> {
        Arc::new(Powder::new(self.clone(), facts))
    }

    /// Requires blocks for tokens, and head rows per client task if the server or a table needs them.
    fn requirements(&self) -> Vec<Requirement> {
        let mut requirements = vec![blocks()];
        if self.similarity == Similarity::Server {
            requirements.push(Requirement::own_client_tasks(
                "method.similarity",
                "`similarity = \"server\"` needs client tasks: the server finds the images of a client task by its \
                 head rows",
                "set `similarity = \"clients\"`",
            ));
        }
        if self.downlink == Downlink::Table {
            requirements.push(Requirement::own_client_tasks(
                "method.downlink",
                "`downlink = \"table\"` needs client tasks: the table has one place per client task",
                "set `downlink = \"needed\"`",
            ));
        }
        requirements
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "Every client task has its own components, which become tokens in some blocks, and head rows. Client \
               tasks whose samples attend to the same components lend each other theirs.",
        source: "Powder: Federated Continual Learning via Prompt-based Dual Knowledge Transfer, ICML 2024 (the \
                 released code)",
        state: "server: all client tasks and their similarities; client: nothing",
        ..MethodEntry::of("powder", PowderConfig::read)
    }
}
