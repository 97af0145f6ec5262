//! Numerical building blocks without learning: streams of randomness, distributions, alias tables, Gaussians, random
//! features, symmetric matrices, their factors and eigenvalues, ridge regression, robust means, affinities, L-BFGS,
//! shares of whole numbers, and loops in wide vectors.
pub mod affinity;
pub mod alias;
pub mod cone;
pub mod dense;
pub mod distributions;
pub mod gaussian;
pub mod lbfgs;
pub mod projection;
pub mod regression_mean;
pub mod ridge;
pub mod robust;
pub mod scalar_distribution;
pub mod share;
pub mod streams;
pub mod symmetric;

pub use fedcast_kernels::{denormals, vectors};
pub(crate) use fedcast_kernels::{products, wide};
