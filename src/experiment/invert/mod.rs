//! Feature inversion on a recorded run: what an attacker at the server sees of a client's images.
//!
//! The run is computed again until the client's first upload of a task that describes single classes. The server is
//! honest but curious: it knows the network and the upload. It looks for an image with the mean that the upload has of a
//! class; next to it, as the worst case, for one with the features of every single image. Sources: HGP's figure C and
//! STSA's appendix E.1, with its table 6 and figure 8.

mod capture;
mod error;
mod files;
mod picture;
mod record;
mod target;

use std::path::Path;

use super::assemble::{Assembly, assemble, load};
use super::fork::before;
use super::resume::{find, same_inputs};
use super::run_directory::{names, read_manifest};
use super::task_ends::ended;
use crate::federation::Interrupt;
use crate::learning::LearningError;
use crate::learning::feature_inversion::{InversionPlan, Lpips};
use crate::methods::Registry;
use crate::quantity::{ClientId, TaskId};
use capture::{Capture, attacked};
pub use error::InversionError;
pub use files::{
    INVERSION_RECORD, InversionPicture, has_inversion, read_inversion, write_inversion,
};
pub use picture::picture;
pub use record::{FoundImage, InversionRecord};
pub use target::TargetKind;

/// Options of an inversion.
#[derive(Clone, Debug, PartialEq)]
pub struct InversionOptions {
    /// Client whose upload is inverted.
    pub client: u32,
    /// Task of the upload, from 1.
    pub task: u32,
    /// Name of the class; by default the one with the fewest samples, of which a mean shows most.
    pub class: Option<String>,
    /// Most images of the class whose own features are inverted as well.
    pub images: usize,
    /// Search for an image.
    pub plan: InversionPlan,
    /// Worker threads that compute the run again.
    pub workers: Option<u32>,
}

/// Result of an inversion.
#[derive(Clone, Debug, PartialEq)]
pub struct Inversion {
    /// Method of the run.
    pub method: String,
    /// Hash of the run's scenario.
    pub scenario_hash: String,
    /// Part of the upload that was inverted.
    pub target: TargetKind,
    /// The client.
    pub client: u32,
    /// Task of the upload, from 1.
    pub task: u32,
    /// Class in the data set.
    pub class: u32,
    /// Name of the class.
    pub name: String,
    /// Samples of the class that the client has.
    pub samples: u64,
    /// `[channels, height, width]` of all images.
    pub shape: [usize; 3],
    /// The client's images of the class, at most as many as were requested; values in `[0, 1]`.
    pub originals: Vec<Original>,
    /// Image that has the features of each of them, in their order.
    pub of_features: Vec<Reconstruction>,
    /// Image that has the mean of the upload.
    pub of_upload: Reconstruction,
    /// Mean squared distance between the upload's mean and that of the originals' features.
    ///
    /// It is 0 but for rounding; `None` if the client has more images of the class.
    pub distance: Option<f64>,
}

/// An image of the client.
#[derive(Clone, Debug, PartialEq)]
pub struct Original {
    /// Index in the training split.
    pub sample: u32,
    /// `channels * height * width` values in `[0, 1]`.
    pub pixels: Vec<f32>,
}

/// An image that was found, and its likeness to the original. That of an upload is the mean over the originals, as in
/// STSA's table 6.
#[derive(Clone, Debug, PartialEq)]
pub struct Reconstruction {
    /// `channels * height * width` values in `[0, 1]`.
    pub pixels: Vec<f32>,
    /// Mean squared error of its features at the start.
    pub first_loss: f64,
    /// Mean squared error of its features at the end.
    pub loss: f64,
    /// Peak signal-to-noise ratio, dB.
    pub psnr: f64,
    /// Structural similarity.
    pub ssim: f64,
    /// Perceptual distance, if it was [computed](Inversion::measure_lpips).
    pub lpips: Option<f64>,
}

impl Inversion {
    /// Computes LPIPS of all images that were found.
    ///
    /// # Errors
    /// Returns the error of the device.
    pub fn measure_lpips(&mut self, lpips: &Lpips) -> Result<(), LearningError> {
        let originals = &self.originals;
        let mean = |found: &[f32], of: &[Original]| -> Result<f64, LearningError> {
            let one = |original: &Original| lpips.distance(found, &original.pixels, self.shape);
            let all = of.iter().map(one).collect::<Result<Vec<f64>, _>>()?;
            Ok(all.iter().sum::<f64>() / all.len().max(1) as f64)
        };
        for (found, original) in self.of_features.iter_mut().zip(originals) {
            found.lpips = Some(mean(&found.pixels, std::slice::from_ref(original))?);
        }
        self.of_upload.lpips = Some(mean(&self.of_upload.pixels, originals)?);
        Ok(())
    }
}

/// Inverts an upload of the run at `path`. `None` if the user stopped it.
///
/// # Errors
/// Returns an [`InversionError`], also for errors of the run and its inputs.
pub fn invert(
    path: &Path,
    methods: &Registry,
    options: &InversionOptions,
    interrupt: &Interrupt,
) -> Result<Option<Inversion>, InversionError> {
    let manifest = read_manifest(path)?;
    let scenario = load(&path.join(names::SCENARIO), &[], methods)?;
    if scenario.privacy.secure_aggregation {
        return Err(InversionError::Hidden("its server sees sums of uploads only"));
    }
    if scenario.privacy.noise.is_some() {
        return Err(InversionError::Hidden("its uploads have noise, which is not inverted here"));
    }
    let (clients, ends) = (scenario.federation.clients, ended(path)?);
    let tasks = ends.len().max(1);
    if options.client >= clients {
        return Err(InversionError::NoClient { client: options.client, clients });
    }
    let Some(task) = options.task.checked_sub(1).filter(|task| (*task as usize) < tasks) else {
        return Err(InversionError::NoTask { task: options.task, ended: tasks });
    };
    let Assembly { mut setup, data, backbone, .. } = assemble(&scenario, methods, options.workers)?;
    if !setup.method.profile().discloses {
        return Err(InversionError::NothingToInvert(manifest.method));
    }
    setup.before = before(path, &manifest, &setup, methods)?;
    same_inputs(&manifest.data, &data)?;
    same_inputs(&manifest.backbone, &backbone)?;
    let checkpoint = match task.checked_sub(1) {
        None => None,
        Some(earlier) => find(path, &manifest, ends[earlier as usize].round.0)?.intact,
    };
    let capture = Capture {
        client: ClientId(options.client),
        task: TaskId(task as u16),
        method: manifest.method,
        scenario_hash: manifest.scenario.hash,
        options: options.clone(),
    };
    attacked(setup, checkpoint, capture, interrupt)
}
