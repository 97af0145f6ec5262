//! Residual networks for small images, trained from scratch (He et al. 2016, torchvision's names): a 3 x 3
//! stem without max-pool, four stages of basic blocks, global average.

mod block;
mod config;
#[cfg(test)]
mod golden;
mod initialise;
mod network;

pub use config::{ResNetConfig, is_buffer};
pub use network::ResNet;
