//! The loss of TARGET's clients from the second task on.
//!
//! ```text
//! CE(new scores(x), y) + kd KD(x~)
//! KD   - mean sum over old rows of softmax(old / 2) log softmax(new / 2)
//! ```
//! Own samples and generated images pass the network one after the other, so that batch norms see two batches, unless
//! `joint_batch` makes them one.

use std::ops::Range;

use candle_core::{Result, Tensor};

use crate::learning::LearningError;
use crate::methods::averaging::{Objective, TrainingStep};
use crate::methods::image_synthesis::{OldModelReplay, old_rows_distilled};
use crate::model::ops;

/// Loss of a client in a task after the first.
pub(super) struct TargetObjective {
    pub images: OldModelReplay,
    /// Head rows of the task.
    pub rows: Range<usize>,
    /// Weight of the distillation.
    pub weight: f64,
}

impl Objective for TargetObjective {
    fn losses(&mut self, pass: &TrainingStep<'_>) -> std::result::Result<Tensor, LearningError> {
        let (batch, network) = (&pass.step.batch, pass.model);
        let (own, images) = (batch.pixels(pass.device)?, self.images.batch(pass)?);
        let images = images.pixels(pass.device)?;
        let (own, replayed) = self.images.features(network, (&own, &images))?;
        let (logits, student) = (network.logits(&own)?, network.logits(&replayed)?);
        let old = &self.images.old;
        let teacher = old.logits(&old.features(&images)?)?;
        let own = (&logits, batch.labels());
        Ok(loss(own, (&student, &teacher), &self.rows, self.weight)?)
    }
}

/// Returns the cross-entropy over the task's rows plus the weighted distillation of older rows.
///
/// The second pair holds logits of generated images, of the student and of the teacher.
fn loss(
    (logits, labels): (&Tensor, &[u32]),
    (student, teacher): (&Tensor, &Tensor),
    rows: &Range<usize>,
    weight: f64,
) -> Result<Tensor> {
    let own = ops::cross_entropy(logits, labels, rows.clone())?;
    own + (old_rows_distilled(student, teacher, rows.start)? * weight)?
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};

    fn of(values: &[f32]) -> Var {
        Var::from_slice(values, (1, values.len()), &Device::Cpu).unwrap()
    }

    /// By hand: one old row pair, one image, one sample of two rows.
    #[test]
    fn terms_by_value_and_gradient() {
        let (z, s) = (of(&[9.0, -9.0, 1.0, 0.0]), of(&[1.0, 3.0, 7.0, 7.0]));
        let teacher = of(&[2.0, -2.0, 50.0, 0.0]);
        let loss = loss((&z, &[2]), (&s, &teacher), &(2..4), 25.0).unwrap();
        let share = 1.0 / (1.0 + (-2f64).exp());
        let log_sum = (0.5f64.exp() + 1.5f64.exp()).ln();
        let distilled = -(share * (0.5 - log_sum) + (1.0 - share) * (1.5 - log_sum));
        let own = (1f64.exp() + 1.0).ln() - 1.0;
        let wanted = own + 25.0 * distilled;
        assert!((f64::from(loss.to_scalar::<f32>().unwrap()) - wanted).abs() < 1e-4);
        // TARGET card, invariant 2: lambda (softmax(z/2) - softmax(z_old/2)) / 2B, and nothing for current rows.
        let gradients = loss.backward().unwrap();
        let slope = |of: &Var| gradients.get(of).unwrap().to_vec2::<f32>().unwrap().remove(0);
        let first = 1.0 / (1.0 + 1f64.exp());
        let gap = 25.0 * (first - share) / 2.0;
        let found = slope(&s);
        assert!(
            (f64::from(found[0]) - gap).abs() < 1e-4 && (f64::from(found[1]) + gap).abs() < 1e-4
        );
        assert_eq!(found[2..], [0.0, 0.0]);
        assert_eq!(slope(&z)[..2], [0.0, 0.0], "old rows are masked");
    }

    /// Nothing pulls a student from its teacher: the first step of a task.
    #[test]
    fn a_student_equal_to_its_teacher_stays() {
        let (z, s) = (of(&[0.0, 0.0, 1.0]), of(&[1.0, 3.0, 7.0]));
        let same = s.as_detached_tensor();
        let loss = loss((&z, &[2]), (&s, &same), &(2..3), 25.0).unwrap();
        let slope = loss.backward().unwrap().get(&s).unwrap().to_vec2::<f32>().unwrap();
        assert!(slope[0].iter().all(|slope| slope.abs() < 1e-6));
    }

    /// PyTorch's value and gradient of the distillation alone, with a weight of 25.
    #[test]
    fn golden_distillation_of_old_rows() {
        let Some(golden) = crate::golden::Golden::open("losses") else { return };
        let narrow = |name: &str| -> Vec<f32> {
            golden.f64(name).into_iter().map(|value| value as f32).collect()
        };
        let z = Var::from_slice(&narrow("z"), (6, 10), &Device::Cpu).unwrap();
        let t = Tensor::from_slice(&narrow("t"), (6, 10), &Device::Cpu).unwrap();
        let loss = (old_rows_distilled(&z, &t, 4).unwrap() * 25.0).unwrap();
        let gradients = loss.backward().unwrap();
        for (name, found) in [("target", &loss), ("target.grad_z", gradients.get(&z).unwrap())] {
            let found = found.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            let (stored, allowed) = (golden.f64(name), golden.tolerance_f32(name));
            assert_eq!(found.len(), stored.len());
            for (found, stored) in found.iter().zip(stored) {
                assert!((f64::from(*found) - stored).abs() <= allowed, "{name}: {found} {stored}");
            }
        }
    }
}
