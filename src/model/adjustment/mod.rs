//! A small network between frozen features and the rows of a head: FedHAF's feature adjustment module and the
//! hidden layer of its head, for that method and for baselines on the same networks.

mod network;
mod shape;

pub(crate) use network::{Adjustment, ByBatch, Drops, Trains};
pub use network::{BatchNormMode, TeacherBatchNormMode};
pub(crate) use shape::of_module;
pub use shape::{ModuleShape, NetworkShape, Residual};
