//! The loss of LANDER's clients.
//!
//! ```text
//! bound(x, y) = max(0, mean (h(x) - T_y)^2 - r)
//! task 1      CE(scores(x), y) + lambda bound(x, y)
//! later       cur (CE(new scores(x), y) + lambda bound(x, y)) + pre (KD(x~) + mean (h(x~) - h_old(x~))^2)
//! KD          - mean sum over old rows of softmax(old / 2) log softmax(new / 2)
//! ```
//! Own samples and generated images pass the network one after the other, so that batch norms see two batches, unless
//! `joint_batch` makes them one.

use std::ops::Range;

use candle_core::{Result, Tensor};

use super::embeddings::LabelEmbeddings;
use crate::learning::losses::squared_gap;
use crate::learning::{Classifier, LearningError};
use crate::methods::averaging::{Objective, TrainingStep};
use crate::methods::image_synthesis::{OldModelReplay, old_rows_distilled};
use crate::model::{ModelError, ops};

/// Label embeddings as targets of mapped features.
pub(super) struct Anchors {
    pub table: LabelEmbeddings,
    /// The data set's class at each head row.
    pub order: Vec<u32>,
    /// Radius `r`: mean square of gaps that is tolerated.
    pub radius: f64,
    /// Weight `lambda` of the bound.
    pub weight: f64,
}

impl Anchors {
    /// Returns the embeddings of head rows, concatenated.
    pub fn of(&self, labels: &[u32]) -> Vec<f32> {
        let row = |label: &u32| self.table.of(self.order[*label as usize]);
        labels.iter().flat_map(row).copied().collect()
    }

    /// Returns the bound `weight max(0, mean (h - T_y)^2 - r)` of mapped features `h`, a scalar.
    ///
    /// # Errors
    /// When features have another width.
    pub fn bound(&self, mapped: &Tensor, labels: &[u32], weight: f64) -> Result<Tensor> {
        squared_gap(mapped, &self.of(labels), self.radius, weight)
    }
}

/// Generated images of a client's steps, and the factors of its losses.
pub(super) struct LanderReplay {
    pub images: OldModelReplay,
    /// Factors of losses on own samples and on generated images.
    pub weights: (f64, f64),
}

/// The loss of a client in a task.
pub(super) struct LanderObjective {
    pub anchors: Anchors,
    /// True if features are bound in this task.
    pub binds: bool,
    /// Head rows of the task.
    pub rows: Range<usize>,
    pub replay: Option<LanderReplay>,
}

impl Objective for LanderObjective {
    fn losses(&mut self, pass: &TrainingStep<'_>) -> std::result::Result<Tensor, LearningError> {
        let (batch, network) = (&pass.step.batch, pass.model);
        let own = batch.pixels(pass.device)?;
        let Some(replay) = &self.replay else {
            return self.own_loss(network, &network.features(&own)?, batch.labels());
        };
        let images = replay.images.batch(pass)?.pixels(pass.device)?;
        let (own, replayed) = replay.images.features(network, (&own, &images))?;
        let own = self.own_loss(network, &own, batch.labels())?;
        let student = (&network.logits(&replayed)?, &mapped(network, &replayed)?);
        let old = &replay.images.old;
        let features = old.features(&images)?;
        let teacher = (&old.logits(&features)?, &mapped(old, &features)?);
        let replayed = replay_loss(student, teacher, self.rows.start)?;
        let (cur, pre) = replay.weights;
        Ok(((own * cur)? + (replayed * pre)?)?)
    }
}

impl LanderObjective {
    /// Returns the loss of own samples from their features: cross-entropy, and the bound if this task binds features.
    fn own_loss(
        &self,
        network: &Classifier,
        features: &Tensor,
        labels: &[u32],
    ) -> std::result::Result<Tensor, LearningError> {
        let weight = if self.binds { self.anchors.weight } else { 0.0 };
        let bound = self.anchors.bound(&mapped(network, features)?, labels, weight)?;
        Ok(own_loss((&network.logits(features)?, &self.rows), labels, bound)?)
    }
}

/// Returns the network's map of features, or an error if it has none.
fn mapped(network: &Classifier, features: &Tensor) -> std::result::Result<Tensor, ModelError> {
    let missing = || ModelError::Input { reason: "a model without a map of features".to_owned() };
    network.mapped(features)?.ok_or_else(missing)
}

/// Returns the cross-entropy of the task's rows and the weighted bound.
fn own_loss(
    (logits, rows): (&Tensor, &Range<usize>),
    labels: &[u32],
    bound: Tensor,
) -> Result<Tensor> {
    ops::cross_entropy(logits, labels, rows.clone())? + bound
}

/// Returns the distillation of logits over old rows, plus the mean squared distance of mapped features.
///
/// The first pair is of the student, the second of the old model.
fn replay_loss(
    (logits, mapped): (&Tensor, &Tensor),
    (old_logits, old_mapped): (&Tensor, &Tensor),
    old: usize,
) -> Result<Tensor> {
    let anchors = old_mapped.flatten_all()?.to_vec1::<f32>()?;
    old_rows_distilled(logits, old_logits, old)? + squared_gap(mapped, &anchors, 0.0, 1.0)?
}

