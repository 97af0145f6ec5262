//! Targets of searches: the mean vector of a class, or the move of the parameters that a client sent.

use candle_core::{Device, Tensor};
use serde::{Deserialize, Serialize};

use crate::document::Document;
use crate::learning::feature_inversion::{
    InversionPlan, InvertedImage, UpdateMatching, invert, invert_update,
};
use crate::numerics::streams::StreamKey;
use crate::policy::{ClassDisclosure, Disclosures, FeatureMap, PolicyError};

/// Part of an upload that is inverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Document)]
#[serde(rename_all = "lowercase")]
pub enum TargetKind {
    /// Mean vector of a class.
    Means,
    /// Move of the parameters.
    Update,
}

/// Knowledge of a class that an upload gives.
pub(super) enum UploadTarget<'a> {
    Means { map: &'a FeatureMap, class: &'a ClassDisclosure },
    Update { matching: &'a UpdateMatching, label: u32 },
}

impl<'a> UploadTarget<'a> {
    /// Returns what an upload shows of the class at this place of its list; `None` beyond it.
    pub fn of(disclosures: &'a Disclosures, place: usize) -> Option<UploadTarget<'a>> {
        Some(match disclosures {
            Disclosures::Means { map, classes } => {
                UploadTarget::Means { map, class: classes.get(place)? }
            }
            Disclosures::Update { matching, classes } => {
                UploadTarget::Update { matching, label: classes.get(place)?.label }
            }
        })
    }

    /// Returns the kind of the target.
    pub fn kind(&self) -> TargetKind {
        match self {
            UploadTarget::Means { .. } => TargetKind::Means,
            UploadTarget::Update { .. } => TargetKind::Update,
        }
    }

    /// Returns the vector of one image, as the input of the network: features, or the gradient.
    pub fn vector(&self, pixels: &Tensor) -> Result<Tensor, PolicyError> {
        match self {
            UploadTarget::Means { map, .. } => map(pixels),
            UploadTarget::Update { matching, label } => Ok(matching.gradient(pixels, *label)?),
        }
    }

    /// Returns the vector in the upload.
    pub fn sent(&self, device: &Device) -> Result<Tensor, PolicyError> {
        match self {
            UploadTarget::Means { class, .. } => {
                let mean: Vec<f32> = class.mean.iter().map(|value| *value as f32).collect();
                Ok(Tensor::from_vec(mean, class.mean.len(), device)?)
            }
            UploadTarget::Update { matching, .. } => Ok(matching.update().clone()),
        }
    }

    /// Looks for an image with a vector; `scale` maps images in `[0, 1]` to the input of the network.
    pub fn search(
        &self,
        vector: &Tensor,
        shape: [usize; 3],
        scale: impl Fn(&Tensor) -> Result<Tensor, PolicyError>,
        plan: InversionPlan,
        key: StreamKey,
    ) -> Result<InvertedImage, PolicyError> {
        match self {
            UploadTarget::Means { map, .. } => {
                invert(vector, shape, |pixels| map(&scale(pixels)?), plan, key)
            }
            UploadTarget::Update { matching, label } => {
                invert_update(matching, (vector, *label), shape, scale, plan, key)
            }
        }
    }
}
