//! **LoRM** (Salami et al., ICLR 2025): LoRA at every linear layer of every block, of which a round trains one factor, so
//! that the server's merge has a closed form: the regression mean of that factor. Tasks are kept apart, and merged by the
//! same formula.
//!
//! ```text
//! client   A, B, head <- down;  network W0 + B A;  minimise CE over the rows of the task, by B in the first, third, ...
//!          round of a task and by A in the others;  then one pass of its samples through the network of all tasks,
//!          W0 + (sum_{s<t} B_s A_s + B_m A_m) / t:  G_m = sum X^T X of what enters every layer, and the head
//! server   B <- (sum_m B_m A G_m A^T) (A G A^T)^+    or    A <- (sum_m A_m G_m) G^+,    G = sum_m G_m
//!          W <- (sum_m W_m G_m) G^+  of the head;  its bias is averaged
//!          answers by W0 + (sum_{s<=t} B_s A_s) / t
//! closing  everybody once more sends G of what enters the blocks;  from then on it answers by
//!          W0 + U V^+,   U = sum_s B_s A_s G_s,   V = sum_s G_s
//! ```
//! `G` is a diagonal below the head unless `gamma_backbone` says otherwise. No network is ever merged in memory: all of the
//! networks above are sums of pairs, with `1/t` on their `B`, or with `A_s G_s V^+` as their `A`. So what a client needs of
//! earlier tasks travels as their pairs, an asset that it gets once in a task; the public code sends dense matrices in
//! every round, 340 MB on ViT-B/16, and everything else too.
//!
//! Where a sum of `G` has no inverse the pseudo-inverse drops the direction, as the public code has it for the blocks; for
//! the head it has a plain inverse, which is the same where there is one.

mod config;
mod memory;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use self::config::{Factors, Lorm};
use self::memory::{EARLIER, Tasks, by_task, stacked};
use super::averaged::{
    Averaged, Averaging, Client, Closing, Direction, Needs, Parameters, Trained, is_closing,
    sample_count,
};
use super::registry::MethodEntry;
use super::regression::{
    Layer, PRECISION, Unseen, answer_in_place_of, answers, inverse, values_of,
};
use crate::data::TaskView;
use crate::learning::{Classifier, TrainingPlan};
use crate::model::{Factor, HeadKind, Parameter, ParameterSet, is_lora, lora_name};
use crate::numerics::regression_mean::{Moments, regression_mean};
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Asset, AssetSketch, Figures, Holdings, Lab, Layout, Message, ModelFacts, Period, Place,
    PolicyError, Predictor, RoundContext, Seat, Service, SketchFacts, Veto, parameter_sketches,
    parameters_of,
};
use crate::wire::{BodySketch, Kind, NamedTensor, Section};

impl Lorm {
    /// Multiplications of the moments of these layers, of a sample.
    fn measuring(&self, layers: &[Layer]) -> f64 {
        layers.iter().map(|layer| self.statistics.measuring(layer)).sum()
    }

    /// The network of all tasks so far: the mean of their updates.
    fn averaged(earlier: &[ParameterSet], now: &ParameterSet) -> Result<ParameterSet, PolicyError> {
        let mut pairs = earlier.to_vec();
        pairs.push(now.filter(is_lora));
        let merged = match pairs.len() {
            1 => pairs.swap_remove(0),
            tasks => stacked(&pairs, 1.0 / tasks as f32)?,
        };
        Ok(now.filter(|name| !is_lora(name)).merge(&merged))
    }

    /// Moments of what a client's samples are in the network of all tasks, with these parameters for the current one.
    fn measure(
        &self,
        member: &Client<'_, ()>,
        now: &ParameterSet,
        lab: &Lab,
    ) -> Result<BTreeMap<String, Moments>, PolicyError> {
        let earlier = earlier_in(member.down)?;
        let network = Classifier::frozen(&lab.backbone, &Lorm::averaged(&earlier, now)?)?;
        self.statistics.measure(&network, member, lab)
    }

    fn asset_shapes(&self, model: &ModelFacts, tasks: usize) -> Vec<(String, Vec<usize>)> {
        let pairs = self.shape(model).shapes().into_iter();
        pairs.map(|(name, shape)| (name, [&[tasks], shape.as_slice()].concat())).collect()
    }
}

/// The pairs of earlier tasks that a Down names.
fn earlier_in(down: &Message) -> Result<Vec<ParameterSet>, PolicyError> {
    match down.asset(EARLIER) {
        Some(asset) => Ok(by_task(&parameters_of(&asset.body)?)?),
        None => Ok(Vec::new()),
    }
}

impl Averaged for Lorm {
    type State = ();
    type Memory = Tasks;

