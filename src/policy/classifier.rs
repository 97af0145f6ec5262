//! A classifier answers as it stands: scores are its logits over the rows in scope.

use std::sync::Arc;

use candle_core::Tensor;

use super::{Lab, PolicyError, Predictor, Scope, parameter_sections};
use crate::learning::Classifier;
use crate::wire::{Body, Kind};

impl Predictor for Classifier {
    fn features(&self, pixels: &Tensor) -> Result<Tensor, PolicyError> {
        Ok(Classifier::features(self, pixels)?)
    }

    fn scores(&self, pixels: &Tensor, scope: &Scope) -> Result<Tensor, PolicyError> {
        let (mine, wanted) = (self.rows(), scope.rows());
        if wanted.start < mine.start || wanted.end > mine.end {
            return Err(PolicyError::Unsupported(format!(
                "head rows {wanted:?} are asked for, this model has rows {mine:?}"
            )));
        }
        let logits = self.logits(&Classifier::features(self, pixels)?)?;
        Ok(logits.narrow(1, wanted.start - mine.start, wanted.len())?)
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
