//! Files become images, at their stored size.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use super::{FolderOptions, StoredSize};
use crate::data::store::Store;
use crate::data::transform::{Kernel, Table, resize_u8, shorter_to};
use crate::data::{DataError, Image};

/// Images in memory where they fit the budget, otherwise only where they are.
pub(super) fn store(paths: Vec<PathBuf>, options: &FolderOptions) -> Result<Store, DataError> {
    let size = options.size;
    if let StoredSize::Square(side) = size {
        let shape = [3, side as usize, side as usize];
        let image = shape.iter().product();
        if paths.len() * image > options.budget {
            return Ok(Store::Files { paths, size });
        }
        let bytes = decode_all(&paths, size, &vec![image; paths.len()])?;
        return Ok(Store::Buffer { bytes, shape });
    }
    // Sizes of files come first: an image too many must not be decoded.
    let (mut shapes, mut left) = (Vec::with_capacity(paths.len()), options.budget);
    for path in &paths {
        let (height, width) = stored(size, dimensions(path)?);
        let Some(rest) = left.checked_sub(3 * height * width) else {
            return Ok(Store::Files { paths, size });
        };
        left = rest;
        shapes.push([3, height, width]);
    }
    let sizes: Vec<usize> = shapes.iter().map(|shape| shape.iter().product()).collect();
    let bytes = decode_all(&paths, size, &sizes)?;
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
fn decode_all(paths: &[PathBuf], size: StoredSize, sizes: &[usize]) -> Result<Vec<u8>, DataError> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let share = paths.len().div_ceil(threads).max(1);
    let mut bytes = vec![0; sizes.iter().sum()];
    let decode_share = |paths: &[PathBuf], sizes: &[usize], mut places: &mut [u8]| {
        for (path, bytes) in paths.iter().zip(sizes) {
            let (place, rest) = places.split_at_mut(*bytes);
            let image = decode(path, size)?;
            if image.pixels.len() != place.len() {
                let found = format!("{} bytes", image.pixels.len());
                return Err(DataError::corrupt(path, format!("{} bytes", place.len()), found));
            }
            place.copy_from_slice(&image.pixels);
            places = rest;
        }
        Ok::<(), DataError>(())
    };
    std::thread::scope(|scope| {
        let mut places = bytes.as_mut_slice();
        let mut running = Vec::new();
        for (paths, sizes) in paths.chunks(share).zip(sizes.chunks(share)) {
            let (place, rest) = places.split_at_mut(sizes.iter().sum());
            places = rest;
            running.push(scope.spawn(move || decode_share(paths, sizes, place)));
        }
        // In the order of the files: of several damaged ones the first is reported.
        running
            .into_iter()
            .try_for_each(|t| t.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
    })?;
    Ok(bytes)
}

/// A file as an image that is still to be decoded.
fn opened(path: &Path) -> Result<image::ImageReader<Cursor<Vec<u8>>>, DataError> {
    let bytes = crate::files::read(path, crate::files::Kind::Image)
        .map_err(|e| DataError::io(path, "an image", e))?;
    if bytes.is_empty() {
        return Err(damaged(path, "an empty file"));
    }
    let reader = image::ImageReader::new(Cursor::new(bytes));
    reader.with_guessed_format().map_err(|e| damaged(path, e))
}

fn damaged(path: &Path, found: impl ToString) -> DataError {
    DataError::corrupt(path, "a PNG or JPEG image", found.to_string())
}

/// Rows and columns of a file, from its head.
fn dimensions(path: &Path) -> Result<(usize, usize), DataError> {
    let (width, height) = opened(path)?.into_dimensions().map_err(|e| damaged(path, e))?;
    Ok((height as usize, width as usize))
}

/// Reads one file as red, green, blue (grey is repeated, transparency dropped), in its stored size.
pub fn decode(path: &Path, size: StoredSize) -> Result<Image<'static>, DataError> {
    let decoded = opened(path)?.decode().map_err(|e| damaged(path, e))?.into_rgb8();
    let (width, height) = (decoded.width() as usize, decoded.height() as usize);
    let interleaved = decoded.into_raw();
    let mut planes = Vec::with_capacity(interleaved.len());
    for channel in 0..3 {
        planes.extend(interleaved.iter().skip(channel).step_by(3));
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
