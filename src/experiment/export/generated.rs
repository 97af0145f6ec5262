//! Picture of the images that a method's server generates, from its saved state.

use crate::experiment::picture::sheet;
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{GeneratedImages, ImageRequest, Method, PolicyError, RunContext};
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
/// # Errors
/// Reason for which there is none.
pub(super) fn picture(
    method: &dyn Method,
    ctx: &RunContext,
    (state, task): (&Body, TaskId),
    count: u32,
) -> Result<GeneratedPicture, String> {
    let text = |error: PolicyError| error.to_string();
    let mut server = method.server(ctx, StreamKey::new(0, Domain::Init)).map_err(text)?;
    server.load(state).map_err(|error| error.to_string())?;
    let view = &ctx.task_sequence.tasks[task.index()];
    let request = ImageRequest { view, count: count as usize, ctx };
    let found = server.generated_images(&request).map_err(text)?;
    let images: Vec<&[f32]> = found.iter().flat_map(GeneratedImages::images).collect();
    let Some(GeneratedImages { shape, .. }) = found.as_ref().filter(|_| !images.is_empty()) else {
        let number = task.index() + 1;
        return Err(format!("its server has generated no images by the end of task {number}"));
    };
    let rows: Vec<Vec<&[f32]>> = images.chunks(COLUMNS).map(<[_]>::to_vec).collect();
    let bytes = sheet(&rows, *shape).map_err(|error| error.to_string())?;
    Ok(GeneratedPicture { bytes, images: images.len() })
}
