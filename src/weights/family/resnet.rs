//! Residual networks in torchvision's names, which are ours; timm's plain ones have them as well.

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
