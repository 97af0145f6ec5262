//! **GLFC** (Dong et al., "Federated Class-Incremental Learning", CVPR 2022) over FedAvg: clients keep exemplars, weigh
//! samples so that old classes are not drowned, and hold the answers of an old model.
//!
//! ```text
//! client   on a signal: the classes of the task before are learned, floor(budget / learned classes) exemplars of each
//!          learns from the task's samples and all exemplars of learned classes, over all outputs seen
//!            1/2 mean w BCE(z, y) + 1/2 mean BCE(z, tau)         (objective, compensation)
//! server   the plain mean
//! ```
//! A signal is a task that the client had not met (`signal = "task"`), or a jump of the mean entropy of the received model's
//! answers on its data (`"entropy"`, in nats: with ten outputs there are at most 2.3, with a hundred 4.6). In the release
//! every registered client gets the model in every round, asks itself for a signal and chooses exemplars; here that is for
//! the clients that are drawn, and a client that was not drawn in a task chooses from it when it is next asked, with the
//! model that it then receives. Samples of tasks without a signal wait.
//!
//! Paper and release differ, and there is a key for each: the release may choose an exemplar again (`repeats`), and begins
//! every round at the whole rate (`lr_schedule`). It also gives clients all images of six of ten classes each, so that
//! shards overlap, and adds clients with every task: that is for the partition to say.
//!
//! **LGA** (Dong et al., "No One Left Behind: Real-World Federated Class-Incremental Learning", TPAMI 2023) balances every
//! earlier task by itself, with an exponent that grows with the tasks, and weighs both terms:
//!
//! ```text
//!            lambda mean w BCE(z, y) + lambda mean w BCE(z, tau)
//! ```
//! Its release adds a sample of an early task once for every later one (`groups = "cumulative"`).
//!
//! The old model is the mean model of the previous task's end, as ports of GLFC have it, or the one that a proxy server
//! picks by images that it finds in clients' gradients (`old_model = "proxy"`, as the release does).

mod compensation;
mod objective;
mod proxy;
mod schedule;
mod state;

use std::ops::Range;
use std::sync::Arc;

use clap::ValueEnum;

pub use self::compensation::{Balance, Groups};
use self::objective::Compensated;
pub use self::objective::Terms;
pub use self::proxy::{Augment, BestScore, Proxy, Scale, Seen};
use self::proxy::{GRADIENTS, OLD, TRACED, TRACES, gradients, old_in, trace};
pub use self::schedule::RateSchedule;
use self::state::Choosing;
pub use self::state::Learned;
use super::averaged::{
    self, Averaged, Client, Closing, Learnt, Needs, OldLogits, Trained, Weights, one_by_one,
    previous, sample_count, train_by,
};
use super::fedavg::FedAvg;
use super::head_form::HeadForm;
use super::registry::MethodEntry;
use crate::data::{Shard, TaskView};
use crate::learning::gradient_matching::LeNet;
use crate::learning::{Classifier, Teacher, TrainingPlan};
use crate::model::{Parameter, ParameterSet};
use crate::policy::{
    Asset, AssetSketch, Figures, Lab, Message, ModelFacts, Period, Place, PolicyError,
    RoundContext, Seat, Service, SketchFacts, UpSize, Veto, parameter_sketches,
};
use crate::scenario::reader::{Choice, Param, TableReader, defaults};
use crate::wire::{BodySketch, Dtype, Kind, NamedTensor, Section};

/// What tells a client that a new task has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Signal {
    /// The task itself.
    Task,
    /// A jump of the mean entropy of the received model's answers on the client's data.
    ///
    /// Of the clients that are drawn; the release asks all.
    Entropy,
}

impl Choice for Signal {}

/// Which model's answers are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OldModel {
    /// The mean model as the previous task ended.
    TaskEnd,
    /// The one that knew best the images that a proxy server found in clients' gradients.
    ///
    /// Heavy: hundreds of iterations for every class of every client.
    Proxy,
}

impl Choice for OldModel {}

