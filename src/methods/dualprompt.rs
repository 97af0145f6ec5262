//! **DualPrompt** (Wang et al., "DualPrompt: Complementary Prompting for Rehearsal-free Continual Learning", ECCV
//! 2022), averaged over clients as in the benchmark of HGP.
//!
//! General prefixes in the first blocks are shared by all tasks; in the blocks behind them each task trains its
//! own expert. At inference the expert is the one whose key is nearest to the image's query.
//!
//! ```text
//! client   E epochs: minimize CE over the rows of the current task - w mean_i cos(q_i, key_t), with expert t
//! server   general, expert t, key t, head <- means weighted by n_m
//!          as task t starts: expert t <- expert t-1, where `copy_previous`
//! ```
//! `w` is `pull_weight`. The benchmark's code leaves the matching term out, so that keys stay as drawn and
//! experts are chosen at random: that is the default, and 1 is the method. `matched` in the journal is the share
//! of a client's images whose nearest key is that of their task.
//!
//! `layout = "reference"` repeats an error of that code, with which HGP's results for DualPrompt were obtained: it
//! mixes up keys and values of a batch, and at inference the experts of its images, so that predictions depend on the
//! other images of a batch.

use std::ops::Range;
use std::sync::Arc;

use super::averaging::{
    LatestTask, Parameters, Requirement, RowPurpose, RowSelection, ServerState,
};
use super::entry::MethodEntry;
use super::parts::{AveragingMethod, Demands, ModelAdaptation, Parts, RowQuery, TrainingSettings};
use super::prompted::{self, Prompted, shares};
use crate::data::{Loader, TaskView};
use crate::learning::Prompting;
use crate::learning::prompting::{
    EXPERT_KEYS, Expert, ExpertLayout, Experts, expert_name, general_name,
};
use crate::methods::parts::sample_cost::{of_prefix, with_prompts};
use crate::model::{Parameter, ParameterSet, backbone_config};
use crate::numerics::streams::StreamKey;
use crate::policy::{
    ClientState, Metrics, ModelFacts, Participant, PolicyError, RunContext, SampleCost, WireForm,
};
use crate::scenario::RequirementError;
use crate::scenario::reader::Keys;

/// Keys of the `[method]` table of DualPrompt.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct DualPrompt {
    /// Number of experts, one per task; later tasks share the last.
    #[key(default = 10, source = "DualPrompt", at_least = 1.0, at_most = 10_000.0)]
    pub pool: u32,
    /// Number of keys, and of values, of a general prefix.
    #[key(default = 5, source = "DualPrompt", at_least = 0.0, at_most = 10_000.0)]
    pub g_len: u32,
    /// Number of blocks with a general prefix, from block 0 on.
    #[key(default = 2, source = "DualPrompt", at_least = 0.0, at_most = 10_000.0)]
    pub g_blocks: u32,
    /// Number of keys, and of values, of an expert's prefix.
    #[key(default = 20, source = "DualPrompt", at_least = 0.0, at_most = 10_000.0)]
    pub e_len: u32,
    /// Number of blocks with an expert's prefix, after the general ones.
    #[key(default = 3, source = "DualPrompt", at_least = 1.0, at_most = 10_000.0)]
    pub e_blocks: u32,
    /// Weight of the term that pulls the key of a task to queries.
    #[key(default = 0.0, source = "0 in the public code of HGP; 1 in DualPrompt", at_least = 0.0)]
    pub pull_weight: f64,
    /// Assignment of experts' keys and values to the images of a batch.
    #[key(default = ExpertLayout::Own, source = "DualPrompt; HGP's rows are of `reference`")]
    pub layout: ExpertLayout,
    /// True to choose only among experts of tasks seen so far.
    #[key(default = false, source = "the public code of HGP")]
    pub match_seen_only: bool,
    /// True to initialize an expert as a copy of the previous one.
    #[key(default = false, source = "the public code of HGP; the port has true")]
    pub copy_previous: bool,
    /// Keys of all methods with prompts.
    #[key(flatten)]
    pub prompted: Prompted,
}

impl DualPrompt {
    /// Returns the blocks with general prefixes, and those behind them with experts.
    fn blocks(&self, model: &ModelFacts) -> (Range<usize>, Range<usize>) {
        let depth = model.backbone.vit().map_or(0, |vit| vit.depth);
        let general = (self.g_blocks as usize).min(depth);
        let experts = general..(general + self.e_blocks as usize).min(depth);
        let of = |length: u32, blocks: Range<usize>| if length == 0 { 0..0 } else { blocks };
        (of(self.g_len, 0..general), of(self.e_len, experts))
    }

    /// Returns the index of a task's expert; tasks beyond the pool share the last one.
    fn expert(&self, task: usize) -> usize {
        task.min(self.pool as usize - 1)
    }

    /// Returns the indices of the experts that may be chosen after a task.
    fn candidates(&self, task: usize) -> Range<usize> {
        match self.match_seen_only {
            true => 0..self.expert(task) + 1,
            false => 0..self.pool as usize,
        }
    }

    /// Returns the parts of FedAvg that train these prefixes.
    pub(super) fn base<S: ClientState, M: ServerState>(&self) -> Parts<'_, S, M> {
        self.prompted.base(self)
    }
}

