//! The `[method]` table of LANDER.

use clap::ValueEnum;

use super::embeddings::ORTHOGONAL;
use crate::learning::inversion::CropFlip;
use crate::methods::averaging::OldLogits;
use crate::methods::fedavg::{FedAvg, Train};
use crate::methods::trainable::{Setting, TrainableKeys};
use crate::model::{GeneratorForm, HeadKind, ImageGeneratorConfig, LabelNoise, MappingPlace};
use crate::policy::ModelFacts;
use crate::scenario::reader::{Choice, Keys, TableReader};

/// Source of most defaults.
const RELEASE: &str = "the release";
/// Most steps, images, and the widest layer.
const LARGEST: f64 = 100_000.0;
/// Doublings of the generator's images.
const UPSAMPLINGS: usize = 2;

/// Global model of a task that the next one starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum ModelSelection {
    /// Model at the start of the round in which clients had the lowest first-epoch losses.
    Best,
    /// Model after the last round.
    Last,
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
    /// path is from the directory in which the program runs. Orthogonal rows know nothing of names: results are not
    /// comparable with those of a text encoder.
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
    /// Mean square of gaps to an embedding that is tolerated (`r`).
    #[key(default = 0.015, at_least = 0.0, source = RELEASE)]
    pub radius: f64,
    /// Weight of the pull to embeddings, of clients, generator and student.
    #[key(default = 5.0, at_least = 0.0, source = RELEASE)]
    pub anchor_weight: f64,
    /// True if features are bound to embeddings in the first task, too.
    #[key(default = true, source = "the release; false in STSA's copy")]
    pub bound_first_task: bool,
    /// Weight of the losses on a client's own samples from the second task on, before its factor.
    #[key(default = 0.2, above = 0.0, source = RELEASE)]
    pub cur_weight: f64,
    /// Weight of the losses on generated images, before its factor.
    ///
    /// With 0 nothing is generated.
    #[key(default = 0.4, at_least = 0.0, source = RELEASE)]
    pub pre_weight: f64,
    /// Generated images in a step of a client.
    #[key(default = 128, at_least = 1.0, at_most = LARGEST, source = RELEASE)]
    pub synthetic_batch: u32,
    /// Number of images that clients replay, the first by file name.
    #[key(default = 10_000, at_least = 1.0, source = RELEASE)]
    pub replayed_images: u32,
    /// Global model of a task that the next one starts from.
    ///
    /// With "best" a task of a single round ends with the model that it began with.
    #[key(default = ModelSelection::Best, source = RELEASE)]
    pub selection: ModelSelection,
    /// The generator and its training.
    #[key(flatten)]
    pub synthesis: LanderSynthesis,
}