/// The `[method]` table of GLFC, or of LGA.
#[derive(Clone, Debug, PartialEq)]
pub struct Glfc {
    /// What trains and how; all classes seen train.
    pub fedavg: FedAvg,
    /// Exemplars of a client, of all learned classes together.
    pub budget: u32,
    /// Whether a sample may be an exemplar several times.
    pub repeats: bool,
    /// What begins a task for a client.
    pub signal: Signal,
    /// How far the entropy jumps at a new task, in nats.
    pub threshold: f64,
    /// Whose answers are held.
    pub old_model: OldModel,
    /// How the proxy server works, where there is one.
    pub proxy: Proxy,
    /// When the learning rate falls.
    pub lr_schedule: RateSchedule,
    /// The loss.
    pub terms: Terms,
}

impl Default for Glfc {
    fn default() -> Self {
        defaults(Glfc::read)
    }
}

impl Glfc {
    /// The defaults of LGA.
    pub fn default_lga() -> Glfc {
        defaults(Glfc::read_lga)
    }

    /// Reads the keys of a `[method]` table of GLFC.
    pub fn read(table: &mut TableReader<'_>) -> Glfc {
        let glfc = Glfc::learning(table, "the release of GLFC");
        let compensate = Param::new("compensate", true, "weigh old and new samples");
        let share = |name, doc| Param::new(name, 0.5, doc).source("GLFC").at_least(0.0);
        let labels = share("label_weight", "weight of the labels where there is an old model");
        let relation = share("relation_weight", "weight of the old model's answers");
        let compensate = compensate.source("GLFC; Powder's port does not");
        let balance = if table.get(&compensate) { Balance::Learned } else { Balance::None };
        let terms = Terms {
            balance,
            labels: table.get(&labels),
            relation: table.get(&relation),
            weighs_relation: false,
        };
        Glfc { terms, ..glfc }
    }

    /// Reads the keys of a `[method]` table of LGA.
    pub fn read_lga(table: &mut TableReader<'_>) -> Glfc {
        let glfc = Glfc::learning(table, "the release of LGA");
        let groups = Param::new("groups", Groups::Cumulative, "which learned classes are a group");
        let groups = groups.source("the release; the paper means task");
        let lambda = Param::new("lambda", 1.0, "weight of either term where there is an old model");
        let balance = Balance::Tasks(table.get(&groups));
        let lambda = table.get(&lambda.source("the release of LGA").at_least(0.0));
        let terms = Terms { balance, labels: lambda, relation: lambda, weighs_relation: true };
        let wait = Param::new("proxy_wait", 6, "rounds of a task in which scores count as zero");
        let radius = "radius of copies of features in the first task; 0 scores images";
        let radius = Param::new("radius", 0.15, radius).source("the release of LGA").at_least(0.0);
        let spread = "later the radius is that of clients' features in the first task";
        let spread = Param::new("radius_from_clients", true, spread);
        let scale = Param::new("noise_scale", Scale::SquaredVariance, "how noise is scaled");
        let augment = Augment {
            radius: table.get(&radius),
            from_clients: table.get(&spread.source("the release reads all images at the server")),
            scale: table.get(&scale.source("the release; the deviation is meant")),
        };
        let wait = table.get(&wait.source("the release of LGA"));
        let augment = (augment.radius > 0.0).then_some(augment);
        let proxy = Proxy { wait, augment, ..glfc.proxy };
        Glfc { terms, proxy, ..glfc }
    }

    /// The keys of both; terms are still to be read.
    fn learning(table: &mut TableReader<'_>, release: &'static str) -> Glfc {
        let weights = Param::new("weights", Weights::Uniform, "how much a client counts");
        let head = Param::new("head", HeadForm::Growing, "head rows in messages");
        let weights = table.get(&weights.source(release));
        let fedavg = FedAvg { weights, old_logits: OldLogits::Keep, ..FedAvg::learning(table) };
        let head = table.get(&head.source(release));
        let fedavg = FedAvg { head, ..fedavg }.upon_module(table);
        let budget = Param::new("budget", 2_000, "exemplars of a client, of all classes together");
        let repeats = Param::new("repeats", true, "a sample may be an exemplar several times");
        let signal = Param::new("signal", Signal::Task, "what begins a task for a client");
        let threshold = "how far the entropy jumps at a new task, in nats";
        let threshold = Param::new("threshold", 1.2, threshold).source(release).at_least(0.0);
        let old = Param::new("old_model", OldModel::TaskEnd, "whose answers are held");
        let rates = Param::new("lr_schedule", RateSchedule::Code, "when the learning rate falls");
        Glfc {
            fedavg,
            budget: table.get(&budget.source(release).at_most(1e7)),
            repeats: table.get(&repeats.source(release)),
            signal: table.get(&signal.source("Powder's port; the release has entropy")),
            threshold: table.get(&threshold),
            old_model: table.get(&old.source("Powder's port; the release has proxy")),
            proxy: Proxy::read(table, release),
            lr_schedule: table.get(&rates.source(release)),
            terms: Terms {
                balance: Balance::None,
                labels: 0.0,
                relation: 0.0,
                weighs_relation: false,
            },
        }
    }

