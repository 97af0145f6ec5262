//! **LwF**, learning without forgetting (Li and Hoiem, TPAMI 2017), and **FedLwF.MC**, its form with one sigmoid per
//! class (Rebuffi et al., CVPR 2017): FedAvg whose clients also learn what the previous task's model answers to the new
//! images.
//!
//! ```text
//! client   theta <- down, theta_old <- the server's model at the end of the task before (sent once per task)
//!          lwf         L = CE + alpha H(q_old, q),  q = softmax(z / T) over the old columns,  H(q, p) = -mean sum q log p
//!          fedlwf-mc   L = BCE(sigmoid(z), g) over all columns seen,  g = sigmoid(z_old) of old ones, one-hot of new ones
//! server   as FedAvg;  as a task ends  theta_old <- theta
//! ```
//! No loss has a factor `T^2`. In the first task there is no teacher: LwF is FedAvg, FedLwF.MC a logistic regression per
//! class. The teacher is a server's object: whoever takes part for the first time gets it, and clients keep nothing.
//!
//! HGP's benchmark distils the columns of the *current* task (`columns = "current"`), on which the old model's rows are
//! as they were initialised: nothing about old classes is distilled. The Fed-LWF row of STSA is `weight = 3`, uniform
//! means and plain SGD. With `columns = "old"` rows of old classes move, in the loss of the cross-entropy they do not
//! compete.

use std::ops::Range;

use candle_core::Tensor;
use clap::ValueEnum;

use super::HeadForm;
use super::averaged::{Averaged, Client, Objective, OldLogits, Pass, Weights, previous};
use super::fedavg::FedAvg;
use super::registry::MethodEntry;
use crate::data::TaskView;
use crate::learning::losses::{
    ClassReduction, Distillation, distillation, sigmoid, sigmoid_cross_entropy,
};
use crate::learning::{Classifier, LearningError, Teacher, TrainingPlan};
use crate::model::{TeacherNorms, ops};
use crate::policy::{Lab, ModelFacts, PolicyError, Service, Veto};
use crate::scenario::reader::{Choice, Param, TableReader, defaults};

/// Which columns are distilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Columns {
    /// Those of earlier tasks.
    Old,
    /// Those of the current task, which the teacher has never learnt.
    ///
    /// As in the code of HGP's benchmark.
    Current,
}

impl Choice for Columns {}

/// What is learnt, from labels and from the teacher.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lesson {
    /// The cross-entropy, and a distillation beside it.
    Softmax {
        /// Of these columns.
        columns: Columns,
        /// `alpha`, its weight.
        weight: f64,
        /// `T`.
        temperature: f64,
        /// How answers are compared.
        form: Distillation,
    },
    /// A sigmoid per class seen, with the teacher's answers as the labels of old ones.
    Sigmoid {
        /// What is made of the classes of a sample.
        classes: ClassReduction,
    },
}

/// The `[method]` table of LwF or of FedLwF.MC.
#[derive(Clone, Debug, PartialEq)]
pub struct Lwf {
    /// What trains and how.
    pub fedavg: FedAvg,
    /// What is learnt.
    pub lesson: Lesson,
    /// By which moments the teacher normalises.
    pub teacher_norms: TeacherNorms,
}

impl Default for Lwf {
    fn default() -> Self {
        defaults(Lwf::read)
    }
}

impl Lwf {
    /// Reads the keys of a `[method]` table of LwF.
    pub fn read(table: &mut TableReader<'_>) -> Lwf {
        let fedavg = FedAvg::read(table);
        let columns = Param::new("columns", Columns::Old, "columns that are distilled")
            .source("Li and Hoiem; the code of HGP's benchmark has current");
        let weight = Param::new("weight", 0.5, "weight of the distillation")
            .source("HGP's benchmark; STSA and TARGET have 3")
            .at_least(0.0);
        let temperature = Param::new("temperature", 2.0, "temperature of the distillation")
            .source("Li and Hoiem")
            .above(0.0);
        let form = Param::new("form", Distillation::CrossEntropy, "how answers are compared");
        let columns = table.get(&columns);
        if columns == Columns::Current && fedavg.head == HeadForm::Growing {
            let message = "the teacher has no rows of the current task to be distilled";
            let help = "set `head = \"fixed\"`, or `columns = \"old\"`";
            table.reject("columns", message, "not with `head = \"growing\"`", help);
        }
        let lesson = Lesson::Softmax {
            columns,
            weight: table.get(&weight),
            temperature: table.get(&temperature),
            form: table.get(&form.source("Li and Hoiem; kl has the same gradient")),
        };
        Lwf { fedavg, lesson, teacher_norms: Lwf::read_norms(table) }
    }

