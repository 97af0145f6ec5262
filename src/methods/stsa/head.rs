//! Predictor with the ridge head on random features.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::config::HeadMode;
use super::features::{Frozen, doubles};
use crate::data::Batch;
use crate::model::FrozenPart;
use crate::numerics::products::{Matrix, Target};
use crate::numerics::projection::Projection;
use crate::policy::{PolicyError, Predictor, RunContext, Scope};

/// Predictor of a frozen network and the ridge head on its random features.
pub struct RidgeHead {
    pub(super) frozen: Frozen,
    pub(super) scorer: Arc<Scorer>,
}

/// Scores `W h` or their cosines in f64, of random features `h = ReLU(f W_rand)`.
pub(super) struct Scorer {
    layer: Arc<Projection>,
    mode: HeadMode,
    /// Head `W`, `(classes, D)`; its rows have length one in cosine mode.
    weights: Vec<f64>,
}

impl Scorer {
    pub fn new(layer: Arc<Projection>, mode: HeadMode, mut weights: Vec<f64>) -> Scorer {
        if mode == HeadMode::Cosine {
            normalize(&mut weights, layer.width());
        }
        Scorer { layer, mode, weights }
    }

    /// Returns the number of rows of the head.
    pub fn classes(&self) -> usize {
        self.weights.len() / self.layer.width()
    }

    /// Returns the scores `(n, rows)` of features `(n, d)` for these head rows, row-major.
    pub fn score(&self, features: &[f64], rows: Range<usize>) -> Vec<f64> {
        let width = self.layer.width();
        let mut hidden = self.layer.apply(features);
        if self.mode == HeadMode::Cosine {
            normalize(&mut hidden, width);
        }
        let (n, classes) = (hidden.len() / width, rows.len());
        let weights = &self.weights[rows.start * width..rows.end * width];
        let mut scores = vec![0.0; n * classes];
        let hidden = Matrix::dense(&hidden, n, width);
        let weights = Matrix::dense(weights, classes, width);
        Target::dense(&mut scores, n, classes).set(1.0, hidden, weights.t());
        scores
    }
}

impl Predictor for RidgeHead {
    fn features(&self, pixels: &Tensor) -> Result<Tensor, PolicyError> {
        self.frozen.features(pixels)
    }

    fn to_device(&self, ctx: &RunContext) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        let Some(frozen) = self.frozen.at(ctx)? else { return Ok(None) };
        Ok(Some(Arc::new(RidgeHead { frozen, scorer: Arc::clone(&self.scorer) })))
    }

    fn scores(&self, pixels: &Tensor, scope: &Scope) -> Result<Tensor, PolicyError> {
        self.scores_of(&self.frozen.features(pixels)?, scope)
    }

    fn frozen_part(&self) -> FrozenPart {
        self.frozen.part()
    }

    fn batch_features(&self, batch: &Batch, device: &Device) -> Result<Tensor, PolicyError> {
        self.frozen.batch_features(batch, device)
    }

    fn batch_scores(
        &self,
        batch: &Batch,
        device: &Device,
        scope: &Scope,
    ) -> Result<Tensor, PolicyError> {
        self.scores_of(&self.frozen.batch_features(batch, device)?, scope)
    }
}

impl RidgeHead {
    fn scores_of(&self, features: &Tensor, scope: &Scope) -> Result<Tensor, PolicyError> {
        let rows = scope.rows();
        if rows.end > self.scorer.classes() {
            return Err(PolicyError::Unsupported(format!(
                "head rows {rows:?} are asked for, this head has {}",
                self.scorer.classes()
            )));
        }
        let (n, device) = (features.dim(0)?, features.device());
        let features = doubles(features, self.scorer.layer.inputs())?;
        let scores = self.scorer.score(&features, rows.clone());
        let scores: Vec<f32> = scores.into_iter().map(|score| score as f32).collect();
        Ok(Tensor::from_vec(scores, (n, rows.len()), device)?)
    }
}

/// Scales rows to length one; rows of zeros stay.
fn normalize(rows: &mut [f64], width: usize) {
    for row in rows.chunks_mut(width) {
        let norm = row.iter().map(|value| value * value).sum::<f64>().sqrt();
        if norm > 0.0 {
            row.iter_mut().for_each(|value| *value /= norm);
        }
    }
}
