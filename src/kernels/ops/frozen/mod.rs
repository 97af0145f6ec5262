//! Halves of a transformer block whose layers are frozen, each as one operation.
//!
//! ```text
//! frozen_attention    x + W_o attention(W_qkv norm(x) + b_qkv) + b_o
//! frozen_perceptron   x + W_2 a(W_1 norm(x) + b_1) + b_2, with an activation a
//! ```
//!
//! They compute the same as the operations of which they consist, on the CPU with the same bits. As one operation each
//! keeps only what its backward pass needs, and no value inside is a node of candle's graph, where a gradient would
//! first be set to zeros and then added to. Without the CPU's kernels they are composed (`composed.rs`). If products
//! are `bf16`, so that a row's bits do not depend on other rows, a batch is processed in pieces that stay in the cache
//! from one layer to the next.

mod attention;
mod composed;
mod layers;
mod perceptron;

pub use attention::{Attended, frozen_attention};
pub(super) use layers::Pieces;
pub use perceptron::frozen_perceptron;

#[cfg(test)]
mod tests;
