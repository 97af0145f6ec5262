//! Kernels with the same bits on every CPU: loops in wide vectors, matrix products and differentiable operations, all
//! in a fixed order.
//!
//! It is a separate crate, so that test builds compile the kernels with full optimization and only once, whatever
//! changes above it. [`vectors::Vectors`] chooses the instructions; the choice changes no result.
//!
//! ```
//! use fedcast_kernels::products::{Matrix, Target};
//! let (a, b) = ([1f32, 2.0, 3.0, 4.0], [5f32, 6.0, 7.0, 8.0]);
//! let mut c = [0f32; 4];
//! Target::dense(&mut c, 2, 2).set(1.0, Matrix::dense(&a, 2, 2), Matrix::dense(&b, 2, 2).t());
//! assert_eq!(c, [17.0, 23.0, 39.0, 53.0]);
//! ```

#![deny(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests compare with other arithmetic")
)]

pub mod denormals;
pub mod ops;
#[allow(unsafe_code)]
pub mod products;
pub mod vectors;
#[allow(unsafe_code)]
pub mod wide;
