//! Form of a generator: layers and output range.

/// Form of a generator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GeneratorForm {
    /// MFCL's form: convolutions with biases, norms with an epsilon of 0.8, and `tanh` and a norm at the end.
    #[default]
    Normalized,
    /// Form of TARGET and LANDER: only the last convolution has a bias, and a logistic function is last.
    Logistic,
}

/// Dimensions of an [`ImageGenerator`](super::ImageGenerator). The default is MFCL's for CIFAR-100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageGeneratorConfig {
    /// Width of the noise.
    pub latent: usize,
    /// Channels of all layers except the last two.
    pub width: usize,
    /// Channels of the last convolution's input.
    pub last: usize,
    /// Number of times that the image size is doubled.
    pub upsamplings: usize,
    /// Color channels of an image.
    pub channels: usize,
    /// Form of the layers and of the output.
    pub form: GeneratorForm,
    /// Image height and width in pixels; a larger image is cropped to it.
    pub image: usize,
}

impl Default for ImageGeneratorConfig {
    fn default() -> ImageGeneratorConfig {
        ImageGeneratorConfig {
            latent: 1000,
            width: 128,
            last: 64,
            upsamplings: 2,
            channels: 3,
            image: 32,
            form: GeneratorForm::Normalized,
        }
    }
}

impl ImageGeneratorConfig {
    /// Returns height and width of the linear layer's output.
    pub fn start(&self) -> usize {
        self.image.div_ceil(1 << self.upsamplings)
    }

    /// Returns input and output channels of the convolutions after upsampling.
    pub(super) fn convolutions(&self) -> Vec<(usize, usize)> {
        let last = self.upsamplings.saturating_sub(1);
        let outputs = |stage: usize| if stage == last { self.last } else { self.width };
        (0..self.upsamplings).map(|stage| (self.width, outputs(stage))).collect()
    }

    /// Returns true if convolution `convolution`, counted from 1, has a bias.
    pub(super) fn has_bias(&self, convolution: usize) -> bool {
        self.form == GeneratorForm::Normalized || convolution > self.upsamplings
    }

    /// Returns the channels of the last convolution's input.
    pub(super) fn before_last(&self) -> usize {
        if self.upsamplings == 0 { self.width } else { self.last }
    }

    /// Returns names and shapes of parameters and running moments, sorted by name.
    pub fn parameter_shapes(&self) -> Vec<(String, Vec<usize>)> {
        let wide = self.width * self.start() * self.start();
        let mut shapes = vec![
            ("l1.weight".to_owned(), vec![wide, self.latent]),
            ("l1.bias".to_owned(), vec![wide]),
        ];
        let mut norm = |name: &str, channels: usize, affine: bool| {
            let own: &[&str] = if affine { &["weight", "bias"] } else { &[] };
            for part in own.iter().chain(&["running_mean", "running_var"]) {
                shapes.push((format!("{name}.{part}"), vec![channels]));
            }
        };
        norm("bn0", self.width, true);
        let convolutions = self.convolutions();
        for (stage, (_, outputs)) in (1..).zip(&convolutions) {
            norm(&format!("bn{stage}"), *outputs, true);
        }
        if self.form == GeneratorForm::Normalized {
            norm(&format!("bn{}", self.upsamplings + 1), self.channels, false);
        }
        let all = convolutions.into_iter().chain([(self.before_last(), self.channels)]);
        for (stage, (inputs, outputs)) in (1..).zip(all) {
            shapes.push((format!("conv{stage}.weight"), vec![outputs, inputs, 3, 3]));
            if self.has_bias(stage) {
                shapes.push((format!("conv{stage}.bias"), vec![outputs]));
            }
        }
        shapes.sort();
        shapes
    }

    /// Returns the number of trainable values, without running moments.
    pub fn parameter_count(&self) -> usize {
        let shapes = self.parameter_shapes();
        let trained = shapes.iter().filter(|(name, _)| !crate::model::is_buffer(name));
        trained.map(|(_, shape)| shape.iter().product::<usize>()).sum()
    }

    /// Returns the number of multiplications for one image.
    pub fn multiplications(&self) -> f64 {
        let start = self.start();
        let side = |stage: usize| start << (stage + 1);
        let stages = self.convolutions().into_iter().enumerate();
        let inner: usize = stages
            .map(|(stage, (inputs, outputs))| 9 * inputs * outputs * side(stage).pow(2))
            .sum();
        let last = 9 * self.before_last() * self.channels * (start << self.upsamplings).pow(2);
        (self.latent * self.width * start * start + inner + last) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MFCL card, section 2: 8,423,939; the generators for Tiny-ImageNet and SuperImageNet by hand.
    #[test]
    fn the_published_generators_have_their_parameters() {
        let cifar = ImageGeneratorConfig::default();
        assert_eq!((cifar.start(), cifar.parameter_count()), (8, 8_423_939));
        let tiny = ImageGeneratorConfig { upsamplings: 3, image: 64, ..cifar };
        // One more convolution of 128 channels, and its norm.
        assert_eq!(tiny.parameter_count(), 8_423_939 + 128 * 128 * 9 + 128 + 2 * 128);
        let large =
            ImageGeneratorConfig { latent: 200, width: 64, upsamplings: 5, image: 224, ..cifar };
        let convolutions = 5 * (64 * 64 * 9 + 64 + 2 * 64) + 64 * 3 * 9 + 3;
        let linear = (200 + 1) * 64 * 49;
        assert_eq!(large.parameter_count(), linear + 2 * 64 + convolutions);
    }

    /// TARGET card, section 2: at a side of 32 and of 224; LANDER's has 256 inputs, too.
    #[test]
    fn logistic_generators_have_their_parameters() {
        let form = GeneratorForm::Logistic;
        let small = ImageGeneratorConfig { latent: 256, form, ..Default::default() };
        assert_eq!(small.parameter_count(), 2_105_344 + 223_555);
        let large = ImageGeneratorConfig { image: 224, ..small };
        assert_eq!(large.parameter_count(), 103_161_856 + 223_555);
    }

    #[test]
    fn sides_that_are_no_power_start_larger() {
        let of = |image| ImageGeneratorConfig { image, ..ImageGeneratorConfig::default() }.start();
        assert_eq!([of(8), of(28), of(30), of(3)], [2, 7, 8, 1]);
    }

    /// By hand: 5 x 2 x 4 numbers of the linear layer, 4 x 4 and 8 x 8 pixels of convolutions.
    #[test]
    fn multiplications_are_counted_layer_by_layer() {
        let config = ImageGeneratorConfig {
            latent: 5,
            width: 2,
            last: 3,
            upsamplings: 2,
            channels: 1,
            image: 8,
            ..Default::default()
        };
        let convolutions = 9 * (2 * 2 * 16 + 2 * 3 * 64 + 3 * 64);
        assert_eq!(config.multiplications(), f64::from(5 * 2 * 4 + convolutions));
    }
}