    fn has_proxy(&self) -> bool {
        self.old_model == OldModel::Proxy
    }

    /// Whether clients say how far their features spread: in the first task of LGA.
    fn traces(&self, view: &TaskView) -> bool {
        let augment = self.proxy.augment.filter(|_| self.has_proxy() && view.task.0 == 0);
        augment.is_some_and(|augment| augment.from_clients)
    }

    /// The old model that a Down names, and the head rows that it knows.
    fn old_of(
        &self,
        down: &Message,
        before: usize,
    ) -> Result<Option<(ParameterSet, usize)>, PolicyError> {
        match self.old_model {
            OldModel::TaskEnd => Ok(previous::of(down)?.map(|previous| (previous, before))),
            OldModel::Proxy => Ok(down.asset(OLD).map(|asset| old_in(asset)).transpose()?),
        }
    }

    /// Whether the received model, or the task, says that a new one has begun.
    fn is_signalled(
        &self,
        state: &mut Learned,
        member: &Client<'_, Learned>,
        received: &Classifier,
        lab: &Lab,
    ) -> Result<bool, PolicyError> {
        let view = &member.seat.view;
        match self.signal {
            Signal::Task => Ok(state.task != Some(view.task)),
            // Nothing answers on nothing: the entropy stays that of the last round with samples.
            Signal::Entropy if member.shard.is_empty() => Ok(false),
            Signal::Entropy => {
                let before = state.entropy;
                state.entropy = entropy(member.shard, received, view.seen(), lab)?;
                Ok(state.entropy - before > self.threshold)
            }
        }
    }

    fn train(
        &self,
        model: &ModelFacts,
        member: &mut Client<'_, Learned>,
        lab: &Lab,
    ) -> Result<Trained, PolicyError> {
        let view = Arc::clone(&member.seat.view);
        let mut state = std::mem::take(&mut member.state);
        for missed in member.missed {
            state.meet(missed.task, &missed.shard);
        }
        state.meet(view.task, member.shard);
        let received = Classifier::frozen(&lab.backbone, &member.received)?;
        let signalled = self.is_signalled(&mut state, member, &received, lab)?;
        if signalled {
            let choosing = Choosing { budget: self.budget as usize, repeats: self.repeats };
            state.learn(view.task, &received, choosing, lab)?;
        }
        let old = state.by_class.below(view.rows.start as u32);
        let mut all = [member.shard, old.as_slice()].concat();
        all.sort_unstable();
        let (all, learned): (Shard, _) = (all.into(), state.of_tasks(&lab.curriculum));
        let old_model = self.old_of(member.down, view.rows.start)?;
        let teacher = old_model.map(|(old, rows)| Teacher::new(&lab.backbone, &old, 0..rows, None));
        let (terms, task, teacher) = (self.terms, view.task.index(), teacher.transpose()?);
        let lab = Lab { training: self.lr_schedule.plan(&lab.training), ..lab.clone() };
        let trained = train_by(self, model, &[member.upon(&all)], &lab, |_| {
            Ok(Box::new(Compensated { terms, learned, task, old: teacher }))
        })?;
        let none = || PolicyError::Unsupported("nobody was trained".to_owned());
        let mut trained = trained.into_iter().next().ok_or_else(none)??;
        trained.samples = member.shard.len();
        if signalled && self.has_proxy() && !member.shard.is_empty() {
            let learnt = (&trained.parameters, view.seen());
            let sent = gradients(&self.proxy, model, learnt, member.shard, &lab)?;
            trained.beside.insert(GRADIENTS, sent);
        }
        trained.metrics.push(("signal", f64::from(u8::from(signalled))));
        if self.signal == Signal::Entropy {
            trained.metrics.push(("entropy", state.entropy));
        }
        trained.metrics.push(("learned_classes", state.rows.len() as f64));
        trained.metrics.push(("exemplars", old.len() as f64));
        member.state = state;
        Ok(trained)
    }
}

