//! Image folders: `train/CLASS/*.png|jpg` and `test/CLASS/*.png|jpg`.
//!
//! Class ids are the class folders sorted by name (byte order), samples the files sorted by class, then name, so a
//! copy of the folder on another system gives the same data set. `train/` and `test/` must hold the
//! same classes. Every image is resized once to its [stored size](StoredSize): a square (Pillow's bicubic,
//! as the HGP benchmark's loader does), a shorter side with the shape kept, or not at all. A split is kept in memory
//! if all of its images fit the budget, 4 GiB; otherwise images are decoded whenever they are read, so that memory
//! is bounded by the budget and one image per worker.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::dataset::Store;
use super::transform::{Kernel, Table, resize_u8, shorter_to};
use super::{DataError, Dataset, Image, Split};
pub use crate::scenario::StoredSize;

/// How to read and keep a folder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FolderOptions {
    /// What every image is resized to, once.
    pub size: StoredSize,
    /// Keep only the first so many training images of every class.
    pub subset: Option<usize>,
    /// Keep decoded images in memory up to this many bytes per split.
    pub budget: usize,
}

impl Default for FolderOptions {
    /// Own sizes, all images; 4 GiB per split.
    fn default() -> Self {
        FolderOptions { size: StoredSize::Original, subset: None, budget: 4 << 30 }
    }
}

/// Lists (and, within the budget, decodes) a folder.
///
/// # Errors
/// Missing folders, classes that differ between the splits, empty classes, damaged images.
pub fn open(path: &Path, options: &FolderOptions) -> Result<Dataset, DataError> {
    let (train, test) = (path.join("train"), path.join("test"));
    let class_names = sub_folders(&train)?;
    let others = sub_folders(&test)?;
    agree(&class_names, &others, &test)?;
    agree(&others, &class_names, &train)?;
    let name = path.file_name().map_or("images".into(), |n| n.to_string_lossy().into_owned());
    Ok(Dataset {
        name,
        train: Arc::new(split(&train, &class_names, options)?),
        test: Arc::new(split(&test, &class_names, &FolderOptions { subset: None, ..*options })?),
        class_names,
    })
}

/// Every class of one split must be a folder of the other, `there`.
fn agree(classes: &[String], others: &[String], there: &Path) -> Result<(), DataError> {
    match classes.iter().find(|c| others.binary_search(c).is_err()) {
        None => Ok(()),
        Some(class) => Err(DataError::Missing {
            path: there.join(class),
            expected: format!("images of class `{class}`, which the other split has"),
            advice: "train/ and test/ must hold the same class folders".to_owned(),
        }),
    }
}

fn sub_folders(path: &Path) -> Result<Vec<String>, DataError> {
    let expected = "a folder with one sub-folder of images per class";
    let mut names: Vec<String> = entries(path, expected)?
        .into_iter()
        .filter(|entry| entry.is_dir())
        .filter_map(|entry| Some(entry.file_name()?.to_string_lossy().into_owned()))
        .filter(|name| !name.starts_with('.'))
        .collect();
    if names.is_empty() {
        return Err(DataError::corrupt(path, expected, "no sub-folder"));
    }
    names.sort_unstable();
    Ok(names)
}

fn entries(path: &Path, expected: &str) -> Result<Vec<PathBuf>, DataError> {
    let failed = |e| DataError::io(path, expected, e);
    std::fs::read_dir(path)
        .map_err(failed)?
        .map(|entry| Ok(entry.map_err(failed)?.path()))
        .collect()
}

fn split(root: &Path, classes: &[String], options: &FolderOptions) -> Result<Split, DataError> {
    let (mut paths, mut labels) = (Vec::new(), Vec::new());
    for (class, name) in classes.iter().enumerate() {
        let folder = root.join(name);
        let expected = "at least one .png, .jpg or .jpeg file";
        let mut files = entries(&folder, expected)?;
        files.retain(|file| is_image(file));
        if files.is_empty() {
            return Err(DataError::corrupt(&folder, expected, "none"));
        }
        files.sort_unstable();
        files.truncate(options.subset.unwrap_or(usize::MAX));
        labels.extend(std::iter::repeat_n(class as u32, files.len()));
        paths.append(&mut files);
    }
    Split::new(store(paths, options)?, labels, classes.len())
}

