//! The `[method]` table of TARGET.

use clap::ValueEnum;

use crate::learning::TrainingPlan;
use crate::methods::averaging::OldLogits;
use crate::methods::fedavg::{FedAvg, Train};
use crate::methods::image_synthesis::ImageSynthesis;
use crate::methods::trainable::{Setting, TrainableKeys};
use crate::model::HeadKind;
use crate::scenario::reader::{Choice, Keys, TableReader};

/// Source of most defaults.
const RELEASE: &str = "the release";
/// Upper bound of numbers of calls, steps and images.
const LARGEST: f64 = 100_000.0;
/// Number of calls over which a cosine lowers the student's learning rate, and the rate at their end.
const COSINE: (f64, f64) = (200.0, 2e-4);

/// Event that ends a client's epoch from the second task on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum EpochEnd {
    /// End of own samples or of generated images, whichever comes first.
    First,
    /// End of own samples; generated images start again.
    Samples,
}

/// Classes of which images are generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum LabelRange {
    /// All classes seen.
    Seen,
    /// All classes seen but the last one.
    ButLast,
}

/// Head rows whose scores count for generated images at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum AnswerRows {
    /// Rows of the classes seen.
    Seen,
    /// All rows of a fixed head, those of later tasks included.
    All,
}

/// Update of the generator after a synthesis round, from the steps of its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum MetaStep {
    /// By the sum of the copy's gradients (first-order MAML).
    Fomaml,
    /// By 67 times the difference between generator and copy, in place of a gradient.
    Reptile,
}

/// Schedule of the student's learning rate over synthesis rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum StudentSchedule {
    /// Half a cosine over 200 synthesis rounds, down to 2e-4.
    Cosine,
    /// Constant rate.
    Constant,
}

/// Keys of the `[method]` table of TARGET.
#[derive(Clone, Debug, PartialEq, Keys)]
#[keys(check = section.check(table))]
pub struct TargetMethod {
    /// Trained parameters and their aggregation; the whole network trains.
    #[key(read = FedAvg::read_keys(table, FEDAVG_KEYS))]
    pub fedavg: FedAvg,
    /// Weight of the distillation of earlier rows on generated images (`kd`).
    ///
    /// With 0 no images are generated, and the method is FedAvg.
    #[key(default = 25.0, at_least = 0.0, source = RELEASE)]
    pub kd_weight: f64,
    /// Number of generated images in a training step of a client.
    #[key(
        default = 500,
        at_least = 1.0,
        at_most = LARGEST,
        source = "the release on CIFAR-100 in five tasks: 8,000 images in 16 steps"
    )]
    pub synthetic_batch: u32,
    /// True to pass own samples and generated images of a step through the network as one batch.
    ///
    /// Batch norms then use the moments of both, as running moments do.
    #[key(default = false, source = RELEASE)]
    pub joint_batch: bool,
    /// Number of generated images that clients download and replay: the first ones by file name.
    #[key(default = 8_000, at_least = 1.0, source = RELEASE)]
    pub replayed_images: u32,
    /// Event that ends a client's epoch from the second task on.
    #[key(default = EpochEnd::First, source = RELEASE)]
    pub epoch_end: EpochEnd,
    /// Number of synthesis rounds, each of which keeps its images.
    #[key(default = 10, at_least = 1.0, at_most = LARGEST, source = "the release on CIFAR-100; else 200")]
    pub synthesis_rounds: u32,
    /// Synthesis round, from 1, from which the student is in the loss; it trains after later ones.
    #[key(default = 20, at_most = LARGEST, source = RELEASE)]
    pub warmup: u32,
    /// Learning rate of the noise vectors, which are trained with the generator.
    #[key(default = 1e-2, at_least = 0.0, source = RELEASE)]
    pub latent_lr: f64,
    /// Update of the generator after a synthesis round, from the steps of its copy.
    #[key(default = MetaStep::Fomaml, source = "the release on CIFAR-100; else Reptile")]
    pub meta: MetaStep,
    /// Classes of which images are generated.
    #[key(default = LabelRange::Seen, source = "the release; HGP's benchmark leaves out the last")]
    pub label_range: LabelRange,
    /// Head rows whose scores count for generated images at the server.
    #[key(default = AnswerRows::Seen, source = "the release, whose head grows")]
    pub answer_rows: AnswerRows,
    /// Generator and its training.
    #[key(read = ImageSynthesis::read_keys(table, SYNTHESIS))]
    pub synthesis: ImageSynthesis,
    /// Schedule of the student's learning rate over synthesis rounds.
    #[key(default = StudentSchedule::Cosine, source = RELEASE)]
    pub student_schedule: StudentSchedule,
    /// Largest norm of the student's gradient; 0 does not clip.
    #[key(default = 0.0, at_least = 0.0, source = "the release; HGP's benchmark: 1")]
    pub student_clip: f64,
}

/// Defaults of the generation of images.
const SYNTHESIS: ImageSynthesis = ImageSynthesis {
    batch: 256,
    steps: 10,
    rate: 2e-3,
    width: 64,
    latent: 256,
    statistics: 10.0,
    momentum: 0.9,
    labels: 0.5,
    adversarial: 1.0,
    padding: 4,
    flip: 0.5,
    student_steps: 400,
    student_batch: 256,
    student_rate: 0.2,
    temperature: 20.0,
};

