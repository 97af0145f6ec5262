//! Networks and the differentiable kernels they are made of.

pub mod ops;
