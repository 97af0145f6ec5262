//! Dimensions of a pair of networks, the shapes of their parameters, and their cost.

use clap::ValueEnum;

use crate::scenario::reader::Choice;

/// Form of the networks of an AC-GAN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum GanForm {
    /// Six convolutions with dropout in the discriminator.
    #[default]
    Cifar,
    /// Three convolutions in the discriminator, the networks of deep generative replay.
    Mnist,
}

/// Dimensions of an [`AcGan`](super::AcGan). The default is that for CIFAR-10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcGanConfig {
    /// Form of both networks.
    pub form: GanForm,
    /// Width of the noise; must be larger than the number of classes.
    pub noise: usize,
    /// Number of classes.
    pub classes: usize,
    /// Color channels of an image.
    pub channels: usize,
    /// Image height and width in pixels.
    pub image: usize,
    /// Divisor of the number of channels in all hidden layers.
    pub divisor: usize,
}

impl Default for AcGanConfig {
    fn default() -> AcGanConfig {
        AcGanConfig {
            form: GanForm::Cifar,
            noise: 110,
            classes: 10,
            channels: 3,
            image: 32,
            divisor: 1,
        }
    }
}

/// Convolution, transposed or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GanLayer {
    pub inputs: usize,
    pub outputs: usize,
    pub kernel: usize,
    pub stride: usize,
    pub padding: usize,
    pub has_bias: bool,
    pub has_norm: bool,
}

impl AcGanConfig {
    /// Names of the discriminator's two linear heads.
    pub(super) const REAL: &'static str = "discriminator.real";
    pub(super) const CLASSES: &'static str = "discriminator.classes";

    fn width(&self, channels: usize) -> usize {
        channels.div_ceil(self.divisor.max(1))
    }

    /// Returns height and width of the generator's first image.
    pub(super) fn start(&self) -> usize {
        self.image.div_ceil(8).max(1)
    }

    /// Returns the shape of the linear layer's output: channels, and height and width.
    pub(super) fn linear(&self) -> (usize, usize) {
        match self.form {
            GanForm::Cifar => (self.width(384), 1),
            GanForm::Mnist => (self.width(512), self.start()),
        }
    }

    /// Returns the transposed convolutions of the generator.
    pub(super) fn generator_layers(&self) -> Vec<GanLayer> {
        let double = GanLayer {
            inputs: 0,
            outputs: 0,
            kernel: 4,
            stride: 2,
            padding: 1,
            has_bias: self.form == GanForm::Mnist,
            has_norm: true,
        };
        let widths: [usize; 4] = match self.form {
            GanForm::Cifar => [384, 192, 96, 48].map(|channels| self.width(channels)),
            GanForm::Mnist => [512, 256, 128, 64].map(|channels| self.width(channels)),
        };
        let pairs = widths.windows(2).map(|pair| (pair[0], pair[1]));
        let mut layers: Vec<GanLayer> =
            pairs.map(|(inputs, outputs)| GanLayer { inputs, outputs, ..double }).collect();
        let (inputs, outputs) = (widths[3], self.channels);
        match self.form {
            GanForm::Cifar => {
                // From a single pixel it makes the first image.
                let opening = GanLayer { kernel: self.start(), stride: 1, padding: 0, ..layers[0] };
                layers[0] = opening;
                layers.push(GanLayer { inputs, outputs, has_norm: false, ..double });
            }
            GanForm::Mnist => {
                let last = GanLayer { kernel: 3, stride: 1, has_norm: false, ..double };
                layers.push(GanLayer { inputs, outputs, ..last });
            }
        }
        layers
    }

    /// Returns the convolutions of the discriminator.
    pub(super) fn discriminator_layers(&self) -> Vec<GanLayer> {
        let widths: &[usize] = match self.form {
            GanForm::Cifar => &[16, 32, 64, 128, 256, 512],
            GanForm::Mnist => &[64, 128, 256],
        };
        let mut inputs = self.channels;
        let layer = |(number, channels): (usize, &usize)| {
            let outputs = self.width(*channels);
            let (kernel, stride) = match self.form {
                GanForm::Cifar => (3, 2 - number % 2),
                GanForm::Mnist => (4, 2),
            };
            let layer = GanLayer {
                inputs,
                outputs,
                kernel,
                stride,
                padding: 1,
                has_bias: self.form == GanForm::Mnist,
                has_norm: self.form == GanForm::Cifar && number > 0,
            };
            inputs = outputs;
            layer
        };
        widths.iter().enumerate().map(layer).collect()
    }

