//! Residual networks that train from scratch (He et al. 2016, torchvision's names). They have a stem of 3 x 3 without
//! max pooling for small images, or the paper's of 7 x 7 with it, four stages of basic blocks, and a global average.

mod block;
mod config;
#[cfg(test)]
mod golden;
mod initialize;
mod network;

pub(super) use config::StemShape;
pub use config::{ResNetConfig, Stem, is_buffer};
pub use network::ResNet;
