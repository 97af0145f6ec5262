//! Networks between frozen features and a head: FedHAF's feature adjustment module and its head's hidden layer. FedHAF
//! and baselines on the same networks use them.

mod network;
mod shape;

pub(crate) use network::{Adjustment, ByBatch, Drops, Trains};
pub use network::{BatchNormMode, TeacherBatchNormMode};
pub(crate) use shape::of_module;
pub use shape::{ModuleShape, NetworkShape, Residual};
