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
mod config;
mod objective;
mod proxy;
mod schedule;
mod signal;
mod state;

use std::ops::Range;
use std::sync::Arc;

pub use self::compensation::{Balance, Groups};
pub use self::config::{Glfc, OldModel};
use self::objective::Compensated;
pub use self::objective::Terms;
pub use self::proxy::{Augment, BestScore, Proxy, Scale, Seen};
use self::proxy::{GRADIENTS, OLD, TRACED, TRACES, gradients, old_in, trace};
pub use self::schedule::RateSchedule;
pub use self::signal::Signal;
use self::state::Choosing;
pub use self::state::Learned;
use super::averaged::{
    self, Averaged, Client, Closing, Learnt, Needs, Trained, one_by_one, previous, sample_count,
    train_by,
};
use super::fedavg::FedAvg;
use super::head_form::HeadForm;
use super::herded::{choosing_work, exemplars_after};
use super::registry::MethodEntry;
use crate::data::{Shard, TaskView};
use crate::learning::gradient_matching::LeNet;
use crate::learning::{Classifier, Teacher, TrainingPlan};
use crate::model::{Parameter, ParameterSet};
use crate::policy::{
    Asset, AssetSketch, Figures, Lab, Message, ModelFacts, Period, Place, PolicyError,
    RoundContext, Seat, Service, SketchFacts, UpSize, Veto, parameter_sketches,
};
use crate::wire::{BodySketch, Dtype, Kind, NamedTensor, Section};

impl Glfc {
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

    /// The clients of a task's first round are taken to be signalled in it, those of later rounds to be as many.
    fn server_work(&self, model: &ModelFacts, round: &RoundContext, updates: usize) -> f64 {
        let images = updates * round.period.view.rows.len();
        match self.has_proxy() {
            true => self.proxy.work(model, round.round_in_phase, images),
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

    fn work(&self, samples: usize, plan: &TrainingPlan) -> f64 {
        self.fedavg.work(samples, plan)
    }

    /// Training on the task's samples and all exemplars, the old model's answers on them, and a forward pass where the
    /// client says its entropy or how far its features spread. In a task's first round, taken to be the one with the
    /// signal, it chooses exemplars of the task before, and says gradients to a proxy server.
    fn seat_work(
        &self,
        model: &ModelFacts,
        (seat, round): (&Seat, &RoundContext),
        samples: usize,
        plan: &TrainingPlan,
    ) -> f64 {
        let (view, budget) = (&seat.view, self.budget as usize);
        let (task, classes) = (view.task.index(), view.rows.len());
        let teacher = if task > 0 { 1.0 / 3.0 } else { 0.0 };
        let exemplars = exemplars_after(task, samples, budget);
        let training = (1.0 + teacher) * self.work(samples + exemplars, plan);
        let passes = u8::from(self.signal == Signal::Entropy) + u8::from(self.traces(view));
        let every_round = training + f64::from(passes) * samples as f64 / 3.0;
        if round.round_in_phase > 0 {
            return every_round;
        }
        let chosen = match task {
            0 => 0.0,
            _ => choosing_work(model, samples, (classes, view.rows.start), budget),
        };
        let gradients = match self.has_proxy() {
            true => self.proxy.client_work(model, samples, classes),
            false => 0.0,
        };
        every_round + chosen + gradients
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