/// Images in memory where they fit the budget, otherwise only where they are.
fn store(paths: Vec<PathBuf>, options: &FolderOptions) -> Result<Store, DataError> {
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

fn is_image(path: &Path) -> bool {
    let extension = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
    matches!(extension.as_deref(), Some("png" | "jpg" | "jpeg"))
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
    let bytes = std::fs::read(path).map_err(|e| DataError::io(path, "an image", e))?;
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
pub(super) fn decode(path: &Path, size: StoredSize) -> Result<Image<'static>, DataError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, name: &str, width: u32, height: u32, seed: u32) {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        image::RgbImage::from_fn(width, height, |x, y| {
            image::Rgb([(x * 7 + seed) as u8, (y * 11) as u8, (x * y + seed) as u8])
        })
        .save(path)
        .unwrap();
    }

    fn sample_folder() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, seed) in [("train/b/2.png", 1), ("train/b/10.png", 2), ("train/a/x.png", 3)] {
            write(root.path(), name, 6, 4, seed);
        }
        write(root.path(), "test/a/1.png", 9, 9, 4);
        write(root.path(), "test/b/1.jpg", 5, 7, 5);
        std::fs::write(root.path().join("train/b/notes.txt"), "not an image").unwrap();
        root
    }

    #[test]
    fn classes_and_files_are_sorted_by_name() {
        let root = sample_folder();
        let data = open(root.path(), &FolderOptions::default()).unwrap();
        assert_eq!(data.class_names, ["a", "b"]);
        assert_eq!(data.train.labels(), [0, 1, 1]);
        let second = data.train.image(1).unwrap();
        assert_eq!((second.channels, second.height, second.width), (3, 4, 6));
        assert_eq!(
            second.pixels[..6],
            [2, 9, 16, 23, 30, 37],
            "10.png before 2.png, planes of one colour"
        );
        assert_eq!(data.test.image(1).unwrap().height, 7);
    }

    #[test]
    fn memory_and_files_give_the_same_pixels() {
        let root = sample_folder();
        let shorter = StoredSize::Shorter { side: 3, kernel: Kernel::Bilinear };
        for (size, first) in [
            (StoredSize::Square(8), (8, 8)),
            (StoredSize::Original, (4, 6)),
            // 4 x 6: the shorter side becomes 3, the other 18 / 4 without its fraction.
            (shorter, (3, 4)),
        ] {
            let open = |budget| {
                super::open(root.path(), &FolderOptions { size, budget, subset: None }).unwrap()
            };
            let (kept, lazy) = (open(1 << 20), open(0));
            assert!(matches!(lazy.train.image(0).unwrap().pixels, std::borrow::Cow::Owned(_)));
            assert!(matches!(kept.train.image(0).unwrap().pixels, std::borrow::Cow::Borrowed(_)));
            let image = kept.train.image(0).unwrap();
            assert_eq!((image.height, image.width), first, "{size:?}");
            for (a, b) in [(&kept.train, &lazy.train), (&kept.test, &lazy.test)] {
                assert_eq!(a.sample_bytes().unwrap(), b.sample_bytes().unwrap());
                for i in 0..a.len() {
                    let (a, b) = (a.image(i).unwrap(), b.image(i).unwrap());
                    assert_eq!(
                        (a.height, a.width, a.pixels),
                        (b.height, b.width, b.pixels),
                        "{size:?}, image {i}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_budget_is_for_all_images_of_a_split() {
        let root = sample_folder();
        let is_kept = |budget| {
            let options = FolderOptions { budget, ..FolderOptions::default() };
            let data = open(root.path(), &options).unwrap();
            matches!(data.train.image(2).unwrap().pixels, std::borrow::Cow::Borrowed(_))
        };
        // Three images of 4 x 6 pixels and three colours.
        assert_eq!((is_kept(3 * 72), is_kept(3 * 72 - 1)), (true, false));
    }
}