/// Keys of FedAvg with TARGET's defaults: only the task's rows compete in the cross-entropy.
const FEDAVG_KEYS: TrainableKeys = TrainableKeys {
    old_logits: Setting::Fixed(OldLogits::Mask),
    ..TrainableKeys::FEDAVG.uniform(RELEASE).growing(RELEASE)
};

impl TargetMethod {
    fn check(&self, table: &mut TableReader<'_>) {
        if self.fedavg.train != Train::All {
            let message = "features that do not train have nothing to forget";
            let help = "set `train = \"all\"`";
            table.reject("train", message, "images are replayed for them", help);
        }
        if self.fedavg.classifier != HeadKind::Linear {
            let message = "scores of images are those of linear rows";
            let help = "set `classifier = \"linear\"`";
            table.reject("classifier", message, "only with a linear head", help);
        }
    }

    /// Returns true if clients replay generated images.
    pub fn replays(&self) -> bool {
        self.kd_weight != 0.0
    }

    /// Returns the number of images that clients get.
    pub fn images(&self) -> usize {
        let made = self.synthesis_rounds as usize * self.synthesis.batch as usize;
        made.min(self.replayed_images as usize)
    }

    /// Returns the plan of a client's training with replay, whose epochs may end with the images.
    pub fn plan(&self, plan: &TrainingPlan) -> TrainingPlan {
        let passes = self.images().div_ceil(self.synthetic_batch.max(1) as usize);
        let epoch_steps = (self.epoch_end == EpochEnd::First).then_some(passes as u64);
        TrainingPlan { epoch_steps, ..plan.clone() }
    }

    /// Returns true if the student takes part in the loss of a call (from 1).
    pub fn has_adversary(&self, call: u32) -> bool {
        self.synthesis.adversarial > 0.0 && call >= self.warmup
    }

    /// Returns true if the student is trained after a call (from 1).
    pub fn distills(&self, call: u32) -> bool {
        call > self.warmup
    }

    /// Returns the student's learning rate after a call (from 1), by its schedule.
    pub fn student_rate(&self, call: u32) -> f64 {
        let rate = self.synthesis.student_rate;
        match self.student_schedule {
            StudentSchedule::Constant => rate,
            StudentSchedule::Cosine => {
                let (period, end) = COSINE;
                let at = f64::from(call.saturating_sub(self.warmup + 1)) / period;
                end + (rate - end) * (1.0 + libm::cos(std::f64::consts::PI * at)) / 2.0
            }
        }
    }

    /// Returns the number of classes of which images are generated, out of `seen`.
    pub fn generated_classes(&self, seen: usize) -> usize {
        match self.label_range {
            LabelRange::Seen => seen,
            LabelRange::ButLast => seen.saturating_sub(1).max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The release's ten calls on CIFAR-100 end before its warm-up of 20 does.
    #[test]
    fn calls_are_those_of_the_release() {
        let cifar = TargetMethod::default();
        assert_eq!((cifar.images(), cifar.replays()), (2_560, true));
        assert!((1..=cifar.synthesis_rounds).all(|call| !cifar.has_adversary(call)));
        // The student, who has not learned yet, takes part in call 20; it learns after call 21.
        assert!(!cifar.has_adversary(19) && cifar.has_adversary(20));
        assert!(!cifar.distills(20) && cifar.distills(21));
        let tiny = TargetMethod { synthesis_rounds: 200, ..cifar };
        assert_eq!(tiny.images(), 8_000, "of 51,200");
        let mut without = tiny;
        without.synthesis.adversarial = 0.0;
        assert!(!without.has_adversary(200));
    }

    #[test]
    fn epochs_end_with_images_or_samples() {
        let plan = TrainingPlan { batch: 128, epochs: 5, ..TrainingPlan::default() };
        let method = TargetMethod::default();
        // Six batches of 500 images, of which the last is smaller, and 16 of 2,000 samples.
        assert_eq!(method.plan(&plan).steps_of(2_000), 5 * 6);
        assert_eq!(method.plan(&plan).steps_of(300), 5 * 3);
        let samples = TargetMethod { epoch_end: EpochEnd::Samples, ..method };
        assert_eq!(samples.plan(&plan), plan);
    }

    #[test]
    fn the_student_s_rate_falls_by_a_cosine() {
        let method = TargetMethod::default();
        assert!((method.student_rate(21) - 0.2).abs() < 1e-12);
        assert!((method.student_rate(121) - 0.1001).abs() < 1e-12);
        assert!((method.student_rate(221) - 2e-4).abs() < 1e-12);
        let constant = TargetMethod { student_schedule: StudentSchedule::Constant, ..method };
        assert_eq!(constant.student_rate(121), 0.2);
    }

    #[test]
    fn the_newest_class_may_be_left_out() {
        let method = TargetMethod { label_range: LabelRange::ButLast, ..TargetMethod::default() };
        assert_eq!([1, 2, 20].map(|seen| method.generated_classes(seen)), [1, 1, 19]);
        assert_eq!(TargetMethod::default().generated_classes(20), 20);
    }
}