    /// Reads the keys of a `[method]` table of FedLwF.MC.
    pub fn read_multi_class(table: &mut TableReader<'_>) -> Lwf {
        let weights = Param::new("weights", Weights::Uniform, "how much a client counts");
        let weights = table.get(&weights.source("public code of HePCo"));
        let fedavg = FedAvg { weights, old_logits: OldLogits::Keep, ..FedAvg::learning(table) };
        let fedavg = fedavg.in_messages(table);
        let classes = "what is made of the losses of a sample's classes";
        let classes = Param::new("class_reduction", ClassReduction::Mean, classes)
            .source("public code of HePCo; iCaRL has sum");
        let lesson = Lesson::Sigmoid { classes: table.get(&classes) };
        Lwf { fedavg, lesson, teacher_norms: Lwf::read_norms(table) }
    }

    fn read_norms(table: &mut TableReader<'_>) -> TeacherNorms {
        let norms = "moments of a teacher with batch norms";
        let norms = Param::new("teacher_norms", TeacherNorms::Running, norms);
        table.get(&norms.source("teachers are in evaluation mode"))
    }

    /// The columns that the teacher answers for.
    fn taught(&self, view: &TaskView) -> Range<usize> {
        match self.lesson {
            Lesson::Softmax { columns: Columns::Current, .. } => view.rows.clone(),
            Lesson::Softmax { .. } | Lesson::Sigmoid { .. } => 0..view.rows.start,
        }
    }
}

impl Averaged for Lwf {
    type State = ();
    type Memory = ();

    fn fedavg(&self) -> Option<&FedAvg> {
        Some(&self.fedavg)
    }

    fn vetoes(&self) -> Vec<Veto> {
        match self.teaches() {
            true => Veto::against(&[Service::Mixed], "the old model that teaches is of one task"),
            false => self.fedavg.vetoes(),
        }
    }

    fn teaches(&self) -> bool {
        !matches!(self.lesson, Lesson::Softmax { weight, .. } if weight == 0.0)
    }

    /// What competes, and what is distilled.
    fn trained_rows(&self, model: &ModelFacts, view: &TaskView) -> Range<usize> {
        match self.lesson {
            Lesson::Softmax { columns: Columns::Old, .. } | Lesson::Sigmoid { .. }
                if self.teaches() =>
            {
                0..view.seen()
            }
            _ => self.fedavg.trained_rows(model, view),
        }
    }

    /// The teacher is one and the same for all members.
    fn objective(
        &self,
        _model: &ModelFacts,
        pack: &[Client<'_, ()>],
        network: &Classifier,
        lab: &Lab,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        let none = || PolicyError::Unsupported("nobody is to be trained".to_owned());
        let first = pack.first().ok_or_else(none)?;
        let view = &first.seat.view;
        let norms = self.teacher_norms.of(self.fedavg.norms_in_training(view));
        let teacher = |old| match self.largest_pack() {
            1 => Teacher::new(&lab.backbone, &old, self.taught(view), norms),
            _ => Teacher::of_pack(&lab.backbone, &old, self.taught(view), pack.len()),
        };
        Ok(Box::new(Taught {
            lesson: self.lesson,
            rows: network.rows(),
            compete: self.fedavg.old_logits.rows(view),
            teacher: previous::of(first.down)?.map(teacher).transpose()?,
        }))
    }

    /// A further forward pass, a third of a training pass, from the second task on.
    fn work(&self, samples: usize, plan: &TrainingPlan) -> f64 {
        let teacher = if self.teaches() { 1.0 / 3.0 } else { 0.0 };
        (1.0 + teacher) * self.fedavg.work(samples, plan)
    }
}

/// What labels and teacher ask for. Columns are head rows; logits begin at the first that trains.
struct Taught {
    lesson: Lesson,
    rows: Range<usize>,
    compete: Range<usize>,
    /// Nobody in the first task.
    teacher: Option<Teacher>,
}

impl Taught {
    /// Columns among the rows that train.
    fn own(&self, columns: Range<usize>) -> Range<usize> {
        columns.start - self.rows.start..columns.end - self.rows.start
    }

