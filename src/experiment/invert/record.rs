//! Record of an inversion: settings, and numbers of every image that was found.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Inversion, InversionOptions, Original, Reconstruction, TargetKind};
use crate::document::Document;
use crate::learning::feature_inversion::lpips_scale;

/// Inversion of an upload as a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Document)]
pub struct InversionRecord {
    /// Method of the run.
    pub method: String,
    /// Hash of the run's scenario.
    pub scenario_hash: String,
    /// Client whose upload is inverted.
    pub client: u32,
    /// Task of the upload, from 1.
    pub task: u32,
    /// Part of the upload that is inverted: `means` of classes, or the `update` of parameters.
    pub target: TargetKind,
    /// Class, in the data set's numbers.
    pub class: u32,
    /// Name of the class.
    pub class_name: String,
    /// Samples of the class that the client has.
    pub samples: u64,
    /// Height of the images, in pixels.
    pub height: usize,
    /// Width of the images, in pixels.
    pub width: usize,
    /// Folder of the results.
    pub directory: PathBuf,
    /// Form of the image, a value of `--prior`.
    pub prior: String,
    /// Steps of Adam per image.
    pub steps: u32,
    /// Learning rate.
    pub rate: f64,
    /// Mean squared distance between the upload's mean and that of the originals' features.
    pub distance: Option<f64>,
    /// Factor by which images are enlarged for LPIPS, with `--lpips`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lpips_scale: Option<usize>,
    /// Images found by the features, or gradients, of single samples.
    pub features: Vec<FoundImage>,
    /// Image found by the upload.
    #[document(of = "the image found by the upload")]
    pub upload: FoundImage,
}

/// Image that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Document)]
pub struct FoundImage {
    /// Index of the sample in the training split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<u32>,
    /// Mean squared error of the features at the start; 1 less the cosine of gradients.
    #[serde(deserialize_with = "finite_or_nan")]
    pub first_loss: f64,
    /// Mean squared error of the features at the end; 1 less the cosine of gradients.
    #[serde(deserialize_with = "finite_or_nan")]
    pub loss: f64,
    /// Peak signal-to-noise ratio.
    #[document(unit = "dB")]
    #[serde(deserialize_with = "finite_or_infinite")]
    pub psnr: f64,
    /// Structural similarity.
    #[serde(deserialize_with = "finite_or_nan")]
    pub ssim: f64,
    /// Perceptual distance LPIPS, with `--lpips`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lpips: Option<f64>,
}

impl InversionRecord {
    /// Returns the record of an inversion whose results are in a folder.
    pub fn new(found: &Inversion, options: &InversionOptions, directory: PathBuf) -> Self {
        let features = found.originals.iter().zip(&found.of_features);
        let prior = options.plan.prior.to_possible_value();
        InversionRecord {
            method: found.method.clone(),
            scenario_hash: found.scenario_hash.clone(),
            client: found.client,
            task: found.task,
            target: found.target,
            class: found.class,
            class_name: found.name.clone(),
            samples: found.samples,
            height: found.shape[1],
            width: found.shape[2],
            directory,
            prior: prior.map_or_else(String::new, |prior| prior.get_name().to_owned()),
            steps: options.plan.steps,
            rate: options.plan.rate,
            distance: found.distance,
            lpips_scale: found.of_upload.lpips.map(|_| lpips_scale(found.shape[1], found.shape[2])),
            features: features
                .map(|(Original { sample, .. }, of)| FoundImage::new(Some(*sample), of))
                .collect(),
            upload: FoundImage::new(None, &found.of_upload),
        }
    }
}

impl FoundImage {
    fn new(sample: Option<u32>, found: &Reconstruction) -> FoundImage {
        let Reconstruction { first_loss, loss, psnr, ssim, lpips, .. } = *found;
        FoundImage { sample, first_loss, loss, psnr, ssim, lpips }
    }

    /// Returns true if its search found an image of finite numbers.
    ///
    /// Others are in records of early versions alone: today such a search is an error.
    pub fn is_finite(&self) -> bool {
        self.loss.is_finite() && self.ssim.is_finite()
    }
}

/// Reads a number; JSON has `null` for one that is not finite.
fn finite_or_nan<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::NAN))
}

/// Reads a number; JSON has `null` for that of equal images, which is infinite.
fn finite_or_infinite<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::INFINITY))
}
