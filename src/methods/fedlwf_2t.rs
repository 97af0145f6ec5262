//! **FedLwF-2T** (Usmanova et al., arXiv 2109.04197): learning without forgetting with two teachers, without any
//! stored sample. The first teacher is the client's own model of an earlier task, the second the model the server
//! just sent, which knows what other clients learnt. With `first_teacher = "server"` clients keep nothing: the first
//! teacher is the server's model at the end of the task before, sent once per task and client.
//!
//! ```text
//! task 1       L = CE
//! afterwards   L = a CE + b KD(own old model) + (1 - a - b) KD(received model)
//! KD(u, s) = mean sum softmax(u/T) log( softmax(u/T) / softmax(s/T) ),  T = 2, without the factor T^2
//! ```
//! A client that took part in no earlier task has no first teacher, and its term is zero. What is kept is the model
//! after a client's last training, before the server's next mean; the latest one of an earlier task teaches.

use std::sync::Arc;

use candle_core::{Device, Tensor};
use clap::ValueEnum;

use crate::data::{Batch, TaskView};
use crate::learning::losses::{Distillation, distillation};
use crate::learning::{Classifier, LearningError, train_with};
use crate::methods::fedavg::{self, FedAvg, FedAvgBy, FedAvgConfig, LocalRule, OldLogits, Up};
use crate::model::{ParameterSet, ops};
use crate::policy::{
    ClientState, Lab, Member, ModelFacts, Outcome, PolicyError, parameter_sections, parameters_of,
};
use crate::quantity::TaskId;
use crate::scenario::reader::{Choice, Param, TableReader, defaults};
use crate::scenario::{Complaint, Population, Scenario};
use crate::wire::{Body, MetaReader, MetaWriter, WireError};

/// The temperature of both distillations.
const TEMPERATURE: f64 = 2.0;

/// Which outputs of the first teacher are distilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OwnTeacher {
    /// Outputs of all classes seen, as in public code.
    ///
    /// Also those it was never trained for.
    Seen,
    /// Outputs of earlier tasks, for which it was trained.
    Old,
}

impl Choice for OwnTeacher {}

/// Whose old model is the first teacher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FirstTeacher {
    /// The client's own, which it keeps.
    Own,
    /// The server's at the end of the task before (stateless).
    Server,
}

impl Choice for FirstTeacher {}

/// The `[method]` table of FedLwF-2T.
#[derive(Clone, Debug, PartialEq)]
pub struct FedLwf2tConfig {
    /// What trains and how.
    pub fedavg: FedAvgConfig,
    /// `a`: share of the cross-entropy.
    pub alpha: f64,
    /// `b`: share of the old model.
    pub beta: f64,
    /// Whose old model that is.
    pub first_teacher: FirstTeacher,
    /// Which outputs of it.
    pub own_teacher: OwnTeacher,
}

impl Default for FedLwf2tConfig {
    fn default() -> Self {
        defaults(FedLwf2tConfig::read)
    }
}

impl FedLwf2tConfig {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> FedLwf2tConfig {
        let share = |name, doc| {
            Param::new(name, 0.33, doc).source("public code of FedCIL").at_least(0.0).at_most(1.0)
        };
        let first = Param::new("first_teacher", FirstTeacher::Own, "whose old model teaches");
        let own =
            Param::new("own_teacher", OwnTeacher::Seen, "outputs distilled from the own model");
        let config = FedLwf2tConfig {
            fedavg: FedAvgConfig::read(table),
            alpha: table.get(&share("alpha", "share of the cross-entropy")),
            beta: table
                .get(&share("beta", "share of the old model; the rest is the received one's")),
            first_teacher: table.get(&first),
            own_teacher: table.get(&own),
        };
        if config.alpha + config.beta > 1.0 + 1e-9 {
            let message = "`alpha` and `beta` leave nothing for the server's model";
            table.reject("beta", message, "more than 1 together", "lower one of the two");
        }
        config
    }
}

/// The method.
pub type FedLwf2t = FedAvgBy<TwoTeachers>;

/// Training under two teachers.
#[derive(Clone, Debug)]
pub struct TwoTeachers {
    /// Which outputs compete in the cross-entropy; all outputs seen train.
    compete: OldLogits,
    alpha: f64,
    beta: f64,
    first_teacher: FirstTeacher,
    own_teacher: OwnTeacher,
}

impl FedLwf2t {
    /// The method for a model of these dimensions.
    pub fn new(config: FedLwf2tConfig, facts: &ModelFacts) -> FedLwf2t {
        let FedLwf2tConfig { fedavg, alpha, beta, first_teacher, own_teacher } = config;
        let compete = fedavg.old_logits;
        let fedavg = FedAvg::new(FedAvgConfig { old_logits: OldLogits::Keep, ..fedavg }, facts);
        FedAvgBy { fedavg, rule: TwoTeachers { compete, alpha, beta, first_teacher, own_teacher } }
    }
}

/// What a client keeps: its last model, and the last one of an earlier task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnModels {
    last: Option<(TaskId, ParameterSet)>,
    teacher: Option<ParameterSet>,
}

impl OwnModels {
    /// A task is at hand: what was learnt in an earlier one becomes the teacher.
    fn enter(&mut self, task: TaskId) {
        if let Some((_, model)) = self.last.take_if(|(of, _)| *of < task) {
            self.teacher = Some(model);
        }
    }
}

