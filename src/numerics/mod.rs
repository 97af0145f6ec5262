//! Numbers without learning: streams of randomness, alias tables, Gaussians, fixed-order sums.
pub mod alias;
pub mod distributions;
pub mod gaussian;
pub mod streams;
pub mod sums;
