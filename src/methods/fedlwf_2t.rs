//! **FedLwF-2T** (Usmanova et al., arXiv 2109.04197): learning without forgetting, with two teachers.
//!
//! No samples are stored. The first teacher is the client's own model of an earlier task, the second the received
//! model, which contains the training of other clients. With `first_teacher = "server"` clients keep nothing: the first
//! teacher is the server's model at the end of the task before, sent once per task and client.
//!
//! ```text
//! task 1       L = CE
//! afterwards   L = a CE + b KD(own old model) + c KD(received model),  c = 1 - a - b unless it is given
//! KD(u, s) = mean sum softmax(u/T) log( softmax(u/T) / softmax(s/T) ),  T = 2, without the factor T^2
//! ```
//! FedCIL's code has a = b = .33 and c = .34 with Adam, which does not depend on the scale of a loss; with SGD such a
//! cross-entropy trains at a third of FedAvg's rate, unless the three weights are set separately.
//!
//! Teachers normalize as the student does (`teacher_batch_norm`): by the moments of the batch if it does. Otherwise
//! the received model, from which the student starts, would pull at it from the first step on.
//!
//! A client that took part in no earlier task has no first teacher, and its term is zero. A client keeps the model
//! after its last training, before the server's next mean; the latest one of an earlier task is the teacher.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor};
use clap::ValueEnum;

use super::averaging::{
    Objective, PackClient, PackResult, Requirement, TrainingStep, first_of, previous,
    train_sequentially,
};
use super::entry::MethodEntry;
use super::fedavg::FedAvg;
use super::parts::{
    AveragingMethod, ClientContext, Demands, LocalTraining, LocalUpdate, ModelAdaptation, Parts,
    PreviousModel, TrainedRows, Workload,
};
use crate::data::{Batch, TaskView};
use crate::learning::losses::{Distillation, distillation};
use crate::learning::{Classifier, LearningError, Teacher};
use crate::model::{ParameterSet, TeacherBatchNormMode, ops};
use crate::policy::{
    Capability, ClientState, PolicyError, Restriction, RunContext, parameter_sections,
    parameters_of,
};
use crate::quantity::TaskId;
use crate::scenario::reader::{Choice, Keys, TableReader};
use crate::wire::{Body, MetaReader, MetaWriter, Saved, WireError};

/// Temperature of both distillations.
const TEMPERATURE: f64 = 2.0;

/// Outputs of the teachers that are distilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum OwnTeacher {
    /// Outputs of all classes seen.
    ///
    /// Also those for which the first teacher was never trained.
    Seen,
    /// All outputs of both teachers, also of later classes.
    ///
    /// As in FedCIL's code.
    All,
    /// For the first teacher, outputs of earlier tasks, for which it was trained.
    Old,
}

/// Old model that is the first teacher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum FirstTeacher {
    /// Client's own model, which it keeps.
    Own,
    /// Server's model at the end of the previous task (stateless clients).
    Server,
}

/// Keys of the `[method]` table of FedLwF-2T.
#[derive(Clone, Debug, PartialEq, Keys)]
#[keys(check = section.check(table))]
pub struct FedLwf2t {
    /// Trained parameters and their aggregation; all outputs seen are trained.
    ///
    /// `old_logits` selects the outputs that compete in the cross-entropy.
    #[key(flatten)]
    pub fedavg: FedAvg,
    /// Weight of the cross-entropy (`a`).
    #[key(default = 0.33, at_least = 0.0, at_most = 1e6, source = "public code of FedCIL")]
    pub alpha: f64,
    /// Weight of the distillation from the old model (`b`).
    #[key(default = 0.33, at_least = 0.0, at_most = 1e6, source = "public code of FedCIL")]
    pub beta: f64,
    /// Weight of the distillation from the received model (`c`); default: 1 - `alpha` - `beta`.
    #[key(at_least = 0.0, at_most = 1e6)]
    pub gamma: Option<f64>,
    /// Moments by which teachers with batch norms normalize.
    #[key(default = TeacherBatchNormMode::Student, source = "not in FedHAF's paper")]
    pub teacher_batch_norm: TeacherBatchNormMode,
    /// Old model that is the first teacher.
    #[key(default = FirstTeacher::Own)]
    pub first_teacher: FirstTeacher,
    /// Outputs of the teachers that are distilled.
    #[key(default = OwnTeacher::Seen)]
    pub own_teacher: OwnTeacher,
}

