//! The two halves of a transformer block of which something trains, each as one op.
//!
//! Layers may be variables, and low-rank pairs may stand parallel to the linear ones ([`AdaptedLinear`]). The halves are
//! those of [`frozen`](super::frozen) otherwise, with the bits of the ops they are made of, also of all gradients. As one
//! op they add a pair's product where it belongs instead of padding it to the width of its layer, and no value inside
//! is a node of candle's graph, whose gradient would be zeros first and a sum then.
//!
//! They run on the CPU in `f32` (products may be `bf16`); elsewhere the ops compute the same one by one.

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
