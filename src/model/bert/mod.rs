//! BERT (Devlin et al. 2019) as a frozen encoder of token sequences, with Hugging Face's names. The network itself
//! is candle's; its layer norms cut gradients, so it can be asked for features and nothing in it can be trained.

mod config;
#[cfg(test)]
mod golden;
mod initialise;
mod network;

pub use config::{BertConfig, Pooling};
pub use network::Bert;
