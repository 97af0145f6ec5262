//! Image folders: `train/CLASS/*.png|jpg` and `test/CLASS/*.png|jpg`.
//!
//! Class ids are the class folders sorted by name (byte order), samples the files sorted by class, then name, so a
//! copy of the folder on another system gives the same data set. `train/` and `test/` must hold the
//! same classes. With a stored `side` every image is resized once to a square of that many pixels (Pillow's bicubic,
//! as the HGP benchmark's loader does) and kept in memory if all of them fit the budget; otherwise images
//! are decoded whenever they are read.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::dataset::Store;
use super::transform::{Kernel, Table, resize_u8};
use super::{DataError, Dataset, Image, Split};

/// How to read and keep a folder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FolderOptions {
    /// Resize every image once to `side x side`; `None` keeps each image's own size.
    pub side: Option<usize>,
    /// Keep only the first so many training images of every class.
    pub subset: Option<usize>,
    /// Keep decoded images in memory up to this many bytes per split.
    pub budget: usize,
}

impl Default for FolderOptions {
    /// Own sizes, all images; 4 GiB per split.
    fn default() -> Self {
        FolderOptions { side: None, subset: None, budget: 4 << 30 }
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
    let store = match options.side {
        Some(side) if paths.len() * 3 * side * side <= options.budget => {
            Store::Buffer { bytes: decode_all(&paths, side)?, shape: [3, side, side] }
        }
        side => Store::Files { paths, side },
    };
    Split::new(store, labels, classes.len())
}

fn is_image(path: &Path) -> bool {
    let extension = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
    matches!(extension.as_deref(), Some("png" | "jpg" | "jpeg"))
}

/// All images in one buffer, decoded by as many threads as there are cores. Each image has its
/// place, so the result does not depend on them.
fn decode_all(paths: &[PathBuf], side: usize) -> Result<Vec<u8>, DataError> {
    let size = 3 * side * side;
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let share = paths.len().div_ceil(threads).max(1);
    let mut bytes = vec![0; paths.len() * size];
    let decode_share = |(paths, bytes): (&[PathBuf], &mut [u8])| {
        for (path, place) in paths.iter().zip(bytes.chunks_exact_mut(size)) {
            place.copy_from_slice(&decode(path, Some(side))?.pixels);
        }
        Ok::<(), DataError>(())
    };
    std::thread::scope(|scope| {
        let shares = paths.chunks(share).zip(bytes.chunks_mut(share * size));
        let running: Vec<_> =
            shares.map(|share| scope.spawn(move || decode_share(share))).collect();
        // In the order of the files: of several damaged ones the first is reported.
        running
            .into_iter()
            .try_for_each(|t| t.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
    })?;
    Ok(bytes)
}

/// Reads one file as red, green, blue (grey is repeated, transparency dropped); resized to a
/// square of `side`, when given.
pub(super) fn decode(path: &Path, side: Option<usize>) -> Result<Image<'static>, DataError> {
    let bytes = std::fs::read(path).map_err(|e| DataError::io(path, "an image", e))?;
    let damaged = |found: String| DataError::corrupt(path, "a PNG or JPEG image", found);
    if bytes.is_empty() {
        return Err(damaged("an empty file".to_owned()));
    }
    let decoded = image::ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .map_err(|e| damaged(e.to_string()))?
        .decode()
        .map_err(|e| damaged(e.to_string()))?
        .into_rgb8();
    let (width, height) = (decoded.width() as usize, decoded.height() as usize);
    let interleaved = decoded.into_raw();
    let mut planes = Vec::with_capacity(interleaved.len());
    for channel in 0..3 {
        planes.extend(interleaved.iter().skip(channel).step_by(3));
    }
    let image = Image { channels: 3, height, width, pixels: planes.into() };
    match side {
        Some(side) if (height, width) != (side, side) => {
            let rows = Table::new(Kernel::Pillow, height, side);
            let columns = Table::new(Kernel::Pillow, width, side);
            let (mut middle, mut resized) = (Vec::new(), Vec::new());
            resize_u8(&rows, &columns, &image.pixels, &mut middle, &mut resized);
            Ok(Image { channels: 3, height: side, width: side, pixels: resized.into() })
        }
        _ => Ok(image),
    }
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
        let side = Some(8);
        let kept =
            open(root.path(), &FolderOptions { side, budget: 1 << 20, ..Default::default() })
                .unwrap();
        let lazy =
            open(root.path(), &FolderOptions { side, budget: 0, ..Default::default() }).unwrap();
        assert!(matches!(lazy.train.image(0).unwrap().pixels, std::borrow::Cow::Owned(_)));
        assert!(matches!(kept.train.image(0).unwrap().pixels, std::borrow::Cow::Borrowed(_)));
        for (a, b) in [(&kept.train, &lazy.train), (&kept.test, &lazy.test)] {
            for i in 0..a.len() {
                let (a, b) = (a.image(i).unwrap(), b.image(i).unwrap());
                assert_eq!((a.height, a.width, a.pixels), (8, 8, b.pixels));
            }
        }
    }
}
