//! **L2P** (Wang et al., CVPR 2022), averaged over clients as in the benchmark of HGP.
//!
//! "Learning to Prompt for Continual Learning".
//!
//! A pool of prompts with keys. The query of an image picks the prompts whose keys are nearest; they stand
//! between CLS and the patches, and the head reads the mean of CLS and their outputs.
//!
//! ```text
//! client   E epochs: minimize CE over the rows of the current task - w mean_i sum_(k in top) cos(q_i, key_k)
//! server   pool, keys, head <- means weighted by n_m; nothing happens between tasks
//! ```
//! `w` is `pull_weight`. The benchmark's code leaves the pull term out, so that keys stay as drawn: that is the
//! default, and 0.1 is the method. The metric `chosen_K` in the journal is the fraction of a client's selections that
//! fell on prompt `K`.

use std::sync::{Arc, OnceLock};

use candle_core::{Device, Tensor};
use clap::ValueEnum;

use super::averaging::{LatestTask, Parameters, Requirement, RowPurpose};
use super::entry::MethodEntry;
use super::parts::sample_cost::with_prompts;
use super::parts::{AveragingMethod, Demands, ModelAdaptation, Parts, RowQuery, TrainingSettings};
use super::prompted::{self, Prompted, shares};
use crate::data::{Loader, TaskView};
use crate::learning::Prompting;
use crate::learning::prompting::{KEYS, POOL, SelectedPrompts};
use crate::model::{ParameterSet, Pooling, PromptPosition};
use crate::numerics::distributions::fill_normal;
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{
    Metrics, ModelFacts, Participant, PolicyError, RunContext, SampleCost, WireForm,
};
use crate::scenario::RequirementError;
use crate::scenario::reader::{Choice, Keys};

/// Largest pool that is allowed, in prompts.
const LARGEST_POOL: u32 = 1_000;

/// Positions of prompt tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum PromptPlace {
    /// Position of CLS for all prompts.
    #[value(name = "cls_copy")]
    ClsCopy,
    /// No position for prompts.
    None,
    /// Random offsets first, so that CLS has the position of the first of them: HGP's code.
    Misordered,
}

/// Keys of the `[method]` table of L2P.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct L2p {
    /// Number of prompts in the pool.
    #[key(default = 10, source = "L2P", at_least = 1.0, at_most = f64::from(LARGEST_POOL))]
    pub pool: u32,
    /// Tokens per prompt; 0: a linear probe.
    #[key(default = 5, source = "L2P", at_least = 0.0, at_most = f64::from(LARGEST_POOL))]
    pub prompt_len: u32,
    /// Number of prompts per image: those whose keys are nearest to its query.
    #[key(default = 5, source = "L2P", at_least = 1.0, at_most = f64::from(LARGEST_POOL))]
    pub top: u32,
    /// Weight of the term that pulls chosen keys to queries.
    #[key(default = 0.0, source = "0 in the public code of HGP; 0.1 in L2P", at_least = 0.0)]
    pub pull_weight: f64,
    /// Positions of prompt tokens.
    #[key(
        default = PromptPlace::ClsCopy,
        source = "the port of L2P; HGP's code has misordered"
    )]
    pub prompt_pos: PromptPlace,
    /// Seed of the shared offsets, for `prompt_pos = "misordered"`.
    #[key(default = 0)]
    pub offset_seed: u32,
    /// Outputs of the last block whose mean is the feature.
    #[key(
        default = Pooling::ClsAndPrompts,
        source = "the public code of HGP; the port has prompts"
    )]
    pub pooling: Pooling,
    /// Keys of all methods with prompts.
    #[key(flatten)]
    pub prompted: Prompted,
}

impl L2p {
    /// Returns the positions of prompt tokens; the offsets are `N(0, 0.02^2)` and never trained.
    fn position(&self, dim: usize) -> PromptPosition {
        let tokens = (self.top * self.prompt_len) as usize;
        match self.prompt_pos {
            PromptPlace::ClsCopy if tokens > 0 => PromptPosition::ClsCopy,
            PromptPlace::Misordered if tokens > 0 => {
                let mut values = vec![0f32; tokens * dim];
                let key = StreamKey::new(u64::from(self.offset_seed), Domain::Init);
                fill_normal(&mut key.rng(), &mut values);
                values.iter_mut().for_each(|value| *value *= 0.02);
                let offsets = Tensor::from_vec(values, (tokens, dim), &Device::Cpu);
                PromptPosition::Misordered(offsets.expect("as many values as the shape has"))
            }
            _ => PromptPosition::None,
        }
    }
}

impl AveragingMethod for L2p {
    type State = ();
    type Memory = LatestTask;

    fn parts(&self) -> Parts<'_, (), LatestTask> {
        self.prompted.base(self)
    }
}

