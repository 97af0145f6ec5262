//! Decoding of image files at their stored size.

use std::io::{BufReader, Cursor};

use image::{DynamicImage, ImageDecoder, ImageReader, Limits};

use super::turning::{turn, turned};
use super::whole::is_whole;
use super::{Orientation, StoredForm, StoredSize};
use crate::data::loading::DecodingProgress;
use crate::data::store::{Encoded, Store};
use crate::data::transform::{ResizeWeights, resize_u8};
use crate::data::{DataError, Image};
use crate::files::{self, FileKind};

/// Returns a store of images: decoded in memory if they fit the budget, otherwise decoded at each access.
pub(in crate::data) fn store(
    images: Vec<Encoded>,
    form: StoredForm,
    budget: usize,
) -> Result<Store, DataError> {
    if budget == 0 {
        // With a budget of 0 the images are only listed.
        return Ok(Store::Files { images, form });
    }
    let stay = |images: Vec<Encoded>| {
        DecodingProgress::begin(images.len(), None);
        Ok(Store::Files { images, form })
    };
    if let StoredSize::Square(side) = form.size {
        let shape = [3, side as usize, side as usize];
        let image: usize = shape.iter().product();
        if images.len() * image > budget {
            return stay(images);
        }
        let bytes = decode_all(&images, form, &vec![shape; images.len()])?;
        return Ok(Store::Buffer { bytes, shape });
    }
    // Dimensions are read before pixels, so that a set that exceeds the budget is not decoded at all.
    let (mut shapes, mut left) = (Vec::with_capacity(images.len()), budget);
    for image in &images {
        let (height, width) = form.extent(dimensions(image, form.orientation)?);
        let Some(rest) = left.checked_sub(3 * height * width) else { return stay(images) };
        left = rest;
        shapes.push([3, height, width]);
    }
    let bytes = decode_all(&images, form, &shapes)?;
    Ok(Store::Ragged { bytes, shapes: shapes.into() })
}

/// Decodes all images into one buffer, with one thread per core. Every image has a fixed place in it, so that the
/// result does not depend on the threads. `shapes` are the stored ones.
fn decode_all(
    images: &[Encoded],
    form: StoredForm,
    shapes: &[[usize; 3]],
) -> Result<Vec<u8>, DataError> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let share = images.len().div_ceil(threads).max(1);
    let size = |shape: &[usize; 3]| shape.iter().product::<usize>();
    let all: usize = shapes.iter().map(size).sum();
    let loading = DecodingProgress::begin(images.len(), Some(all));
    let mut bytes = vec![0; all];
    let decode_share = |images: &[Encoded], shapes: &[[usize; 3]], mut places: &mut [u8]| {
        for (encoded, shape) in images.iter().zip(shapes) {
            let (place, rest) = places.split_at_mut(size(shape));
            let image = decode(encoded, form)?;
            if [image.channels, image.height, image.width] != *shape {
                let found = format!("{} x {}", image.height, image.width);
                let expected = format!("{} x {} pixels, as its head says", shape[1], shape[2]);
                return Err(DataError::corrupt(&encoded.place(), expected, found));
            }
            place.copy_from_slice(&image.pixels);
            places = rest;
            loading.one();
        }
        Ok::<(), DataError>(())
    };
    std::thread::scope(|scope| {
        let mut places = bytes.as_mut_slice();
        let mut running = Vec::new();
        let decode_share = &decode_share;
        for (images, shapes) in images.chunks(share).zip(shapes.chunks(share)) {
            let (place, rest) = places.split_at_mut(shapes.iter().map(size).sum());
            places = rest;
            running.push(scope.spawn(move || decode_share(images, shapes, place)));
        }
        // In the order of the files, so that the first of several damaged ones is reported.
        running
            .into_iter()
            .try_for_each(|t| t.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
    })?;
    Ok(bytes)
}

const EXPECTED: &str = "an image (PNG, JPEG, BMP or WebP)";

fn damaged(image: &Encoded, found: impl ToString) -> DataError {
    DataError::corrupt(&image.place(), EXPECTED, found.to_string())
}

/// Returns rows and columns of an image after turning, without decoding its pixels.
fn dimensions(image: &Encoded, orientation: Orientation) -> Result<(usize, usize), DataError> {
    let extent = |decoder: &dyn ImageDecoder| {
        let (width, height) = decoder.dimensions();
        (height as usize, width as usize)
    };
    let failed = |error| damaged(image, error);
    match (image, orientation) {
        (Encoded::File(path), Orientation::Ignored) => {
            let file = files::open(path, FileKind::Image);
            let file = BufReader::new(file.map_err(|e| DataError::io(path, "an image", e))?);
            let reader = ImageReader::new(file).with_guessed_format();
            let decoder = reader.map_err(|error| damaged(image, error))?.into_decoder();
            Ok(extent(&decoder.map_err(failed)?))
        }
        _ => {
            let bytes = image.bytes()?;
            let mut decoder = decoder(image, &bytes)?;
            let turn = turn(orientation, &mut decoder, &bytes).map_err(failed)?;
            Ok(turned(turn, extent(&decoder)))
        }
    }
}

/// Returns a decoder for an image in any supported format.
fn decoder<'a>(image: &Encoded, bytes: &'a [u8]) -> Result<impl ImageDecoder + 'a, DataError> {
    if bytes.is_empty() {
        return Err(damaged(image, "an empty file"));
    }
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
    let reader = reader.map_err(|error| damaged(image, error))?;
    reader.into_decoder().map_err(|error| damaged(image, error))
}

/// Decodes one image, turned and resized to its stored size, as red, green and blue planes. Gray is repeated,
/// transparency dropped.
pub fn decode(encoded: &Encoded, form: StoredForm) -> Result<Image<'static>, DataError> {
    let bytes = encoded.bytes()?;
    let failed = |error| damaged(encoded, error);
    let mut decoder = decoder(encoded, &bytes)?;
    if !is_whole(&bytes) {
        return Err(damaged(encoded, "a file that is cut off before its end"));
    }
    Limits::default().reserve(decoder.total_bytes()).map_err(failed)?;
    let turn = turn(form.orientation, &mut decoder, &bytes).map_err(failed)?;
    let mut decoded = DynamicImage::from_decoder(decoder).map_err(failed)?;
    decoded.apply_orientation(turn);
    let decoded = decoded.into_rgb8();
    let (width, height) = (decoded.width() as usize, decoded.height() as usize);
    let interleaved = decoded.into_raw();
    let mut planes = vec![0; interleaved.len()];
    let (red, others) = planes.split_at_mut(width * height);
    let (green, blue) = others.split_at_mut(width * height);
    let places = red.iter_mut().zip(green).zip(blue);
    for (pixel, ((red, green), blue)) in interleaved.as_chunks::<3>().0.iter().zip(places) {
        [*red, *green, *blue] = *pixel;
    }
    let image = Image { channels: 3, height, width, pixels: planes.into() };
    let to = form.extent((height, width));
    if to == (height, width) {
        return Ok(image);
    }
    let kernel = form.kernel();
    let (rows, columns) =
        (ResizeWeights::new(kernel, height, to.0), ResizeWeights::new(kernel, width, to.1));
    let (mut middle, mut resized) = (Vec::new(), Vec::new());
    resize_u8(&rows, &columns, &image.pixels, &mut middle, &mut resized);
    Ok(Image { channels: 3, height: to.0, width: to.1, pixels: resized.into() })
}