/// The mean entropy of a model's answers on a shard, over the softmax of the outputs seen, in nats.
fn entropy(shard: &Shard, model: &Classifier, seen: usize, lab: &Lab) -> Result<f64, PolicyError> {
    let loader = lab.frozen(lab.statistics_loader(shard), model.frozen_part())?;
    let mut total = 0.0;
    for batch in loader.in_order(lab.evaluation_batch) {
        let logits = model.logits(&model.batch_features(&batch?, &lab.device)?)?;
        let logits = logits.narrow(1, 0, seen)?.contiguous()?.to_vec2::<f32>()?;
        total += logits.iter().map(|row| entropy_of(row)).sum::<f64>();
    }
    Ok(total / shard.len().max(1) as f64)
}

fn entropy_of(logits: &[f32]) -> f64 {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let shifted = || logits.iter().map(|z| f64::from(*z) - f64::from(top));
    let sum: f64 = shifted().map(libm::exp).sum();
    libm::log(sum) - shifted().map(|z| libm::exp(z) * z).sum::<f64>() / sum
}

impl Averaged for Glfc {
    type State = Learned;
    type Memory = Seen;

    fn fedavg(&self) -> Option<&FedAvg> {
        Some(&self.fedavg)
    }

    fn needs(&self) -> Vec<Needs> {
        let mut needs = self.fedavg.needs();
        needs.push(Needs::ReturningClients {
            why: "clients keep exemplars and what they have learned, and fresh clients never come \
                  back",
            otherwise: None,
        });
        if self.has_proxy() {
            needs.push(Needs::Images {
                what: "a proxy server",
                otherwise: "`method.old_model = \"task-end\"`",
            });
        }
        if self.lr_schedule != RateSchedule::Client {
            needs.push(Needs::ConstantRate { key: "method.lr_schedule", otherwise: "\"client\"" });
        }
        needs
    }

    fn vetoes(&self) -> Vec<Veto> {
        Veto::against(&[Service::Mixed], "the old model that teaches is of one task")
    }

    fn teaches(&self) -> bool {
        self.old_model == OldModel::TaskEnd
    }

    /// A sample count; with a proxy server, on a signal, a gradient of every class, and what LGA's clients say of their
    /// features.
    fn says(&self, facts: &SketchFacts<'_>) -> Vec<Place> {
        let mut places = vec![sample_count()];
        let place =
            |name, shape: &[usize], dtype| Place::new(Kind::Statistics, name, shape, dtype).kept();
        let classes = facts.counts.len();
        if self.has_proxy() {
            let length = LeNet::length_of(facts.model.backbone.input(), facts.model.classes);
            places.push(place(GRADIENTS, &[classes, length], Dtype::F32));
        }
        if self.traces(facts.view) {
            places.push(place(TRACES, &[classes], Dtype::F64));
            places.push(place(TRACED, &[2, classes], Dtype::U32));
        }
        places
    }

    /// Who is signalled sends more than others.
    fn size(&self) -> UpSize {
        if self.has_proxy() { UpSize::FromValues } else { UpSize::Static }
    }

    fn describe(
        &self,
        member: &Client<'_, Learned>,
        trained: &Trained,
        lab: &Lab,
    ) -> Result<Vec<Section>, PolicyError> {
        let mut said = trained.sample_count()?;
        if let Some(sent) = trained.beside.get(GRADIENTS) {
            let Parameter { shape, values } = sent.clone();
            said.tensors.push(NamedTensor::f32(GRADIENTS, shape, values)?);
        }
        if self.traces(&member.seat.view) {
            let traces = trace(&trained.parameters, member.shard, lab)?;
            let (rows, counts): (Vec<u32>, Vec<u32>) =
                traces.iter().map(|(row, _, count)| (*row, *count)).unzip();
            let values = traces.iter().map(|(_, trace, _)| *trace).collect::<Vec<f64>>();
            let n = traces.len();
            said.tensors.push(NamedTensor::f64(TRACES, [n], values)?);
            said.tensors.push(NamedTensor::u32(TRACED, [2, n], [rows, counts].concat())?);
        }
        Ok(vec![said])
    }