    fn parameters(&self, model: &ModelFacts) -> Parameters {
        let pairs = Parameters::shared(self.shape(model).shapes());
        pairs.head(HeadKind::Linear, model.classes, model.backbone.dim())
    }

    fn initial(
        &self,
        model: &ModelFacts,
        _lab: &Lab,
        init: StreamKey,
    ) -> Result<ParameterSet, PolicyError> {
        let head = self.head_init.parameters(model.classes, model.backbone.dim(), init);
        Ok(self.shape(model).initial_parameters(init).merge(&head))
    }

    fn averaging(&self) -> Averaging {
        Averaging { weights: self.weights, head: self.head }
    }

    fn needs(&self) -> Vec<Needs> {
        let instead = "train the head alone with `method.name = \"fedavg\"` and `train = \"head\"`";
        vec![Needs::Blocks { what: "a LoRA", instead }]
    }

    fn vetoes(&self) -> Vec<Veto> {
        let why = "its server multiplies the factors of each client by that client's own moments";
        let mut vetoes = Veto::against(&[Service::Secure], why);
        let why = "a round trains the factor that the one before held fixed";
        vetoes.extend(Veto::against(&[Service::Late, Service::Mixed], why));
        vetoes
    }

    fn uploads(&self, round_in_phase: u32, name: &str) -> bool {
        Factor::of(name).is_none_or(|factor| factor == self.trained(round_in_phase))
    }

    fn round_told(&self, down: &Message) -> u32 {
        down.control.last().map_or(0, |parity| u32::from(*parity))
    }

    fn hears_fields(&self, facts: &SketchFacts<'_>) -> Vec<u8> {
        vec![(facts.round_in_phase % 2) as u8]
    }

    fn tell_fields(&self, _tasks: &Tasks, round: &RoundContext) -> Vec<u8> {
        vec![(round.round_in_phase % 2) as u8]
    }

    fn also_named(&self, facts: &SketchFacts<'_>) -> Vec<AssetSketch> {
        let (model, tasks) = (facts.model, facts.view.task.index());
        let body = || BodySketch::new(0, parameter_sketches(&self.asset_shapes(model, tasks)));
        let earlier =
            (tasks > 0).then(|| AssetSketch { name: EARLIER, version: tasks as u32, body: body() });
        earlier.into_iter().collect()
    }

    fn assets(
        &self,
        tasks: &Tasks,
        _seat: &Seat,
        _lab: &Lab,
    ) -> Result<Vec<Arc<Asset>>, PolicyError> {
        Ok(tasks.asset().cloned().into_iter().collect())
    }

    fn rate_factor(&self, name: &str) -> f64 {
        match Factor::of(name) {
            Some(Factor::B) => self.rates[0],
            Some(Factor::A) => self.rates[1],
            None => 1.0,
        }
    }

    fn says(&self, facts: &SketchFacts<'_>) -> Vec<Place> {
        let layers = self.measured(facts.model);
        let moments = layers.iter().map(|layer| self.statistics.place(layer));
        [sample_count()].into_iter().chain(moments).collect()
    }

    fn describe(
        &self,
        member: &Client<'_, ()>,
        trained: &Trained,
        lab: &Lab,
    ) -> Result<Vec<Section>, PolicyError> {
        let moments = self.measure(member, &trained.parameters, lab)?;
        let mut said = trained.sample_count()?;
        said.tensors.extend(self.statistics.tensors(&self.measured(&lab.facts(1)), &moments)?);
        Ok(vec![said])
    }

    fn folds(&self, facts: &SketchFacts<'_>, mut up: Layout) -> Layout {
        let factor = self.trained(facts.round_in_phase);
        for (block, place, layer) in self.layers(facts.model) {
            // The answers of B are to what A makes of the inputs.
            let inputs = if factor == Factor::A { layer.inputs } else { self.rank as usize };
            let layer = Layer { inputs, ..layer };
            answer_in_place_of(&lora_name(block, place, factor), &layer, &mut up);
        }
        let head = Layer::head(facts.model);
        answer_in_place_of(&head.weight, &head, &mut up);
        up
    }

