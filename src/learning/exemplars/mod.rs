//! Samples that a client keeps, and the data it stores with them.
//!
//! | what | which samples | budget | who |
//! |---|---|---|---|
//! | [`ByTask`] | those chosen of every task, ascending | a [share](kept) of every class, or all | FedHAF, the oracle |
//! | [`ByClass`] | the first of every class, in an order of merit | one for all classes: [`Quota`] | iCaRL |
//! | [`Reservoir`] | a uniform part of a stream, with logits noted of each | a fixed total | ER, DER++ |
//!
//! Orders of merit are in [`Herding`](super::Herding).

mod by_class;
mod by_task;
mod reservoir;
mod share;

pub use by_class::{ByClass, Quota};
pub use by_task::ByTask;
pub use reservoir::{BufferedSample, Reservoir};
pub use share::{exemplars, kept};
