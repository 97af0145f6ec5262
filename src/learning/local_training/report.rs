//! Record of a training, during and after it.

use crate::learning::LearningError;

/// Report of a call of [`train`](super::train).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrainingReport {
    /// Number of optimizer steps.
    pub steps: u64,
    /// Number of samples seen, including repetitions.
    pub samples: u64,
    /// Sum of the learning rates of all steps.
    ///
    /// If gradients are constant, a variable moves by this times the gradient.
    pub rates: f64,
    /// Loss of the first batch; 0 if there was none.
    pub loss_first: f32,
    /// Loss of the last batch.
    pub loss_last: f32,
    /// Sum of the losses of all steps in the first epoch.
    pub first_epoch: f64,
    /// Mean loss over the samples of each epoch.
    pub epoch_losses: Vec<f64>,
}

impl TrainingReport {
    /// Returns the metrics of a client's training for the journal.
    pub fn metrics(&self) -> Vec<(&'static str, f64)> {
        let last = self.epoch_losses.last().copied().unwrap_or(0.0);
        vec![
            ("steps", self.steps as f64),
            ("loss_first", f64::from(self.loss_first)),
            ("loss_last_epoch", last),
        ]
    }
}

/// One member's part of a step that is being taken.
#[derive(Clone, Copy)]
pub(super) struct Taken {
    /// Step number of the member, from 0.
    pub step: u64,
    /// True if this step ends an epoch of the member, or its training.
    pub last: bool,
    pub samples: usize,
    /// Learning rate of the step.
    pub rate: f64,
}

/// Report of a member so far, or the error that ended its training.
#[derive(Default)]
pub(super) struct MemberProgress {
    report: TrainingReport,
    /// Sum of losses and number of samples of the current epoch.
    epoch: (f64, u64),
    failed: Option<LearningError>,
}

impl MemberProgress {
    /// Records a step. A loss that is not finite ends the training.
    pub fn note(&mut self, loss: f32, turn: &Taken) {
        let Taken { step, samples, last, rate, .. } = *turn;
        if self.failed.is_some() {
            return;
        }
        if !loss.is_finite() {
            return self.spoil("loss".into(), step);
        }
        self.report.rates += rate;
        if self.report.steps == 0 {
            self.report.loss_first = loss;
        }
        self.report.loss_last = loss;
        if self.report.epoch_losses.is_empty() {
            self.report.first_epoch += f64::from(loss);
        }
        self.report.steps += 1;
        self.epoch.0 += f64::from(loss) * samples as f64;
        self.epoch.1 += samples as u64;
        if last {
            let (total, samples) = std::mem::take(&mut self.epoch);
            self.report.samples += samples;
            self.report.epoch_losses.push(total / samples as f64);
        }
    }

    /// Records that a value of step `step` was not finite.
    pub fn spoil(&mut self, what: String, step: u64) {
        self.fail(LearningError::NonFinite { what, step });
    }

    /// Ends the training with this error, unless it has ended before.
    pub fn fail(&mut self, why: LearningError) {
        self.failed.get_or_insert(why);
    }

    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    pub fn finish(self) -> Result<TrainingReport, LearningError> {
        match self.failed {
            Some(why) => Err(why),
            None => Ok(self.report),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An epoch of a batch of 3 and one of 1, and a second epoch of one batch.
    #[test]
    fn an_epoch_s_loss_is_the_mean_over_its_samples() {
        let mut progress = MemberProgress::default();
        let steps = [(4.0, 3, false), (8.0, 1, true), (2.0, 4, true)];
        for (step, (loss, samples, last)) in steps.into_iter().enumerate() {
            progress.note(loss, &Taken { step: step as u64, last, samples, rate: 0.5 });
        }
        let report = progress.finish().unwrap();
        assert_eq!((report.steps, report.samples, report.rates), (3, 8, 1.5));
        assert_eq!((report.loss_first, report.loss_last), (4.0, 2.0));
        assert_eq!(report.first_epoch, 4.0 + 8.0, "every step counts as much");
        assert_eq!(report.epoch_losses, [5.0, 2.0]);
        let said = [("steps", 3.0), ("loss_first", 4.0), ("loss_last_epoch", 2.0)];
        assert_eq!(report.metrics(), said);
    }
}
