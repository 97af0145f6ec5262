//! Metrics of a run: accuracy per task over time, forgetting, bias of the clients.
//!
//! Accuracies are in percent. `A[i][j]` is the accuracy on task `i` after training task `j`,
//! both from 0 in code and from 1 in the papers' formulas.

mod accuracy;
mod bias;
mod client_tasks;

pub use accuracy::AccuracyMatrix;
pub use bias::{ResponseEntropy, prototype_distance, response_entropy};
pub use client_tasks::{ClientTaskAccuracies, Direct, PerPoint};
