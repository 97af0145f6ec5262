//! From a scenario to everything a simulation needs.

mod blueprint;
mod rules;
mod transforms;

pub use blueprint::{Holders, TaskCounts, curriculum, holders, nominal_class_sizes};
pub use rules::rules;
pub use transforms::{statistics, training, transform};
