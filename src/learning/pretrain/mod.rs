//! Pretraining a small vision transformer on procedurally drawn images.
//!
//! Federated experiments need a frozen backbone that has seen none of the federated classes. The images here
//! are invented pen strokes (see [`glyphs`]): no photograph, no letter or digit is among the classes
//! by design, and no data set is read. So the embedded network is held apart from every data set a user may federate.
//!
//! The network learns to tell the drawn classes apart: AdamW, linear warm-up, cosine decay per step. A batch is cut
//! into a fixed number of shards; any number of workers computes them, gradients are added in the shards'
//! order, so the weights are the same bits for one worker or many.
//!
//! ```no_run
//! use fedcast::learning::pretrain::{pretrain, PretrainConfig};
//! let config = PretrainConfig { steps: 500, ..PretrainConfig::default() };
//! let result = pretrain(&config, 2, |p| eprintln!("{} {:.3}", p.step, p.loss))?;
//! println!("held-out accuracy {:.1} %", result.held_out_accuracy);
//! # Ok::<(), fedcast::learning::LearningError>(())
//! ```

mod canvas;
pub mod glyphs;
mod probe;
mod trainer;

pub use probe::{linear_probe, nearest_mean};
pub use trainer::{Pretrained, Progress, pretrain};

use crate::model::{EMBEDDED_CONFIG, VitConfig};

/// What to train, on what, for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct PretrainConfig {
    /// Seed of the classes, the images and the start values.
    pub seed: u64,
    /// Dimensions of the network; images have one channel.
    pub network: VitConfig,
    /// Drawn classes.
    pub classes: usize,
    /// Optimiser steps.
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
    /// What the embedded network was trained with.
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
