//! Model that most methods train: a backbone, optional prompts or adapters, and a head.
//!
//! **The parameters decide what trains.** A [`ParameterSet`] that a client received may hold
//! * `head.weight` and `head.bias` (a linear head), or `head.weight` and `head.sigma` (a cosine head);
//! * `prompt.00`, `prompt.01`, ...: a prefix prompt `(length, d)` of block 0, 1, ..., the first half of
//!   its rows keys and the second half values (as in HGP);
//! * `adapter.00.down.weight`, ...: a bottleneck adapter of every block (as in STSA's first stage);
//! * `lora.00.qkv.a`, `lora.00.qkv.b`, ...: low-rank pairs parallel to linear layers; where there are several at one
//!   place, one per task behind a leading axis, the last trains;
//! * `adjust.*`, `head.hidden.*` and `head.norm.*`: FedHAF's module and the hidden layer of its head, between frozen
//!   features and the rows (features are then the module's); its batch norms take moments of the batch in
//!   training, or those of the module its running ones ([`BatchNormMode`](crate::model::BatchNormMode));
//! * `anchor.*` or `mapping.*`: a linear map of features, as a branch of its output or below the head (LANDER);
//! * every parameter of the backbone by its own names: full fine-tuning. Its buffers (running statistics of
//!   batch norms) move with the forward passes of training and come back among the parameters.
//!
//! Everything else stays frozen, with the values of the run context's backbone. With a [`Prompting`](super::Prompting),
//! all parameters named `prompt.*` belong to it, and the prompts that the backbone gets depend on the query of each
//! sample.
//!
//! [`Classifier::pack`] trains the parameters of several clients at once, stacked along a leading axis,
//! on the one frozen backbone.

mod head_rows;
mod making;
mod packs;
mod pairs;
mod prompt;
mod trained;

use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor, Var};

pub use head_rows::{head_rows, with_head_rows};
pub use packs::{PackLogits, PackOutputs};
pub use prompt::{PromptShape, prompt_name};

use super::LearningError;
use super::prompting::PromptPool;
use crate::data::Batch;
use crate::model::ops::SampleGroups;
use crate::model::{
    Adaptation, Adjustment, Backbone, ClassHead, Dropout, Drops, FrozenPart, Mapping, MappingPlace,
    ModelError, ParameterSet, Variables, ops,
};

/// A network that answers with scores over head rows, frozen or in training.
#[derive(Clone, Debug)]
pub struct Classifier {
    backbone: Arc<Backbone>,
    /// Adaptation of the backbone that is the same for all samples.
    adaptation: Adaptation,
    /// Prompts that depend on the query of each sample.
    pool: Option<PromptPool>,
    /// Linear map of features to label embeddings.
    mapping: Option<Mapping>,
    /// Transformation between the backbone and the rows of the head.
    adjustment: Option<Adjustment>,
    head: ClassHead,
    /// Rows of the complete head that `head` holds.
    rows: Range<usize>,
    /// Trainable variables, sorted by name; empty when frozen.
    variables: Variables,
    /// Received parameters: one set per member of a pack, or a single set.
    received: Vec<ParameterSet>,
    /// Frozen copies on other devices, made on first request.
    copies: Copies,
}

type Copies = Arc<Mutex<Vec<Arc<Classifier>>>>;

impl Classifier {
    /// Returns the number of members of the pack that it trains; 1 without a pack.
    pub fn members(&self) -> usize {
        self.received.len()
    }

    /// Returns the trainable variables, sorted by name.
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// Returns the trainable variables without their names.
    pub fn vars(&self) -> Vec<Var> {
        self.variables.iter().map(|(_, var)| var.clone()).collect()
    }

    /// Returns the parameters that the classifier was made from.
    pub fn received(&self) -> &ParameterSet {
        &self.received[0]
    }

    /// Returns the network below the head.
    pub fn backbone(&self) -> &Arc<Backbone> {
        &self.backbone
    }

    /// Returns the head rows to which the columns of [`logits`](Classifier::logits) belong.
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// Returns the head, which holds only the rows of [`rows`](Classifier::rows).
    pub fn head(&self) -> &ClassHead {
        &self.head
    }