impl FedLwf2t {
    fn check(&self, table: &mut TableReader<'_>) {
        if self.gamma.is_none() && self.alpha + self.beta > 1.0 + 1e-9 {
            let message = "`alpha` and `beta` sum to more than 1, so that the weight of the server's model is \
                           negative";
            let help = "set the weight of that model with `gamma`, or lower one of the two";
            table.reject("beta", message, "more than 1 together", help);
        }
    }
}

/// State of a client: its latest model, and the latest one of an earlier task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnModels {
    last: Option<(TaskId, ParameterSet)>,
    teacher: Option<ParameterSet>,
}

impl OwnModels {
    /// Enters a task: a kept model of an earlier task becomes the teacher.
    fn enter(&mut self, task: TaskId) {
        if let Some((_, model)) = self.last.take_if(|(of, _)| *of < task) {
            self.teacher = Some(model);
        }
    }
}

impl ClientState for OwnModels {}

impl Saved for OwnModels {
    fn save(&self) -> Body {
        let mut meta = MetaWriter::new();
        let own = self.last.iter().flat_map(|(_, model)| parameter_sections(model));
        let mut sections: Vec<_> = own.collect();
        meta.u64(self.last.as_ref().map_or(0, |(task, _)| u64::from(task.0) + 1));
        meta.u64(sections.len() as u64).bool(self.teacher.is_some());
        sections.extend(self.teacher.iter().flat_map(parameter_sections));
        Body::new(meta.finish(), sections)
    }

    fn load(saved: &Body) -> Result<Self, WireError> {
        let mut meta = MetaReader::new(&saved.meta);
        let (task, own, teaches) = (meta.u64()?, meta.u64()? as usize, meta.bool()?);
        meta.finish()?;
        let cut = || WireError::Malformed("a client's own models are cut short".to_owned());
        let (own, other) = saved.sections.split_at_checked(own).ok_or_else(cut)?;
        let set = |sections: &[_]| parameters_of(&Body::new(Vec::new(), sections.to_vec()));
        let last = match task.checked_sub(1) {
            Some(task) => Some((TaskId(task as u16), set(own)?)),
            None => None,
        };
        Ok(OwnModels { last, teacher: teaches.then(|| set(other)).transpose()? })
    }
}

/// Teacher and its weight in the loss; its outputs are the first ones of the head.
struct WeightedTeacher {
    teacher: Teacher,
    share: f64,
}

impl WeightedTeacher {
    /// Returns the weighted distillation loss of `logits`, a scalar.
    fn loss(
        &self,
        logits: &Tensor,
        batch: &Batch,
        device: &Device,
    ) -> Result<Tensor, LearningError> {
        let (targets, columns) = (self.teacher.answers(batch, device)?, self.teacher.rows());
        let own = logits.narrow(1, 0, columns.len())?.contiguous()?;
        Ok((distillation(&own, &targets, columns, TEMPERATURE, Distillation::Kl)? * self.share)?)
    }
}

impl AveragingMethod for FedLwf2t {
    type State = OwnModels;
    type Memory = ();

    /// Returns FedAvg's parts, which train the head rows of all outputs that are distilled.
    fn parts(&self) -> Parts<'_, OwnModels, ()> {
        let trains = match self.own_teacher {
            OwnTeacher::All => TrainedRows::Carried,
            OwnTeacher::Seen | OwnTeacher::Old => TrainedRows::Seen,
        };
        let previous_model = self.is_taught_by_server().then(PreviousModel::default);
        Parts { trains, local: self, previous_model, ..self.fedavg.base() }
    }
}