    fn lift(
        &self,
        facts: &SketchFacts<'_>,
        sent: &Message,
        mut update: Message,
    ) -> Result<Message, PolicyError> {
        let factor = self.trained(facts.round_in_phase);
        let mut products: Vec<NamedTensor> = Vec::new();
        for (block, place, layer) in self.layers(facts.model) {
            let moments = self.statistics.sent(&layer, &update)?;
            let (own, rows) = values_of(&update.parameters, &lora_name(block, place, factor))?;
            products.push(match factor {
                Factor::A => answers(&layer, (&own, rows), &moments)?,
                Factor::B => {
                    let a = lora_name(block, place, Factor::A);
                    let moments = moments.through(&values_of(&sent.parameters, &a)?.0);
                    let layer = Layer { inputs: self.rank as usize, ..layer };
                    answers(&layer, (&own, rows), &moments)?
                }
            });
        }
        let head = Layer::head(facts.model);
        let (own, rows) = values_of(&update.parameters, &head.weight)?;
        products.push(answers(&head, (&own, rows), &self.statistics.sent(&head, &update)?)?);
        update.extra.push(Section::new(Kind::Statistics, products));
        Ok(update)
    }

    fn after_mean(
        &self,
        _tasks: &mut Tasks,
        closing: Closing<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Figures, PolicyError> {
        let Closing { model, shared, before, folded, round, .. } = closing;
        let factor = self.trained(round.round_in_phase);
        for (block, place, layer) in self.layers(model) {
            let name = lora_name(block, place, factor);
            let Some(Parameter { shape, .. }) = before.get(&name).cloned() else { continue };
            let total = self.statistics.total(&layer, &folded)?;
            let (total, rounding) = match factor {
                Factor::A => {
                    let rounding = total.rounding(PRECISION);
                    (total, rounding)
                }
                Factor::B => {
                    let (a, _) = values_of(before, &lora_name(block, place, Factor::A))?;
                    (total.through(&a), total.rounding_through(&a, PRECISION))
                }
            };
            let merged = regression_mean(folded.sum(&layer.answers())?, &total, rounding)?;
            let values = merged.into_iter().map(|value| value as f32).collect();
            theta.insert(name, Parameter { shape, values });
        }
        let rows = shared.cut(model, &round.period.view, Direction::Up).head;
        let head = (&Layer::head(model), rows);
        self.statistics.merge(head, Unseen::Zero, (before, &folded), theta)?;
        Ok(Vec::new())
    }

    fn closes_with(&self) -> Option<&'static str> {
        Some("moments")
    }

    fn closing_names_assets(&self) -> bool {
        true
    }

    fn reports(&self, facts: &SketchFacts<'_>) -> Vec<Place> {
        let layers = self.layers(facts.model).into_iter();
        layers.map(|(_, _, layer)| self.statistics.place(&layer)).collect()
    }

    fn report(
        &self,
        model: &ModelFacts,
        member: &mut Client<'_, ()>,
        lab: &Lab,
    ) -> Result<(Vec<Section>, Figures), PolicyError> {
        let moments = self.measure(member, &member.received, lab)?;
        let layers = self.layers(model).into_iter().map(|(_, _, layer)| layer);
        let tensors = self.statistics.tensors(&layers.collect::<Vec<_>>(), &moments)?;
        Ok((vec![Section::new(Kind::Statistics, tensors)], Vec::new()))
    }

    /// A forward pass, and the moments.
    fn report_work(&self, model: &ModelFacts, _view: &TaskView, samples: usize) -> f64 {
        let blocks: Vec<Layer> = self.layers(model).into_iter().map(|(_, _, l)| l).collect();
        let moments = samples as f64 * self.measuring(&blocks);
        samples as f64 / 3.0 + model.passes(moments)
    }

    fn after_reports(
        &self,
        tasks: &mut Tasks,
        closing: Closing<'_>,
    ) -> Result<Figures, PolicyError> {
        let Closing { model, before, folded, .. } = closing;
        let mut reported = Vec::new();
        for (block, place, layer) in self.layers(model) {
            let moments = self.statistics.total(&layer, &folded)?;
            let (a, _) = values_of(before, &lora_name(block, place, Factor::A))?;
            reported.push((layer.weight, moments.after(&a), moments));
        }
        tasks.report(reported);
        Ok(Vec::new())
    }

    /// Fresh pairs for every task.
    fn begin_task(
        &self,
        model: &ModelFacts,
        _tasks: &mut Tasks,
        task: usize,
        theta: ParameterSet,
        init: StreamKey,
    ) -> ParameterSet {
        match task {
            0 => theta,
            _ => theta.merge(&self.shape(model).initial_parameters(init.task(task as u32))),
        }
    }

    fn end_task(
        &self,
        tasks: &mut Tasks,
        theta: &ParameterSet,
        _period: &Period,
        _lab: &Lab,
    ) -> Result<(), PolicyError> {
        tasks.finish(theta.filter(is_lora));
        Ok(())
    }

