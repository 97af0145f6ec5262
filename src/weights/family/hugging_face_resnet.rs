//! Residual networks with the names of Hugging Face's `transformers`: the layers of torchvision's under other names.

use super::{Family, Network};

pub static FAMILY: Family = Family {
    name: "Hugging Face ResNet",
    network: Network::ResNet,
    anchor: "embedder.embedder.convolution.weight",
    rules: &[],
    words: &[
        ("embedder.embedder.convolution.", "conv1."),
        ("embedder.embedder.normalization.", "bn1."),
        ("encoder.stages.0.layers.", "layer1."),
        ("encoder.stages.1.layers.", "layer2."),
        ("encoder.stages.2.layers.", "layer3."),
        ("encoder.stages.3.layers.", "layer4."),
        (".layer.0.convolution.", ".conv1."),
        (".layer.0.normalization.", ".bn1."),
        (".layer.1.convolution.", ".conv2."),
        (".layer.1.normalization.", ".bn2."),
        (".layer.2.convolution.", ".conv3."),
        (".layer.2.normalization.", ".bn3."),
        (".shortcut.convolution.", ".downsample.0."),
        (".shortcut.normalization.", ".downsample.1."),
    ],
    kept: &["conv1.*", "bn1.*", "layer*"],
    passed: &["classifier.*"],
};
