//! A classifier answers as it stands: scores are its logits over the rows in scope.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::{PolicyError, Predictor, RunContext, Scope, parameter_sections};
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

    fn head_rows(&self) -> Option<Range<usize>> {
        Some(self.rows())
    }

    fn to_device(&self, ctx: &RunContext) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        Ok(self.copy_at(&ctx.backbone)?.map(|copy| copy as Arc<dyn Predictor>))
    }

    /// Returns the received state below the head: a prompt, or a whole backbone.
    fn feature_state(&self) -> Body {
        let mut sections = parameter_sections(self.received());
        sections.retain(|section| section.kind != Kind::Head);
        Body::new(Vec::new(), sections)
    }
}

/// Returns the logits of features `(batch, dim)` over the rows in scope.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Backbone, LinearHead, Parameter, ParameterSet, PixelShape};

    /// Two pixels on a head of four classes that has 1, 2, 3, 4 times the first one and a shift.
    fn case() -> (Arc<Backbone>, ParameterSet, Tensor) {
        let backbone = Arc::new(Backbone::Pixels(PixelShape { channels: 2, image: 1 }));
        let weight = [1.0, 0.0, 2.0, 0.0, 3.0, 0.0, 4.0, 0.0].into();
        let bias = [0.1, 0.2, 0.3, 0.4].into();
        let head = [
            (LinearHead::WEIGHT, Parameter { shape: vec![4, 2], values: weight }),
            (LinearHead::BIAS, Parameter { shape: vec![4], values: bias }),
        ];
        let pixels = Tensor::new(&[[[[10f32]], [[7.0]]]], &Device::Cpu).unwrap();
        (backbone, head.into_iter().collect(), pixels)
    }

    #[test]
    fn a_scope_is_answered_by_its_rows_of_those_a_model_has() {
        let (backbone, head, pixels) = case();
        let part = Classifier::trainable(&backbone, &head, 1..3).unwrap();
        let scores = |model: &Classifier, rows| {
            let scores = model.scores(&pixels, &Scope::Task(rows))?;
            Ok::<_, PolicyError>(scores.to_vec2::<f32>().unwrap().remove(0))
        };
        assert_eq!(scores(&part, 1..3).unwrap(), [20.2, 30.3]);
        assert_eq!(scores(&part, 2..3).unwrap(), [30.3]);
        for rows in [0..2, 2..4] {
            let error = scores(&part, rows).unwrap_err().to_string();
            assert!(error.contains("this model has rows 1..3"), "{error}");
        }
        let whole = Classifier::frozen(&backbone, &head).unwrap();
        assert_eq!(scores(&whole, 3..4).unwrap(), [40.4]);
        let seen = whole.scores(&pixels, &Scope::Seen(2)).unwrap();
        assert_eq!(seen.to_vec2::<f32>().unwrap(), [[10.1, 20.2]]);
    }

    #[test]
    fn what_features_come_from_has_no_head() {
        let (backbone, head, _) = case();
        let whole = Classifier::frozen(&backbone, &head).unwrap();
        assert!(parameter_sections(whole.received()).iter().any(|s| s.kind == Kind::Head));
        assert!(whole.feature_state().sections.is_empty());
    }
}
