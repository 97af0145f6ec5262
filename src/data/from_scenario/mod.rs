//! From the sections of a scenario to data: which set, which transforms, which tasks, whose samples.
//!
//! The sections were checked when the scenario was read; what can still fail here needs the data
//! itself (files, numbers of classes and samples).

mod auxiliary;
mod clients;
mod dataset;
mod floats;
mod holders;
mod stated;
mod tasks;
#[cfg(test)]
mod tests;
mod transforms;

pub(crate) use auxiliary::shards;
pub use dataset::{is_present, nominal_class_sizes};
pub use transforms::Transforms;
