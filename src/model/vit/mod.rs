//! Vision transformer that all methods share (Dosovitskiy et al. 2021, timm's layout).

mod block;
mod checkpoint;
mod config;
#[cfg(test)]
pub(crate) mod golden;
mod initialize;
#[cfg(test)]
mod namings;
mod network;
mod position;

pub use checkpoint::Checkpoint;
pub use config::VitConfig;
pub use network::Vit;
