//! From a scenario to everything a simulation needs.

mod blueprint;
mod rules;
mod training;

pub use blueprint::{Holders, TaskCounts, class_sizes, curriculum, holders, vit_config};
pub use rules::rules;
pub use training::{training_plan, wire_form};
