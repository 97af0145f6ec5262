//! **GLFC** (Dong et al., "Federated Class-Incremental Learning", CVPR 2022) over FedAvg: exemplars and distillation.
//!
//! Clients keep exemplars, weigh samples so that new classes do not dominate old ones, and distill an old model.
//!
//! ```text
//! client   on a signal: the classes of the task before are learned, floor(budget / learned classes) exemplars of each
//!          trains on the task's samples and all exemplars of learned classes, over all outputs seen
//!            1/2 mean w BCE(z, y) + 1/2 mean BCE(z, tau)         (objective, compensation)
//! server   the plain mean
//! ```
//! A signal is a task that is new to the client (`task_detection = "task"`), or a jump of the mean entropy of the
//! received model's predictions on its data (`"entropy"`, in nats: at most 2.3 with ten outputs and 4.6 with a
//! hundred). In the release every registered client gets the model in every round, checks for a signal and chooses
//! exemplars; here only sampled clients do. A client that was not sampled in a task chooses exemplars from it the next
//! time it is sampled, with the model that it then receives. A task without a signal is never learned once the client
//! has held the next one. In the releases a second signal in one task learns the task before twice, so that its
//! exemplars and their weights double; here it learns nothing.
//!
//! For differences of paper and release there are keys: the release may choose an exemplar repeatedly (`repeats`), and
//! begins every round at the full rate (`lr_schedule`). It also gives clients all images of six of ten classes each,
//! so that shards overlap, and adds clients with every task: those are settings of the partition.
//!
//! **LGA** (Dong et al., "No One Left Behind: Real-World Federated Class-Incremental Learning", TPAMI 2023) balances
//! every earlier task separately, with an exponent that grows with the tasks, and weighs the samples in both terms:
//!
//! ```text
//!            lambda mean w BCE(z, y) + lambda mean w BCE(z, tau)
//! ```
//! Its release counts a sample of an early task once for every later task (`groups = "cumulative"`).
//!
//! The old model is the mean model at the end of the previous task, as in ports of GLFC, or the one that a proxy server
//! picks by images that it reconstructs from clients' gradients (`old_model = "proxy"`, as in the release).
//!
//! # With client tasks
//! In the benchmark of Powder and C²Prompt GLFC is a port (`GLFC_hard.py` and `FedAvg_weit` of Powder's release):
//!
//! ```text
//! client   as its task begins: floor(500 / learned classes) exemplars of each; its old model is what it receives then
//!          mean BCE(z, y) + mean BCE(z, tau) over the classes of its task and those learned     (outputs = "own")
//! server   a client task's head rows are what its client sends, the others one client's of the round   (rows = "last")
//! ```
//! with `compensate = false`, factors 1, `lr_schedule = "client"` and only a head that trains. Every client task has
//! separate head rows, so the old model has to be the client's (`old_model = "received"`); the signal is the task.
//! Further differences of the port:
//!
//! * From a stage's second round on it sends every client the global model of the stage before as the old one, also
//!   clients that continue a task. Here these keep theirs: only rows that a client has learned are distilled, and they
//!   change in few rounds.
//! * From the second stage on, a client that has learned nothing has an old model without outputs to distill, and its
//!   loss counts twice, which has no effect with Adam; here it counts once.
//! * Exemplars are chosen by features that are all of a class's first image, on both data sets
//!   (`exemplars = "random"`).
//! * Clients share one more head, which no loss reaches; it is left out.

mod choosing;
mod client;
mod compensation;
mod config;
mod cost;
mod head_rows;
mod images;
mod objective;
mod outputs;
mod proxy;
mod release;
mod requirements;
mod schedule;
mod signal;
mod state;
mod terms;

use std::sync::Arc;

pub use self::choosing::Exemplars;
pub use self::compensation::{Balance, Groups};
pub use self::config::{Glfc, OldModel};
pub use self::head_rows::HeadRows;
pub use self::images::PassTransform;
pub use self::outputs::Outputs;
pub use self::proxy::{Augment, BestScore, Proxy, Scale, Seen};
use self::proxy::{GRADIENTS, OLD, TRACED, TRACES, trace};
pub use self::schedule::RateSchedule;
pub use self::signal::Signal;
pub use self::state::GlfcClientState;
pub use self::terms::Terms;
use super::averaging::{
    self, ClosedRound, LocalTrainingResult, PackClient, PackResult, Requirement, sample_count,
    train_sequentially,
};
use super::entry::MethodEntry;
use super::head_form::HeadForm;
use super::herded::herding_work;
use super::parts::{
    AveragingMethod, ClientContext, Demands, DownloadExtras, LocalTraining, LocalUpdate,
    ModelAdaptation, Parts, PlainDownload, PreviousModel, ServerUpdate, TaskEnd, TrainedRows,
    UploadExtras, Workload,
};
use crate::learning::gradient_matching::LeNet;
use crate::model::{Parameter, ParameterSet};
use crate::policy::{
    Asset, AssetSpec, Capability, ExchangeFacts, Metrics, ModelFacts, Participant, PolicyError,
    Restriction, RoundContext, RunContext, TensorSpec, UploadSize, parameter_section_shapes,
};
use crate::wire::{BodyShape, Dtype, Kind, NamedTensor, Section};