#[cfg(test)]
mod tests {
    use super::super::Lander;
    use super::*;
    use crate::golden::Golden;
    use candle_core::{Device, Var};

    fn anchors(values: &[f32], width: usize, order: &[u32]) -> Anchors {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        let line = |row: &[f32]| row.iter().map(f32::to_string).collect::<Vec<_>>().join(",");
        let text = values.chunks(width).map(line).collect::<Vec<_>>().join("\n");
        std::fs::write(&path, text).unwrap();
        let table = LabelEmbeddings::read(&path, values.len() / width, width).unwrap();
        Anchors { table, order: order.to_vec(), radius: 0.015, weight: 5.0 }
    }

    /// PyTorch's values and gradients of the first task's loss and of a later one's.
    #[test]
    fn golden_losses_of_the_client() {
        let Some(golden) = Golden::open("inversion") else { return };
        let table = anchors(&golden.f32("embedding"), 12, &[0, 1, 2, 3, 4, 5]);
        let labels = golden.labels("lc.y");
        let (z, h) = (golden.variable("lc.z"), golden.variable("lc.h"));
        let bound = || table.bound(&h, &labels, table.weight).unwrap();
        let check = |name: &str, loss: &Tensor, of: &[(&str, &Var)]| {
            golden.assert_tensor(name, loss);
            let gradients = loss.backward().unwrap();
            for (part, variable) in of {
                let gradient = gradients.get(variable).expect("a gradient");
                golden.assert_tensor(&format!("{name}.grad_{part}"), gradient);
            }
        };
        let first = own_loss((&z, &(0..6)), &labels, bound()).unwrap();
        check("lc.task1", &first, &[("z", &z), ("h", &h)]);
        let weights = Lander::default().weights(3, 6);
        golden.assert_close("lc.weights", &[weights.0, weights.1]);
        let (zs, hs) = (golden.variable("lc.zs"), golden.variable("lc.hs"));
        let old = (&golden.tensor("lc.zo"), &golden.tensor("lc.ho"));
        let own = own_loss((&z, &(3..6)), &labels, bound()).unwrap();
        let replayed = replay_loss((&zs, &hs), old, 3).unwrap();
        let loss = ((own * weights.0).unwrap() + (replayed * weights.1).unwrap()).unwrap();
        check("lc.task2", &loss, &[("z", &z), ("h", &h), ("zs", &zs), ("hs", &hs)]);
    }

    /// Head rows are of classes in another order than the table's.
    #[test]
    fn anchors_follow_the_order_of_classes() {
        let table = anchors(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2, &[2, 0, 1]);
        assert_eq!(table.of(&[0, 2]), [5.0, 6.0, 3.0, 4.0]);
    }

    /// LANDER card, invariant 1: nothing pulls a student from its teacher.
    #[test]
    fn a_student_equal_to_its_teacher_stays() {
        let z = Var::new(&[[1f32, -0.5, 3.0], [0.2, 0.4, -9.0]], &Device::Cpu).unwrap();
        let h = Var::new(&[[0.3f32, 0.1], [-2.0, 0.7]], &Device::Cpu).unwrap();
        let (old_z, old_h) = (z.as_detached_tensor(), h.as_detached_tensor());
        let loss = replay_loss((&z, &h), (&old_z, &old_h), 2).unwrap();
        let gradients = loss.backward().unwrap();
        for variable in [&z, &h] {
            let slope = gradients.get(variable).expect("a gradient").flatten_all().unwrap();
            assert!(slope.to_vec1::<f32>().unwrap().iter().all(|v| *v == 0.0));
        }
    }

    /// By hand: one sample of two rows of which one is old, gaps (1, 2) of mapped features.
    #[test]
    fn terms_by_value() {
        let of = |values: &[f32]| Tensor::from_slice(values, (1, values.len()), &Device::Cpu);
        let value = |loss: Result<Tensor>| f64::from(loss.unwrap().to_scalar::<f32>().unwrap());
        let (z, h) = (of(&[1.0, 3.0, 0.0]).unwrap(), of(&[1.0, 2.0]).unwrap());
        let (old, still) = (of(&[2.0, -2.0, 5.0]).unwrap(), of(&[0.0, 0.0]).unwrap());
        // Softmax of (2, -2) / 2 and of (1, 3) / 2.
        let share = 1.0 / (1.0 + (-2f64).exp());
        let log_sum = (0.5f64.exp() + 1.5f64.exp()).ln();
        let wanted = -(share * (0.5 - log_sum) + (1.0 - share) * (1.5 - log_sum));
        assert!((value(replay_loss((&z, &h), (&old, &still), 2)) - wanted - 2.5).abs() < 1e-5);
        let bound = Tensor::new(0.3f32, &Device::Cpu).unwrap();
        let own = value(own_loss((&z, &(1..3)), &[2], bound));
        assert!((own - ((3f64.exp() + 1.0).ln() + 0.3)).abs() < 1e-5);
    }
}