    /// `CE + alpha H(q_old, q)`.
    fn distilled(
        &self,
        pass: &Pass<'_>,
        (weight, temperature, form): (f64, f64, Distillation),
    ) -> Result<Tensor, LearningError> {
        let (logits, step) = (pass.pack_logits()?.logits, pass.step);
        let labels = step.batch.labels().iter().map(|row| row - self.rows.start as u32);
        let (labels, compete) = (labels.collect::<Vec<_>>(), self.own(self.compete.clone()));
        let losses = ops::grouped_cross_entropy(&logits, &labels, compete, &step.groups)?;
        let Some(teacher) = &self.teacher else { return Ok(losses) };
        let (told, columns) = (teacher.pack_answers(step, pass.device)?, self.own(teacher.rows()));
        let width = columns.len();
        let distilled = pass.by_member(|run| {
            let own = logits.narrow(0, run.start, run.len())?;
            let own = own.narrow(1, columns.start, width)?.contiguous()?;
            let told = &told[run.start * width..run.end * width];
            Ok(distillation(&own, told, 0..width, temperature, form)?)
        })?;
        Ok((losses + (distilled * weight)?)?)
    }

    /// `BCE(sigmoid(z), g)`.
    fn multi_class(
        &self,
        pass: &Pass<'_>,
        classes: ClassReduction,
    ) -> Result<Tensor, LearningError> {
        let (logits, batch) = (pass.pack_logits()?.logits, &pass.step.batch);
        let width = logits.dim(1)?;
        let mut targets = vec![0.0; batch.labels().len() * width];
        for (targets, label) in targets.chunks_exact_mut(width).zip(batch.labels()) {
            targets[*label as usize] = 1.0;
        }
        if let Some(teacher) = &self.teacher {
            let (told, old) = (teacher.pack_answers(pass.step, pass.device)?, teacher.rows().len());
            for (targets, told) in targets.chunks_exact_mut(width).zip(told.chunks_exact(old)) {
                targets.iter_mut().zip(told).for_each(|(target, z)| *target = sigmoid(*z));
            }
        }
        pass.by_member(|run| {
            let own = logits.narrow(0, run.start, run.len())?.contiguous()?;
            let targets = &targets[run.start * width..run.end * width];
            Ok(sigmoid_cross_entropy(&own, targets, classes)?)
        })
    }
}

impl Objective for Taught {
    fn losses(&mut self, pass: &Pass<'_>) -> Result<Tensor, LearningError> {
        match self.lesson {
            Lesson::Softmax { weight, temperature, form, .. } => {
                self.distilled(pass, (weight, temperature, form))
            }
            Lesson::Sigmoid { classes } => self.multi_class(pass, classes),
        }
    }
}

const STATE: &str =
    "server: the parameters, and those at the end of the task before; client: nothing";

/// LwF's line in the registry.
pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg whose clients also distil what the model of the previous task's end answers \
               to the new images.",
        source: "Li, Hoiem: Learning without Forgetting, TPAMI 2017",
        state: STATE,
        ..MethodEntry::averaging("lwf", Lwf::read)
    }
}

/// FedLwF.MC's.
pub(super) fn multi_class_entry() -> MethodEntry {
    MethodEntry {
        idea: "LwF with one sigmoid per class: new classes learn their labels, old ones what the \
               model of the previous task's end answers.",
        source: "Rebuffi et al.: iCaRL, CVPR 2017 (LwF.MC); federated in HePCo, arXiv 2306.09970",
        state: STATE,
        ..MethodEntry::averaging("fedlwf-mc", Lwf::read_multi_class)
    }
}

#[cfg(test)]
mod tests;
