//! fedcast simulates federated class-incremental learning in one process.

pub mod quantity;
pub mod numerics;
pub mod wire;
pub mod scenario;
pub mod data;
pub mod model;
pub mod learning;
pub mod policy;
pub mod methods;
pub mod federation;
pub mod experiment;
pub mod report;
pub mod cli;
#[cfg(test)]
#[allow(dead_code)] // a tool box: not every reader is used by a test of every build
pub(crate) mod golden;
