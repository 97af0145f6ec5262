//! Residual networks that train from scratch (He et al. 2016, torchvision's names): a stem of 3 x 3 without
//! max-pool for small images, or the paper's of 7 x 7 with one, four stages of basic blocks, global average.

mod block;
mod config;
#[cfg(test)]
mod golden;
mod initialize;
mod network;

pub(super) use config::StemShape;
pub use config::{ResNetConfig, Stem, is_buffer};
pub use network::ResNet;
