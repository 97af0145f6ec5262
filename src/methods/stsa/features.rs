//! Features of frozen networks, and the sums over a shard's random features.

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};

use super::estimate::UnitStatistics;
use crate::data::{Batch, Loader, Shard, TaskView};
use crate::model::{self, Adaptation, FrozenPart, ops};
use crate::numerics::projection::Projection;
use crate::numerics::symmetric::{Gram, Symmetric};
use crate::policy::{FeatureMap, PolicyError, Predictor, RunContext};

/// Source of features: the first stage's network, or the backbone as loaded.
#[derive(Clone)]
pub(super) enum Frozen {
    Staged(Arc<dyn Predictor>),
    Backbone(Arc<model::Backbone>),
}

impl Frozen {
    pub fn of(ctx: &RunContext) -> Frozen {
        match &ctx.first_method {
            Some(staged) => Frozen::Staged(Arc::clone(staged)),
            None => Frozen::Backbone(Arc::clone(&ctx.backbone)),
        }
    }

    /// Returns a copy on the device of `ctx`, or `None` if this one is already there.
    pub fn at(&self, ctx: &RunContext) -> Result<Option<Frozen>, PolicyError> {
        Ok(match self {
            Frozen::Staged(staged) => staged.to_device(ctx)?.map(Frozen::Staged),
            Frozen::Backbone(network) => {
                let here = network.place().same(ctx.backbone.place());
                (!here).then(|| Frozen::Backbone(Arc::clone(&ctx.backbone)))
            }
        })
    }

    /// Returns the frozen part of the network, whose outputs may be kept: all of a backbone.
    pub fn part(&self) -> FrozenPart {
        match self {
            Frozen::Staged(staged) => staged.frozen_part(),
            Frozen::Backbone(_) => FrozenPart::Whole,
        }
    }

    /// Returns a loader of a shard with features in place of pixels, if they are kept.
    fn loader(&self, ctx: &RunContext, shard: &Shard) -> Result<Loader, PolicyError> {
        let loader = ctx.statistics_loader(shard);
        match self {
            Frozen::Staged(staged) => ctx.with_features_for(loader, &**staged),
            Frozen::Backbone(_) => ctx.with_frozen_features(loader, FrozenPart::Whole),
        }
    }

    /// Returns the features `(batch, d)` of images, or of outputs of the frozen [`part`](Frozen::part).
    pub fn batch_features(&self, batch: &Batch, device: &Device) -> Result<Tensor, PolicyError> {
        match (self, batch) {
            (Frozen::Staged(staged), _) => staged.batch_features(batch, device),
            (Frozen::Backbone(_), Batch::Features { values, shape, .. }) => {
                Ok(Tensor::from_slice(values, shape.as_slice(), device)?)
            }
            (Frozen::Backbone(_), _) => self.features(&batch.pixels(device)?),
        }
    }

    /// Returns a differentiable map from images to random features, in f32.
    pub fn random_features(
        self,
        layer: &Projection,
        device: &Device,
    ) -> Result<FeatureMap, PolicyError> {
        let weights = layer.weights().map(|weights| {
            let narrow: Vec<f32> = weights.iter().map(|weight| *weight as f32).collect();
            Tensor::from_vec(narrow, (layer.inputs(), layer.width()), device)?.t()?.contiguous()
        });
        let weights = weights.transpose()?;
        Ok(Box::new(move |pixels| {
            let features = match &self {
                Frozen::Staged(staged) => staged.features_with_gradient(pixels)?,
                Frozen::Backbone(network) => network.features(pixels, &Adaptation::none())?,
            };
            Ok(match &weights {
                None => features,
                Some(weights) => ops::relu(&ops::linear(&features, weights, None)?)?,
            })
        }))
    }

    /// Returns the features `(batch, d)` of pixels `(batch, channels, height, width)`.
    pub fn features(&self, pixels: &Tensor) -> Result<Tensor, PolicyError> {
        match self {
            Frozen::Staged(staged) => staged.features(pixels),
            Frozen::Backbone(network) => Ok(network.frozen(pixels, FrozenPart::Whole)?),
        }
    }
}

/// Number of rows of random features that are multiplied at once.
const BLOCK: usize = 256;

/// Sums over the samples of a shard.
pub(super) struct Collected {
    pub unit: UnitStatistics,
    /// Sum of `h h^T`, if requested.
    pub gram: Option<Symmetric>,
}

/// Sums the random features `h = ReLU(f W)` of a shard in f64, in one pass in order.
pub(super) fn collect(
    ctx: &RunContext,
    shard: &Shard,
    view: &TaskView,
    layer: &Projection,
    gram: bool,
) -> Result<Collected, PolicyError> {
    let mut unit = UnitStatistics::empty(view.rows.len(), layer.width());
    let mut gram = gram.then(|| Gram::new(layer.width()));
    let mut take = |features: &[f64], classes: &[usize]| {
        let rows = layer.apply(features);
        if let Some(gram) = &mut gram {
            gram.add(&rows);
        }
        rows.chunks(layer.width()).zip(classes).for_each(|(row, class)| unit.add(row, *class));
    };
    let frozen = Frozen::of(ctx);
    let (mut features, mut labels) = (Vec::new(), Vec::new());
    let loader = frozen.loader(ctx, shard)?;
    for batch in loader.in_order(ctx.evaluation_batch) {
        let batch = batch?;
        let found = frozen.batch_features(&batch, &ctx.device)?;
        features.extend(doubles(&found, layer.inputs())?);
        labels.extend(batch.labels().iter().map(|row| *row as usize - view.rows.start));
        if labels.len() >= BLOCK {
            take(&features, &labels);
            features.clear();
            labels.clear();
        }
    }
    take(&features, &labels);
    Ok(Collected { unit, gram: gram.map(Gram::finish) })
}

/// Returns features `(n, width)` in f64, row-major, or an error if they have another width.
pub(super) fn doubles(features: &Tensor, width: usize) -> Result<Vec<f64>, PolicyError> {
    let (_, found) = features.dims2()?;
    if found != width {
        return Err(PolicyError::Unsupported(format!(
            "the first stage gives features of width {found}, and {width} were announced"
        )));
    }
    Ok(features.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>()?)
}
