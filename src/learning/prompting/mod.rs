//! Prompts that depend on a query: common parts of L2P, DualPrompt, CODA-Prompt and HePCo.
//!
//! The query `q(x)` of an image is the feature that the frozen transformer gives for it *without* any prompt. A
//! [`Prompting`] turns queries into prompts of the transformer; a [`Classifier`](super::Classifier) made with one
//! trains it, in packs, and predicts with it.
//!
//! ```text
//! RunContext::queried(loader)      a query with every sample, each computed once per run   (policy)
//!   Batch::Queried          inputs + queries
//!     Prompting             parameters of one member, its queries -> Adaptation, extra loss
//!       PromptPool          the same for all members of a pack, rows that train or stay  (pool)
//!         Classifier        forward, loss, what trained
//! ```
//!
//! # A kind of one's own
//! 1. Name the parameters `prompt.*`: they travel as prompts. A parameter whose leading axis counts prompts may train
//!    in a range of rows only ([`Prompting::trained`]); the other rows are constants, so that no optimizer can
//!    change them. A parameter without gradient must not train: local training refuses it.
//! 2. Implement [`Prompting`] for **one member**: no cohort axis. Anything that differs between training and
//!    inference (the task, a mask) is a field of the implementing type; make one per round.
//! 3. Train with `Classifier::pack_with(backbone, received, rows, Some(prompting))` on loaders from
//!    `context.queried(context.frozen(context.train_loader(shard), model.frozen_part())?, view)?`, and
//!    `model.pack_losses(step, ..)`, which adds [`Prompting::loss`]. Predict with
//!    `Classifier::frozen_with(backbone, parameters, Some(prompting))`; evaluation brings the queries.
//!
//! ```
//! use std::{ops::Range, sync::Arc};
//! use candle_core::Tensor;
//! use fedcast::learning::{Classifier, PromptTensors, Prompting};
//! use fedcast::model::{Adaptation, Backbone, LinearHead, ModelError, Parameter, embedded_vit, prompts};
//! use fedcast::numerics::streams::{Domain, StreamKey};
//!
//! /// One pool of prompts for block 0, weighted by cosines.
//! #[derive(Debug)]
//! struct Weighted;
//!
//! impl Prompting for Weighted {
//!     fn first_block(&self) -> usize {
//!         0
//!     }
//!     fn trained(&self, _name: &str, rows: usize) -> Range<usize> {
//!         0..rows
//!     }
//!     fn adapt(&self, pool: &PromptTensors, queries: &Tensor) -> Result<Adaptation, ModelError> {
//!         let weights = prompts::cosines(queries, pool.get("prompt.00.keys")?)?;
//!         let prompt = prompts::weighted(&weights, pool.get("prompt.00.prompts")?)?; // (b, L, d)
//!         Adaptation::prompts([&prompt])
//!     }
//! }
//!
//! # fn main() -> Result<(), ModelError> {
//! let backbone = Arc::new(Backbone::from(embedded_vit()?));
//! let of = |shape: &[usize]| Parameter {
//!     shape: shape.to_vec(),
//!     values: (0..shape.iter().product::<usize>()).map(|i| (i as f32).sin()).collect(),
//! };
//! let mut received = LinearHead::initial_parameters(10, 64, StreamKey::new(1, Domain::Init));
//! received.insert("prompt.00.keys", of(&[3, 64]));
//! received.insert("prompt.00.prompts", of(&[3, 4, 64]));
//! let model = Classifier::frozen_with(&backbone, &received, Some(Arc::new(Weighted)))?;
//! # let images = Tensor::zeros((2, 1, 8, 8), candle_core::DType::F32, &candle_core::Device::Cpu)?;
//! assert_eq!(model.features(&images)?.dims(), [2, 64]); // asks the backbone for queries itself
//! # Ok(())
//! # }
//! ```

mod components;
mod experts;
#[cfg(test)]
mod golden;
mod pool;
mod selected;
#[cfg(test)]
mod vectors;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use candle_core::Tensor;
use clap::ValueEnum;

pub use components::{ComponentPart, Components};
pub use experts::{EXPERT_KEYS, Expert, ExpertLayout, Experts, expert_name, general_name};
pub(super) use pool::{PromptPool, is_prompt};
pub use selected::{KEYS, POOL, SelectedPrompts};

use crate::model::{Adaptation, ModelError};
use crate::scenario::reader::Choice;

/// View of an image for which a query is computed, if training augments images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum QueryView {
    /// The image without augmentation, computed once.
    ///
    /// It is what the statistics transform gives.
    #[default]
    Clean,
    /// The image as it is trained on, another pass a step.
    Augmented,
}

/// Rule that turns queries into additions to a transformer, for one member of a pack.
pub trait Prompting: Debug + Send + Sync {
    /// Returns the first block that gets a prompt; 0 for prompt tokens. Blocks below it are computed once.
    fn first_block(&self) -> usize;

    /// Returns the range of a parameter's `rows` (leading axis) that trains; empty if none does.
    fn trained(&self, name: &str, rows: usize) -> Range<usize>;

    /// Returns the adaptation of samples with these queries `(b, d)`. Prefixes and prompt tokens are shared by all
    /// samples or, with a leading axis `b`, separate for each.
    ///
    /// # Errors
    /// Returns an error if a parameter is missing or does not fit.
    fn adapt(&self, pool: &PromptTensors, queries: &Tensor) -> Result<Adaptation, ModelError>;

    /// Returns the member's additional training loss, `[]`, such as key matching and penalties.
    ///
    /// # Errors
    /// Fails as [`adapt`](Prompting::adapt) does.
    fn loss(&self, pool: &PromptTensors, queries: &Tensor) -> Result<Option<Tensor>, ModelError> {
        let _ = (pool, queries);
        Ok(None)
    }
}

/// Current values of one member's prompt parameters.
#[derive(Clone, Debug, Default)]
pub struct PromptTensors {
    by_name: BTreeMap<Arc<str>, Tensor>,
}

impl PromptTensors {
    /// Returns a parameter, with all its rows.
    ///
    /// # Errors
    /// Returns an error if there is no parameter of this name.
    pub fn get(&self, name: &str) -> Result<&Tensor, ModelError> {
        let missing =
            || ModelError::Input { reason: format!("`{name}` is not among the prompt parameters") };
        self.by_name.get(name).ok_or_else(missing)
    }
}

impl<N: Into<Arc<str>>> FromIterator<(N, Tensor)> for PromptTensors {
    fn from_iter<I: IntoIterator<Item = (N, Tensor)>>(entries: I) -> Self {
        let by_name = entries.into_iter().map(|(name, tensor)| (name.into(), tensor)).collect();
        PromptTensors { by_name }
    }
}
