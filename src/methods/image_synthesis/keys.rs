//! Keys of the generation of images, whose defaults are the method's.

use crate::learning::inversion::CropFlip;
use crate::model::{GeneratorForm, ImageGeneratorConfig};
use crate::policy::ModelFacts;
use crate::scenario::reader::Keys;

/// Source of the defaults.
const RELEASE: &str = "the release";
/// Upper bound of numbers of steps and images and of widths.
const LARGEST: f64 = 100_000.0;
/// Number of times the generator doubles the size of its images.
const UPSAMPLINGS: usize = 2;

/// Settings of the generation of images at the server.
#[derive(Clone, Copy, Debug, PartialEq, Keys)]
#[keys(given(usual: ImageSynthesis), function = read_keys)]
pub struct ImageSynthesis {
    /// Number of images that one synthesis round generates.
    #[key(
        name = "generator_batch",
        default = usual.batch,
        at_least = 2.0,
        at_most = LARGEST,
        source = RELEASE
    )]
    pub batch: u32,
    /// Number of optimization steps of the generator in a synthesis round.
    #[key(
        name = "generator_steps",
        default = usual.steps,
        at_least = 1.0,
        at_most = LARGEST,
        source = RELEASE
    )]
    pub steps: u32,
    /// Learning rate of the generator, which Adam trains.
    #[key(name = "generator_lr", default = usual.rate, above = 0.0, source = RELEASE)]
    pub rate: f64,
    /// Number of channels before the generator's last convolution; its other layers have twice as many.
    #[key(
        name = "generator_width",
        default = usual.width,
        at_least = 1.0,
        at_most = 32_768.0,
        source = RELEASE
    )]
    pub width: u32,
    /// Size of the vector from which the generator makes an image.
    #[key(default = usual.latent, at_least = 1.0, at_most = LARGEST, source = RELEASE)]
    pub latent: u32,
    /// Weight of the loss on batch norms: distance of moments of images from running moments.
    #[key(name = "statistics_weight", default = usual.statistics, at_least = 0.0, source = RELEASE)]
    pub statistics: f64,
    /// Weight of earlier moments in the average with those of a batch, from the second synthesis round on.
    #[key(
        name = "statistics_momentum",
        default = usual.momentum,
        at_least = 0.0,
        below = 1.0,
        source = RELEASE
    )]
    pub momentum: f64,
    /// Weight of the cross-entropy of the model's predictions with the intended labels.
    #[key(name = "label_weight", default = usual.labels, at_least = 0.0, source = RELEASE)]
    pub labels: f64,
    /// Weight of the adversarial loss, which rewards images on which model and student disagree.
    #[key(name = "adversarial_weight", default = usual.adversarial, at_least = 0.0, source = RELEASE)]
    pub adversarial: f64,
    /// Width in pixels of the zero padding of an image, of which the model sees a random crop.
    #[key(name = "crop_padding", default = usual.padding, at_most = 1_000.0, source = RELEASE)]
    pub padding: u32,
    /// Probability that the model sees an image mirrored.
    #[key(default = usual.flip, at_least = 0.0, at_most = 1.0, source = RELEASE)]
    pub flip: f64,
    /// Number of training steps of the student after a synthesis round.
    #[key(default = usual.student_steps, at_most = LARGEST, source = RELEASE)]
    pub student_steps: u32,
    /// Number of images in a training step of the student.
    #[key(default = usual.student_batch, at_least = 1.0, at_most = LARGEST, source = RELEASE)]
    pub student_batch: u32,
    /// Learning rate of the student, which SGD trains.
    #[key(name = "student_lr", default = usual.student_rate, at_least = 0.0, source = RELEASE)]
    pub student_rate: f64,
    /// Temperature of the distillation from the model to the student.
    #[key(
        name = "student_temperature",
        default = usual.temperature,
        above = 0.0,
        source = RELEASE
    )]
    pub temperature: f64,
}

impl ImageSynthesis {
    /// Returns the sides of an image: channels, height, width.
    pub fn image_shape(&self, model: &ModelFacts) -> [usize; 3] {
        model.backbone.input()
    }

    /// Returns the dimensions of the generator.
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

    /// Returns the padding and flip probability of the random windows that the model sees.
    pub fn crop(&self) -> CropFlip {
        CropFlip { padding: self.padding as usize, flip: self.flip }
    }

    /// Returns the sample passes of `calls` calls, in `adversaries` of which a student takes part.
    ///
    /// A step costs a forward and a backward pass of a batch of images without gradients of the model's weights, the
    /// same for the student if it takes part, and one of the generator, whose inputs cost `inputs` multiplications. The
    /// student takes `taught` training steps, each with a forward pass of the model.
    pub fn work(
        &self,
        model: &ModelFacts,
        (calls, adversaries, taught): (u32, u32, u32),
        inputs: f64,
    ) -> f64 {
        let images = f64::from(self.steps) * f64::from(self.batch);
        let generated = 3.0 * (self.config(model).multiplications() + inputs);
        let taught = f64::from(taught) * f64::from(self.student_batch);
        f64::from(calls + adversaries) * images * 2.0 / 3.0
            + model.passes(f64::from(calls) * images * generated)
            + taught * 4.0 / 3.0
    }
}