impl LocalUpdate<OwnModels> for FedLwf2t {
    fn objective(
        &self,
        context: &ClientContext<'_>,
        pack: &[PackClient<'_, OwnModels>],
        _network: &Classifier,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        let member = first_of(pack)?;
        let view = Arc::clone(&member.participant.view);
        let share = if view.rows.start == 0 { 1.0 } else { self.alpha };
        let teachers = self.teachers(member, &view, context.ctx)?;
        Ok(Box::new(FedLwf2tObjective {
            share,
            columns: self.fedavg.old_logits.rows(&view),
            teachers,
        }))
    }

    fn client_update(
        &self,
        training: &LocalTraining<'_, OwnModels>,
        pack: &mut [PackClient<'_, OwnModels>],
    ) -> Result<PackResult, PolicyError> {
        Ok(train_sequentially(pack, |member| {
            let task = member.participant.view.task;
            member.state.enter(task);
            let trained = training.train_single(member)?;
            if self.beta > 0.0 && self.first_teacher == FirstTeacher::Own {
                member.state.last = Some((task, trained.parameters.clone()));
            }
            Ok(trained)
        }))
    }

    fn max_pack(&self, _usual: usize) -> usize {
        1
    }

    fn work(&self, load: &Workload<'_>) -> f64 {
        let teachers = u8::from(self.beta > 0.0) + u8::from(self.received_teaches());
        load.with_teachers(teachers, load.passes())
    }

    /// Requires that clients return if they keep their own teacher.
    fn demands(&self) -> Demands {
        let why = "clients distill their own earlier model, but fresh clients have none";
        let instead = Some("`method.first_teacher = \"server\"`");
        let own = self.beta > 0.0 && self.first_teacher == FirstTeacher::Own;
        let own = own.then(|| Requirement::returning_clients(why, instead));
        let restrictions = match self.is_taught_by_server() {
            true => Restriction::against(
                &[Capability::MixedTasks],
                "the old model that teaches is of one task",
            ),
            false => Vec::new(),
        };
        Demands { requirements: own.into_iter().collect(), restrictions }
    }
}

/// Weighted cross-entropy, plus the losses of the teachers.
struct FedLwf2tObjective {
    share: f64,
    /// Outputs that compete in the cross-entropy.
    columns: Range<usize>,
    teachers: Vec<WeightedTeacher>,
}

impl Objective for FedLwf2tObjective {
    fn losses(&mut self, pass: &TrainingStep<'_>) -> Result<Tensor, LearningError> {
        let (logits, batch) = (pass.logits()?, &pass.step.batch);
        let columns = self.columns.clone();
        // Candle drops products with zero from its graph, and the client may have no teacher.
        let mut loss = match self.share {
            0.0 => ops::sum_all(&logits.sub(&logits)?)?,
            1.0 => ops::cross_entropy(&logits, batch.labels(), columns)?,
            share => (ops::cross_entropy(&logits, batch.labels(), columns)? * share)?,
        };
        for teacher in &self.teachers {
            loss = (loss + teacher.loss(&logits, batch, pass.device)?)?;
        }
        Ok(loss)
    }
}

impl FedLwf2t {
    /// Returns the teachers of a member: none in the first task, two at most.
    fn teachers(
        &self,
        member: &PackClient<'_, OwnModels>,
        view: &TaskView,
        ctx: &RunContext,
    ) -> Result<Vec<WeightedTeacher>, PolicyError> {
        let FedLwf2t { beta, first_teacher, own_teacher, .. } = self;
        if view.rows.start == 0 {
            return Ok(Vec::new());
        }
        let norms = self.teacher_batch_norm.of(self.fedavg.settings(view).batch_norms());
        let teacher = |parameters: &ParameterSet, share: f64, outputs: usize| {
            let teacher = Teacher::new(&ctx.backbone, parameters, 0..outputs, norms)?;
            Ok::<_, PolicyError>(WeightedTeacher { teacher, share })
        };
        let known = match own_teacher {
            OwnTeacher::All => usize::MAX,
            OwnTeacher::Seen | OwnTeacher::Old => view.seen(),
        };
        let mut teachers = Vec::new();
        let old = match first_teacher {
            FirstTeacher::Own => member.state.teacher.clone(),
            FirstTeacher::Server => previous::of(member.download)?,
        };
        if let Some(old) = old.filter(|_| *beta > 0.0) {
            let outputs = match own_teacher {
                OwnTeacher::Seen | OwnTeacher::All => known,
                OwnTeacher::Old => view.rows.start,
            };
            teachers.push(teacher(&old, *beta, outputs)?);
        }
        if self.received_teaches() {
            teachers.push(teacher(&member.received, self.weight_of_received(), known)?);
        }
        Ok(teachers)
    }

    fn is_taught_by_server(&self) -> bool {
        self.beta > 0.0 && self.first_teacher == FirstTeacher::Server
    }

    /// Returns true if the received model is a teacher: `c` exceeds the rounding error of `1 - a - b`.
    fn received_teaches(&self) -> bool {
        self.weight_of_received() > 1e-9
    }

    /// Returns the weight `c` of the received model.
    fn weight_of_received(&self) -> f64 {
        self.gamma.unwrap_or(1.0 - self.alpha - self.beta)
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg with two teachers and without exemplars: the client's own model of an earlier task, and the \
               received model.",
        source: "Usmanova et al., A distillation-based approach integrating continual learning and \
                 federated learning, arXiv 2109.04197",
        state: "server: the parameters; client: its last model, and the last one of an earlier task \
                (nothing if the first teacher is the server's)",
        ..MethodEntry::averaging("fedlwf-2t", FedLwf2t::read)
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
