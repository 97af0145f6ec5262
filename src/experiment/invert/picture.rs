//! Picture of an inversion: originals, what their features gave, and what the upload gave.

use super::Inversion;
use crate::experiment::picture::sheet;

/// Returns a PNG file of three rows: the client's images, the images that have their features, and the image that has
/// the mean of the upload.
///
/// # Errors
/// Returns an error if the sheet is too large for a PNG.
pub fn picture(inversion: &Inversion) -> Result<Vec<u8>, image::ImageError> {
    let rows = [
        inversion.originals.iter().map(|image| &image.pixels[..]).collect(),
        inversion.of_features.iter().map(|image| &image.pixels[..]).collect(),
        vec![&inversion.of_upload.pixels[..]],
    ];
    sheet(&rows, inversion.shape)
}
