//! Published splits of image folders: which images are trained on, which are tested, and of which class they are.
//!
//! Three forms are read as they are published, recognized by the ending of the file:
//!
//! | ending | holds | published so |
//! |---|---|---|
//! | `.yaml`, `.yml` | `data:` a list of paths, `targets:` a list of classes, one part per file | ImageNet-R, release of CODA-Prompt |
//! | `.txt` | a line per image: path and class, or the path alone in the folder of its class, one part per file | lists of Zhou et al. 2023, next to the folders |
//! | `.json` | `train`, `test` (and `val`, which is left out): `[path, class, name]` | EuroSAT and others, release of CoOp |
//!
//! Classes are counted from 0 or from 1. Paths of a list may begin with folders above the data
//! (`data/imagenet-r/train/n01443537/art_0.jpg`): leading folders are dropped until the first image is found in the
//! data's folder, and equally many are dropped from every other path.

mod classes;
mod formats;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::division::Division;
use super::entries::file_at;
use crate::data::DataError;
use classes::Classes;
pub(super) use formats::part;

/// One image of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImageLine {
    /// Line number, from 1.
    pub number: usize,
    pub path: String,
    /// Class number; `None` if the folder of the image is its class.
    pub class: Option<u32>,
    /// Class name, if the list has one.
    pub name: Option<String>,
}

/// Lines of one list file for one part.
#[derive(Clone, Debug)]
pub(super) struct ImageList {
    pub file: PathBuf,
    pub lines: Vec<ImageLine>,
}

impl ImageList {
    /// Returns the place of a line, such as `list.yaml:17`, for errors.
    fn place(&self, line: &ImageLine) -> PathBuf {
        at(&self.file, line.number)
    }
}

pub(super) fn at(file: &Path, line: usize) -> PathBuf {
    PathBuf::from(format!("{}:{line}", file.display()))
}

/// Returns the error for a line with impossible content.
pub(super) fn wrong(
    place: PathBuf,
    expected: impl Into<String>,
    found: impl Into<String>,
) -> DataError {
    DataError::Corrupt {
        path: place,
        expected: expected.into(),
        found: found.into(),
        advice: "Fetch the published list again, or correct this line".to_owned(),
    }
}

/// Reads a list of both parts, or one of each, for images below `root`.
///
/// # Errors
/// Returns an error if a file is missing or of no known form. With the line, it also reports an image that is missing,
/// is named twice or has another class than its folder, and a class in the test part only.
pub(super) fn read(root: &Path, train: &Path, test: &Path) -> Result<Division, DataError> {
    divide(root, &[part(train, "train")?], &[part(test, "test")?])
}

/// Divides the images below `root` as lists say, one or more of each part.
///
/// # Errors
/// Fails as [`read`] does.
pub(super) fn divide(
    root: &Path,
    train: &[ImageList],
    test: &[ImageList],
) -> Result<Division, DataError> {
    let classes = Classes::of(train, test)?;
    let dropped = leading(root, train)?;
    let mut seen = BTreeMap::new();
    let mut images_of = |parts: &[ImageList]| -> Result<Vec<(PathBuf, u32)>, DataError> {
        let each = parts.iter().map(|part| images(root, dropped, part, &classes, &mut seen));
        Ok(each.collect::<Result<Vec<_>, _>>()?.concat())
    };
    let (train, test) = (images_of(train)?, images_of(test)?);
    let notes = classes.notes();
    Ok(Division { class_names: classes.into_names(), train, test, notes })
}

/// Returns the number of leading folders to drop from every path: those above the data's folder.
fn leading(root: &Path, parts: &[ImageList]) -> Result<usize, DataError> {
    let lines = parts.iter().flat_map(|part| part.lines.iter().map(move |line| (part, line)));
    let (part, first) = lines.into_iter().next().ok_or_else(|| {
        let file = parts.first().map_or_else(|| root.to_owned(), |part| part.file.clone());
        wrong(file, "at least one image of the training part", "none")
    })?;
    let folders = Path::new(&first.path).components().count();
    (0..folders)
        .find(|dropped| file_at(root, &without(&first.path, *dropped)).is_some())
        .ok_or_else(|| missing(root.join(&first.path), part, first))
}

fn without(path: &str, leading: usize) -> PathBuf {
    Path::new(path).components().skip(leading).collect()
}

fn missing(image: PathBuf, part: &ImageList, line: &ImageLine) -> DataError {
    DataError::Missing {
        path: image,
        expected: format!("the image that {} names", part.place(line).display()),
        advice: "Check data.path, where the paths of the list or their ends are looked for, and \
                 whether all of the data set is unpacked there"
            .to_owned(),
    }
}

/// Place of the first mention of each image.
type Seen = BTreeMap<PathBuf, PathBuf>;

fn images(
    root: &Path,
    dropped: usize,
    part: &ImageList,
    classes: &Classes,
    seen: &mut Seen,
) -> Result<Vec<(PathBuf, u32)>, DataError> {
    let image = |line: &ImageLine| {
        let relative = without(&line.path, dropped);
        let Some(path) = file_at(root, &relative) else {
            return Err(missing(root.join(relative), part, line));
        };
        if let Some(first) = seen.insert(path.clone(), part.place(line)) {
            let found = format!("{} again, as in {}", line.path, first.display());
            return Err(wrong(part.place(line), "every image once", found));
        }
        Ok((path, classes.of_line(line)))
    };
    part.lines.iter().map(image).collect()
}