impl AveragingMethod for Glfc {
    type State = GlfcClientState;
    type Memory = Seen;

    fn parts(&self) -> Parts<'_, GlfcClientState, Seen> {
        let task_end = self.old_model == OldModel::TaskEnd;
        Parts {
            trains: TrainedRows::Seen,
            local: self,
            upload: self,
            download: if self.has_proxy() { self } else { &PlainDownload },
            previous_model: task_end.then(PreviousModel::default),
            server: self,
            keeps_uploads: self.rows == HeadRows::Last,
            ..self.fedavg.base()
        }
    }
}

impl LocalUpdate<GlfcClientState> for Glfc {
    fn client_update(
        &self,
        training: &LocalTraining<'_, GlfcClientState>,
        pack: &mut [PackClient<'_, GlfcClientState>],
    ) -> Result<PackResult, PolicyError> {
        Ok(train_sequentially(pack, |member| self.train(training, member)))
    }

    fn max_pack(&self, _usual: usize) -> usize {
        1
    }

    /// Returns the work of a client: training on the task's samples and all exemplars, with the old model's outputs.
    ///
    /// A forward pass is added if the client computes the entropy, and one if it reports the spread of its features. In
    /// a task's first round, which is assumed to have the signal, the client also chooses exemplars of the task before
    /// and reports gradients to a proxy server; a client that still works on an earlier task does not.
    fn work(&self, load: &Workload<'_>) -> f64 {
        let Workload { model, participant, round, samples, .. } = *load;
        let view = &participant.view;
        let exemplars = self.held_exemplars(view, samples);
        let training = load.with_teachers(1, load.passes_over(samples + exemplars));
        let passes = u8::from(self.task_detection == Signal::Entropy) + u8::from(self.traces(view));
        let every_round = training + f64::from(passes) * samples as f64 / 3.0;
        if round.round_in_phase > 0 || view.task != round.stage.task {
            return every_round;
        }
        let chosen = match (view.task.index(), self.exemplars) {
            (0, _) | (_, Exemplars::Random) => 0.0,
            _ => herding_work(model, samples, self.chosen_of_each_class(view, samples)),
        };
        let gradients = match self.has_proxy() {
            true => self.proxy.client_work(model, samples, view.rows.len()),
            false => 0.0,
        };
        every_round + chosen + gradients
    }

    /// Excludes mixed tasks if the old model or an entropy jump belongs to a single task.
    fn demands(&self) -> Demands {
        let mut requirements = vec![Requirement::returning_clients(
            "clients keep exemplars and their learned classes, but fresh clients never come back",
            None,
        )];
        if self.has_proxy() {
            requirements.push(requirements::images());
        }
        if self.rows == HeadRows::Last {
            requirements.push(Requirement::own_client_tasks(
                "method.rows",
                "`rows = \"last\"` needs client tasks: with shared tasks, only the last client's rows would remain \
                 of a round",
                "set `rows = \"mean\"`",
            ));
        }
        if self.lr_schedule != RateSchedule::Client {
            requirements.push(Requirement::new(requirements::require_one_schedule));
        }
        let why = match (self.old_model, self.task_detection) {
            (OldModel::TaskEnd, _) => {
                "the old model that teaches is of one task (with `old_model = \"received\"` every \
                 client has its own)"
            }
            (OldModel::Proxy, _) => {
                "the old model that a proxy server picks is of one task (with `old_model = \
                 \"received\"` every client has its own)"
            }
            (OldModel::Received, Signal::Entropy) => {
                "outputs of other clients' tasks do not show a client's own task (use `task_detection = \"task\"`)"
            }
            (OldModel::Received, Signal::Task) => return Demands::requiring(requirements),
        };
        Demands { requirements, restrictions: Restriction::against(&[Capability::MixedTasks], why) }
    }
}

impl UploadExtras<GlfcClientState> for Glfc {
    /// Returns the sample count, and what is sent to a proxy server.
    ///
    /// These are a gradient for every class, which only signaled clients send, and the spread of features with LGA.
    fn tensor_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<TensorSpec> {
        let mut places = vec![sample_count()];
        let place = |name, shape: &[usize], dtype| {
            TensorSpec::new(Kind::Statistics, name, shape, dtype).kept()
        };
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

    /// Returns the time at which the size of an upload is known: only signaled clients send gradients.
    fn size(&self) -> UploadSize {
        if self.has_proxy() { UploadSize::FromValues } else { UploadSize::Static }
    }

    fn sections(
        &self,
        context: &ClientContext<'_>,
        member: &PackClient<'_, GlfcClientState>,
        trained: &LocalTrainingResult,
    ) -> Result<Vec<Section>, PolicyError> {
        let mut statistics = trained.sample_count()?;
        if let Some(sent) = trained.vectors.get(GRADIENTS) {
            let Parameter { shape, values } = sent.clone();
            statistics.tensors.push(NamedTensor::f32(GRADIENTS, shape, values)?);
        }
        if self.traces(&member.participant.view) {
            let traces = trace(&trained.parameters, member.shard, context.ctx)?;
            let (rows, counts): (Vec<u32>, Vec<u32>) =
                traces.iter().map(|(row, _, count)| (*row, *count)).unzip();
            let values = traces.iter().map(|(_, trace, _)| *trace).collect::<Vec<f64>>();
            let n = traces.len();
            statistics.tensors.push(NamedTensor::f64(TRACES, [n], values)?);
            statistics.tensors.push(NamedTensor::u32(TRACED, [2, n], [rows, counts].concat())?);
        }
        Ok(vec![statistics])
    }
}

/// Old model that the proxy server picked, as an asset.
impl DownloadExtras<Seen> for Glfc {
    fn asset_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<AssetSpec> {
        let Some(before) = facts.view.task.0.checked_sub(1) else {
            return Vec::new();
        };
        let growing = self.fedavg.head_form == HeadForm::Growing;
        let all = self.fedavg.parameters(facts.model);
        let shape = |one: &averaging::AveragedParameter| {
            let mut shape = one.shape.clone();
            if growing && one.rows == averaging::Rows::Class {
                shape[0] = facts.view.rows.start;
            }
            (one.name.clone(), shape)
        };
        let shapes: Vec<_> = all.iter().map(shape).collect();
        let body = BodyShape::new(4, parameter_section_shapes(&shapes));
        vec![AssetSpec { name: OLD, version: u32::from(before), body, renewed_in: None }]
    }

