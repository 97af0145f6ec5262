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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnTeacher {
    /// Those of all classes seen, also those it was never trained for.
    Seen,
    /// Those of earlier tasks.
    Old,
}

impl Choice for OwnTeacher {
    const CHOICES: &'static [(&'static str, Self, &'static str)] = &[
        ("seen", OwnTeacher::Seen, "outputs of all classes seen, as in public code"),
        ("old", OwnTeacher::Old, "outputs of earlier tasks, for which it was trained"),
    ];
}

/// Whose old model is the first teacher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstTeacher {
    /// The client's own.
    Own,
    /// The server's.
    Server,
}

impl Choice for FirstTeacher {
    const CHOICES: &'static [(&'static str, Self, &'static str)] = &[
        ("own", FirstTeacher::Own, "the client's own, which it keeps"),
        ("server", FirstTeacher::Server, "the server's at the end of the task before (stateless)"),
    ];
}

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
    let keeps = beta != Some(0.0) && first != Some(FirstTeacher::Server.word());
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
mod tests {
    use super::*;
    use crate::model::{
        Backbone, LinearHead, ModuleShape, NetworkShape, Parameter, PixelShape, Residual,
    };
    use crate::numerics::streams::{Domain, StreamKey};
    use candle_core::Var;

    const WEIGHT: [f32; 6] = [0.5, -1.0, 2.0, 0.0, 0.3, 0.1];

    fn head(weight: [f32; 6]) -> ParameterSet {
        let weight = Parameter { shape: vec![3, 2], values: weight.into() };
        let bias = Parameter { shape: vec![3], values: [0.1, 0.2, -0.3].into() };
        [(LinearHead::WEIGHT, weight), (LinearHead::BIAS, bias)].into_iter().collect()
    }

    /// Features of width 2, as a cache hands them over.
    fn batch(values: &[f32]) -> Batch {
        let rows = values.len() / 2;
        let (values, shape) = (values.to_vec(), vec![rows, 2]);
        Batch::Features { values, shape, labels: vec![2; rows], samples: vec![0; rows] }
    }

    /// On two pixels as they are.
    fn backbone() -> Arc<Backbone> {
        Arc::new(Backbone::Pixels(PixelShape { channels: 2, image: 1 }))
    }

    fn logits(model: &Classifier, batch: &Batch) -> Tensor {
        model.logits(&model.batch_features(batch, &Device::Cpu).unwrap()).unwrap()
    }

    /// A teacher over variables: those that a client has hold none for a gradient to reach.
    fn teacher(share: f64, outputs: usize) -> Teacher {
        let model = Classifier::trainable(&backbone(), &head(WEIGHT), 0..3).unwrap();
        Teacher { model, share, outputs }
    }

    /// Invariant 5.
    #[test]
    fn no_gradient_reaches_a_teacher() {
        let student = Classifier::trainable(&backbone(), &head([0.2; 6]), 0..3).unwrap();
        let (batch, teacher) = (batch(&[1.0, -0.5, 0.2, 0.8]), teacher(0.5, 3));
        let loss = teacher.loss(&logits(&student, &batch), &batch, &Device::Cpu).unwrap();
        let gradients = loss.backward().unwrap();
        assert_eq!((student.variables().len(), teacher.model.variables().len()), (2, 2));
        for (name, variable) in student.variables() {
            let pull = gradients.get(variable).unwrap_or_else(|| panic!("{name}"));
            let pull = pull.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            assert!(pull.iter().any(|g| *g != 0.0), "{name}");
        }
        for (name, variable) in teacher.model.variables() {
            assert!(gradients.get(variable).is_none(), "{name} of the teacher");
        }
    }