    /// Returns height and width of the outputs of the discriminator's convolutions.
    fn discriminator_sides(&self) -> Vec<usize> {
        let mut side = self.image;
        let next = |layer: GanLayer| {
            side = (side + 2 * layer.padding).saturating_sub(layer.kernel) / layer.stride + 1;
            side
        };
        self.discriminator_layers().into_iter().map(next).collect()
    }

    /// Returns the width of the features below the discriminator's two heads.
    pub fn features(&self) -> usize {
        let side = self.discriminator_sides().last().copied().unwrap_or(0);
        self.discriminator_layers().last().map_or(0, |last| last.outputs * side * side)
    }

    /// Returns names and shapes of the generator's parameters, sorted by name.
    pub fn generator_shapes(&self) -> Vec<(String, Vec<usize>)> {
        let (channels, side) = self.linear();
        let numbers = channels * side * side;
        let mut shapes = vec![
            ("generator.fc.weight".to_owned(), vec![numbers, self.noise]),
            ("generator.fc.bias".to_owned(), vec![numbers]),
        ];
        if self.form == GanForm::Mnist {
            shapes.push(("generator.bn0.weight".to_owned(), vec![channels]));
            shapes.push(("generator.bn0.bias".to_owned(), vec![channels]));
        }
        for (number, layer) in (1..).zip(self.generator_layers()) {
            let GanLayer { inputs, outputs, kernel, .. } = layer;
            let name = format!("generator.conv{number}");
            shapes.push((format!("{name}.weight"), vec![inputs, outputs, kernel, kernel]));
            if layer.has_bias {
                shapes.push((format!("{name}.bias"), vec![outputs]));
            }
            if layer.has_norm {
                let norm = ["weight", "bias"].map(|part| format!("generator.bn{number}.{part}"));
                shapes.extend(norm.map(|name| (name, vec![outputs])));
            }
        }
        shapes.sort();
        shapes
    }

    /// Returns names and shapes of the discriminator's parameters and running moments, sorted by name.
    pub fn discriminator_shapes(&self) -> Vec<(String, Vec<usize>)> {
        let mut shapes = Vec::new();
        for (number, layer) in (1..).zip(self.discriminator_layers()) {
            let GanLayer { inputs, outputs, kernel, .. } = layer;
            let name = format!("discriminator.conv{number}");
            shapes.push((format!("{name}.weight"), vec![outputs, inputs, kernel, kernel]));
            if layer.has_bias {
                shapes.push((format!("{name}.bias"), vec![outputs]));
            }
            if layer.has_norm {
                let parts = ["weight", "bias", "running_mean", "running_var"];
                let norm = parts.map(|part| format!("discriminator.bn{number}.{part}"));
                shapes.extend(norm.map(|name| (name, vec![outputs])));
            }
        }
        for (name, rows) in [(Self::REAL, 1), (Self::CLASSES, self.classes)] {
            shapes.push((format!("{name}.weight"), vec![rows, self.features()]));
            shapes.push((format!("{name}.bias"), vec![rows]));
        }
        shapes.sort();
        shapes
    }

    /// Returns names and shapes of both networks, sorted by name.
    pub fn parameter_shapes(&self) -> Vec<(String, Vec<usize>)> {
        let mut shapes = self.discriminator_shapes();
        shapes.extend(self.generator_shapes());
        shapes
    }

    /// Returns the number of multiplications for one image in the generator.
    pub fn generator_multiplications(&self) -> f64 {
        let (channels, mut side) = self.linear();
        let mut count = self.noise * channels * side * side;
        for layer in self.generator_layers() {
            // Every input pixel is multiplied with the whole kernel.
            count += side * side * layer.inputs * layer.outputs * layer.kernel * layer.kernel;
            side = (side - 1) * layer.stride + layer.kernel - 2 * layer.padding;
        }
        count as f64
    }

