//! **DualPrompt** (Wang et al., "DualPrompt: Complementary Prompting for Rehearsal-free Continual Learning", ECCV
//! 2022), averaged over clients as in the benchmark of HGP.
//!
//! General prefixes in the first blocks are shared by all tasks; in the blocks behind them each task trains an
//! expert of its own. At inference the expert is the one whose key is nearest to the image's query.
//!
//! ```text
//! client   E epochs: minimise CE over the rows of the current task - w mean_i cos(q_i, key_t), with expert t
//! server   general, expert t, key t, head <- means weighted by n_m
//!          as task t starts: expert t <- expert t-1, where `copy_previous`
//! ```
//! `w` is `pull_weight`. The benchmark's code leaves the matching term out, so that keys stay as drawn and
//! experts are chosen at random: that is the default, and 1 is the method. `matched` in the journal is the share
//! of a client's images whose nearest key is that of their task.

mod config;

use std::ops::Range;
use std::sync::Arc;

pub use config::DualPromptConfig;

use super::prompted::{
    PromptKind, Prompted, PromptedConfig, check_blocks, chosen, given, uniform_parameter,
};
use crate::data::{SampleRows, Shard};
use crate::learning::prompting::{EXPERT_KEYS, Expert, Experts, expert_name, general_name};
use crate::learning::{LearningError, Prompting};
use crate::model::{Parameter, ParameterSet, backbone_config};
use crate::numerics::streams::StreamKey;
use crate::policy::{ModelFacts, WireForm};
use crate::scenario::{Complaint, Scenario};

/// DualPrompt's prefixes.
#[derive(Clone, Debug)]
pub struct DualPrompt {
    config: DualPromptConfig,
    dim: usize,
    general: Range<usize>,
    experts: Range<usize>,
}

/// The method.
pub fn method(
    config: DualPromptConfig,
    shared: PromptedConfig,
    facts: &ModelFacts,
) -> Prompted<DualPrompt> {
    let depth = facts.backbone.vit().map_or(0, |vit| vit.depth);
    let general = (config.g_blocks as usize).min(depth);
    let experts = general..(general + config.e_blocks as usize).min(depth);
    let (dim, general) = (facts.backbone.dim(), 0..general);
    let none = |blocks: Range<usize>, length: u32| if length == 0 { 0..0 } else { blocks };
    let (general, experts) = (none(general, config.g_len), none(experts, config.e_len));
    Prompted::new(DualPrompt { config, dim, general, experts }, shared, facts)
}

impl DualPrompt {
    /// The expert of a task; tasks beyond the pool share the last one.
    fn expert(&self, task: usize) -> usize {
        task.min(self.config.pool as usize - 1)
    }

    fn prompting(&self, expert: Expert) -> Arc<dyn Prompting> {
        let (general, experts) = (self.general.clone(), self.experts.clone());
        Arc::new(Experts { general, experts, expert, pull: self.config.pull_weight })
    }

    fn candidates(&self, task: usize) -> Range<usize> {
        match self.config.match_seen_only {
            true => 0..self.expert(task) + 1,
            false => 0..self.config.pool as usize,
        }
    }
}

impl PromptKind for DualPrompt {
    fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        let DualPromptConfig { pool, g_len, e_len, .. } = self.config;
        let (pool, dim) = (pool as usize, self.dim);
        let general = |block| (general_name(block), vec![2 * g_len as usize, dim]);
        let expert = |block| (expert_name(block), vec![pool, 2 * e_len as usize, dim]);
        let prefixes = self.general.clone().map(general);
        let prefixes = prefixes.chain(self.experts.clone().map(expert));
        prefixes.chain([(EXPERT_KEYS.to_owned(), vec![pool, dim])]).collect()
    }

    fn initial_parameters(&self, init: StreamKey) -> ParameterSet {
        let shapes = self.shapes().into_iter().zip(1..);
        shapes.map(|((name, shape), n)| (name, uniform_parameter(&shape, init.step(n)))).collect()
    }

    fn has_rows(&self, name: &str) -> bool {
        name == EXPERT_KEYS || name.ends_with(".expert")
    }

    fn down_rows(&self, task: usize, form: WireForm) -> Range<usize> {
        match form {
            WireForm::Full => 0..self.config.pool as usize,
            WireForm::Lean => self.own_rows(task),
        }
    }

    fn own_rows(&self, task: usize) -> Range<usize> {
        let expert = self.expert(task);
        expert..expert + 1
    }

    fn inference_rows(&self, task: usize) -> Range<usize> {
        0..self.candidates(task).end
    }

    /// The card's lean row counts the key of the task, trained or not.
    fn changes(&self, _name: &str) -> bool {
        true
    }

    fn down_is_lean(&self, form: WireForm) -> bool {
        form == WireForm::Lean
    }

    fn begin_task(
        &self,
        task: usize,
        mut parameters: ParameterSet,
        _init: StreamKey,
    ) -> ParameterSet {
        let expert = self.expert(task);
        if !self.config.copy_previous || task == 0 || expert == self.expert(task - 1) {
            return parameters;
        }
        for name in self.experts.clone().map(expert_name) {
            let Some(Parameter { shape, values }) = parameters.get(&name).cloned() else {
                continue;
            };
            let width: usize = shape[1..].iter().product();
            let mut values = values.to_vec();
            values.copy_within((expert - 1) * width..expert * width, expert * width);
            parameters.insert(name, Parameter { shape, values: values.into() });
        }
        parameters
    }

    fn training(&self, task: usize) -> Arc<dyn Prompting> {
        self.prompting(Expert::Given(self.expert(task)))
    }

    fn inference(&self, task: usize) -> Arc<dyn Prompting> {
        self.prompting(Expert::Nearest(self.candidates(task)))
    }

    fn figures(
        &self,
        task: usize,
        learnt: &ParameterSet,
        queries: &dyn SampleRows,
        shard: &Shard,
    ) -> Result<Vec<(&'static str, f64)>, LearningError> {
        // A client that was sent nothing but its own expert cannot compare.
        let rows = self.candidates(task).end;
        let keys = learnt.get(EXPERT_KEYS).filter(|keys| keys.shape[0] >= rows);
        let Some(keys) = keys.filter(|_| rows > 1) else { return Ok(Vec::new()) };
        let values = keys.values[..rows * self.dim].into();
        let keys = Parameter { shape: vec![rows, self.dim], values };
        let own = self.expert(task) as u32;
        let nearest = chosen(&keys, queries, shard, 1)?.concat();
        let matched = nearest.iter().filter(|expert| **expert == own).count();
        Ok(vec![("matched", matched as f64 / nearest.len().max(1) as f64)])
    }
}

/// Experts need blocks behind the general prefixes.
pub(super) fn check(scenario: &Scenario) -> Vec<Complaint> {
    let general = given(scenario, "g_blocks", 2);
    let depth = backbone_config(scenario).vit().map_or(0, |vit| vit.depth as i64);
    let none = (depth > 0 && general >= depth).then(|| Complaint {
        key: "method.g_blocks",
        message: format!("general prefixes fill all {depth} blocks of the backbone"),
        label: "no block is left for experts".into(),
        help: format!("give them at most {}", depth - 1),
    });
    check_blocks(scenario).into_iter().chain(none).collect()
}
