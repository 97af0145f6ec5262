//! The `[method]` table of LANDER.

use clap::ValueEnum;

use super::embeddings::ORTHOGONAL;
use crate::methods::averaging::OldLogits;
use crate::methods::fedavg::{FedAvg, Train};
use crate::methods::image_synthesis::ImageSynthesis;
use crate::methods::trainable::{Setting, TrainableKeys};
use crate::model::{HeadKind, LabelNoise, MappingPlace};
use crate::scenario::reader::{Choice, Keys, TableReader};

/// Source of most defaults.
const RELEASE: &str = "the release";
/// Upper bound of numbers of steps and images and of widths.
const LARGEST: f64 = 100_000.0;

/// Global model of a task from which the next task starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum ModelSelection {
    /// Model at the start of the round in which clients had the lowest first-epoch losses.
    Best,
    /// Model after the last round.
    Last,
}

/// Mean and standard deviation that normalize generated images for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum ImageNormalization {
    /// Trained values that begin at 0.5 and 0.2.
    Learned,
    /// Fixed values, those of the data: images are replayed as the model saw them.
    Data,
}

/// Keys of the `[method]` table of LANDER.
#[derive(Clone, Debug, PartialEq, Keys)]
#[keys(check = section.check(table))]
pub struct Lander {
    /// Trained parameters and their aggregation; the whole network trains.
    #[key(read = FedAvg::read_keys(table, FEDAVG_KEYS))]
    pub fedavg: FedAvg,
    /// Embeddings of class names: a file with a row per class, or "orthogonal".
    ///
    /// A safetensors file with one matrix, or a CSV file without a header, in the order of the data set's classes; its
    /// path is relative to the scenario. Orthogonal rows know nothing of names: results are not comparable with those of
    /// a text encoder.
    #[key(default = ORTHOGONAL.to_owned(), source = "the release reads CLIP's vectors from files")]
    pub embeddings: String,
    /// Width of an embedding.
    #[key(default = 512, at_least = 1.0, at_most = LARGEST, source = RELEASE)]
    pub embedding_width: u32,
    /// Length of an orthogonal embedding.
    #[key(default = 10.0, above = 0.0, source = "vectors of the release have 7 to 13")]
    pub embedding_norm: f64,
    /// Position of the map from features to embeddings.
    #[key(default = MappingPlace::Branch, source = RELEASE)]
    pub mapping: MappingPlace,
    /// Mean squared distance from its embedding that a feature may have without loss (`r`).
    #[key(default = 0.015, at_least = 0.0, source = RELEASE)]
    pub radius: f64,
    /// Weight of the loss that pulls features to embeddings, for clients, generator and student.
    #[key(default = 5.0, at_least = 0.0, source = RELEASE)]
    pub anchor_weight: f64,
    /// True to pull features to embeddings in the first task, too.
    #[key(default = true, source = "the release; false in STSA's copy")]
    pub bound_first_task: bool,
    /// Base weight of the losses on a client's own samples from the second task on.
    ///
    /// The weight is `(1 + 1/a) / b` times it, with `a = log2(seen / 2 + 1)` and `b = sqrt(old / seen)` of the numbers
    /// of classes.
    #[key(default = 0.2, above = 0.0, source = RELEASE)]
    pub cur_weight: f64,
    /// Base weight of the losses on generated images; 0 generates none.
    ///
    /// The weight is `a b` times it, with `a` and `b` as for `cur_weight`.
    #[key(default = 0.4, at_least = 0.0, source = RELEASE)]
    pub pre_weight: f64,
    /// Number of generated images in a training step of a client.
    #[key(default = 128, at_least = 1.0, at_most = LARGEST, source = RELEASE)]
    pub synthetic_batch: u32,
    /// True to pass own samples and generated images of a step through the network as one batch.
    ///
    /// Batch norms then use the moments of both, as running moments do.
    #[key(default = false, source = RELEASE)]
    pub joint_batch: bool,
    /// Number of generated images that clients replay: the first ones by file name.
    #[key(default = 10_000, at_least = 1.0, source = RELEASE)]
    pub replayed_images: u32,
    /// Global model of a task from which the next task starts.
    ///
    /// With "best" a task of a single round ends with the model that it began with.
    #[key(default = ModelSelection::Best, source = RELEASE)]
    pub selection: ModelSelection,
    /// Number of synthesis rounds after the warm-up; each keeps its images.
    #[key(default = 40, at_most = LARGEST, source = RELEASE)]
    pub synthesis_rounds: u32,
    /// Number of synthesis rounds of the warm-up; only the last one keeps its images.
    #[key(default = 10, at_most = LARGEST, source = RELEASE)]
    pub warmup: u32,
    /// Number of images of a batch that share one noisy layer.
    #[key(default = 10, at_least = 1.0, at_most = LARGEST, source = RELEASE)]
    pub noise_block: u32,
    /// Mean and standard deviation that normalize generated images for the model.
    #[key(default = ImageNormalization::Learned, source = RELEASE)]
    pub image_normalization: ImageNormalization,
    /// Learning rate of that mean and standard deviation, with `image_normalization = "learned"`.
    #[key(default = 1e-2, at_least = 0.0, source = RELEASE)]
    pub normalization_lr: f64,
    /// Generator and its training.
    #[key(read = ImageSynthesis::read_keys(table, SYNTHESIS))]
    pub synthesis: ImageSynthesis,
}

