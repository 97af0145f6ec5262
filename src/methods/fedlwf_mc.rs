//! **FedLwF.MC**, [LwF](super::lwf) with one sigmoid per class.
//!
//! LwF.MC of Rebuffi et al., CVPR 2017; federated in HePCo. Clients learn the labels of new classes and, of old ones,
//! the outputs of the previous task's model on the new images.
//!
//! ```text
//! client   theta <- down, theta_old <- the server's model at the end of the task before (sent once per task)
//!          L = BCE(sigmoid(z), g) over all columns seen,  g = sigmoid(z_old) of old ones, one-hot of new ones
//! server   as FedAvg;  as a task ends  theta_old <- theta
//! ```
//! In the first task there is no teacher: each class has a logistic regression. The teacher is the server's model, as
//! in LwF.

use candle_core::Tensor;

use super::averaging::{Objective, PackClient, TrainingStep, first_of, previous};
use super::entry::MethodEntry;
use super::fedavg::FedAvg;
use super::parts::{
    AveragingMethod, ClientContext, Demands, LocalUpdate, Parts, PreviousModel, TrainedRows,
    Workload,
};
use super::trainable::TrainableKeys;
use crate::learning::losses::{ClassReduction, sigmoid_cross_entropy, sigmoid_targets};
use crate::learning::{Classifier, LearningError, Teacher};
use crate::model::TeacherBatchNormMode;
use crate::policy::{Capability, PolicyError};
use crate::scenario::reader::Keys;

/// Keys of the `[method]` table of FedLwF.MC.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct FedLwfMc {
    /// Trained parameters and their aggregation; all classes seen compete.
    #[key(read = FedAvg::read_keys(table, FEDAVG_KEYS))]
    pub fedavg: FedAvg,
    /// Reduction of the losses of a sample's classes.
    #[key(default = ClassReduction::Mean, source = "public code of HePCo; iCaRL has sum")]
    pub class_reduction: ClassReduction,
    /// Moments by which a teacher with batch norms normalizes.
    #[key(default = TeacherBatchNormMode::Running, source = previous::NORMS_SOURCE)]
    pub teacher_batch_norm: TeacherBatchNormMode,
}

const FEDAVG_KEYS: TrainableKeys =
    TrainableKeys::FEDAVG.uniform("public code of HePCo").over_all_seen();

impl AveragingMethod for FedLwfMc {
    type State = ();
    type Memory = ();

    fn parts(&self) -> Parts<'_, (), ()> {
        let previous_model = Some(PreviousModel::default());
        Parts { trains: TrainedRows::Seen, local: self, previous_model, ..self.fedavg.base() }
    }
}

impl LocalUpdate<()> for FedLwfMc {
    fn objective(
        &self,
        context: &ClientContext<'_>,
        pack: &[PackClient<'_, ()>],
        _network: &Classifier,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        let old = 0..first_of(pack)?.participant.view.rows.start;
        let teacher = previous::teacher(context, pack, (old, self.teacher_batch_norm))?;
        Ok(Box::new(FedLwfMcObjective { classes: self.class_reduction, teacher }))
    }

    fn work(&self, load: &Workload<'_>) -> f64 {
        load.with_teachers(1, load.passes())
    }

    fn demands(&self) -> Demands {
        Demands::restricting(&[Capability::MixedTasks], "the old model that teaches is of one task")
    }
}

/// Sigmoid cross-entropy with labels of new classes and the teacher's outputs of old ones as targets.
struct FedLwfMcObjective {
    classes: ClassReduction,
    /// Previous task's model; `None` in the first task.
    teacher: Option<Teacher>,
}

impl Objective for FedLwfMcObjective {
    /// Returns `BCE(sigmoid(z), g)` of each member, `(members)`.
    fn losses(&mut self, pass: &TrainingStep<'_>) -> Result<Tensor, LearningError> {
        let (logits, step) = (pass.pack_logits()?.logits, pass.step);
        let (labels, width) = (step.batch.labels(), logits.dim(1)?);
        let targets = match &self.teacher {
            Some(teacher) => {
                let answers = teacher.pack_answers(step, pass.device)?;
                sigmoid_targets(labels, width, Some((&answers, teacher.rows().len())))
            }
            None => sigmoid_targets(labels, width, None),
        };
        pass.by_member(|run| {
            let own = logits.narrow(0, run.start, run.len())?.contiguous()?;
            let targets = &targets[run.start * width..run.end * width];
            Ok(sigmoid_cross_entropy(&own, targets, self.classes)?)
        })
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "LwF with one sigmoid per class: new classes are trained on labels, old ones on the outputs of the \
               previous task's model.",
        source: "Rebuffi et al.: iCaRL, CVPR 2017 (LwF.MC); federated in HePCo, arXiv 2306.09970",
        state: previous::STATE,
        ..MethodEntry::averaging("fedlwf-mc", FedLwfMc::read)
    }
}

#[cfg(test)]
mod tests;
