//! Numbers without learning: streams of randomness, distributions, alias tables, Gaussians, random
//! features, symmetric matrices and ridge regression.
pub mod alias;
pub mod distributions;
pub mod gaussian;
pub mod law;
pub mod projection;
pub mod ridge;
pub mod streams;
pub mod symmetric;