/// Defaults of the generation of images.
const SYNTHESIS: ImageSynthesis = ImageSynthesis {
    batch: 256,
    steps: 40,
    rate: 2e-3,
    width: 64,
    latent: 256,
    statistics: 1.0,
    momentum: 0.9,
    labels: 0.5,
    adversarial: 1.0,
    padding: 4,
    flip: 0.5,
    student_steps: 50,
    student_batch: 128,
    student_rate: 0.1,
    temperature: 20.0,
};

/// Keys of FedAvg with LANDER's defaults: in later tasks only the task's rows compete in the cross-entropy.
const FEDAVG_KEYS: TrainableKeys = TrainableKeys {
    old_logits: Setting::Fixed(OldLogits::Mask),
    ..TrainableKeys::FEDAVG.uniform(RELEASE).growing(RELEASE)
};

impl Lander {
    fn check(&self, table: &mut TableReader<'_>) {
        if self.fedavg.train != Train::All {
            let message = "features that do not train cannot be bound to embeddings";
            table.reject("train", message, "features are frozen", "set `train = \"all\"`");
        }
        if self.fedavg.classifier != HeadKind::Linear {
            let message = "scores of images are those of linear rows";
            let help = "set `classifier = \"linear\"`";
            table.reject("classifier", message, "only with a linear head", help);
        }
    }

    /// Returns true if clients replay generated images.
    pub fn replays(&self) -> bool {
        self.pre_weight != 0.0
    }

    /// Returns the factors of losses on own samples and on generated images, with `old` of `seen` classes.
    ///
    /// `cur (1 + 1/a) / b` and `pre a b` with `a = log2(seen / 2 + 1)` and `b = sqrt(old / seen)`.
    pub fn weights(&self, old: usize, seen: usize) -> (f64, f64) {
        let (old, seen) = (old as f64, seen.max(1) as f64);
        let (a, b) = (libm::log2(seen / 2.0 + 1.0), (old / seen).sqrt());
        (self.cur_weight * (1.0 + 1.0 / a) / b, self.pre_weight * a * b)
    }

    /// Returns the number of calls of the generator per task, warm-up included.
    pub fn calls(&self) -> u32 {
        self.synthesis_rounds + self.warmup
    }

    /// Returns true if the images of a call (from 1) are kept.
    pub fn keeps(&self, call: u32) -> bool {
        call >= self.warmup
    }

    /// Returns true if the student takes part in the loss of a call (from 1).
    pub fn has_adversary(&self, call: u32) -> bool {
        self.synthesis.adversarial > 0.0 && call > self.warmup + 2
    }

    /// Returns the number of calls that keep their images.
    pub fn kept_calls(&self) -> u32 {
        (1..=self.calls()).filter(|call| self.keeps(*call)).count() as u32
    }

    /// Returns the number of images that are generated at the end of a task.
    pub fn images(&self) -> usize {
        self.kept_calls() as usize * self.synthesis.batch as usize
    }

    /// Returns the number of noisy layers between label embeddings and generator.
    pub fn layers(&self) -> usize {
        LabelNoise::layers_of(self.synthesis.batch as usize, self.noise_block as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;

    #[test]
    fn golden_weights_by_task() {
        let Some(golden) = Golden::open("metrics") else { return };
        let args = golden.i64("lander.args");
        let of = |pair: &[i64]| Lander::default().weights(pair[0] as usize, pair[1] as usize);
        let (cur, pre): (Vec<f64>, Vec<f64>) = args.chunks(2).map(of).unzip();
        golden.assert_close("lander.cur", &cur);
        golden.assert_close("lander.pre", &pre);
    }

    /// LANDER card, section 9.2: at 10 of 20 classes.
    #[test]
    fn weights_shift_to_replay_as_classes_arrive() {
        let (cur, pre) = Lander::default().weights(10, 20);
        assert!((cur - 0.365).abs() < 1e-3 && (pre - 0.978).abs() < 1e-3, "{cur} {pre}");
        let (later, more) = Lander::default().weights(90, 100);
        assert!(later < cur && more > pre);
    }

    /// LANDER card, invariant 4: 41 batches of 256; the student takes part after call 12.
    #[test]
    fn calls_are_those_of_the_release() {
        let synthesis = Lander::default();
        assert_eq!((synthesis.calls(), synthesis.kept_calls()), (50, 41));
        assert_eq!((synthesis.images(), synthesis.layers()), (10_496, 26));
        assert!(!synthesis.keeps(9) && synthesis.keeps(10));
        assert!(!synthesis.has_adversary(12) && synthesis.has_adversary(13));
        let mut without = Lander { warmup: 0, ..synthesis };
        without.synthesis.adversarial = 0.0;
        assert_eq!(without.kept_calls(), 40);
        assert!(!without.has_adversary(13));
    }
}
