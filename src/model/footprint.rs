//! Memory of training, estimated before a run. The number of clients in a pack follows from it. That number is part of
//! the plan, so it may not depend on the memory that is free at the moment.
//!
//! For each block of a transformer the backward pass needs the tensors between its operations: eleven of the width and
//! two of the perceptron's width per token, in the compute type. While it passes a block, attention scores exist about
//! six times in `f32` (with a prefix at most as long as the sequence), and the perceptron's activations about three
//! times. Other backbones are frozen in a pack and keep nothing: their widest activations count four times, and a
//! convolution unfolds its input. Trained values exist with gradient, two moments and a copy.

use candle_core::DType;

use super::{
    BackboneConfig, BertConfig, DeepResNetConfig, PixelShape, ResNetConfig, Stem, VitConfig,
};

const F32: usize = 4;

/// Returns the bytes of activations for one sample in training.
pub fn bytes_per_sample(backbone: &BackboneConfig, compute: DType) -> u64 {
    let bytes = match *backbone {
        BackboneConfig::Vit(vit) => transformer(&vit, compute),
        BackboneConfig::ResNet(ResNetConfig { image, width, stem: Stem::Small, .. }) => {
            image * image * width * (4 + 9) * F32
        }
        // Half the height and width after the first convolution, which unfolds windows of 7 x 7.
        BackboneConfig::ResNet(ResNetConfig {
            image,
            width,
            channels,
            stem: Stem::ImageNet,
            ..
        }) => image.div_ceil(2).pow(2) * (4 * width + 49 * channels) * F32,
        // Widest after the stem: a quarter of the pixels with 64 channels, which a convolution unfolds.
        BackboneConfig::DeepResNet(DeepResNetConfig { image, .. }) => {
            image * image / 4 * 64 * (4 + 9) * F32
        }
        BackboneConfig::Bert(BertConfig { length, hidden, intermediate, heads, .. }) => {
            length * (4 * hidden + 3 * intermediate + 6 * heads * length) * F32
        }
        BackboneConfig::Pixels(PixelShape { channels, image }) => {
            image * image * channels * 4 * F32
        }
    };
    bytes as u64
}

fn transformer(vit: &VitConfig, compute: DType) -> usize {
    let tokens = vit.tokens();
    let kept = vit.depth * tokens * (11 * vit.dim + 2 * vit.mlp) * compute.size_in_bytes();
    let scores = 6 * vit.heads * tokens * 2 * tokens * F32;
    let passing = 3 * tokens * vit.mlp * F32;
    kept + scores + passing
}

/// Returns the bytes of one client in training, with `batch` samples and `trained` values.
pub fn bytes_per_client(
    backbone: &BackboneConfig,
    compute: DType,
    batch: usize,
    trained: usize,
) -> u64 {
    let state = (5 * trained * F32) as u64;
    batch as u64 * bytes_per_sample(backbone, compute) + state
}

/// Largest pack: beyond it, matrix products gain nothing from more rows.
const LARGEST: u64 = 64;

/// Returns the number of clients in a pack on a device of `memory` bytes, at least 1.
///
/// A client takes `client` bytes; `workers` share the device, each with a copy of the weights. Four fifths of the
/// memory may be used.
pub fn clients_that_fit(
    backbone: &BackboneConfig,
    compute: DType,
    client: u64,
    memory: u64,
    workers: usize,
) -> usize {
    let weights = (backbone.parameter_count() * compute.size_in_bytes()) as u64;
    let own = (memory / 5 * 4 / workers.max(1) as u64).saturating_sub(weights);
    (own / client.max(1)).clamp(1, LARGEST) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> BackboneConfig {
        VitConfig::preset("vit-base").expect("a standard network").into()
    }

    #[test]
    fn a_sample_of_vit_b_takes_about_a_hundred_megabytes() {
        let bytes = bytes_per_sample(&base(), DType::BF16);
        // 12 * 197 * (11 * 768 + 2 * 3072) * 2; 6 * 12 * 197 * 394 * 4; 3 * 197 * 3072 * 4
        assert_eq!(bytes, 68_990_976 + 22_353_984 + 7_262_208);
        assert!(bytes_per_sample(&base(), DType::F32) > bytes);
    }

    #[test]
    fn more_memory_holds_more_clients_and_one_always_fits() {
        let client = bytes_per_client(&base(), DType::BF16, 16, 500_000);
        let fit = |memory, workers| clients_that_fit(&base(), DType::BF16, client, memory, workers);
        assert_eq!(fit(0, 1), 1);
        let gb = 1 << 30;
        assert!(fit(80 * gb, 1) > fit(80 * gb, 2) && fit(80 * gb, 2) > fit(24 * gb, 2));
        assert_eq!(fit(1 << 50, 1), 64);
    }

    #[test]
    fn small_networks_take_less() {
        let pixels = BackboneConfig::Pixels(PixelShape { channels: 3, image: 32 });
        let resnet = BackboneConfig::ResNet(ResNetConfig::default());
        let each = [pixels, resnet, base()].map(|b| bytes_per_sample(&b, DType::F32));
        assert!(each.is_sorted(), "{each:?}");
    }
}
