//! Numbers without learning: streams of randomness, alias tables, Gaussians, fixed-order sums.
pub mod distributions;
pub mod streams;
