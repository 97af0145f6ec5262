//! **CODA-Prompt** (Smith et al., "CODA-Prompt: COntinual Decomposed Attention-based Prompting for Rehearsal-Free
//! Continual Learning", CVPR 2023), averaged over clients: the baseline of HGP and, as Fed-CODAP, of STSA.
//!
//! The prefix of a block is a sum of components, each weighted by the cosine of its key and the query seen through
//! its attention. Every task adds components of its own, orthogonal to what is there; older ones are frozen.
//!
//! ```text
//! server   as task t starts: rows [s, f) of components, keys and attention <- Gram-Schmidt of normal draws
//! client   P_j(x) = sum_(k < f) cos(q(x) a_jk, k_jk) p_jk for the first blocks j; rows [s, f) train
//!          E epochs: minimise CE over the rows of the current task + mu * orthogonality of rows < f
//! server   rows [s, f), head <- means weighted by n_m
//! ```
//! Keys are taken by every party from the server, so that all clients of a task begin with the same orthogonal
//! rows. Uploads in the lean form hold rows `[s, f)` alone.

mod config;

use std::ops::Range;
use std::sync::Arc;

pub use config::{CodaConfig, Orthogonal};

use super::prompted::{PoolForm, PromptKind, Prompted, PromptedConfig, check_blocks, given};
use crate::learning::Prompting;
use crate::learning::prompting::{ComponentPart, Components};
use crate::model::{Parameter, ParameterSet, backbone_config, prompts};
use crate::numerics::distributions::fill_normal;
use crate::numerics::streams::StreamKey;
use crate::policy::{ModelFacts, WireForm};
use crate::scenario::{Complaint, Scenario};

/// CODA-Prompt's components.
#[derive(Clone, Debug)]
pub struct CodaPrompt {
    config: CodaConfig,
    dim: usize,
    blocks: Range<usize>,
    tasks: usize,
}

/// The method.
pub fn method(
    config: CodaConfig,
    shared: PromptedConfig,
    facts: &ModelFacts,
) -> Prompted<CodaPrompt> {
    Prompted::new(CodaPrompt::new(config, facts), shared, facts)
}

impl CodaPrompt {
    /// For a model of these dimensions: as many of the blocks as there are.
    pub fn new(config: CodaConfig, facts: &ModelFacts) -> CodaPrompt {
        let depth = facts.backbone.vit().map_or(0, |vit| vit.depth);
        let first = (config.first_block as usize).min(depth.saturating_sub(1));
        let blocks = first..(first + config.n_blocks as usize).min(depth);
        CodaPrompt { config, dim: facts.backbone.dim(), blocks, tasks: facts.tasks.max(1) }
    }

    /// How components of the tasks up to `used` are weighted, where those of rows `trained` train.
    pub fn components(&self, used: usize, trained: Range<usize>) -> Components {
        let CodaConfig { mu, attention_softmax, .. } = self.config;
        let blocks = self.blocks.clone();
        Components { blocks, used, trained, penalty: mu, softmax: attention_softmax }
    }

    /// Blocks with a prompt.
    pub fn blocks(&self) -> Range<usize> {
        self.blocks.clone()
    }

    fn shape(&self, part: ComponentPart) -> Vec<usize> {
        let (pool, length) = (self.config.pool as usize, self.config.prompt_len as usize);
        match part {
            ComponentPart::Prompt => vec![pool, length, self.dim],
            ComponentPart::Attention | ComponentPart::Key => vec![pool, self.dim],
        }
    }

    /// Every block's parameters, with a number to draw at.
    fn parts(&self) -> impl Iterator<Item = (u64, String, ComponentPart)> + '_ {
        let parts = self.blocks.clone().flat_map(|block| {
            ComponentPart::ALL.into_iter().map(move |part| (part.name(block), part))
        });
        parts.zip(1..).map(|((name, part), number)| (number, name, part))
    }

    /// Rows of a task made orthogonal to those of the tasks before.
    fn start_task(&self, task: usize, set: &mut ParameterSet, init: StreamKey) {
        let rows = self.own_rows(task);
        for (number, name, _) in self.parts() {
            let Some(Parameter { shape, values }) = set.get(&name).cloned() else { continue };
            let width: usize = shape[1..].iter().product();
            let (start, end) = (rows.start * width, rows.end * width);
            let mut draws = vec![0f32; end - start];
            fill_normal(&mut init.task(task as u32).step(number).rng(), &mut draws);
            let mut values = values.to_vec();
            let new = prompts::gram_schmidt(&values[..start], &draws, width);
            values[start..end].copy_from_slice(&new);
            set.insert(name, Parameter { shape, values: values.into() });
        }
    }
}

impl PromptKind for CodaPrompt {
    fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        self.parts().map(|(_, name, part)| (name, self.shape(part))).collect()
    }

    /// Zeros, or all rows at once.
    fn initial_parameters(&self, init: StreamKey) -> ParameterSet {
        let zeros = |(name, shape): (String, Vec<usize>)| {
            let values = vec![0f32; shape.iter().product()].into();
            (name, Parameter { shape, values })
        };
        let mut set: ParameterSet = self.shapes().into_iter().map(zeros).collect();
        if self.config.orthogonal == Orthogonal::Once {
            (0..self.tasks).for_each(|task| self.start_task(task, &mut set, init));
        }
        set
    }

    fn has_rows(&self, name: &str) -> bool {
        name.starts_with("prompt.")
    }

    fn down_rows(&self, task: usize, _form: WireForm) -> Range<usize> {
        match self.config.components {
            PoolForm::Fixed => 0..self.config.pool as usize,
            PoolForm::Growing => 0..self.own_rows(task).end,
        }
    }

    fn own_rows(&self, task: usize) -> Range<usize> {
        let each = self.config.pool as usize / self.tasks;
        let task = task.min(self.tasks - 1);
        task * each..(task + 1) * each
    }

    fn inference_rows(&self, task: usize) -> Range<usize> {
        0..self.own_rows(task).end
    }

    fn changes(&self, _name: &str) -> bool {
        true
    }

    fn begin_task(
        &self,
        task: usize,
        mut parameters: ParameterSet,
        init: StreamKey,
    ) -> ParameterSet {
        if self.config.orthogonal == Orthogonal::Task && task < self.tasks {
            self.start_task(task, &mut parameters, init);
        }
        parameters
    }

    fn training(&self, task: usize) -> Arc<dyn Prompting> {
        let rows = self.own_rows(task);
        Arc::new(self.components(rows.end, rows))
    }

    fn inference(&self, task: usize) -> Arc<dyn Prompting> {
        Arc::new(self.components(self.own_rows(task).end, 0..0))
    }
}

/// Every task needs a component, and rows of a vector space can only be so many and orthogonal.
pub(super) fn check(scenario: &Scenario) -> Vec<Complaint> {
    let (pool, tasks) = (given(scenario, "pool", 100), i64::from(scenario.tasks.count()));
    let complaint = |message: String, label: &str, help: String| Complaint {
        key: "method.pool",
        message,
        label: label.into(),
        help,
    };
    let few = (pool < tasks).then(|| {
        let message = format!("{pool} components do not suffice for {tasks} tasks");
        complaint(message, "too few", format!("set `method.pool` to at least {tasks}"))
    });
    let dim = backbone_config(scenario).dim() as i64;
    let many = (pool > dim).then(|| {
        let message = format!("{pool} keys of width {dim} cannot be orthogonal");
        complaint(message, "too many", format!("set `method.pool` to at most {dim}"))
    });
    check_blocks(scenario).into_iter().chain(few).chain(many).collect()
}