    /// Section 5: the divergence of the student from the teacher at temperature 2, the mean over the batch, without
    /// the factor 4; with fewer outputs the others take no part (subtlety 6).
    #[test]
    fn a_teacher_counts_as_the_card_says() {
        let batch = batch(&[1.0, -0.5, 0.2, 0.8]);
        let own = [0.4f32, 0.0, -1.0, 0.3, 0.9, 2.0];
        let told = logits(&teacher(1.0, 3).model, &batch).to_vec2::<f32>().unwrap();
        let softmax = |logits: &[f32]| -> Vec<f64> {
            let powers: Vec<f64> = logits.iter().map(|z| libm::exp(f64::from(*z) / 2.0)).collect();
            powers.iter().map(|p| p / powers.iter().sum::<f64>()).collect()
        };
        for outputs in [2, 3] {
            let by_hand: f64 = told
                .iter()
                .zip(own.chunks(3))
                .flat_map(|(told, own)| {
                    softmax(&told[..outputs]).into_iter().zip(softmax(&own[..outputs]))
                })
                .map(|(q, p)| q * libm::log(q / p))
                .sum();
            let variable = Var::from_slice(&own, (2, 3), &Device::Cpu).unwrap();
            let loss = teacher(0.25, outputs).loss(&variable, &batch, &Device::Cpu).unwrap();
            let expected = 0.25 * by_hand / 2.0;
            assert!((f64::from(loss.to_scalar::<f32>().unwrap()) - expected).abs() < 1e-7);
            let gradients = loss.backward().unwrap();
            let pull = gradients.get(&variable).unwrap().to_vec2::<f32>().unwrap();
            assert!(pull.iter().all(|row| (row[2] == 0.0) == (outputs == 2)), "{pull:?}");
        }
    }

    /// Section 5: teachers answer in evaluation mode, so a sample's answer does not depend on its batch.
    #[test]
    fn a_teacher_with_batch_norms_answers_sample_by_sample() {
        let module = ModuleShape { hidden: 4, output: 3, residual: Residual::Identity };
        let shape = NetworkShape { features: 2, module: Some(module), head_hidden: 4, classes: 3 };
        let parameters = shape.initial_parameters(StreamKey::new(1, Domain::Init));
        let frozen = Classifier::frozen(&backbone(), &parameters).unwrap();
        let answers = |values: &[f32]| logits(&frozen, &batch(values)).to_vec2::<f32>().unwrap();
        let both = answers(&[1.0, -0.5, 0.2, 0.8]);
        assert_eq!([answers(&[1.0, -0.5]), answers(&[0.2, 0.8])].concat(), both);
        assert!(frozen.variables().is_empty());
    }

    /// Subtlety 4: whoever is seldom asked learns from what it last knew of an earlier task.
    #[test]
    fn the_latest_model_of_an_earlier_task_teaches() {
        let (one, other) = (head([1.0; 6]), head([2.0; 6]));
        let mut kept = OwnModels::default();
        let entering = |kept: &mut OwnModels, task: u16| {
            kept.enter(TaskId(task));
            *kept = OwnModels::load(&kept.save()).unwrap();
            kept.teacher.clone()
        };
        assert_eq!(entering(&mut kept, 0), None);
        kept.last = Some((TaskId(0), one.clone()));
        assert_eq!(entering(&mut kept, 0), None, "the task is not over");
        // Tasks 1 and 2 went by without it.
        assert_eq!(entering(&mut kept, 3), Some(one.clone()));
        kept.last = Some((TaskId(3), other.clone()));
        assert_eq!(entering(&mut kept, 3), Some(one));
        assert_eq!(entering(&mut kept, 4), Some(other));
    }

    fn distil(own: &Tensor, told: &[f32]) -> Tensor {
        distillation(own, told, 0..3, TEMPERATURE, Distillation::Kl).unwrap()
    }

    /// Invariants 1 and 3: nothing pulls a student to itself; the loss is never negative, and blind to a constant
    /// added to all logits of either side.
    #[test]
    fn a_teacher_asks_for_differences_of_logits() {
        let (own, told) = ([0.5f32, -1.0, 2.0, 0.0, 0.3, 0.1], [1.0f32, 0.0, -2.0, 0.4, 0.1, 0.0]);
        let variable = Var::from_slice(&own, (2, 3), &Device::Cpu).unwrap();
        let itself = distil(&variable, &own);
        let gradients = itself.backward().unwrap();
        let pull =
            gradients.get(&variable).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert!(itself.to_scalar::<f32>().unwrap().abs() < 1e-7);
        assert!(pull.iter().all(|g| g.abs() < 1e-7), "{pull:?}");
        let shifted = |values: &[f32], by: f32| values.iter().map(|v| v + by).collect::<Vec<_>>();
        let loss = |own: &[f32], told: &[f32]| {
            let own = Tensor::from_slice(own, (2, 3), &Device::Cpu).unwrap();
            distil(&own, told).to_scalar::<f32>().unwrap()
        };
        let one = loss(&own, &told);
        assert!(one > 0.0);
        for other in [loss(&shifted(&own, 3.0), &told), loss(&own, &shifted(&told, -2.0))] {
            assert!((one - other).abs() < 1e-6, "{one} {other}");
        }
    }
}
