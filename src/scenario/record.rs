//! `[record]`: what is measured and written down.

use serde::Serialize;

/// What is measured and written down.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecordSection {
    /// What is measured beside accuracy, forgetting and bytes. Default none.
    pub metrics: Vec<Metric>,
    /// When the global model is evaluated. Default `round`; the end of a task always is.
    pub evaluate: Evaluate,
    /// Whether histograms of sizes and times are written. Default true.
    pub histograms: bool,
}

/// A measure on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Entropy of client responses and distance of client prototypes before synchronisation.
    FederatedBias,
}

/// When the global model is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evaluate {
    /// After every round.
    Round,
    /// After every task.
    Task,
}