    /// Returns the number of multiplications for one image in the discriminator.
    pub fn discriminator_multiplications(&self) -> f64 {
        let layers = self.discriminator_layers().into_iter().zip(self.discriminator_sides());
        let convolutions = layers.map(|(layer, side)| {
            side * side * layer.inputs * layer.outputs * layer.kernel * layer.kernel
        });
        (convolutions.sum::<usize>() + self.features() * (1 + self.classes)) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::is_buffer;

    fn count(shapes: Vec<(String, Vec<usize>)>) -> usize {
        let trained = shapes.iter().filter(|(name, _)| !is_buffer(name));
        trained.map(|(_, shape)| shape.iter().product::<usize>()).sum()
    }

    /// FedCIL card, section 2.
    #[test]
    fn published_networks_have_their_parameters() {
        let cifar = AcGanConfig::default();
        assert_eq!(count(cifar.generator_shapes()), 1_593_888);
        assert_eq!(count(cifar.discriminator_shapes()), 1_663_867);
        let hundred = AcGanConfig { classes: 100, ..cifar };
        assert_eq!(count(hundred.generator_shapes()), 1_593_888);
        assert_eq!(count(hundred.discriminator_shapes()), 2_401_237);
        assert_eq!(cifar.features(), 8192);
        // Running moments of the five norms of the discriminator: none of the generator.
        let all = cifar.parameter_shapes();
        let buffers = all.iter().filter(|(name, _)| is_buffer(name));
        assert_eq!(buffers.map(|(_, shape)| shape[0]).sum::<usize>(), 2 * 992);
    }

    /// Of the release's networks for MNIST, by hand, without the norms that its discriminator never uses.
    #[test]
    fn small_networks_have_their_parameters() {
        let mnist = AcGanConfig { form: GanForm::Mnist, channels: 1, ..Default::default() };
        let generator = 110 * 8192
            + 8192
            + 2 * (512 + 256 + 128 + 64)
            + 16 * (512 * 256 + 256 * 128 + 128 * 64)
            + (256 + 128 + 64)
            + 9 * 64
            + 1;
        assert_eq!(count(mnist.generator_shapes()), generator);
        let discriminator = 16 * (64 + 64 * 128 + 128 * 256) + (64 + 128 + 256) + 11 * 4097;
        assert_eq!(count(mnist.discriminator_shapes()), discriminator);
    }

    /// By hand, layer by layer, of images of 8 pixels a side.
    #[test]
    fn multiplications_are_counted_layer_by_layer() {
        let config = AcGanConfig {
            image: 8,
            channels: 1,
            classes: 3,
            noise: 5,
            divisor: 16,
            ..Default::default()
        };
        // Channels 24, 12, 6, 3 and 1; sides 1, 1, 2, 4 and 8.
        let generator = 5 * 24 + 24 * 12 + 16 * (12 * 6 + 4 * 6 * 3 + 16 * 3);
        assert_eq!(config.generator_multiplications(), f64::from(generator));
        // Channels 1, 1, 2, 4, 8, 16 and 32; sides 4, 4, 2, 2, 1, 1.
        let discriminator = 9 * (16 + 16 * 2 + 4 * 2 * 4 + 4 * 4 * 8 + 8 * 16 + 16 * 32) + 32 * 4;
        assert_eq!(config.discriminator_multiplications(), f64::from(discriminator));
    }

    #[test]
    fn sides_that_are_no_multiple_of_eight_start_larger() {
        let of = |image| AcGanConfig { image, ..AcGanConfig::default() };
        assert_eq!([8, 28, 32, 3].map(|image| of(image).start()), [1, 4, 4, 1]);
        assert_eq!(of(28).features(), 8192);
        assert_eq!(AcGanConfig { form: GanForm::Mnist, ..of(28) }.features(), 256 * 9);
    }
}
