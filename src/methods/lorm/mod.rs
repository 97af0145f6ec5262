//! **LoRM** (Salami et al., ICLR 2025): LoRA at every linear layer of every block, of which a round trains one factor,
//! so that the server's merge has a closed form: the regression mean of that factor. Tasks are kept apart, and merged
//! by the same formula.
//!
//! ```text
//! client   A, B, head <- down;  network W0 + B A;  minimize CE over rows of the task, by B in the first, third, ...
//!          round of a task and by A in the others;  then one pass of its samples through the network of all tasks,
//!          W0 + (sum_{s<t} B_s A_s + B_m A_m) / t:  G_m = sum X^T X of what enters every layer, and the head
//! server   B <- (sum_m B_m A G_m A^T) (A G A^T)^+    or    A <- (sum_m A_m G_m) G^+,    G = sum_m G_m
//!          W <- (sum_m W_m G_m) G^+  of the head;  its bias is averaged
//!          predicts with W0 + (sum_{s<=t} B_s A_s) / t
//! closing  every client once more sends G of what enters the blocks;  from then on the server predicts with
//!          W0 + U V^+,   U = sum_s B_s A_s G_s,   V = sum_s G_s
//! ```
//! `G` is a diagonal below the head unless `gamma_backbone` says otherwise. No network is ever merged in memory: all of
//! the networks above are sums of pairs, with `1/t` on their `B`, or with `A_s G_s V^+` as their `A`. So what a client
//! needs of earlier tasks travels as their pairs, an asset: once in a task with `wire.asset_cache = "task"`, else with
//! every download; the public code sends dense matrices in every round, 340 MB on ViT-B/16, and everything else too.
//!
//! Where a sum of `G` has no inverse the pseudo-inverse drops the direction, as the public code has it for the blocks;
//! for the head it has a plain inverse, which is the same where there is one.

mod config;
mod memory;
mod moments;
mod server;

use std::sync::Arc;

pub use self::config::{Factors, Lorm};
use self::memory::{EARLIER, Tasks, by_task, stacked};
use super::averaging::{AveragingConfig, Parameters, Requirement, RowPurpose};
use super::entry::MethodEntry;
use super::parts::{
    Answer, AveragingMethod, Demands, DownloadExtras, LocalUpdate, ModelAdaptation, Parts,
    RowQuery, Workload,
};
use crate::learning::Classifier;
use crate::model::{Factor, HeadKind, ParameterSet, is_lora};
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Asset, AssetSpec, Capability, ExchangeFacts, Message, ModelFacts, Participant, PolicyError,
    Predictor, Restriction, RoundContext, RunContext, parameter_section_shapes, parameters_of,
};
use crate::wire::BodyShape;

impl Lorm {
    /// Returns the network of all tasks so far: the mean of their updates `B_s A_s`, as one set of pairs.
    fn averaged(earlier: &[ParameterSet], now: &ParameterSet) -> Result<ParameterSet, PolicyError> {
        let mut pairs = earlier.to_vec();
        pairs.push(now.filter(is_lora));
        let merged = match pairs.len() {
            1 => pairs.swap_remove(0),
            tasks => stacked(&pairs, 1.0 / tasks as f32)?,
        };
        Ok(now.filter(|name| !is_lora(name)).merge(&merged))
    }

    fn asset_shapes(&self, model: &ModelFacts, tasks: usize) -> Vec<(String, Vec<usize>)> {
        let pairs = self.shape(model).shapes().into_iter();
        pairs.map(|(name, shape)| (name, [&[tasks], shape.as_slice()].concat())).collect()
    }
}

/// Returns the pairs of earlier tasks from the asset of a download, by task.
fn earlier_in(download: &Message) -> Result<Vec<ParameterSet>, PolicyError> {
    match download.asset(EARLIER) {
        Some(asset) => Ok(by_task(&parameters_of(&asset.body)?)?),
        None => Ok(Vec::new()),
    }
}

impl AveragingMethod for Lorm {
    type State = ();
    type Memory = Tasks;

    fn parts(&self) -> Parts<'_, (), Tasks> {
        Parts {
            local: self,
            upload: self,
            download: self,
            transform: Some(self),
            server: self,
            final_exchange: Some(self),
            answer: Some(self),
            ..Parts::fedavg(
                self,
                AveragingConfig { weights: self.client_weighting, head: self.head_form },
            )
        }
    }
}

impl ModelAdaptation for Lorm {
    fn parameters(&self, model: &ModelFacts) -> Parameters {
        let pairs = Parameters::shared(self.shape(model).shapes());
        pairs.head(HeadKind::Linear, model.classes, model.backbone.dim())
    }

