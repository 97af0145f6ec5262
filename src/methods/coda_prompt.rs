//! **CODA-Prompt** (Smith et al., "CODA-Prompt: COntinual Decomposed Attention-based Prompting for Rehearsal-Free
//! Continual Learning", CVPR 2023), averaged over clients: the baseline of HGP and, as Fed-CODAP, of STSA.
//!
//! The prefix of a block is a sum of components, each weighted by the cosine of its key and the query seen through
//! its attention. Every task adds its own components, orthogonal to what is there; older ones are frozen.
//!
//! ```text
//! server   as task t starts: rows [s, f) of components, keys and attention <- Gram-Schmidt of normal draws
//! client   P_j(x) = sum_(k < f) cos(q(x) a_jk, k_jk) p_jk for the first blocks j; rows [s, f) train
//!          E epochs: minimize CE over the rows of the current task + mu * orthogonality of rows < f
//! server   rows [s, f), head <- means weighted by n_m
//! ```
//! The server draws the rows of a task, so that all clients begin with the same orthogonal rows. Uploads in the lean
//! form hold only rows `[s, f)`.
//!
//! # Where clients have tasks of their own
//! In the benchmark of Powder and C²Prompt Fed-CODAP averages nothing (`ownership = "client-task"`, after `CodaPrompt`
//! of Powder's release, whose similarities are the identity): every client task has `client_task_components` own
//! components that only its owner trains. The prefix is the sum over the components of all client tasks begun so far
//! (those of others are frozen), divided by the number of these client tasks. There is no distillation. It is
//! [`Powder`] without similarities; a download holds the table of all client tasks. With `ownership = "task"` all
//! clients of a stage train and average one block of rows.

use std::ops::Range;
use std::sync::Arc;

use clap::ValueEnum;

use super::HeadForm;
use super::averaging::{
    Averager, ClientWeighting, LatestTask, Parameters, Requirement, RowPurpose, RowSelection,
    ServerState,
};
use super::entry::MethodEntry;
use super::parts::{AveragingMethod, Demands, ModelAdaptation, Parts, RowQuery, TrainingSettings};
use super::powder::{Powder, PowderConfig};
use super::prompted::{self, PoolForm, Prompted};
use super::recipe::Recipe;
use crate::data::TaskView;
use crate::learning::Prompting;
use crate::learning::prompting::{ComponentPart, Components};
use crate::methods::parts::sample_cost::{of_prefix, with_prompts};
use crate::model::{Parameter, ParameterSet, backbone_config, prompts};
use crate::numerics::distributions::fill_normal;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    ClientState, Method, ModelFacts, PolicyError, RunContext, SampleCost, WireForm,
};
use crate::scenario::RequirementError;
use crate::scenario::reader::{Choice, Keys, TableReader};

/// Time at which rows are made orthogonal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Orthogonal {
    /// At the start of each task, the rows of that task.
    ///
    /// They become orthogonal to the trained rows of earlier tasks.
    Task,
    /// Before the first task, all rows.
    Once,
}

/// Owner of components.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum Ownership {
    /// A task: all clients that learn it train and average its components.
    #[default]
    Task,
    /// A client task: nothing is averaged.
    ///
    /// For `tasks.arrival = "client-tasks"`; Fed-CODAP as in Powder's release.
    ClientTask,
}