impl ModelAdaptation for L2p {
    /// Returns the pool, its keys and the head, which all tasks share.
    fn parameters(&self, model: &ModelFacts) -> Parameters {
        let (pool, length, dim) =
            (self.pool as usize, self.prompt_len as usize, model.backbone.dim());
        let prompts = (length > 0).then(|| (POOL.to_owned(), vec![pool, length, dim]));
        let all = std::iter::once((KEYS.to_owned(), vec![pool, dim])).chain(prompts);
        prompted::with_head(Parameters::shared(all), model)
    }

    fn initial(
        &self,
        model: &ModelFacts,
        _ctx: &RunContext,
        init: StreamKey,
    ) -> Result<ParameterSet, PolicyError> {
        Ok(prompted::initial(&self.parameters(model), model, &self.prompted, init))
    }

    /// Requires blocks for prompts, and a pool with at least `top` prompts.
    fn demands(&self) -> Demands {
        let (top, pool) = (self.top, self.pool);
        let selection = Requirement::new(move |_| {
            (top > pool).then(|| {
                let message = format!("{top} prompts cannot be chosen from a pool of {pool}");
                let help = format!("choose at most {pool}, or set a larger `method.pool`");
                RequirementError::new("method.top", message, "more than there are", help)
            })
        });
        Demands::requiring([prompted::blocks(), selection])
    }

    /// Leaves keys out of uploads if no term pulls them, since they do not change.
    fn takes_part(&self, query: &RowQuery<'_>, name: &str) -> bool {
        let all = query.direction != RowPurpose::Up || query.model.form == WireForm::Full;
        all || name != KEYS || self.pull_weight > 0.0
    }

    /// Returns the multiplications of the prompt tokens in every block, and of similarities with keys.
    fn sample_cost(&self, model: &ModelFacts, task: usize) -> SampleCost {
        let (backbone, rows) = (&model.backbone, (self.top * self.prompt_len) as usize);
        let prompts = backbone.blocks() as f64 * backbone.cost_of_more_tokens(rows)
            + (self.pool as usize * backbone.dim()) as f64;
        with_prompts(self, model, task, prompts)
    }

    fn prompting(
        &self,
        model: &ModelFacts,
        _task: usize,
        _trains: bool,
    ) -> Option<Arc<dyn Prompting>> {
        Some(Arc::new(SelectedPrompts {
            top: self.top as usize,
            length: self.prompt_len as usize,
            pull: self.pull_weight,
            position: self.position(model.backbone.dim()),
            pooling: self.pooling,
        }))
    }

    fn settings(&self, _view: &TaskView) -> TrainingSettings {
        self.prompted.settings()
    }

    /// Returns the fraction of selections that fell on each prompt.
    fn metrics(
        &self,
        _model: &ModelFacts,
        _participant: &Participant,
        trained: &ParameterSet,
        loader: &Loader,
    ) -> Result<Metrics, PolicyError> {
        let Some(keys) = trained.get(KEYS) else { return Ok(Vec::new()) };
        let shares = shares(keys, loader, self.top as usize)?;
        Ok(metric_names().iter().map(String::as_str).zip(shares).collect())
    }
}

/// Returns the names of metrics `chosen_00`, `chosen_01`, ...
fn metric_names() -> &'static [String] {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    NAMES.get_or_init(|| (0..LARGEST_POOL).map(|k| format!("chosen_{k:02}")).collect())
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "Pool of prompts with keys: the query of an image selects the nearest as tokens of a frozen \
               transformer; pool and head are averaged over clients.",
        source: "Wang et al.: Learning to Prompt for Continual Learning, CVPR 2022; averaged as in \
                 the benchmark of HGP, arXiv 2406.02447",
        state: prompted::STATE,
        ..MethodEntry::averaging("l2p", L2p::read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 2 x 30 tokens: `N(0, 0.02^2)`, the first as the seed draws it; none where there are no tokens.
    #[test]
    fn offsets_are_small_normals() {
        let misordered = |prompt_len| L2p {
            prompt_pos: PromptPlace::Misordered,
            top: 2,
            prompt_len,
            ..L2p::default()
        };
        let PromptPosition::Misordered(offsets) = misordered(30).position(16) else {
            panic!("the place that was asked for");
        };
        let values: Vec<f32> = offsets.flatten_all().unwrap().to_vec1().unwrap();
        let mut normals = vec![0f32; 60 * 16];
        fill_normal(&mut StreamKey::new(0, Domain::Init).rng(), &mut normals);
        assert_eq!(offsets.dims(), [60, 16]);
        assert!(values.iter().zip(&normals).all(|(value, normal)| *value == 0.02 * normal));
        assert!(matches!(misordered(0).position(16), PromptPosition::None));
    }
}