    fn initial(
        &self,
        model: &ModelFacts,
        _ctx: &RunContext,
        init: StreamKey,
    ) -> Result<ParameterSet, PolicyError> {
        let head = self.head_init.parameters(model.classes, model.backbone.dim(), init);
        Ok(self.shape(model).initial_parameters(init).merge(&head))
    }

    /// Restricts training and upload to the factor of the round, and the head.
    fn takes_part(&self, query: &RowQuery<'_>, name: &str) -> bool {
        let of_round = || Factor::of(name).is_none_or(|one| one == self.trained(query.round));
        !matches!(query.direction, RowPurpose::Up | RowPurpose::Training) || of_round()
    }

    fn rate_factor(&self, name: &str) -> f64 {
        match Factor::of(name) {
            Some(Factor::B) => self.b_lr,
            Some(Factor::A) => self.a_lr,
            None => 1.0,
        }
    }

    /// Draws new pairs for every task but the first, whose pairs are initial.
    fn begin_task(
        &self,
        model: &ModelFacts,
        task: usize,
        theta: ParameterSet,
        init: StreamKey,
    ) -> ParameterSet {
        match task {
            0 => theta,
            _ => theta.merge(&self.shape(model).initial_parameters(init.task(task as u32))),
        }
    }

    fn demands(&self) -> Demands {
        let instead = "train the head alone with `method.name = \"fedavg\"` and `train = \"head\"`";
        let why = "a round trains the factor that the one before held fixed";
        let excluded = [Capability::LateUpdates, Capability::MixedTasks];
        Demands {
            requirements: vec![Requirement::blocks("a LoRA", instead)],
            restrictions: Restriction::against(&excluded, why),
        }
    }
}

impl LocalUpdate<()> for Lorm {
    /// Returns the passes of training, and of one forward pass for the moments.
    fn work(&self, load: &Workload<'_>) -> f64 {
        load.samples as f64 * (f64::from(load.plan.epochs) + 1.0 / 3.0)
    }
}

impl DownloadExtras<Tasks> for Lorm {
    fn field_template(&self, facts: &ExchangeFacts<'_>) -> Vec<u8> {
        vec![(facts.round_in_phase % 2) as u8]
    }

    /// Returns the parity of the round, which decides the factor that is trained.
    fn fields(&self, _tasks: &Tasks, round: &RoundContext) -> Vec<u8> {
        vec![(round.round_in_phase % 2) as u8]
    }

    fn round(&self, download: &Message) -> u32 {
        download.control.last().map_or(0, |parity| u32::from(*parity))
    }

    fn asset_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<AssetSpec> {
        let (model, tasks) = (facts.model, facts.view.task.index());
        let body = || BodyShape::new(0, parameter_section_shapes(&self.asset_shapes(model, tasks)));
        let earlier = (tasks > 0).then(|| AssetSpec {
            name: EARLIER,
            version: tasks as u32,
            body: body(),
            renewed_in: None,
        });
        earlier.into_iter().collect()
    }

    fn assets(
        &self,
        tasks: &Tasks,
        _participant: &Participant,
        _ctx: &RunContext,
    ) -> Result<Vec<Arc<Asset>>, PolicyError> {
        Ok(tasks.asset().cloned().into_iter().collect())
    }
}

impl Answer<Tasks> for Lorm {
    fn server_predictor(
        &self,
        model: &ModelFacts,
        tasks: &Tasks,
        theta: &ParameterSet,
        ctx: &RunContext,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        let merged = match tasks.is_over() && tasks.finished() > 1 {
            true => tasks.merged(&self.statistics, &self.layers(model))?,
            false => None,
        };
        let network = match merged {
            Some(pairs) => theta.filter(|name| !is_lora(name)).merge(&stacked(&pairs, 1.0)?),
            None => Lorm::averaged(tasks.earlier(), theta)?,
        };
        Ok(Some(Arc::new(Classifier::frozen(&ctx.backbone, &network)?)))
    }

    /// Predicts with the pairs of earlier tasks, as the server does within a task.
    fn client_predictor(
        &self,
        _model: &ModelFacts,
        _task: usize,
        sent: &Message,
        theta: &ParameterSet,
        ctx: &RunContext,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        let network = Lorm::averaged(&earlier_in(sent)?, theta)?;
        Ok(Some(Arc::new(Classifier::frozen(&ctx.backbone, &network)?)))
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "LoRA at every linear layer, with one factor per round, so that the server merges clients and tasks in \
               closed form by the outputs of their layers on their own inputs.",
        source: "Salami, Buzzega, Mosconi, Bonato, Sabetta, Calderara: Closed-form Merging of \
                 Parameter-Efficient Modules for Federated Continual Learning, ICLR 2025",
        state: "server: the pairs of all tasks, sums of moments, the head; client: nothing",
        ..MethodEntry::averaging("lorm", Lorm::read)
    }
}
