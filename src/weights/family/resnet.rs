//! Residual networks with torchvision's names, which are also ours and those of timm's plain ones.

use super::{Family, Network};

pub static FAMILY: Family = Family {
    name: "torchvision ResNet",
    network: Network::ResNet,
    anchor: "layer1.0.conv1.weight",
    rules: &[],
    words: &[],
    kept: &["conv1.*", "bn1.*", "layer*"],
    passed: &["fc.*", "classifier.*"],
};
