//! The loss on new samples and exemplars together.

use candle_core::Tensor;
use clap::ValueEnum;

use crate::learning::losses::{
    ClassReduction, Distillation, distillation, sigmoid_cross_entropy, sigmoid_targets,
};
use crate::learning::{Classifier, LearningError};
use crate::methods::averaging::{Objective, TrainingStep};
use crate::model::ops::cross_entropy;
use crate::scenario::reader::Choice;

/// Temperature of the distillation of `IcarlLoss::Softmax`, as in the releases.
const TEMPERATURE: f64 = 2.0;

/// Loss of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum IcarlLoss {
    /// Binary cross-entropy of every output, old ones towards the previous network's.
    Sigmoid,
    /// Cross-entropy over all classes seen, plus distillation of the previous network over old ones.
    ///
    /// As in the releases of LANDER, TARGET and STSA, at temperature 2.
    Softmax,
}

/// Reduction of the sigmoid loss over outputs and samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Reduction {
    /// Sum over the classes seen, mean over samples.
    Sum,
    /// Mean over samples and the classes seen.
    Mean,
    /// Mean over samples and all outputs, with target 0 for later classes (the releases of iCaRL).
    MeanAll,
}

/// Loss of a batch of new samples and exemplars.
pub(super) struct IcarlObjective {
    pub loss: IcarlLoss,
    pub bce: Reduction,
    /// Numbers of old outputs and of outputs seen so far.
    pub columns: (usize, usize),
    pub previous: Option<Classifier>,
}

impl IcarlObjective {
    /// Returns the loss of logits `(b, rows)`, a scalar.
    ///
    /// `old` are the previous network's logits of old classes, flat from `(b, columns.0)`.
    pub fn of(
        &self,
        logits: &Tensor,
        labels: &[u32],
        old: Option<&[f32]>,
    ) -> candle_core::Result<Tensor> {
        let (before, seen) = self.columns;
        if self.loss == IcarlLoss::Softmax {
            let loss = cross_entropy(logits, labels, 0..seen)?;
            let Some(old) = old else { return Ok(loss) };
            let own = logits.narrow(1, 0, before)?.contiguous()?;
            let form = Distillation::CrossEntropy;
            return loss + distillation(&own, old, 0..before, TEMPERATURE, form)?;
        }
        let columns = if self.bce == Reduction::MeanAll { logits.dim(1)? } else { seen };
        let targets = sigmoid_targets(labels, columns, old.map(|old| (old, before)));
        let classes = match self.bce {
            Reduction::Sum => ClassReduction::Sum,
            Reduction::Mean | Reduction::MeanAll => ClassReduction::Mean,
        };
        sigmoid_cross_entropy(&logits.narrow(1, 0, columns)?.contiguous()?, &targets, classes)
    }
}

