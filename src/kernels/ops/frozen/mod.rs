//! The two halves of a transformer block whose layers are frozen, each as one op.
//!
//! ```text
//! frozen_attention    x + W_o attention(W_qkv norm(x) + b_qkv) + b_o
//! frozen_perceptron   x + W_2 a(W_1 norm(x) + b_1) + b_2, with an activation a
//! ```
//!
//! They compute what the ops they are made of compute, on the CPU to the same bits. As one op they keep of a forward pass
//! only what the backward pass needs, and nothing of it is a node of candle's graph, whose gradient would be
//! zeros first and a sum then. Away from the CPU's kernels they are composed (`composed.rs`). Where products are `bf16` (and a row's bits do not depend on rows around it) they go
//! through a batch in pieces that stay in the cache from one layer to the next.

mod attention;
mod composed;
mod layers;
mod perceptron;

pub use attention::{Attended, frozen_attention};
pub(super) use layers::Pieces;
pub use perceptron::frozen_perceptron;

#[cfg(test)]
mod tests;
