//! ResNet-50 and ResNet-152 (He et al. 2016) as frozen extractors: pretrained on ImageNet, with torchvision's names.
//! They only compute features: batch norms always use their running statistics, and nothing trains.

mod bottleneck;
mod config;
#[cfg(test)]
mod golden;
mod network;

pub use config::{DeepResNetConfig, Depth};
pub use network::DeepResNet;
