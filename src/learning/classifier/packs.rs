//! Passes over the samples of a pack, in which each member computes only its own samples.

use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::{Classifier, drops};
use crate::data::Batch;
use crate::learning::{LearningError, PackBatch};
use crate::model::{Adaptation, Dropout, FrozenPart, InputHook, ops};

/// Outputs of a pass over the samples of a pack.
#[derive(Clone, Debug)]
pub struct PackOutputs {
    /// Features, `(b, d)`.
    pub features: Tensor,
    /// Loss of each member, `(members)`.
    pub losses: Tensor,
}

/// Outputs of a pass over the samples of a pack before any loss.
#[derive(Clone, Debug)]
pub struct PackLogits {
    /// Features, `(b, d)`.
    pub features: Tensor,
    /// Logits on the rows of the classifier, `(b, rows)`.
    pub logits: Tensor,
    /// Loss term of prompts that depend on queries, `(members)`.
    pub pull: Option<Tensor>,
}

impl Classifier {
    /// Returns each member's [`batch_loss`](Classifier::batch_loss) on its own samples, `(members)`.
    ///
    /// `dropout` applies to its adapters, or its module.
    ///
    /// # Errors
    /// Returns an error if a label is not among the rows, or the number of members differs.
    pub fn pack_losses(
        &self,
        step: &PackBatch,
        device: &Device,
        dropout: Option<Dropout>,
    ) -> Result<Tensor, LearningError> {
        Ok(self.pack_outputs(step, device, dropout)?.losses)
    }

    /// Returns features `(b, d)` of the samples of a pack.
    ///
    /// # Errors
    /// Returns an error if the batch does not fit the backbone.
    pub fn pack_features(
        &self,
        step: &PackBatch,
        device: &Device,
    ) -> Result<Tensor, LearningError> {
        let queries = self.queries_of(&step.batch, device)?;
        let adaptation = self.adaptation_for(queries.as_ref(), Some(&step.groups))?;
        self.adapted_features(&step.batch, device, &adaptation)
    }

    /// Returns [`batch_features`](Classifier::batch_features); a tap observes inputs of linear layers.
    ///
    /// # Errors
    /// Returns an error if the batch does not fit the backbone, or the tap fails.
    pub fn tapped_features(
        &self,
        batch: &Batch,
        device: &Device,
        hook: Arc<dyn InputHook>,
    ) -> Result<Tensor, LearningError> {
        let queries = self.queries_of(batch, device)?;
        let adaptation = self.adaptation_for(queries.as_ref(), None)?;
        self.adapted_features(batch, device, &Adaptation { hook: Some(hook), ..adaptation })
    }

    /// Returns [`pack_features`](Classifier::pack_features) of other `pixels`. `tokens` `(b, n, d)` are appended to the
    /// patches from the first block on.
    ///
    /// # Errors
    /// Returns an error if pixels or tokens do not fit the backbone.
    pub fn pack_features_with(
        &self,
        step: &PackBatch,
        pixels: &Tensor,
        tokens: &Tensor,
    ) -> Result<Tensor, LearningError> {
        let queries = match (&self.pool, step.batch.queries(pixels.device())?) {
            (Some(_), None) => Some(self.backbone.frozen(pixels, FrozenPart::Whole)?),
            (_, brought) => brought,
        };
        let mut adaptation = self.adaptation_for(queries.as_ref(), Some(&step.groups))?;
        if adaptation.block_tokens.is_empty() {
            adaptation.block_tokens.push(None);
        }
        adaptation.block_tokens[0] = Some(tokens.clone());
        Ok(self.backbone.features(pixels, &adaptation)?)
    }

    /// Returns [`pack_losses`](Classifier::pack_losses) together with the features they come from.
    ///
    /// # Errors
    /// Fails as [`pack_losses`](Classifier::pack_losses) does.
    pub fn pack_outputs(
        &self,
        step: &PackBatch,
        device: &Device,
        dropout: Option<Dropout>,
    ) -> Result<PackOutputs, LearningError> {
        self.labeled_outputs(step, step.batch.labels(), device, dropout)
    }

    /// Returns [`pack_outputs`](Classifier::pack_outputs) with other `labels` than those of the batch: head rows, one
    /// per sample.
    ///
    /// # Errors
    /// Fails as [`pack_losses`](Classifier::pack_losses) does.
    pub fn labeled_outputs(
        &self,
        step: &PackBatch,
        labels: &[u32],
        device: &Device,
        dropout: Option<Dropout>,
    ) -> Result<PackOutputs, LearningError> {
        let PackLogits { features, logits, pull } = self.pack_logits(step, device, dropout)?;
        let labels = self.own_rows(labels);
        let (rows, groups) = (0..self.rows.len(), &step.groups);
        let losses = ops::grouped_cross_entropy(&logits, &labels, rows, groups)?;
        let losses = match pull {
            Some(pull) => (losses + pull)?,
            None => losses,
        };
        Ok(PackOutputs { features, losses })
    }

    /// Returns logits of the samples of a pack, for losses that differ from the cross-entropy.
    ///
    /// # Errors
    /// Returns an error if the batch does not fit the network, or the number of members differs.
    pub fn pack_logits(
        &self,
        step: &PackBatch,
        device: &Device,
        dropout: Option<Dropout>,
    ) -> Result<PackLogits, LearningError> {
        let PackBatch { batch, groups, .. } = step;
        let queries = self.queries_of(batch, device)?;
        let adaptation = self.adaptation_for(queries.as_ref(), Some(groups))?;
        let adaptation = Adaptation { dropout, ..adaptation };
        let features = self.adapted_features(batch, device, &adaptation)?;
        let logits =
            self.head.pack_logits(&self.below_rows(&features, drops(&adaptation))?, groups)?;
        let pull = match (&self.pool, &queries) {
            (Some(pool), Some(queries)) => pool.losses(queries, groups)?,
            _ => None,
        };
        Ok(PackLogits { features, logits, pull })
    }
}