impl AveragingMethod for DualPrompt {
    type State = ();
    type Memory = LatestTask;

    fn parts(&self) -> Parts<'_, (), LatestTask> {
        self.base()
    }
}

impl ModelAdaptation for DualPrompt {
    /// Returns general prefixes as shared parameters, and experts and keys as rows by task.
    fn parameters(&self, model: &ModelFacts) -> Parameters {
        let (general, experts) = self.blocks(model);
        let (pool, dim) = (self.pool as usize, model.backbone.dim());
        let prefix = |block| (general_name(block), vec![2 * self.g_len as usize, dim]);
        let expert = |block| (expert_name(block), vec![pool, 2 * self.e_len as usize, dim]);
        let keys = (EXPERT_KEYS.to_owned(), vec![pool, dim]);
        let owned = experts.map(expert).chain([keys]);
        prompted::with_head(Parameters::shared(general.map(prefix)).by_task(owned), model)
    }

    fn initial(
        &self,
        model: &ModelFacts,
        _ctx: &RunContext,
        init: StreamKey,
    ) -> Result<ParameterSet, PolicyError> {
        Ok(prompted::initial(&self.parameters(model), model, &self.prompted, init))
    }

    /// Requires blocks for experts, behind those of the general prefixes.
    fn demands(&self) -> Demands {
        let taken = self.g_blocks as usize;
        let behind = Requirement::new(move |scenario| {
            let depth = backbone_config(scenario).vit().map_or(0, |vit| vit.depth);
            (depth > 0 && taken >= depth).then(|| {
                let message = format!("general prefixes fill all {depth} blocks of the backbone");
                let help = format!("give them at most {}", depth.saturating_sub(1));
                let label = "no block is left for experts";
                RequirementError::new("method.g_blocks", message, label, help)
            })
        });
        Demands::requiring([prompted::blocks(), behind])
    }

    /// Selects one expert for lean messages, and only the task's head rows for lean downloads.
    fn rows(&self, query: &RowQuery<'_>) -> RowSelection {
        let (own, lean) = (query.view.rows.clone(), query.model.form == WireForm::Lean);
        let only_trained = lean && query.direction == RowPurpose::Down;
        let head = if only_trained { own } else { query.rows(own).head };
        let expert = self.expert(query.task());
        let pool = match query.direction {
            RowPurpose::Inference => self.candidates(query.task()),
            _ if lean => expert..expert + 1,
            _ => 0..self.pool as usize,
        };
        RowSelection { head, pool, only_trained }
    }

    /// Counts the prefixes of one expert and of all tasks, and the similarities with all keys.
    fn sample_cost(&self, model: &ModelFacts, task: usize) -> SampleCost {
        let (general, experts) = self.blocks(model);
        let rows = 2 * (general.len() * self.g_len as usize + experts.len() * self.e_len as usize);
        let prompts = of_prefix(model, rows) + (self.pool as usize * model.backbone.dim()) as f64;
        with_prompts(self, model, task, prompts)
    }

    fn prompting(
        &self,
        model: &ModelFacts,
        task: usize,
        trains: bool,
    ) -> Option<Arc<dyn Prompting>> {
        let (general, experts) = self.blocks(model);
        let expert = match trains {
            true => Expert::Given(self.expert(task)),
            false => Expert::Nearest(self.candidates(task)),
        };
        let (pull, layout) = (self.pull_weight, self.layout);
        Some(Arc::new(Experts { general, experts, expert, pull, layout }))
    }

    fn settings(&self, _view: &TaskView) -> TrainingSettings {
        self.prompted.settings()
    }

    /// Returns `matched`, unless the client received only its own expert and cannot compare.
    fn metrics(
        &self,
        model: &ModelFacts,
        participant: &Participant,
        trained: &ParameterSet,
        loader: &Loader,
    ) -> Result<Metrics, PolicyError> {
        let task = participant.view.task.index();
        let candidates = self.candidates(task);
        let compares = candidates.len() > 1 && model.form == WireForm::Full;
        let Some(keys) = trained.get(EXPERT_KEYS).filter(|_| compares) else {
            return Ok(Metrics::new());
        };
        let shares = shares(&keys.cut(candidates)?, loader, 1)?;
        Ok(shares.get(self.expert(task)).map(|share| ("matched", *share)).into_iter().collect())
    }

    fn begin_task(
        &self,
        model: &ModelFacts,
        task: usize,
        mut theta: ParameterSet,
        _init: StreamKey,
    ) -> ParameterSet {
        let expert = self.expert(task);
        if !self.copy_previous || task == 0 || expert == self.expert(task - 1) {
            return theta;
        }
        for name in self.blocks(model).1.map(expert_name) {
            let copied = |all: &Parameter| all.with_rows(&all.cut(expert - 1..expert)?, expert);
            if let Some(Ok(copied)) = theta.get(&name).map(copied) {
                theta.insert(name, copied);
            }
        }
        theta
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "General prefixes for all tasks and one expert per task, chosen by its key at \
               inference. Averaged over clients.",
        source: "Wang et al.: DualPrompt: Complementary Prompting for Rehearsal-free Continual \
                 Learning, ECCV 2022; averaged as in the benchmark of HGP, arXiv 2406.02447",
        state: prompted::STATE,
        ..MethodEntry::averaging("dualprompt", DualPrompt::read)
    }
}