    fn also_named(&self, facts: &SketchFacts<'_>) -> Vec<AssetSketch> {
        let Some(before) = facts.view.task.0.checked_sub(1).filter(|_| self.has_proxy()) else {
            return Vec::new();
        };
        let growing = self.fedavg.head == HeadForm::Growing;
        let all = self.parameters(facts.model);
        let shape = |one: &averaged::Parameter| {
            let mut shape = one.shape.clone();
            if growing && one.rows == averaged::Rows::Class {
                shape[0] = facts.view.rows.start;
            }
            (one.name.clone(), shape)
        };
        let shapes: Vec<_> = all.iter().map(shape).collect();
        let body = BodySketch::new(4, parameter_sketches(&shapes));
        vec![AssetSketch { name: OLD, version: u32::from(before), body }]
    }

    fn assets(
        &self,
        memory: &Seen,
        _seat: &Seat,
        _lab: &Lab,
    ) -> Result<Vec<Arc<Asset>>, PolicyError> {
        Ok(memory.old.iter().cloned().collect())
    }

    fn after_mean(
        &self,
        memory: &mut Seen,
        closing: Closing<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Figures, PolicyError> {
        match self.old_model {
            OldModel::TaskEnd => Ok(Vec::new()),
            OldModel::Proxy => self.proxy.close(memory, &closing, theta),
        }
    }

    /// The clients of a task's first round are taken to be signalled in it.
    fn server_work(&self, model: &ModelFacts, round: &RoundContext, updates: usize) -> f64 {
        match self.has_proxy() && round.round_in_phase == 0 {
            true => self.proxy.work(model, updates * round.period.view.rows.len()),
            false => 0.0,
        }
    }

    fn end_task(
        &self,
        memory: &mut Seen,
        theta: &ParameterSet,
        period: &Period,
        _lab: &Lab,
    ) -> Result<(), PolicyError> {
        if !self.has_proxy() {
            return Ok(());
        }
        let growing = self.fedavg.head == HeadForm::Growing;
        self.proxy.end_task(memory, theta, (period.task, period.view.seen()), growing)
    }

    fn trained_rows(&self, _model: &ModelFacts, view: &TaskView) -> Range<usize> {
        0..view.seen()
    }

    fn largest_pack(&self) -> usize {
        1
    }

    fn learn(
        &self,
        model: &ModelFacts,
        pack: &mut [Client<'_, Learned>],
        lab: &Lab,
    ) -> Result<Learnt, PolicyError> {
        Ok(one_by_one(pack, |member| self.train(model, member, lab)))
    }

    /// Training, and the old model's answers.
    fn work(&self, samples: usize, plan: &TrainingPlan) -> f64 {
        (1.0 + 1.0 / 3.0) * self.fedavg.work(samples, plan)
    }
}

const STATE: &str = "client: exemplars, what it has learned and its last entropy; server: the \
                     parameters and those of the task before";

/// Its line in the registry.
pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg whose clients keep exemplars, weigh old and new samples so that neither drowns \
               the other, and hold the old model's answers.",
        source: "Dong et al., Federated Class-Incremental Learning, CVPR 2022, arXiv 2203.11473",
        state: STATE,
        ..MethodEntry::averaging("glfc", Glfc::read)
    }
}

/// LGA's.
pub(super) fn lga_entry() -> MethodEntry {
    MethodEntry {
        idea: "GLFC that balances every earlier task by itself, more gently as tasks go by, and weighs \
               the old model's answers, too.",
        source: "Dong et al., No One Left Behind: Real-World Federated Class-Incremental Learning, \
                 TPAMI 2023, arXiv 2302.00903",
        state: STATE,
        ..MethodEntry::averaging("lga", Glfc::read_lga)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GLFC card, invariant 6 of the signal: uniform answers have `ln K`, certain ones nothing.
    #[test]
    fn uniform_answers_have_the_entropy_of_their_number() {
        assert!((entropy_of(&[0.7; 10]) - libm::log(10.0)).abs() < 1e-12);
        assert!(entropy_of(&[900.0, 0.0, -5.0]).abs() < 1e-12);
        // p = (3/4, 1/4)
        let wanted = 0.75 * libm::log(4.0 / 3.0) + 0.25 * libm::log(4.0);
        assert!((entropy_of(&[libm::logf(3.0), 0.0]) - wanted).abs() < 1e-7);
    }
}
