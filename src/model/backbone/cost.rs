//! Cost of a forward pass in multiplications. Virtual time uses it to compare a server's own work with a client's
//! passes.

use super::BackboneConfig;
use crate::model::resnet::StemShape;
use crate::model::{DeepResNetConfig, ResNetConfig, VitConfig};

impl BackboneConfig {
    /// Returns the number of multiplications in matrix products and convolutions for one sample.
    ///
    /// Norms, softmaxes, activations and the head are left out. Raw pixels cost nothing.
    pub fn multiplications(&self) -> f64 {
        match self {
            BackboneConfig::Vit(vit) => patches(vit) + self.in_blocks(),
            BackboneConfig::ResNet(network) => of_resnet(network),
            BackboneConfig::DeepResNet(network) => of_deep_resnet(network),
            BackboneConfig::Bert(_) => self.in_blocks(),
            BackboneConfig::Pixels(_) => 0.0,
        }
    }

    /// Returns the number of blocks of a transformer; 0 for others.
    pub fn blocks(&self) -> usize {
        match self {
            BackboneConfig::Vit(vit) => vit.depth,
            BackboneConfig::Bert(bert) => bert.layers,
            _ => 0,
        }
    }

    /// Returns the number of tokens of a sample, with the class token; 0 if the backbone is no transformer.
    pub fn tokens(&self) -> usize {
        match self {
            BackboneConfig::Vit(vit) => vit.tokens(),
            BackboneConfig::Bert(bert) => bert.length,
            _ => 0,
        }
    }

    /// Returns the cost of a block with this number of tokens.
    ///
    /// It is zero if the backbone is no transformer.
    pub fn block_cost(&self, tokens: usize) -> BlockCost {
        let (dim, hidden) = match self {
            BackboneConfig::Vit(vit) => (vit.dim, vit.mlp),
            BackboneConfig::Bert(bert) => (bert.hidden, bert.intermediate),
            _ => return BlockCost::default(),
        };
        BlockCost {
            products: (tokens * (4 * dim * dim + 2 * dim * hidden)) as f64,
            attention: (2 * tokens * tokens * dim) as f64,
        }
    }

    /// Returns the multiplications that `more` additional tokens add to a block.
    pub fn cost_of_more_tokens(&self, more: usize) -> f64 {
        let block = |tokens| self.block_cost(tokens).total();
        block(self.tokens() + more) - block(self.tokens())
    }

    fn in_blocks(&self) -> f64 {
        self.blocks() as f64 * self.block_cost(self.tokens()).total()
    }
}

/// Number of multiplications in one block of a transformer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlockCost {
    /// Products with weights, in projections and perceptron.
    pub products: f64,
    /// Products between tokens, in scores and weighted values.
    pub attention: f64,
}

impl BlockCost {
    /// Returns their sum.
    pub fn total(self) -> f64 {
        self.products + self.attention
    }
}

fn patches(vit: &VitConfig) -> f64 {
    ((vit.tokens() - 1) * vit.patch_values() * vit.dim) as f64
}

fn of_resnet(network: &ResNetConfig) -> f64 {
    let StemShape { stride, pool, .. } = StemShape::of(network.stem);
    let stem = network.image.div_ceil(stride);
    let first = pool.map_or(stem, |[_, stride, _]| stem.div_ceil(stride));
    convolutions(network.parameter_shapes(), stem, first, false)
}

fn of_deep_resnet(network: &DeepResNetConfig) -> f64 {
    let stem = network.image.div_ceil(2);
    convolutions(network.parameter_shapes(), stem, stem.div_ceil(2), true)
}

/// Returns the cost of all convolutions, whose weights are those with four dimensions. The stem's output has side
/// `stem`, that of the first stage `first`. Every later stage halves it in its first block, by the first convolution
/// or, in bottlenecks, the second.
fn convolutions(
    shapes: Vec<(String, Vec<usize>)>,
    stem: usize,
    first: usize,
    bottlenecks: bool,
) -> f64 {
    let side = |name: &str| {
        let stage = name.strip_prefix("layer").and_then(|rest| rest.split('.').next());
        let Some(stage) = stage.and_then(|stage| stage.parse::<usize>().ok()) else { return stem };
        let before = bottlenecks && stage > 1 && name.ends_with(".0.conv1.weight");
        let halved = stage - 1 - usize::from(before);
        (0..halved).fold(first, |side, _| side.div_ceil(2))
    };
    let kernels = shapes.iter().filter(|(_, shape)| shape.len() == 4);
    let of = |(name, shape): &(String, Vec<usize>)| {
        (shape.iter().product::<usize>() * side(name) * side(name)) as f64
    };
    kernels.map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::deep_resnet::Depth;
    use crate::model::{BertConfig, PixelShape};
    use crate::scenario::{BertPooling, Stem};

    /// Torchvision's documentation has 17.56, 1.81, 4.09 and 11.51 billion, with heads of 1,000 classes.
    #[test]
    fn networks_cost_what_is_published() {
        let vit = VitConfig::preset("vit-base").unwrap();
        let eighteen = ResNetConfig { image: 224, stem: Stem::ImageNet, ..ResNetConfig::default() };
        let deep = |depth| BackboneConfig::DeepResNet(DeepResNetConfig { depth, image: 224 });
        for (config, published) in [
            (BackboneConfig::Vit(vit), 17.56),
            (BackboneConfig::ResNet(eighteen), 1.81),
            (deep(Depth::Fifty), 4.09),
            (deep(Depth::HundredFiftyTwo), 11.51),
        ] {
            let billions = config.multiplications() / 1e9;
            assert!((billions - published).abs() < 0.006, "{}: {billions}", config.kind());
        }
    }

    #[test]
    fn a_transformer_of_text_is_counted_by_its_tokens() {
        let bert = BertConfig {
            vocabulary: 11,
            hidden: 5,
            layers: 2,
            heads: 1,
            intermediate: 7,
            positions: 13,
            length: 3,
            pooling: BertPooling::Cls,
        };
        let layer = 3 * (4 * 25 + 2 * 5 * 7) + 2 * 9 * 5;
        assert_eq!(BackboneConfig::Bert(bert).multiplications(), f64::from(2 * layer));
        let pixels = PixelShape { channels: 3, image: 32 };
        assert_eq!(BackboneConfig::Pixels(pixels).multiplications(), 0.0);
    }
}