impl ClientState for OwnModels {
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

/// A teacher, its share of the loss, and the outputs it is asked for.
struct Teacher {
    model: Classifier,
    share: f64,
    outputs: usize,
}

impl Teacher {
    /// Its share of the distillation of `logits`. What it answers are plain numbers, so nothing pulls at it.
    fn loss(
        &self,
        logits: &Tensor,
        batch: &Batch,
        device: &Device,
    ) -> Result<Tensor, LearningError> {
        let told = self.model.logits(&self.model.batch_features(batch, device)?)?;
        let told = told.narrow(1, 0, self.outputs)?.contiguous()?.flatten_all()?;
        let own = logits.narrow(1, 0, self.outputs)?.contiguous()?;
        let (told, columns) = (told.to_vec1::<f32>()?, 0..self.outputs);
        Ok((distillation(&own, &told, columns, TEMPERATURE, Distillation::Kl)? * self.share)?)
    }
}

impl LocalRule for TwoTeachers {
    type State = OwnModels;

    fn learn(
        &self,
        fedavg: &FedAvg,
        member: &mut Member<'_, FedLwf2t>,
        lab: &Lab,
    ) -> Result<Outcome<Up>, PolicyError> {
        let TwoTeachers { compete, alpha, .. } = self;
        let view = Arc::clone(&member.seat.view);
        member.state.enter(view.task);
        let teachers = self.teachers(member, &view, lab)?;
        let share = if view.rows.start == 0 { 1.0 } else { *alpha };
        let received = &member.down.parameters;
        let model = Classifier::trainable(&lab.backbone, received, 0..view.seen())?;
        let mut optimiser = fedavg.optimiser(&model, &lab.training);
        let loader = lab.frozen(lab.train_loader(&member.shard), model.frozen_part())?;
        let (plan, key, variables) = (&lab.training, member.key, model.variables());
        let report = train_with(plan, &mut optimiser, &loader, variables, key, |batch| {
            let logits = model.logits(&model.batch_features(batch, &lab.device)?)?;
            let columns = compete.rows(&view);
            // A product with zero is cut out of candle's graph, and a client may have nobody else to learn from.
            let mut loss = match share {
                0.0 => logits.sub(&logits)?.sum_all()?,
                1.0 => ops::cross_entropy(&logits, batch.labels(), columns)?,
                _ => (ops::cross_entropy(&logits, batch.labels(), columns)? * share)?,
            };
            for teacher in &teachers {
                loss = (loss + teacher.loss(&logits, batch, &lab.device)?)?;
            }
            Ok(loss)
        })?;
        let learnt = model.parameters()?;
        let up = Up::cut(&learnt, fedavg.up_rows(&view), member.shard.len())?;
        if self.beta > 0.0 && self.first_teacher == FirstTeacher::Own {
            member.state.last = Some((view.task, learnt));
        }
        Ok(Outcome { up, metrics: report.metrics() })
    }

    fn taught(&self) -> bool {
        self.beta > 0.0 && self.first_teacher == FirstTeacher::Server
    }

    /// Two further forward passes of a third of a training pass each, from the second task on.
    fn work_per_sample(&self) -> f64 {
        1.0 + 2.0 / 3.0
    }
}

impl TwoTeachers {
    /// Nobody in the first task.
    fn teachers(
        &self,
        member: &Member<'_, FedLwf2t>,
        view: &TaskView,
        lab: &Lab,
    ) -> Result<Vec<Teacher>, PolicyError> {
        let TwoTeachers { alpha, beta, first_teacher, own_teacher, .. } = self;
        if view.rows.start == 0 {
            return Ok(Vec::new());
        }
        let teacher = |parameters: &ParameterSet, share: f64, outputs: usize| {
            let model = Classifier::frozen(&lab.backbone, parameters)?;
            let outputs = outputs.min(model.rows().end);
            Ok::<_, PolicyError>(Teacher { model, share, outputs })
        };
        let mut teachers = Vec::new();
        let old = match first_teacher {
            FirstTeacher::Own => member.state.teacher.clone(),
            FirstTeacher::Server => member.down.previous_parameters()?,
        };
        if let Some(old) = old.filter(|_| *beta > 0.0) {
            let outputs = match own_teacher {
                OwnTeacher::Seen => view.seen(),
                OwnTeacher::Old => view.rows.start,
            };
            teachers.push(teacher(&old, *beta, outputs)?);
        }
        let rest = 1.0 - alpha - beta;
        if rest > 1e-9 {
            teachers.push(teacher(&member.down.parameters, rest, view.seen())?);
        }
        Ok(teachers)
    }
}

/// As FedAvg; a client that has a teacher of its own must come back.
pub(super) fn check(scenario: &Scenario) -> Vec<Complaint> {
    let mut complaints = fedavg::check(scenario);
    let given = |key| scenario.method.parameters.get(key);
    let beta = given("beta").and_then(toml::Value::as_float);
    let first = given("first_teacher").and_then(toml::Value::as_str);
    let keeps = beta != Some(0.0) && first != Some(&*FirstTeacher::Server.word());
    if scenario.participation.population == Population::Fresh && keeps {
        complaints.push(Complaint {
            key: "participation.population",
            message: "clients learn from a model of their own, and fresh clients have none"
                .to_owned(),
            label: "nobody has learnt before".to_owned(),
            help:
                "set `participation.population = \"fixed\"`, or `method.first_teacher = \"server\"`"
                    .to_owned(),
        });
    }
    complaints
}

#[cfg(test)]
mod tests;
