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