    /// Returns the features `(b, d)` of images `(b, c, h, w)`.
    ///
    /// # Errors
    /// Returns an error if the pixels do not fit the backbone.
    pub fn features(&self, pixels: &Tensor) -> Result<Tensor, ModelError> {
        let queries = match &self.pool {
            Some(_) => Some(self.backbone.frozen(pixels, FrozenPart::Whole)?),
            None => None,
        };
        self.below_head(pixels, &self.adaptation_for(queries.as_ref(), None)?)
    }

    /// Returns true if the classifier uses queries. If a batch has none, it computes them itself.
    pub fn asks_queries(&self) -> bool {
        self.pool.is_some()
    }

    /// Returns the adaptation of samples with these queries; `groups` assigns samples to members of a pack.
    fn adaptation_for(
        &self,
        queries: Option<&Tensor>,
        groups: Option<&SampleGroups>,
    ) -> Result<Adaptation, ModelError> {
        match (&self.pool, queries) {
            (Some(pool), Some(queries)) => pool.adapt(queries, groups),
            _ => Ok(Adaptation { groups: groups.cloned(), ..self.adaptation.clone() }),
        }
    }

    /// Returns the queries of a batch: its own, or those of its pixels.
    fn queries_of(&self, batch: &Batch, device: &Device) -> Result<Option<Tensor>, LearningError> {
        if self.pool.is_none() {
            return Ok(None);
        }
        Ok(Some(match batch.queries(device)? {
            Some(queries) => queries,
            None => self.backbone.frozen(&batch.pixels(device)?, FrozenPart::Whole)?,
        }))
    }

    /// Returns the part that equals the original backbone. A cache may supply its output in place of pixels.
    pub fn frozen_part(&self) -> FrozenPart {
        let prompted = self.pool.as_ref().map(|pool| pool.prompting().first_block());
        match prompted.or_else(|| self.adaptation.first_adapted_block()) {
            _ if self.backbone.is_in(self.received()) => FrozenPart::Nothing,
            None => FrozenPart::Whole,
            Some(0) => FrozenPart::Nothing,
            Some(block) => FrozenPart::Below(block),
        }
    }

    /// Returns features `(b, d)` of a batch. Its samples are images, or the output of
    /// [`frozen_part`](Classifier::frozen_part) for them.
    ///
    /// # Errors
    /// Returns an error if the batch does not fit the backbone.
    pub fn batch_features(&self, batch: &Batch, device: &Device) -> Result<Tensor, LearningError> {
        let queries = self.queries_of(batch, device)?;
        self.adapted_features(batch, device, &self.adaptation_for(queries.as_ref(), None)?)
    }

    fn adapted_features(
        &self,
        batch: &Batch,
        device: &Device,
        adaptation: &Adaptation,
    ) -> Result<Tensor, LearningError> {
        let Batch::Features { values, shape, .. } = batch.inputs() else {
            return Ok(self.below_head(&batch.pixels(device)?, adaptation)?);
        };
        Ok(self.above(Tensor::from_slice(values, shape.as_slice(), device)?, adaptation)?)
    }

    /// Returns features of pixels. The frozen part is computed exactly as a cache does, with the same bits.
    fn below_head(&self, pixels: &Tensor, adaptation: &Adaptation) -> Result<Tensor, ModelError> {
        match self.frozen_part() {
            FrozenPart::Nothing => self.backbone.features(pixels, adaptation),
            part => self.above(self.backbone.frozen(pixels, part)?, adaptation),
        }
    }

    /// Computes features from the output of the frozen part.
    fn above(&self, rows: Tensor, adaptation: &Adaptation) -> Result<Tensor, ModelError> {
        match (self.frozen_part(), &self.adjustment) {
            (FrozenPart::Below(block), _) => self.backbone.features_from(&rows, block, adaptation),
            (FrozenPart::Whole, Some(own)) => Ok(own.adjust(&rows, drops(adaptation))?),
            (FrozenPart::Whole | FrozenPart::Adapted(_) | FrozenPart::Nothing, _) => Ok(rows),
        }
    }

    /// Returns the input of the head's rows for these features.
    fn below_rows(&self, features: &Tensor, drops: Option<Drops>) -> Result<Tensor, ModelError> {
        match (&self.adjustment, &self.mapping) {
            (Some(own), _) => Ok(own.hidden(features, drops)?),
            (None, Some(mapping)) if mapping.place == MappingPlace::Below => {
                Ok(mapping.apply(features)?)
            }
            (None, _) => Ok(features.clone()),
        }
    }

