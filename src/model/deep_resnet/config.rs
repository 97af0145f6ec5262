//! Dimensions of a deep residual network and the shapes of its parameters.

/// Channels of the stem.
const STEM: usize = 64;
/// Channels inside a bottleneck, for each stage.
const WIDTHS: [usize; 4] = [64, 128, 256, 512];
/// Ratio of a bottleneck's output channels to its width.
const EXPANSION: usize = 4;

/// Depth of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// ResNet-50.
    Fifty,
    /// ResNet-152.
    HundredFiftyTwo,
}

impl Depth {
    /// Returns the number of bottlenecks in every stage.
    pub fn blocks(self) -> [usize; 4] {
        match self {
            Depth::Fifty => [3, 4, 6, 3],
            Depth::HundredFiftyTwo => [3, 8, 36, 3],
        }
    }
}

/// Dimensions of a [`DeepResNet`](super::DeepResNet).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeepResNetConfig {
    /// Depth of the network.
    pub depth: Depth,
    /// Image height and width in pixels; the network itself takes any size.
    pub image: usize,
}

impl DeepResNetConfig {
    /// Color channels.
    pub const CHANNELS: usize = 3;
    /// Width of a feature.
    pub const DIM: usize = EXPANSION * WIDTHS[3];

    /// Returns torchvision's name and the shape of every parameter and running statistic, sorted by name.
    pub fn parameter_shapes(&self) -> Vec<(String, Vec<usize>)> {
        let mut shapes = Vec::new();
        convolution("conv1", [STEM, Self::CHANNELS, 7, 7], &mut shapes);
        norm("bn1", STEM, &mut shapes);
        let mut inputs = STEM;
        for (stage, (blocks, width)) in self.depth.blocks().into_iter().zip(WIDTHS).enumerate() {
            for block in 0..blocks {
                let name = |layer: &str| format!("layer{}.{block}.{layer}", stage + 1);
                let outputs = EXPANSION * width;
                convolution(&name("conv1"), [width, inputs, 1, 1], &mut shapes);
                convolution(&name("conv2"), [width, width, 3, 3], &mut shapes);
                convolution(&name("conv3"), [outputs, width, 1, 1], &mut shapes);
                for (layer, channels) in [("bn1", width), ("bn2", width), ("bn3", outputs)] {
                    norm(&name(layer), channels, &mut shapes);
                }
                if block == 0 {
                    convolution(&name("downsample.0"), [outputs, inputs, 1, 1], &mut shapes);
                    norm(&name("downsample.1"), outputs, &mut shapes);
                }
                inputs = outputs;
            }
        }
        shapes.sort();
        shapes
    }

    /// Returns the number of parameter values, without running statistics.
    pub fn parameter_count(&self) -> usize {
        let shapes = self.parameter_shapes();
        let counted = shapes.iter().filter(|(name, _)| !name.contains(".running_"));
        counted.map(|(_, shape)| shape.iter().product::<usize>()).sum()
    }
}

fn convolution(name: &str, shape: [usize; 4], shapes: &mut Vec<(String, Vec<usize>)>) {
    shapes.push((format!("{name}.weight"), shape.to_vec()));
}

fn norm(layer: &str, channels: usize, shapes: &mut Vec<(String, Vec<usize>)>) {
    for name in ["weight", "bias", "running_mean", "running_var"] {
        shapes.push((format!("{layer}.{name}"), vec![channels]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parameters of torchvision without the classifier of 1,000 classes (2,049,000 scalars).
    #[test]
    fn parameters_are_as_many_as_published() {
        let count = |depth| DeepResNetConfig { depth, image: 224 }.parameter_count();
        assert_eq!(count(Depth::Fifty), 25_557_032 - 2_049_000);
        assert_eq!(count(Depth::HundredFiftyTwo), 60_192_808 - 2_049_000);
    }
}
