//! `[client]`: local training.

use serde::Serialize;

/// Local training.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientSection {
    /// Passes over the shard per round. Default 5.
    pub epochs: u32,
    /// Samples of a step; the last of an epoch may be smaller. Default 16.
    pub batch: u32,
    /// The step rule, made anew every round. Default AdamW.
    pub optimiser: OptimiserSection,
    /// Largest global norm of the gradient; 0 is off. Unset: the method decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip: Option<f64>,
    /// Whether training uses `[data.train]`; otherwise `[data.test]`. Default true.
    pub augment: bool,
}

/// A step rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum OptimiserSection {
    /// Adam with decoupled weight decay.
    Adamw {
        /// Learning rate. Default 0.001.
        lr: f64,
        /// Default 0 (then it is Adam).
        weight_decay: f64,
        /// Default `[0.9, 0.999]`.
        betas: [f64; 2],
        /// Default 1e-8.
        eps: f64,
    },
    /// Stochastic gradient descent.
    Sgd {
        /// Learning rate. Default 0.01.
        lr: f64,
        /// Default 0.
        momentum: f64,
        /// Default 0.
        weight_decay: f64,
    },
}

impl OptimiserSection {
    /// The learning rate.
    pub fn lr(&self) -> f64 {
        match self {
            OptimiserSection::Adamw { lr, .. } | OptimiserSection::Sgd { lr, .. } => *lr,
        }
    }
}
