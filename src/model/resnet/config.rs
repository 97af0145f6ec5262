//! Dimensions of a residual network and the shapes of its parameters.

use crate::model::ModelError;
pub use crate::scenario::Stem;

/// Number of residual stages. Each but the first halves the image and doubles the channels.
pub(super) const STAGES: usize = 4;

/// Dimensions of a [`ResNet`](super::ResNet). The default is ResNet-18 for 32 x 32 pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResNetConfig {
    /// Image height and width in pixels; the network itself takes any size.
    pub image: usize,
    /// Color channels.
    pub channels: usize,
    /// Channels of the stem and the first stage; a feature has eight times as many.
    pub width: usize,
    /// Number of blocks in every stage.
    pub blocks: [usize; STAGES],
    /// Layers before the stages.
    pub stem: Stem,
}

/// Kernel sizes and strides of a stem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::model) struct StemShape {
    /// Kernel size of the convolution.
    pub kernel: usize,
    /// Stride of the convolution.
    pub stride: usize,
    /// Kernel size, stride and padding of the max pooling after it.
    pub pool: Option<[usize; 3]>,
}

impl StemShape {
    pub fn of(stem: Stem) -> StemShape {
        match stem {
            Stem::Small => StemShape { kernel: 3, stride: 1, pool: None },
            Stem::ImageNet => StemShape { kernel: 7, stride: 2, pool: Some([3, 2, 1]) },
        }
    }
}

impl Default for ResNetConfig {
    fn default() -> Self {
        ResNetConfig { image: 32, channels: 3, width: 64, blocks: [2; STAGES], stem: Stem::Small }
    }
}

/// Position and dimensions of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockShape {
    pub stage: usize,
    pub block: usize,
    pub inputs: usize,
    pub outputs: usize,
    pub stride: usize,
}

impl BlockShape {
    /// Returns torchvision's name of the block, followed by a dot.
    pub fn prefix(&self) -> String {
        format!("layer{}.{}.", self.stage + 1, self.block)
    }

    /// Returns true if the shortcut needs a convolution to fit.
    pub fn reshapes(&self) -> bool {
        self.stride != 1 || self.inputs != self.outputs
    }
}

impl ResNetConfig {
    /// Returns the width of a feature.
    pub fn dim(&self) -> usize {
        self.width << (STAGES - 1)
    }

    /// Returns all blocks, from the input on.
    pub(super) fn block_shapes(&self) -> Vec<BlockShape> {
        let mut inputs = self.width;
        let mut shapes = Vec::new();
        for (stage, &blocks) in self.blocks.iter().enumerate() {
            let outputs = self.width << stage;
            for block in 0..blocks {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                shapes.push(BlockShape { stage, block, inputs, outputs, stride });
                inputs = outputs;
            }
        }
        shapes
    }

    /// Returns the name and shape of every parameter and buffer, in torchvision's names, sorted by name.
    pub fn parameter_shapes(&self) -> Vec<(String, Vec<usize>)> {
        let StemShape { kernel, .. } = StemShape::of(self.stem);
        let stem = vec![self.width, self.channels, kernel, kernel];
        let mut shapes = vec![("conv1.weight".to_owned(), stem)];
        norm_shapes("bn1", self.width, &mut shapes);
        for block in self.block_shapes() {
            let BlockShape { inputs, outputs, .. } = block;
            let prefix = block.prefix();
            shapes.push((format!("{prefix}conv1.weight"), vec![outputs, inputs, 3, 3]));
            norm_shapes(&format!("{prefix}bn1"), outputs, &mut shapes);
            shapes.push((format!("{prefix}conv2.weight"), vec![outputs, outputs, 3, 3]));
            norm_shapes(&format!("{prefix}bn2"), outputs, &mut shapes);
            if block.reshapes() {
                shapes.push((format!("{prefix}downsample.0.weight"), vec![outputs, inputs, 1, 1]));
                norm_shapes(&format!("{prefix}downsample.1"), outputs, &mut shapes);
            }
        }
        shapes.sort();
        shapes
    }

    /// Returns the number of trainable values, without buffers.
    pub fn parameter_count(&self) -> usize {
        let shapes = self.parameter_shapes();
        let trained = shapes.iter().filter(|(name, _)| !is_buffer(name));
        trained.map(|(_, shape)| shape.iter().product::<usize>()).sum()
    }

    /// Checks that all dimensions are positive.
    ///
    /// # Errors
    /// Returns an error if a dimension is zero.
    pub fn validate(&self) -> Result<(), ModelError> {
        if [self.image, self.channels, self.width].contains(&0) || self.blocks.contains(&0) {
            let reason = format!("a residual network of {self:?} has a dimension of zero");
            return Err(ModelError::Input { reason });
        }
        Ok(())
    }
}

/// Returns true if a parameter of this name is a buffer.
///
/// A buffer is state of a batch norm that is sent and averaged, but that neither optimizer, weight decay nor a proximal
/// term affects.
pub fn is_buffer(name: &str) -> bool {
    [MEAN, VARIANCE, BATCHES].iter().any(|buffer| name.ends_with(buffer))
}

/// Suffixes of the buffers of a batch norm.
pub(super) const MEAN: &str = ".running_mean";
pub(super) const VARIANCE: &str = ".running_var";
pub(super) const BATCHES: &str = ".num_batches_tracked";

fn norm_shapes(layer: &str, channels: usize, shapes: &mut Vec<(String, Vec<usize>)>) {
    for name in [".weight", ".bias", MEAN, VARIANCE] {
        shapes.push((format!("{layer}{name}"), vec![channels]));
    }
    shapes.push((format!("{layer}{BATCHES}"), vec![]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_resnet18_with_the_small_stem() {
        let config = ResNetConfig::default();
        assert_eq!((config.dim(), config.parameter_count()), (512, 11_168_832));
        let shapes = config.parameter_shapes();
        assert_eq!(shapes.iter().filter(|(name, _)| is_buffer(name)).count(), 60);
        let of = |wanted: &str| shapes.iter().find(|(name, _)| name == wanted).unwrap().1.clone();
        assert_eq!(of("layer3.0.downsample.0.weight"), [256, 128, 1, 1]);
        assert_eq!(of("layer4.1.bn2.num_batches_tracked"), [0usize; 0]);
        assert!(!shapes.iter().any(|(name, _)| name.starts_with("layer1.0.downsample")));
    }

    /// The release of STSA on Tiny-ImageNet: only the first convolution has more weights.
    #[test]
    fn the_stem_of_imagenet_has_windows_of_seven() {
        let small = ResNetConfig::default();
        let config = ResNetConfig { stem: Stem::ImageNet, ..small };
        assert_eq!(config.parameter_count(), 11_168_832 - 3 * 3 * 3 * 64 + 7 * 7 * 3 * 64);
        // torchvision's ResNet-18 without its classifier of 1000 classes.
        assert_eq!(config.parameter_count(), 11_689_512 - 513 * 1000);
        let (with, without) = (config.parameter_shapes(), small.parameter_shapes());
        let differing = with.iter().zip(&without).filter(|(a, b)| a != b);
        let differing: Vec<_> = differing.map(|(a, _)| a.clone()).collect();
        assert_eq!(differing, [("conv1.weight".to_owned(), vec![64, 3, 7, 7])]);
    }

    #[test]
    fn a_dimension_of_zero_is_refused() {
        let flat = ResNetConfig { width: 0, ..ResNetConfig::default() };
        assert!(flat.validate().unwrap_err().to_string().contains("width: 0"));
    }
}