    fn assets(
        &self,
        memory: &Seen,
        _participant: &Participant,
        _ctx: &RunContext,
    ) -> Result<Vec<Arc<Asset>>, PolicyError> {
        Ok(memory.old.iter().cloned().collect())
    }
}

impl ServerUpdate<Seen> for Glfc {
    fn server_update(
        &self,
        memory: &mut Seen,
        closing: ClosedRound<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Metrics, PolicyError> {
        if self.rows == HeadRows::Last {
            head_rows::take_last(&closing, theta)?;
        }
        match self.has_proxy() {
            true => self.proxy.close(memory, &closing, theta),
            false => Ok(Vec::new()),
        }
    }

    /// Returns the work of a proxy server.
    ///
    /// All clients of a task's first round are assumed to be signaled in it; later rounds score as many images.
    fn work(&self, model: &ModelFacts, round: &RoundContext, updates: usize) -> f64 {
        let images = updates * round.stage.view.rows.len();
        match self.has_proxy() {
            true => self.proxy.work(model, round.round_in_phase, images),
            false => 0.0,
        }
    }

    fn end_task(
        &self,
        memory: &mut Seen,
        theta: &ParameterSet,
        TaskEnd { stage, .. }: TaskEnd<'_>,
        _ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        if !self.has_proxy() {
            return Ok(());
        }
        let growing = self.fedavg.head_form == HeadForm::Growing;
        self.proxy.end_task(memory, theta, (stage.task, stage.view.seen()), growing)
    }
}

const STATE: &str = "client: exemplars, what it has learned and its last entropy; server: the \
                     parameters and those of the task before, which with `old_model = \"received\"` the \
                     client keeps";

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg whose clients keep exemplars, balance the gradients of old and new samples, and distill the \
               old model.",
        source: "Dong et al., Federated Class-Incremental Learning, CVPR 2022, arXiv 2203.11473",
        state: STATE,
        ..MethodEntry::averaging("glfc", Glfc::read)
    }
}

/// Returns LGA's entry of the registry.
pub(super) fn lga_entry() -> MethodEntry {
    MethodEntry {
        idea: "GLFC that balances every earlier task separately, less with every task, and also balances the \
               distillation.",
        source: "Dong et al., No One Left Behind: Real-World Federated Class-Incremental Learning, \
                 TPAMI 2023, arXiv 2302.00903",
        state: STATE,
        ..MethodEntry::averaging("lga", Glfc::read_lga)
    }
}
