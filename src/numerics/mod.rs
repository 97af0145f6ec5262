//! Numbers without learning: streams of randomness, distributions, alias tables, Gaussians.
pub mod alias;
pub mod distributions;
pub mod gaussian;
pub mod law;
pub mod streams;