impl Objective for IcarlObjective {
    fn losses(&mut self, pass: &TrainingStep<'_>) -> Result<Tensor, LearningError> {
        let (logits, batch) = (pass.logits()?, &pass.step.batch);
        let old = match &self.previous {
            Some(previous) => {
                let features = previous.batch_features(batch, pass.device)?;
                let targets = previous.logits(&features)?.detach().narrow(1, 0, self.columns.0)?;
                Some(targets.contiguous()?.flatten_all()?.to_vec1::<f32>()?)
            }
            None => None,
        };
        Ok(self.of(&logits, batch.labels(), old.as_deref())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;
    use candle_core::{Device, Var};

    fn narrow(values: Vec<f64>) -> Vec<f32> {
        values.into_iter().map(|value| value as f32).collect()
    }

    fn distilled(loss: IcarlLoss, bce: Reduction) -> IcarlObjective {
        IcarlObjective { loss, bce, columns: (6, 9), previous: None }
    }

    #[test]
    fn golden_rehearsal_targets_and_sigmoid_losses() {
        let Some(golden) = Golden::open("rehearsal") else { return };
        let (old, labels) = (narrow(golden.f64("ic.old")), golden.labels("ic.labels"));
        golden.assert_close("ic.targets", &sigmoid_targets(&labels, 9, Some((&old, 6))));
        let z = Tensor::from_vec(narrow(golden.f64("ic.z")), (6, 12), &Device::Cpu).unwrap();
        let z = Var::from_tensor(&z).unwrap();
        for (name, bce) in [
            ("ic.sum", Reduction::Sum),
            ("ic.mean", Reduction::Mean),
            ("ic.mean_all", Reduction::MeanAll),
        ] {
            let loss = distilled(IcarlLoss::Sigmoid, bce).of(&z, &labels, Some(&old)).unwrap();
            golden.assert_close_f32(name, &[loss.to_scalar::<f32>().unwrap()]);
            let gradients = loss.backward().unwrap();
            let gradient = gradients.get(&z).unwrap().flatten_all().unwrap();
            golden.assert_close_f32(&format!("{name}.grad_z"), &gradient.to_vec1::<f32>().unwrap());
        }
    }

    /// Rehearsal card, invariant 6: a student that says what the previous network said gets no gradient on old outputs,
    /// with either loss; of an exemplar its own one-hot entry is replaced, too.
    #[test]
    fn the_previous_network_asks_nothing_of_its_equal() {
        let old: Vec<f32> = (0..18).map(|i| (i as f32 * 0.7).sin()).collect();
        let all: Vec<f32> =
            old.chunks(6).flat_map(|old| [old, &[0.3, -0.2, 0.9][..]].concat()).collect();
        let z = Tensor::from_vec(all, (3, 9), &Device::Cpu).unwrap();
        let z = Var::from_tensor(&z).unwrap();
        let slope = |loss, old: Option<&[f32]>, labels: &[u32]| {
            let distilled = distilled(loss, Reduction::Sum);
            let gradients = distilled.of(&z, labels, old).unwrap().backward().unwrap();
            gradients.get(&z).unwrap().to_vec2::<f32>().unwrap()
        };
        for row in slope(IcarlLoss::Sigmoid, Some(&old), &[0, 3, 8]) {
            assert!(row[..6].iter().all(|g| g.abs() < 1e-6) && row[6].abs() > 1e-2, "{row:?}");
        }
        let labels = [6, 7, 8];
        let with = slope(IcarlLoss::Softmax, Some(&old), &labels);
        let without = slope(IcarlLoss::Softmax, None, &labels);
        for (with, without) in with.concat().iter().zip(without.concat()) {
            assert!((with - without).abs() < 1e-6, "{with} {without}");
        }
        assert_eq!(sigmoid_targets(&[1], 3, None), [0.0, 1.0, 0.0]);
    }

    /// The softmax form is the cross-entropy over seen outputs plus a distillation.
    ///
    /// The second term is the cross-entropy with softened outputs of the previous network over old ones, at
    /// temperature 2 and without its square.
    #[test]
    fn a_previous_network_adds_to_the_loss() {
        let z: Vec<f32> = (0..18).map(|i| (1.3 * i as f32).cos()).collect();
        let old: Vec<f32> = (0..12).map(|i| (0.7 * i as f32).sin()).collect();
        let logits = Tensor::from_slice(&z, (2, 9), &Device::Cpu).unwrap();
        let loss = |targets: Option<&[f32]>| {
            let distilled = distilled(IcarlLoss::Softmax, Reduction::Sum);
            let loss = distilled.of(&logits, &[6, 8], targets).unwrap();
            f64::from(loss.to_scalar::<f32>().unwrap())
        };
        let softmax = |row: &[f32]| -> Vec<f64> {
            let powers: Vec<f64> = row.iter().map(|z| (f64::from(*z) / 2.0).exp()).collect();
            let sum: f64 = powers.iter().sum();
            powers.into_iter().map(|power| power / sum).collect()
        };
        let of = |(z, old): (&[f32], &[f32])| -> f64 {
            let (own, teacher) = (softmax(&z[..6]), softmax(old));
            -teacher.iter().zip(&own).map(|(t, p)| t * p.ln()).sum::<f64>()
        };
        let wanted = z.chunks(9).zip(old.chunks(6)).map(of).sum::<f64>() / 2.0;
        let found = loss(Some(&old)) - loss(None);
        assert!((found - wanted).abs() < 1e-5, "{found} {wanted}");
    }
}