/// Keys of the `[method]` table of CODA-Prompt.
#[derive(Clone, Debug, PartialEq, Keys)]
#[keys(check = section.refuse_without_meaning(table))]
pub struct CodaPrompt {
    /// Owner of components.
    #[key(default = Ownership::Task, source = "HGP, STSA; Powder's release has client-task")]
    pub ownership: Ownership,
    /// Components of a client task in a block, with `ownership = "client-task"`.
    #[key(
        default = CLIENT_TASK_COMPONENTS,
        source = "Powder's release",
        at_least = 1.0,
        at_most = 1000.0
    )]
    pub client_task_components: u32,
    /// Weight of the orthogonality penalty.
    #[key(
        default = 0.0,
        source = "0 in the authors' release; 0.1 in the first version of the paper",
        at_least = 0.0
    )]
    pub mu: f64,
    /// Softmax of the attention vector over its entries.
    #[key(default = false, source = "CODA-Prompt; Fed-CPrompt has true")]
    pub attention_softmax: bool,
    /// Time at which rows are made orthogonal.
    #[key(default = Orthogonal::Task, source = "CODA-Prompt; Fed-CPrompt has once")]
    pub orthogonal: Orthogonal,
    /// Sizes of components.
    #[key(flatten)]
    pub sizes: ComponentSizes,
    /// Components in messages.
    #[key(default = PoolForm::Fixed, source = "the public code of HGP")]
    pub component_form: PoolForm,
    /// Keys of all methods with prompts.
    #[key(flatten)]
    pub prompted: Prompted,
}

/// Sizes of the components of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Keys)]
#[keys(check = prompted::prompt_has_halves(table, section.prompt_len))]
pub struct ComponentSizes {
    /// Number of components of all tasks together; each task has an equal part.
    #[key(default = POOL, source = "CODA-Prompt", at_least = 1.0, at_most = 100_000.0)]
    pub pool: u32,
    /// Rows of a component in a block, half keys and half values.
    #[key(default = 8, source = "CODA-Prompt", at_least = 2.0, at_most = 10_000.0)]
    pub prompt_len: u32,
    /// First block with a prompt, from 0.
    #[key(default = 0, source = "CODA-Prompt", at_most = 99.0)]
    pub first_block: u32,
    /// Number of blocks with a prompt; at most the blocks of the backbone.
    #[key(default = 5, source = "CODA-Prompt", at_least = 1.0, at_most = 99.0)]
    pub n_blocks: u32,
}

/// Components of a client task in Powder's release.
const CLIENT_TASK_COMPONENTS: u32 = 10;

/// Components of all tasks together in CODA-Prompt.
const POOL: u32 = 100;

impl CodaPrompt {
    /// Rejects keys on averaging if nothing is averaged, and on client tasks if none own components.
    ///
    /// Defaults are accepted: a scenario with all of them written out is the same scenario.
    fn refuse_without_meaning(&self, table: &mut TableReader<'_>) {
        let Prompted { client_weighting, head_form, .. } = self.prompted;
        let said: &[(&str, bool)] = match self.ownership {
            Ownership::Task => {
                &[("client_task_components", self.client_task_components != CLIENT_TASK_COMPONENTS)]
            }
            Ownership::ClientTask => &[
                ("pool", self.sizes.pool != POOL),
                ("mu", self.mu != 0.0),
                ("attention_softmax", self.attention_softmax),
                ("orthogonal", self.orthogonal != Orthogonal::Task),
                ("component_form", self.component_form != PoolForm::Fixed),
                ("client_weighting", client_weighting != ClientWeighting::BySamples),
                ("head_form", head_form != HeadForm::Fixed),
            ],
        };
        for (key, _) in said.iter().filter(|(_, said)| *said) {
            let owner = self.ownership.word();
            let message = format!("`{key}` has no meaning with `ownership = \"{owner}\"`");
            table.reject(key, &message, "no effect here", "remove this line");
        }
    }

    /// Returns the blocks with a prompt, limited to the blocks of the backbone.
    pub fn blocks(&self, model: &ModelFacts) -> Range<usize> {
        let depth = model.backbone.vit().map_or(0, |vit| vit.depth);
        let first = (self.sizes.first_block as usize).min(depth.saturating_sub(1));
        first..(first + self.sizes.n_blocks as usize).min(depth)
    }

    /// Returns the rows of a task's components: `pool / tasks` each, rounded down; a remainder is unused.
    pub fn own_rows(&self, model: &ModelFacts, task: usize) -> Range<usize> {
        let tasks = model.tasks.max(1);
        let (each, task) = (self.sizes.pool as usize / tasks, task.min(tasks - 1));
        task * each..(task + 1) * each
    }

