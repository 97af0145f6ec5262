//! Files become images, at their stored size.

use std::io::{BufReader, Cursor};

use super::StoredSize;
use crate::data::loading::Loading;
use crate::data::store::{Encoded, Store};
use crate::data::transform::{Kernel, Table, resize_u8, shorter_to};
use crate::data::{DataError, Image};
use crate::files::{self, Kind};

/// Images in memory where they fit the budget, otherwise only where they are.
pub(in crate::data) fn store(
    images: Vec<Encoded>,
    size: StoredSize,
    budget: usize,
) -> Result<Store, DataError> {
    if budget == 0 {
        // They are only listed.
        return Ok(Store::Files { images, size });
    }
    let stay = |images: Vec<Encoded>| {
        Loading::begin(images.len(), None);
        Ok(Store::Files { images, size })
    };
    if let StoredSize::Square(side) = size {
        let shape = [3, side as usize, side as usize];
        let image = shape.iter().product();
        if images.len() * image > budget {
            return stay(images);
        }
        let bytes = decode_all(&images, size, &vec![image; images.len()])?;
        return Ok(Store::Buffer { bytes, shape });
    }
    // Sizes of files come first: an image too many must not be decoded.
    let (mut shapes, mut left) = (Vec::with_capacity(images.len()), budget);
    for image in &images {
        let (height, width) = stored(size, dimensions(image)?);
        let Some(rest) = left.checked_sub(3 * height * width) else { return stay(images) };
        left = rest;
        shapes.push([3, height, width]);
    }
    let sizes: Vec<usize> = shapes.iter().map(|shape| shape.iter().product()).collect();
    let bytes = decode_all(&images, size, &sizes)?;
    Ok(Store::Ragged { bytes, shapes: shapes.into() })
}

/// Rows and columns of an image of this size as it is stored.
fn stored(size: StoredSize, (height, width): (usize, usize)) -> (usize, usize) {
    match size {
        StoredSize::Original => (height, width),
        StoredSize::Square(side) => (side as usize, side as usize),
        StoredSize::Shorter { side, .. } => shorter_to(height, width, side as usize),
    }
}

/// All images in one buffer, decoded by as many threads as there are cores. Each image has its
/// place, so the result does not depend on them. `sizes` are their bytes as stored.
fn decode_all(images: &[Encoded], size: StoredSize, sizes: &[usize]) -> Result<Vec<u8>, DataError> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let share = images.len().div_ceil(threads).max(1);
    let loading = Loading::begin(images.len(), Some(sizes.iter().sum()));
    let mut bytes = vec![0; sizes.iter().sum()];
    let decode_share = |images: &[Encoded], sizes: &[usize], mut places: &mut [u8]| {
        for (encoded, bytes) in images.iter().zip(sizes) {
            let (place, rest) = places.split_at_mut(*bytes);
            let image = decode(encoded, size)?;
            if image.pixels.len() != place.len() {
                let found = format!("{} bytes", image.pixels.len());
                let expected = format!("{} bytes", place.len());
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
        for (images, sizes) in images.chunks(share).zip(sizes.chunks(share)) {
            let (place, rest) = places.split_at_mut(sizes.iter().sum());
            places = rest;
            running.push(scope.spawn(move || decode_share(images, sizes, place)));
        }
        // In the order of the files: of several damaged ones the first is reported.
        running
            .into_iter()
            .try_for_each(|t| t.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
    })?;
    Ok(bytes)
}

fn damaged(image: &Encoded, found: impl ToString) -> DataError {
    DataError::corrupt(&image.place(), "an image (PNG, JPEG, BMP or WebP)", found.to_string())
}

/// Rows and columns of an image, from its head.
fn dimensions(image: &Encoded) -> Result<(usize, usize), DataError> {
    let reader: Box<dyn Source + '_> = match image {
        Encoded::File(path) => {
            let file = files::open(path, Kind::Image);
            Box::new(BufReader::new(file.map_err(|e| DataError::io(path, "an image", e))?))
        }
        Encoded::Packed { bytes, .. } => Box::new(Cursor::new(bytes)),
    };
    let reader = image::ImageReader::new(reader).with_guessed_format();
    let reader = reader.map_err(|error| damaged(image, error))?;
    let (width, height) = reader.into_dimensions().map_err(|error| damaged(image, error))?;
    Ok((height as usize, width as usize))
}

/// What a head is read from.
trait Source: std::io::BufRead + std::io::Seek {}

impl<S: std::io::BufRead + std::io::Seek> Source for S {}

/// Reads one image as red, green, blue (grey is repeated, transparency dropped), in its stored size.
pub fn decode(encoded: &Encoded, size: StoredSize) -> Result<Image<'static>, DataError> {
    let bytes = encoded.bytes()?;
    if bytes.is_empty() {
        return Err(damaged(encoded, "an empty file"));
    }
    let reader = image::ImageReader::new(Cursor::new(bytes.as_ref())).with_guessed_format();
    let reader = reader.map_err(|error| damaged(encoded, error))?;
    let decoded = reader.decode().map_err(|error| damaged(encoded, error))?.into_rgb8();
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
    let to = stored(size, (height, width));
    if to == (height, width) {
        return Ok(image);
    }
    let kernel = match size {
        StoredSize::Shorter { kernel, .. } => kernel,
        StoredSize::Square(_) | StoredSize::Original => Kernel::Pillow,
    };
    let (rows, columns) = (Table::new(kernel, height, to.0), Table::new(kernel, width, to.1));
    let (mut middle, mut resized) = (Vec::new(), Vec::new());
    resize_u8(&rows, &columns, &image.pixels, &mut middle, &mut resized);
    Ok(Image { channels: 3, height: to.0, width: to.1, pixels: resized.into() })
}
