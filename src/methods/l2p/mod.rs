//! **L2P** (Wang et al., "Learning to Prompt for Continual Learning", CVPR 2022), averaged over clients as in
//! the benchmark of HGP.
//!
//! A pool of prompts with keys. The query of an image picks the prompts whose keys are nearest; they stand
//! between CLS and the patches, and the head reads the mean of CLS and their outputs.
//!
//! ```text
//! client   E epochs: minimise CE over the rows of the current task - w mean_i sum_(k in top) cos(q_i, key_k)
//! server   pool, keys, head <- means weighted by n_m; nothing happens between tasks
//! ```
//! `w` is `pull_weight`. The benchmark's code leaves the pull term out, so that keys stay as drawn: that is
//! the default, and 0.1 is the method. `chosen_K` in the journal is the share of a client's selections that
//! fell on prompt `K`.

mod config;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use candle_core::{Device, Tensor};

pub use config::{L2pConfig, PromptPlace};

use super::prompted::{
    PromptKind, Prompted, PromptedConfig, check_blocks, chosen, given, uniform_parameter,
};
use crate::data::{SampleRows, Shard};
use crate::learning::prompting::{KEYS, POOL, SelectedPrompts};
use crate::learning::{LearningError, Prompting};
use crate::model::{ParameterSet, PromptPosition};
use crate::numerics::distributions::fill_normal;
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{ModelFacts, WireForm};
use crate::scenario::{Complaint, Scenario};

/// L2P's prompts.
#[derive(Clone, Debug)]
pub struct L2p {
    config: L2pConfig,
    dim: usize,
    position: PromptPosition,
}

/// The method.
pub fn method(config: L2pConfig, shared: PromptedConfig, facts: &ModelFacts) -> Prompted<L2p> {
    Prompted::new(L2p::new(config, facts.backbone.dim()), shared, facts)
}

impl L2p {
    fn new(config: L2pConfig, dim: usize) -> L2p {
        let tokens = config.top * config.prompt_len;
        let position = match config.prompt_pos {
            _ if tokens == 0 => PromptPosition::None,
            PromptPlace::ClsCopy => PromptPosition::ClsCopy,
            PromptPlace::None => PromptPosition::None,
            PromptPlace::Misordered => {
                PromptPosition::Misordered(offsets(&config, tokens as usize, dim))
            }
        };
        L2p { config, dim, position }
    }

    fn prompting(&self) -> Arc<dyn Prompting> {
        Arc::new(SelectedPrompts {
            top: self.config.top as usize,
            length: self.config.prompt_len as usize,
            pull: self.config.pull_weight,
            position: self.position.clone(),
            pooling: self.config.pooling,
        })
    }
}

/// Positions that everybody draws from the same seed: `N(0, 0.02^2)`, never trained.
fn offsets(config: &L2pConfig, tokens: usize, dim: usize) -> Tensor {
    let mut values = vec![0f32; tokens * dim];
    let key = StreamKey::new(u64::from(config.offset_seed), Domain::Init);
    fill_normal(&mut key.rng(), &mut values);
    values.iter_mut().for_each(|value| *value *= 0.02);
    Tensor::from_vec(values, (tokens, dim), &Device::Cpu).expect("as many values as the shape has")
}

impl PromptKind for L2p {
    fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        let (pool, length) = (self.config.pool as usize, self.config.prompt_len as usize);
        let mut shapes = vec![(KEYS.to_owned(), vec![pool, self.dim])];
        if length > 0 {
            shapes.push((POOL.to_owned(), vec![pool, length, self.dim]));
        }
        shapes
    }

    fn initial_parameters(&self, init: StreamKey) -> ParameterSet {
        let shapes = self.shapes().into_iter().zip(1..);
        shapes.map(|((name, shape), n)| (name, uniform_parameter(&shape, init.step(n)))).collect()
    }

    fn has_rows(&self, _name: &str) -> bool {
        false
    }

    fn down_rows(&self, _task: usize, _form: WireForm) -> Range<usize> {
        0..0
    }

    fn own_rows(&self, _task: usize) -> Range<usize> {
        0..0
    }

    fn inference_rows(&self, _task: usize) -> Range<usize> {
        0..0
    }

    fn changes(&self, name: &str) -> bool {
        name != KEYS || self.config.pull_weight > 0.0
    }

    fn training(&self, _task: usize) -> Arc<dyn Prompting> {
        self.prompting()
    }

    fn inference(&self, _task: usize) -> Arc<dyn Prompting> {
        self.prompting()
    }

    fn figures(
        &self,
        _task: usize,
        learnt: &ParameterSet,
        queries: &dyn SampleRows,
        shard: &Shard,
    ) -> Result<Vec<(&'static str, f64)>, LearningError> {
        let Some(keys) = learnt.get(KEYS) else { return Ok(Vec::new()) };
        let chosen = chosen(keys, queries, shard, self.config.top as usize)?.concat();
        let share = |prompt: u32| {
            let count = chosen.iter().filter(|other| **other == prompt).count();
            count as f64 / chosen.len().max(1) as f64
        };
        let names = figure_names().iter().zip(0..self.config.pool);
        Ok(names.map(|(name, prompt)| (name.as_str(), share(prompt))).collect())
    }
}

/// `chosen_00`, `chosen_01`, ...
fn figure_names() -> &'static [String] {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    NAMES.get_or_init(|| (0..config::LARGEST_POOL).map(|k| format!("chosen_{k:02}")).collect())
}

/// Prompts need blocks, and a selection prompts to choose from.
pub(super) fn check(scenario: &Scenario) -> Vec<Complaint> {
    let (pool, top) = (given(scenario, "pool", 10), given(scenario, "top", 5));
    let too_many = (top > pool).then(|| Complaint {
        key: "method.top",
        message: format!("{top} prompts cannot be chosen from a pool of {pool}"),
        label: "more than there are".into(),
        help: format!("choose at most {pool}, or set a larger `method.pool`"),
    });
    check_blocks(scenario).into_iter().chain(too_many).collect()
}
