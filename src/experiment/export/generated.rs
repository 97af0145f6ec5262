//! Picture of the images that a method's server generates, from its saved state.

use crate::experiment::picture::sheet;
use crate::policy::{GeneratedImages, ImageRequest, Method, ModelFacts, RunContext};
use crate::quantity::TaskId;
use crate::wire::Body;

/// Images in a row of the picture.
const COLUMNS: usize = 8;

/// Picture of generated images.
pub(super) struct GeneratedPicture {
    /// The PNG file.
    pub bytes: Vec<u8>,
    /// Number of its images.
    pub images: usize,
}

/// Returns the picture of a number of images that a server in this state has for clients to replay.
///
/// `None` if it has none.
///
/// # Errors
/// Reason for which they cannot be made.
pub(super) fn picture(
    (method, model): (&dyn Method, &ModelFacts),
    ctx: &RunContext,
    (state, task): (&Body, TaskId),
    count: u32,
) -> Result<Option<GeneratedPicture>, String> {
    let view = &ctx.task_sequence.tasks[task.index()];
    let request = ImageRequest { view, count: count as usize, ctx };
    let Some(inspection) = method.inspection() else { return Ok(None) };
    let found =
        inspection.generated_images(model, state, &request).map_err(|error| error.to_string())?;
    let images: Vec<&[f32]> = found.iter().flat_map(GeneratedImages::images).collect();
    let Some(GeneratedImages { shape, .. }) = found.as_ref().filter(|_| !images.is_empty()) else {
        return Ok(None);
    };
    let rows: Vec<Vec<&[f32]>> = images.chunks(COLUMNS).map(<[_]>::to_vec).collect();
    let bytes = sheet(&rows, *shape).map_err(|error| error.to_string())?;
    Ok(Some(GeneratedPicture { bytes, images: images.len() }))
}