/// Settings of the generation of images at the server.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct LanderSynthesis {
    /// Calls of the synthesis that keep their images, after the warm-up.
    #[key(name = "synthesis_rounds", default = 40, at_most = LARGEST, source = RELEASE)]
    pub rounds: u32,
    /// Calls before; the last of them keeps its images, too.
    #[key(name = "warmup", default = 10, at_most = LARGEST, source = RELEASE)]
    pub warmup: u32,
    /// Images of a call.
    #[key(
        name = "generator_batch",
        default = 256,
        at_least = 2.0,
        at_most = LARGEST,
        source = RELEASE
    )]
    pub batch: u32,
    /// Steps of a call.
    #[key(
        name = "generator_steps",
        default = 40,
        at_least = 1.0,
        at_most = LARGEST,
        source = RELEASE
    )]
    pub steps: u32,
    /// Learning rate of the generator, by Adam.
    #[key(name = "generator_lr", default = 2e-3, above = 0.0, source = RELEASE)]
    pub rate: f64,
    /// Learning rate of the mean and the deviation that normalize images.
    #[key(name = "normalization_lr", default = 1e-2, at_least = 0.0, source = RELEASE)]
    pub normalization_rate: f64,
    /// Channels in front of the generator's last convolution; other layers have twice as many.
    #[key(
        name = "generator_width",
        default = 64,
        at_least = 1.0,
        at_most = 32_768.0,
        source = RELEASE
    )]
    pub width: u32,
    /// Width of the noisy layers' outputs.
    #[key(name = "latent", default = 256, at_least = 1.0, at_most = LARGEST, source = RELEASE)]
    pub latent: u32,
    /// Images of a batch that share a noisy layer.
    #[key(name = "noise_block", default = 10, at_least = 1.0, at_most = LARGEST, source = RELEASE)]
    pub block: u32,
    /// Weight of the distance from running moments of batch norms.
    #[key(name = "statistics_weight", default = 1.0, at_least = 0.0, source = RELEASE)]
    pub statistics: f64,
    /// Weight of kept moments in the moments of a batch, from the second call on.
    #[key(
        name = "statistics_momentum",
        default = 0.9,
        at_least = 0.0,
        below = 1.0,
        source = RELEASE
    )]
    pub momentum: f64,
    /// Weight of the cross-entropy of labels.
    #[key(name = "label_weight", default = 0.5, at_least = 0.0, source = RELEASE)]
    pub labels: f64,
    /// Weight of the divergence from the student.
    #[key(name = "adversarial_weight", default = 1.0, at_least = 0.0, source = RELEASE)]
    pub adversarial: f64,
    /// Zeros around a generated image, from which the model sees a random window.
    #[key(name = "crop_padding", default = 4, at_most = 1_000.0, source = RELEASE)]
    pub padding: u32,
    /// Probability that the model sees the mirror image.
    #[key(name = "flip", default = 0.5, at_least = 0.0, at_most = 1.0, source = RELEASE)]
    pub flip: f64,
    /// Steps of the student after a call that keeps its images.
    #[key(name = "student_steps", default = 50, at_most = LARGEST, source = RELEASE)]
    pub student_steps: u32,
    /// Images of a step of the student.
    #[key(
        name = "student_batch",
        default = 128,
        at_least = 1.0,
        at_most = LARGEST,
        source = RELEASE
    )]
    pub student_batch: u32,
    /// Learning rate of the student, by SGD.
    #[key(name = "student_lr", default = 0.1, at_least = 0.0, source = RELEASE)]
    pub student_rate: f64,
    /// Temperature of the student's distillation.
    #[key(name = "student_temperature", default = 20.0, above = 0.0, source = RELEASE)]
    pub temperature: f64,
}

/// Classes of a task among themselves from the second task on.
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
}

impl LanderSynthesis {
    /// Returns the number of calls.
    pub fn calls(&self) -> u32 {
        self.rounds + self.warmup
    }

    /// Returns true if a call, from 1, keeps its images.
    pub fn keeps(&self, call: u32) -> bool {
        call >= self.warmup
    }

    /// Returns true if the student takes part in a call, from 1.
    pub fn has_adversary(&self, call: u32) -> bool {
        self.adversarial > 0.0 && call > self.warmup + 2
    }

    /// Returns the number of calls that keep their images.
    pub fn kept_calls(&self) -> u32 {
        (1..=self.calls()).filter(|call| self.keeps(*call)).count() as u32
    }

    /// Returns the number of images that a task leaves.
    pub fn images(&self) -> usize {
        self.kept_calls() as usize * self.batch as usize
    }

    /// Returns the sides of an image: channels, height, width.
    pub fn image_shape(&self, model: &ModelFacts) -> [usize; 3] {
        model.backbone.input()
    }

    /// Returns the dimensions of the generator behind the noisy layers.
    pub fn config(&self, model: &ModelFacts) -> ImageGeneratorConfig {
        let [channels, image, _] = self.image_shape(model);
        let width = self.width as usize;
        ImageGeneratorConfig {
            latent: self.latent as usize,
            width: 2 * width,
            last: width,
            upsamplings: UPSAMPLINGS,
            channels,
            image,
            form: GeneratorForm::Logistic,
        }
    }

    /// Returns the number of noisy layers.
    pub fn layers(&self) -> usize {
        LabelNoise::layers_of(self.batch as usize, self.block as usize)
    }

    /// Returns the windows that the model sees.
    pub fn crop(&self) -> CropFlip {
        CropFlip { padding: self.padding as usize, flip: self.flip }
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
        let synthesis = Lander::default().synthesis;
        assert_eq!((synthesis.calls(), synthesis.kept_calls()), (50, 41));
        assert_eq!((synthesis.images(), synthesis.layers()), (10_496, 26));
        assert!(!synthesis.keeps(9) && synthesis.keeps(10));
        assert!(!synthesis.has_adversary(12) && synthesis.has_adversary(13));
        let without = LanderSynthesis { warmup: 0, adversarial: 0.0, ..synthesis };
        assert_eq!(without.kept_calls(), 40);
        assert!(!without.has_adversary(13));
    }
}
