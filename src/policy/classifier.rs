//! A classifier answers as it stands: scores are its logits over the rows in scope.

use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::{Lab, PolicyError, Predictor, Scope, parameter_sections};
use crate::data::Batch;
use crate::learning::Classifier;
use crate::model::FrozenPart;
use crate::wire::{Body, Kind};

impl Predictor for Classifier {
    fn features(&self, pixels: &Tensor) -> Result<Tensor, PolicyError> {
        Ok(Classifier::features(self, pixels)?)
    }

    fn scores(&self, pixels: &Tensor, scope: &Scope) -> Result<Tensor, PolicyError> {
        scores_of(self, &Classifier::features(self, pixels)?, scope)
    }

    fn frozen_part(&self) -> FrozenPart {
        Classifier::frozen_part(self)
    }

    fn asks_queries(&self) -> bool {
        Classifier::asks_queries(self)
    }

    fn batch_features(&self, batch: &Batch, device: &Device) -> Result<Tensor, PolicyError> {
        Ok(Classifier::batch_features(self, batch, device)?)
    }

    fn batch_scores(
        &self,
        batch: &Batch,
        device: &Device,
        scope: &Scope,
    ) -> Result<Tensor, PolicyError> {
        scores_of(self, &Classifier::batch_features(self, batch, device)?, scope)
    }

    fn at(&self, lab: &Lab) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        Ok(self.copy_at(&lab.backbone)?.map(|copy| copy as Arc<dyn Predictor>))
    }

    /// What was received below the head: a prompt, or a whole backbone.
    fn feature_state(&self) -> Body {
        let mut sections = parameter_sections(self.received());
        sections.retain(|section| section.kind != Kind::Head);
        Body::new(Vec::new(), sections)
    }
}

/// Scores over the rows in scope, of features.
fn scores_of(model: &Classifier, features: &Tensor, scope: &Scope) -> Result<Tensor, PolicyError> {
    let (mine, wanted) = (model.rows(), scope.rows());
    if wanted.start < mine.start || wanted.end > mine.end {
        return Err(PolicyError::Unsupported(format!(
            "head rows {wanted:?} are asked for, this model has rows {mine:?}"
        )));
    }
    let logits = model.logits(features)?;
    Ok(logits.narrow(1, wanted.start - mine.start, wanted.len())?)
}
