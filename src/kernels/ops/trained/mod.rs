//! Halves of a transformer block with parameters that train, each as one operation.
//!
//! Layers may be variables, and low-rank pairs may be parallel to the linear ones ([`AdaptedLinear`]). Otherwise the
//! halves are those of [`frozen`](super::frozen). Values and all gradients have the same bits as with single
//! operations. As one operation each adds a pair's product to its columns instead of padding it to the width of the
//! layer, and no value inside is a node of candle's graph, where a gradient would first be set to zeros and then added
//! to.
//!
//! They run on the CPU in `f32` (products may be `bf16`); elsewhere single operations compute the same.

mod attention;
mod half;
mod layers;
mod pairs;
mod perceptron;

pub use attention::trained_attention;
pub use layers::AdaptedLinear;
pub use pairs::LowRankPair;
pub use perceptron::trained_perceptron;

#[cfg(test)]
mod tests;