    fn answering(
        &self,
        model: &ModelFacts,
        tasks: &Tasks,
        theta: &ParameterSet,
        lab: &Lab,
    ) -> Result<Arc<dyn Predictor>, PolicyError> {
        let merged = match tasks.is_over() && tasks.finished() > 1 {
            true => tasks.merged(&self.layers(model))?,
            false => None,
        };
        let network = match merged {
            Some(pairs) => theta.filter(|name| !is_lora(name)).merge(&stacked(&pairs, 1.0)?),
            None => Lorm::averaged(tasks.earlier(), theta)?,
        };
        Ok(Arc::new(Classifier::frozen(&lab.backbone, &network)?))
    }

    /// With the pairs of earlier tasks, as the server answers within a task.
    fn own_predictor(
        &self,
        _model: &ModelFacts,
        _task: usize,
        (sent, theta): (&Message, &ParameterSet),
        lab: &Lab,
    ) -> Result<Arc<dyn Predictor>, PolicyError> {
        let network = Lorm::averaged(&earlier_in(sent)?, theta)?;
        Ok(Arc::new(Classifier::frozen(&lab.backbone, &network)?))
    }

    /// Training, and one forward pass for the moments.
    fn work(&self, samples: usize, plan: &TrainingPlan) -> f64 {
        samples as f64 * (f64::from(plan.epochs) + 1.0 / 3.0)
    }

    /// Those, and the moments.
    fn seat_work(
        &self,
        model: &ModelFacts,
        _at: (&Seat, &RoundContext),
        samples: usize,
        plan: &TrainingPlan,
    ) -> f64 {
        let moments = self.measuring(&self.measured(model));
        self.work(samples, plan) + model.passes(samples as f64 * moments)
    }

    /// The factors of every update after its moments, and their merge, with the head's; as a task ends the products of its
    /// own `A`, and the merge of all tasks' where there are several.
    fn server_work(&self, model: &ModelFacts, round: &RoundContext, updates: usize) -> f64 {
        let (rank, tasks) = (self.rank as usize, round.period.task.index() + 1);
        let blocks = self.layers(model).into_iter().map(|(_, _, layer)| layer);
        let (product, solving) = (
            |layer: &Layer| self.statistics.product(layer, rank),
            |layer: &Layer| self.statistics.solving(layer, rank),
        );
        if is_closing(round.phase) {
            let merged = if tasks > 1 { tasks as f64 } else { 0.0 };
            return model.passes(blocks.map(|l| product(&l) + merged * solving(&l)).sum());
        }
        let updates = updates as f64;
        let of = |layer: Layer| match self.trained(round.round_in_phase) {
            Factor::A => updates * product(&layer) + solving(&layer),
            Factor::B => {
                // The answers of B are to what A makes of the inputs.
                let through = product(&layer) + (rank * rank * layer.inputs) as f64;
                let own = (layer.outputs * rank * rank) as f64;
                updates * (through + own) + through + inverse(rank) + own
            }
        };
        let head = Layer::head(model);
        let answers = self.statistics.product(&head, head.outputs);
        let head = updates * answers + self.statistics.solving(&head, head.outputs);
        model.passes(blocks.map(of).sum::<f64>() + head)
    }

    /// Parameters and the pairs of all tasks in f32; products and moments of tasks, and the sums of a round, in f64.
    fn holdings(&self, model: &ModelFacts) -> Option<Holdings> {
        let count = |shapes: Vec<(String, Vec<usize>)>| -> usize {
            shapes.iter().map(|(_, shape)| shape.iter().product::<usize>()).sum()
        };
        let (pair, tasks) = (count(self.shape(model).shapes()), model.tasks.max(1));
        let head = model.classes * (model.backbone.dim() + 1);
        let inputs = self.layers(model).iter().map(|(_, _, layer)| layer.inputs).sum::<usize>();
        let moments = |layers: Vec<Layer>| -> usize {
            layers.iter().map(|layer| self.statistics.numbers(layer)).sum()
        };
        let blocks = self.layers(model).into_iter().map(|(_, _, layer)| layer).collect();
        let of_tasks = tasks * inputs * self.rank as usize + moments(blocks);
        let of_round = moments(self.measured(model)) + pair + head;
        let server = 4 * (pair * (tasks + 1) + head) + 8 * (of_tasks + of_round);
        Some(Holdings { server: server as u64, client: 0 })
    }
}

/// Its line in the registry.
pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "LoRA at every linear layer, one factor a round, so that the server merges clients \
               and tasks in closed form, by what their layers answer on their own inputs.",
        source: "Salami, Buzzega, Mosconi, Bonato, Sabetta, Calderara: Closed-form Merging of \
                 Parameter-Efficient Modules for Federated Continual Learning, ICLR 2025",
        state: "server: the pairs of all tasks, sums of moments, the head; client: nothing",
        ..MethodEntry::averaging("lorm", Lorm::read)
    }
}
