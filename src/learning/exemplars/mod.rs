//! Samples that a client keeps, and what it remembers of them.
//!
//! [`Reservoir`] keeps a uniform part of a stream, whatever the classes (ER, DER++); [`ByClass`] keeps the first samples of
//! every class in an order of merit, as many of each as a budget leaves (iCaRL).

mod by_class;
mod reservoir;

pub use by_class::{ByClass, Quota};
pub use reservoir::{Remembered, Reservoir};