    /// Returns the first `used` components with their weighting; those of rows `trained` train.
    pub fn components(&self, model: &ModelFacts, used: usize, trained: Range<usize>) -> Components {
        let (blocks, penalty) = (self.blocks(model), self.mu);
        Components { blocks, used, trained, penalty, softmax: self.attention_softmax }
    }

    /// Returns the names and shapes of the parameters of every block.
    fn shapes(&self, model: &ModelFacts) -> impl Iterator<Item = (String, Vec<usize>)> {
        let (pool, length, dim) =
            (self.sizes.pool as usize, self.sizes.prompt_len as usize, model.backbone.dim());
        let shape = move |part| match part {
            ComponentPart::Prompt => vec![pool, length, dim],
            ComponentPart::Attention | ComponentPart::Key => vec![pool, dim],
        };
        self.blocks(model).flat_map(move |block| {
            ComponentPart::ALL.into_iter().map(move |part| (part.name(block), shape(part)))
        })
    }

    /// Draws the rows of a task and makes them orthogonal to those of earlier tasks.
    ///
    /// Each parameter draws at a different step of the random stream.
    fn start(&self, model: &ModelFacts, task: usize, set: &mut ParameterSet, init: StreamKey) {
        let rows = self.own_rows(model, task);
        for ((name, _), step) in self.shapes(model).zip(1..) {
            let Some(Parameter { shape, values }) = set.get(&name).cloned() else { continue };
            let width: usize = shape[1..].iter().product();
            let (start, end) = (rows.start * width, rows.end * width);
            let mut draws = vec![0f32; end - start];
            fill_normal(&mut init.task(task as u32).step(step).rng(), &mut draws);
            let mut values = values.to_vec();
            let new = prompts::gram_schmidt(&values[..start], &draws, width);
            values[start..end].copy_from_slice(&new);
            set.insert(name, Parameter { shape, values: values.into() });
        }
    }
}

impl AveragingMethod for CodaPrompt {
    type State = ();
    type Memory = LatestTask;

    fn parts(&self) -> Parts<'_, (), LatestTask> {
        self.base()
    }
}

impl ModelAdaptation for CodaPrompt {
    fn parameters(&self, model: &ModelFacts) -> Parameters {
        prompted::with_head(Parameters::default().by_task(self.shapes(model)), model)
    }

    /// Returns zeros and a head, or the rows of all tasks at once with `orthogonal = "once"`.
    fn initial(
        &self,
        model: &ModelFacts,
        _ctx: &RunContext,
        init: StreamKey,
    ) -> Result<ParameterSet, PolicyError> {
        let zeros = |(name, shape): (String, Vec<usize>)| {
            let values = vec![0f32; shape.iter().product()].into();
            (name, Parameter { shape, values })
        };
        let mut set: ParameterSet = self.shapes(model).map(zeros).collect();
        if self.orthogonal == Orthogonal::Once {
            (0..model.tasks.max(1)).for_each(|task| self.start(model, task, &mut set, init));
        }
        Ok(set.merge(&self.prompted.initial_head(model, init)))
    }

    /// Requires a component per task, and no more components than can be orthogonal in their vector space.
    fn demands(&self) -> Demands {
        let (key, pool) = ("method.pool", self.sizes.pool);
        let each = Requirement::new(move |scenario| {
            let tasks = scenario.tasks.count();
            (pool < tasks).then(|| {
                let message = format!("{pool} components are too few for {tasks} tasks");
                let help = format!("set `{key}` to at least {tasks}");
                RequirementError::new(key, message, "too few", help)
            })
        });
        let orthogonal = Requirement::new(move |scenario| {
            let dim = backbone_config(scenario).dim();
            (pool as usize > dim).then(|| {
                let message = format!("{pool} keys of width {dim} cannot be orthogonal");
                let help = format!("set `{key}` to at most {dim}");
                RequirementError::new(key, message, "too many", help)
            })
        });
        Demands::requiring([prompted::blocks(), each, orthogonal])
    }

