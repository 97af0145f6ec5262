//! Arithmetic of candle, for devices and types that our kernels do not support.
//!
//! On a CPU its bits depend on the width of vectors, the caches and the C library, so no result of a CPU may be
//! computed here: every caller checks [`served`](super::served()) first. All runs on a CPU compute in `f32`; only GPUs,
//! and tests that compare both paths, come here. Sums over a dimension that is not the last are an exception: candle
//! always adds them in the order of the index.

#![expect(
    clippy::disallowed_methods,
    reason = "the one place that forwards to candle's arithmetic"
)]

use candle_core::{D, Result, Tensor};

/// Multiplies matrices, batch by batch.
pub(super) fn product(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    a.matmul(b)
}

/// Raises `e` to every entry.
pub(super) fn exp(x: &Tensor) -> Result<Tensor> {
    x.exp()
}

/// Takes the natural logarithm of every entry.
pub(super) fn log(x: &Tensor) -> Result<Tensor> {
    x.log()
}

/// Takes the hyperbolic tangent of every entry.
pub(super) fn tanh(x: &Tensor) -> Result<Tensor> {
    x.tanh()
}

/// Takes the logistic function of every entry.
pub(super) fn sigmoid(x: &Tensor) -> Result<Tensor> {
    candle_nn::ops::sigmoid(x)
}

/// Turns rows of scores into probabilities.
pub(super) fn softmax(x: &Tensor) -> Result<Tensor> {
    candle_nn::ops::softmax(x, D::Minus1)
}

/// Sums over a dimension.
pub(super) fn sum(x: &Tensor, dim: usize) -> Result<Tensor> {
    x.sum(dim)
}

/// Averages over a dimension.
pub(super) fn mean(x: &Tensor, dim: usize) -> Result<Tensor> {
    x.mean(dim)
}

/// Sums over the last dimension, which stays as one of length 1.
pub(super) fn sum_of_rows(x: &Tensor) -> Result<Tensor> {
    x.sum_keepdim(D::Minus1)
}

/// Averages over the last dimension, which stays as one of length 1.
pub(super) fn mean_of_rows(x: &Tensor) -> Result<Tensor> {
    x.mean_keepdim(D::Minus1)
}