    /// Returns features `(b, d)` in the space of label embeddings; `None` without a mapping.
    ///
    /// # Errors
    /// Returns an error if the features do not fit the mapping.
    pub fn mapped(&self, features: &Tensor) -> Result<Option<Tensor>, ModelError> {
        Ok(self.mapping.as_ref().map(|mapping| mapping.apply(features)).transpose()?)
    }

    /// Returns logits `(b, rows)` of features `(b, d)`.
    ///
    /// # Errors
    /// Returns an error if the features do not fit the head.
    pub fn logits(&self, features: &Tensor) -> Result<Tensor, ModelError> {
        self.head.logits(&self.below_rows(features, None)?)
    }

    /// Returns logits `(b, rows)` of a batch in training, with dropout in adapters or in a module.
    ///
    /// # Errors
    /// Returns an error if the batch does not fit the network.
    pub fn training_logits(
        &self,
        batch: &Batch,
        device: &Device,
        dropout: Option<Dropout>,
    ) -> Result<Tensor, LearningError> {
        let queries = self.queries_of(batch, device)?;
        let adaptation = self.adaptation_for(queries.as_ref(), None)?;
        let adaptation = Adaptation { dropout, ..adaptation };
        let features = self.adapted_features(batch, device, &adaptation)?;
        Ok(self.head.logits(&self.below_rows(&features, drops(&adaptation))?)?)
    }

    /// Returns the training loss of images for a single member, `(1)`. It is the cross-entropy over the rows that
    /// train, plus the loss of prompts that depend on queries. Its gradient reaches the pixels. `labels` are head rows.
    ///
    /// # Errors
    /// Returns an error if a label is not among the rows, or the pixels do not fit.
    pub fn image_loss(&self, pixels: &Tensor, labels: &[u32]) -> Result<Tensor, LearningError> {
        let groups = SampleGroups::one(labels.len());
        let queries = match &self.pool {
            Some(_) => Some(self.backbone.frozen(pixels, FrozenPart::Whole)?),
            None => None,
        };
        let adaptation = self.adaptation_for(queries.as_ref(), Some(&groups))?;
        let features = self.below_head(pixels, &adaptation)?;
        let logits = self.head.pack_logits(&self.below_rows(&features, None)?, &groups)?;
        let (labels, rows) = (self.own_rows(labels), 0..self.rows.len());
        let losses = ops::grouped_cross_entropy(&logits, &labels, rows, &groups)?;
        match (&self.pool, &queries) {
            (Some(pool), Some(queries)) => match pool.losses(queries, &groups)? {
                Some(pull) => Ok((losses + pull)?),
                None => Ok(losses),
            },
            _ => Ok(losses),
        }
    }

    /// Returns `CE_cur`, the mean cross-entropy over the rows of this classifier only.
    ///
    /// This is the benchmark's masked training loss. `labels` are head rows.
    ///
    /// # Errors
    /// Returns an error if a label is not among the rows.
    pub fn masked_loss(&self, pixels: &Tensor, labels: &[u32]) -> Result<Tensor, LearningError> {
        self.loss_of(&self.features(pixels)?, labels)
    }

    fn loss_of(&self, features: &Tensor, labels: &[u32]) -> Result<Tensor, LearningError> {
        let logits = self.logits(features)?;
        Ok(ops::cross_entropy(&logits, &self.own_rows(labels), 0..self.rows.len())?)
    }

    /// Returns [`Classifier::masked_loss`] of a batch. Its samples are images, or the output of
    /// [`frozen_part`](Classifier::frozen_part) for them.
    ///
    /// # Errors
    /// Returns an error if a label is not among the rows.
    pub fn batch_loss(&self, batch: &Batch, device: &Device) -> Result<Tensor, LearningError> {
        self.loss_of(&self.batch_features(batch, device)?, batch.labels())
    }

    /// Converts head rows to row numbers of this classifier's head.
    fn own_rows(&self, labels: &[u32]) -> Vec<u32> {
        let start = self.rows.start as u32;
        labels.iter().map(|label| label.wrapping_sub(start)).collect()
    }
}

/// Returns the dropout of a module, which trains in packs of one only.
fn drops(adaptation: &Adaptation) -> Option<Drops> {
    let Dropout { rate, places } = adaptation.dropout.as_ref()?;
    places.first().map(|place| Drops { rate: *rate, place: *place })
}
