//! fedcast simulates federated class-incremental learning in one process.

pub mod cli;
pub mod data;
pub mod experiment;
pub mod federation;
#[cfg(test)]
#[allow(dead_code)] // a tool box: not every reader is used by a test of every build
pub(crate) mod golden;
pub mod learning;
pub mod methods;
pub mod model;
pub mod numerics;
pub mod policy;
pub mod quantity;
pub mod report;
pub mod scenario;
pub mod wire;
