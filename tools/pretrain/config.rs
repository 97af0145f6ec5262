//! Settings of pretraining: network, data and duration.

use fedcast::model::{EMBEDDED_CONFIG, VitConfig};

/// A training; the default is that of the embedded network.
#[derive(Clone, Debug, PartialEq)]
pub struct PretrainConfig {
    /// Seed of the classes, the images and the start values.
    pub seed: u64,
    /// Dimensions of the network; images have one channel.
    pub network: VitConfig,
    /// Drawn classes.
    pub classes: usize,
    /// Optimizer steps.
    pub steps: u32,
    /// Of these, steps of rising learning rate.
    pub warm_up: u32,
    /// Images per step.
    pub batch: usize,
    /// Parts of a batch that are computed on their own; part of the result, unlike workers.
    pub shards: usize,
    /// Largest learning rate.
    pub learning_rate: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// Images that are held out for the final accuracy.
    pub held_out: usize,
}

impl Default for PretrainConfig {
    /// Settings with which the embedded network was trained.
    fn default() -> PretrainConfig {
        PretrainConfig {
            seed: 1,
            network: EMBEDDED_CONFIG,
            classes: 400,
            steps: 4_000,
            warm_up: 200,
            batch: 128,
            shards: 2,
            learning_rate: 2e-3,
            weight_decay: 0.02,
            held_out: 4_000,
        }
    }
}
