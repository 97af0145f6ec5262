//! BERT (Devlin et al. 2019) as a frozen encoder of token sequences, with Hugging Face's parameter names.
//!
//! It only computes features; nothing in it trains.

mod config;
mod encoder;
#[cfg(test)]
mod golden;
mod initialize;
mod network;
mod sequences;

pub use config::{BertConfig, BertPooling};
pub use network::Bert;
