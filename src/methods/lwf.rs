//! **LwF**, learning without forgetting (Li and Hoiem, TPAMI 2017): FedAvg whose clients also distill the outputs of
//! the previous task's model on new images.
//!
//! ```text
//! client   theta <- down, theta_old <- the server's model at the end of the task before (sent once per task)
//!          L = CE + alpha H(q_old, q),  q = softmax(z / T) over the old columns,  H(q, p) = -mean sum q log p
//! server   as FedAvg;  as a task ends  theta_old <- theta
//! ```
//! The loss has no factor `T^2`. In the first task there is no teacher: LwF is FedAvg. The teacher is an asset: a
//! client that takes part in a task for the first time gets it, and clients keep nothing.
//! [`FedLwfMc`](super::fedlwf_mc::FedLwfMc) is the form with one sigmoid per class.
//!
//! HGP's benchmark distills the columns of the *current* task (`columns = "current"`), on which the old model's rows
//! have their start values: nothing about old classes is distilled. The Fed-LWF row of STSA is `weight = 3`, uniform
//! means and plain SGD. With `columns = "old"` rows of old classes are trained by the distillation, but do not compete
//! in the cross-entropy.

use std::ops::Range;

use candle_core::Tensor;
use clap::ValueEnum;

use super::HeadForm;
use super::averaging::{Objective, PackClient, TrainingStep, first_of, previous};
use super::entry::MethodEntry;
use super::fedavg::FedAvg;
use super::parts::{
    AveragingMethod, ClientContext, Demands, LocalUpdate, Parts, PreviousModel, TrainedRows,
    Workload,
};
use crate::data::TaskView;
use crate::learning::losses::{Distillation, distillation};
use crate::learning::{Classifier, LearningError, Teacher};
use crate::model::{TeacherBatchNormMode, ops};
use crate::policy::{Capability, PolicyError};
use crate::scenario::reader::{Choice, Keys, TableReader};

/// Columns that are distilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum DistilledColumns {
    /// Columns of earlier tasks.
    Old,
    /// Columns of the current task, for which the teacher was never trained.
    ///
    /// As in the code of HGP's benchmark.
    Current,
}

/// Keys of the `[method]` table of LwF.
#[derive(Clone, Debug, PartialEq, Keys)]
#[keys(check = section.check(table))]
pub struct Lwf {
    /// Trained parameters and their aggregation.
    #[key(flatten)]
    pub fedavg: FedAvg,
    /// Columns that are distilled.
    #[key(default = DistilledColumns::Old, source = "Li and Hoiem; the code of HGP's benchmark has current")]
    pub columns: DistilledColumns,
    /// Weight of the distillation (`alpha`).
    #[key(default = 0.5, at_least = 0.0, source = "HGP's benchmark; STSA and TARGET have 3")]
    pub weight: f64,
    /// Temperature of the distillation (`T`).
    #[key(default = 2.0, above = 0.0, source = "Li and Hoiem")]
    pub temperature: f64,
    /// Distance between the outputs of teacher and client.
    #[key(default = Distillation::CrossEntropy, source = "Li and Hoiem; kl has the same gradient")]
    pub form: Distillation,
    /// Moments by which a teacher with batch norms normalizes.
    #[key(default = TeacherBatchNormMode::Running, source = previous::NORMS_SOURCE)]
    pub teacher_batch_norm: TeacherBatchNormMode,
}

impl Lwf {
    fn check(&self, table: &mut TableReader<'_>) {
        if self.columns == DistilledColumns::Current && self.fedavg.head_form == HeadForm::Growing {
            let message = "the teacher has no rows of the current task to be distilled";
            let help = "set `head_form = \"fixed\"`, or `columns = \"old\"`";
            table.reject("columns", message, "not with `head_form = \"growing\"`", help);
        }
    }

    fn distils(&self) -> bool {
        self.weight != 0.0
    }

    /// Returns the columns whose teacher outputs are distilled.
    fn taught(&self, view: &TaskView) -> Range<usize> {
        match self.columns {
            DistilledColumns::Current => view.rows.clone(),
            DistilledColumns::Old => 0..view.rows.start,
        }
    }
}

impl AveragingMethod for Lwf {
    type State = ();
    type Memory = ();

    /// Returns FedAvg's parts with the previous model; rows that compete or are distilled are trained.
    fn parts(&self) -> Parts<'_, (), ()> {
        let trains = match self.columns {
            DistilledColumns::Old if self.distils() => TrainedRows::Seen,
            _ => TrainedRows::Usual,
        };
        let previous_model = self.distils().then(PreviousModel::default);
        Parts { trains, local: self, previous_model, ..self.fedavg.base() }
    }
}

impl LocalUpdate<()> for Lwf {
    fn objective(
        &self,
        context: &ClientContext<'_>,
        pack: &[PackClient<'_, ()>],
        network: &Classifier,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        let view = &first_of(pack)?.participant.view;
        let teacher = (self.taught(view), self.teacher_batch_norm);
        Ok(Box::new(LwfObjective {
            distils: (self.weight, self.temperature, self.form),
            rows: network.rows(),
            compete: self.fedavg.old_logits.rows(view),
            teacher: previous::teacher(context, pack, teacher)?,
        }))
    }

    fn work(&self, load: &Workload<'_>) -> f64 {
        load.with_teachers(u8::from(self.distils()), load.passes())
    }

    fn demands(&self) -> Demands {
        match self.distils() {
            true => Demands::restricting(
                &[Capability::MixedTasks],
                "the old model that teaches is of one task",
            ),
            false => Demands::default(),
        }
    }
}

/// Loss of labels and teacher, on logits whose columns start at the first head row that trains.
struct LwfObjective {
    /// Weight `alpha`, temperature `T`, and the distance between outputs.
    distils: (f64, f64, Distillation),
    rows: Range<usize>,
    compete: Range<usize>,
    /// Teacher; none in the first task.
    teacher: Option<Teacher>,
}

impl LwfObjective {
    /// Returns head rows as columns of the logits.
    fn own(&self, columns: Range<usize>) -> Range<usize> {
        columns.start - self.rows.start..columns.end - self.rows.start
    }
}

impl Objective for LwfObjective {
    /// Returns the losses `CE + alpha H(q_old, q)` of the pack's members.
    fn losses(&mut self, pass: &TrainingStep<'_>) -> Result<Tensor, LearningError> {
        let (logits, step) = (pass.pack_logits()?.logits, pass.step);
        let labels = step.batch.labels().iter().map(|row| row - self.rows.start as u32);
        let (labels, compete) = (labels.collect::<Vec<_>>(), self.own(self.compete.clone()));
        let losses = ops::grouped_cross_entropy(&logits, &labels, compete, &step.groups)?;
        let Some(teacher) = &self.teacher else { return Ok(losses) };
        let (targets, columns) =
            (teacher.pack_answers(step, pass.device)?, self.own(teacher.rows()));
        let ((weight, temperature, form), width) = (self.distils, columns.len());
        let distilled = pass.by_member(|run| {
            let own = logits.narrow(0, run.start, run.len())?;
            let own = own.narrow(1, columns.start, width)?.contiguous()?;
            let targets = &targets[run.start * width..run.end * width];
            Ok(distillation(&own, targets, 0..width, temperature, form)?)
        })?;
        Ok((losses + (distilled * weight)?)?)
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg whose clients also distill the outputs of the previous task's model on the new images.",
        source: "Li, Hoiem: Learning without Forgetting, TPAMI 2017",
        state: previous::STATE,
        ..MethodEntry::averaging("lwf", Lwf::read)
    }
}

#[cfg(test)]
pub(in crate::methods) mod tests;