    fn rows(&self, query: &RowQuery<'_>) -> RowSelection {
        let own = self.own_rows(query.model, query.task());
        let pool = match (query.direction, self.component_form) {
            (RowPurpose::Up, _) if query.model.form == WireForm::Lean => own,
            (RowPurpose::Inference, _) | (_, PoolForm::Growing) => 0..own.end,
            (_, PoolForm::Fixed) => 0..self.sizes.pool as usize,
        };
        RowSelection { pool, ..query.rows(query.view.rows.clone()) }
    }

    /// Counts the prefix of each block, the sum of the components so far, and the weight of each.
    fn sample_cost(&self, model: &ModelFacts, task: usize) -> SampleCost {
        let (used, rows) = (self.own_rows(model, task).end, self.sizes.prompt_len as usize);
        let sum = used * (rows + 2) * model.backbone.dim();
        let prompts = self.blocks(model).len() as f64 * (of_prefix(model, rows) + sum as f64);
        with_prompts(self, model, task, prompts)
    }

    fn prompting(
        &self,
        model: &ModelFacts,
        task: usize,
        trains: bool,
    ) -> Option<Arc<dyn Prompting>> {
        let own = self.own_rows(model, task);
        let (used, trained) = (own.end, if trains { own } else { 0..0 });
        Some(Arc::new(self.components(model, used, trained)))
    }

    fn settings(&self, _view: &TaskView) -> TrainingSettings {
        self.prompted.settings()
    }

    fn begin_task(
        &self,
        model: &ModelFacts,
        task: usize,
        mut theta: ParameterSet,
        init: StreamKey,
    ) -> ParameterSet {
        if self.orthogonal == Orthogonal::Task && task < model.tasks.max(1) {
            self.start(model, task, &mut theta, init);
        }
        theta
    }
}

impl CodaPrompt {
    /// Returns the parts of FedAvg that train these components.
    pub(super) fn base<S: ClientState, M: ServerState>(&self) -> Parts<'_, S, M> {
        self.prompted.base(self)
    }

    /// Returns Powder's method with components that client tasks own, without mixing between client tasks.
    pub fn side_by_side(&self, facts: &ModelFacts) -> Powder {
        let ComponentSizes { prompt_len, first_block, n_blocks, .. } = self.sizes;
        let config = PowderConfig {
            components: self.client_task_components,
            prompt_len,
            first_block,
            n_blocks,
            kd_weight: 0.0,
            query: self.prompted.query,
            ..PowderConfig::default()
        };
        Powder::side_by_side(config, facts)
    }
}

impl Recipe for CodaPrompt {
    fn build(&self, facts: &ModelFacts) -> Arc<dyn Method> {
        match self.ownership {
            Ownership::Task => Arc::new(Averager::new(self.clone(), facts)),
            Ownership::ClientTask => Arc::new(self.side_by_side(facts)),
        }
    }

    fn requirements(&self) -> Vec<Requirement> {
        match self.ownership {
            Ownership::Task => self.parts().requirements(),
            Ownership::ClientTask => vec![
                prompted::blocks(),
                Requirement::own_client_tasks(
                    "method.ownership",
                    "`ownership = \"client-task\"` needs client tasks: tasks that all clients share have no owner",
                    "set `ownership = \"task\"`",
                ),
            ],
        }
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "Prefixes are sums of components weighted by the query; each task adds orthogonal components and \
               freezes older ones; averaged over clients.",
        source: "Smith et al.: CODA-Prompt: COntinual Decomposed Attention-based Prompting for \
                 Rehearsal-Free Continual Learning, CVPR 2023; averaged as in HGP, arXiv 2406.02447, \
                 and as Fed-CODAP in STSA, arXiv 2506.01327",
        state: prompted::STATE,
        ..MethodEntry::of("coda-prompt", CodaPrompt::read)
    }
}
