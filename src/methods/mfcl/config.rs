//! The `[method]` table of MFCL.

use clap::ValueEnum;

use crate::learning::inversion::{InversionLoss, InversionSteps};
use crate::methods::averaging::OldLogits;
use crate::methods::fedavg::{FedAvg, Train};
use crate::methods::trainable::{Setting, TrainableKeys};
use crate::model::{HeadKind, ImageGeneratorConfig};
use crate::policy::ModelFacts;
use crate::scenario::reader::{Choice, Keys, TableReader};

/// Source of most defaults.
const RELEASE: &str = "the release";
/// Upper bound of numbers of steps and images and of widths.
const LARGEST: f64 = 100_000.0;
/// Largest number of channels in front of the generator's last convolution.
///
/// Narrower generators keep their width.
const LAST: usize = 64;

/// Start values of a task's generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum GeneratorStart {
    /// Parameters of the previous task's generator.
    Warm,
    /// Newly drawn parameters.
    Fresh,
}

/// Keys of the `[method]` table of MFCL.
#[derive(Clone, Debug, PartialEq, Keys)]
#[keys(check = section.check(table))]
pub struct Mfcl {
    /// Trained parameters and their aggregation; the whole network trains.
    #[key(read = FedAvg::read_keys(table, FEDAVG_KEYS))]
    pub fedavg: FedAvg,
    /// Weight of the head's cross-entropy on real and generated images (`w_ft`).
    #[key(default = 1.0, at_least = 0.0, source = RELEASE)]
    pub ft_weight: f64,
    /// Weight of the distillation of features (`w_kd`).
    ///
    /// With both weights 0 no images are generated, and the method is FedAvg.
    #[key(default = 0.1, at_least = 0.0, source = RELEASE)]
    pub kd_weight: f64,
    /// Number of generated images in a training step of a client.
    #[key(default = 128, at_least = 1.0, at_most = LARGEST, source = RELEASE)]
    pub synthetic_batch: u32,
    /// True if running moments of batch norms move twice in a step.
    #[key(default = true, source = "the release, by a second forward pass")]
    pub repeat_moments: bool,
    /// Generator and its training.
    #[key(flatten)]
    pub generator: GeneratorSettings,
}

/// Settings of the generator and of its training at the server.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct GeneratorSettings {
    /// Size of the generator's noise vector.
    #[key(
        name = "latent",
        default = 1000,
        at_least = 1.0,
        at_most = LARGEST,
        source = "the release; 200 on SuperImageNet"
    )]
    pub latent: u32,
    /// Number of channels of the generator's layers.
    #[key(
        name = "generator_width",
        default = 128,
        at_least = 1.0,
        at_most = 65_536.0,
        source = "the release; 64 on SuperImageNet"
    )]
    pub width: u32,
    /// Number of times that the generator doubles the side of its image.
    #[key(
        name = "upsamplings",
        default = 2,
        at_most = 8.0,
        source = "the release on CIFAR-100; 3 on Tiny-ImageNet, 5 on SuperImageNet"
    )]
    pub upsamplings: u32,
    /// Start values of a task's generator.
    #[key(name = "generator_start", default = GeneratorStart::Warm, source = RELEASE)]
    pub start: GeneratorStart,
    /// Number of training steps of a task's generator.
    #[key(name = "generator_steps", default = 100, at_most = LARGEST, source = RELEASE)]
    pub steps: u32,
    /// Number of images in a training step of the generator.
    #[key(
        name = "generator_batch",
        default = 128,
        at_least = 2.0,
        at_most = LARGEST,
        source = RELEASE
    )]
    pub batch: u32,
    /// Learning rate of the generator, which Adam trains.
    #[key(name = "generator_lr", default = 1e-3, above = 0.0, source = RELEASE)]
    pub rate: f64,
    /// Weight of the cross-entropy of generated images.
    #[key(name = "content_weight", default = 1.0, at_least = 0.0, source = RELEASE)]
    pub content: f64,
    /// Temperature of the cross-entropy of generated images.
    #[key(name = "content_temperature", default = 1000.0, above = 0.0, source = RELEASE)]
    pub temperature: f64,
    /// Weight of the information entropy of generated images.
    #[key(name = "diversity_weight", default = 1.0, at_least = 0.0, source = RELEASE)]
    pub diversity: f64,
    /// Weight of the loss on batch norms: distance of moments of images from running moments.
    #[key(name = "statistics_weight", default = 50.0, at_least = 0.0, source = RELEASE)]
    pub statistics: f64,
    /// Weight of the smoothness of generated images.
    #[key(name = "smoothness_weight", default = 1e-3, at_least = 0.0, source = RELEASE)]
    pub smoothness: f64,
}

/// Keys of FedAvg with MFCL's defaults: only the task's rows compete in the first term of the loss.
const FEDAVG_KEYS: TrainableKeys = TrainableKeys {
    old_logits: Setting::Fixed(OldLogits::Mask),
    ..TrainableKeys::FEDAVG.uniform(RELEASE).growing(RELEASE)
};

impl Mfcl {
    fn check(&self, table: &mut TableReader<'_>) {
        if self.fedavg.train != Train::All {
            let message = "features that do not train have nothing to forget";
            let help = "set `train = \"all\"`";
            table.reject("train", message, "the old model's features are distilled", help);
        }
        if self.fedavg.classifier != HeadKind::Linear {
            let message = "features are distilled by the old model's linear rows";
            let help = "set `classifier = \"linear\"`";
            table.reject("classifier", message, "only with a linear head", help);
        }
    }

    /// Returns true if clients replay generated images.
    pub fn replays(&self) -> bool {
        self.ft_weight != 0.0 || self.kd_weight != 0.0
    }
}

impl GeneratorSettings {
    /// Returns the dimensions of the generator for a model's images.
    pub fn config(&self, model: &ModelFacts) -> ImageGeneratorConfig {
        let [channels, image, _] = model.backbone.input();
        let width = self.width as usize;
        ImageGeneratorConfig {
            latent: self.latent as usize,
            width,
            last: width.min(LAST),
            upsamplings: self.upsamplings as usize,
            channels,
            image,
            ..ImageGeneratorConfig::default()
        }
    }

    /// Returns the weights of the generator's loss.
    pub(super) fn loss(&self) -> InversionLoss {
        let GeneratorSettings { content, temperature, diversity, statistics, smoothness, .. } =
            *self;
        InversionLoss { content, temperature, diversity, statistics, smoothness }
    }

    /// Returns number, batch size and learning rate of the generator's training steps.
    pub(super) fn steps(&self) -> InversionSteps {
        InversionSteps { count: self.steps, batch: self.batch as usize, rate: self.rate }
    }
}
