//! Image folders: `train/CLASS/*.png|jpg` and `test/CLASS/*.png|jpg`, or undivided images with a
//! [split](SplitSection): a published list, or a share that is drawn.
//!
//! Class ids are the class folders sorted by name (byte order), samples the files sorted by class, then name, so a
//! copy of the folder on another system gives the same data set; a published list brings its own classes and order.
//! Both parts must hold the same classes. Every image is resized once to its [stored size](StoredSize): a square
//! (Pillow's bicubic, as the HGP benchmark's loader does), a shorter side with the shape kept, or not at all. A part is
//! kept in memory if all of its images fit the budget, 4 GiB; otherwise images are decoded whenever they are read, so
//! that memory is bounded by the budget and one image per worker.

mod decode;
mod division;
mod list;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{DataError, Dataset, Split};
pub use crate::scenario::{FolderLayout, SplitSection, StoredSize};
pub(super) use decode::decode;
use division::Division;

/// How to read and keep a folder.
#[derive(Clone, Debug, PartialEq)]
pub struct FolderOptions {
    /// What every image is resized to, once.
    pub size: StoredSize,
    /// Who is trained on and who is tested; `None`: the folders `train` and `test` say it.
    pub split: Option<SplitSection>,
    /// Keep only the first so many training images of every class.
    pub subset: Option<usize>,
    /// Keep decoded images in memory up to this many bytes per split.
    pub budget: usize,
}

impl Default for FolderOptions {
    /// Own sizes, divided by folders, all images; 4 GiB per split.
    fn default() -> Self {
        FolderOptions { size: StoredSize::Original, split: None, subset: None, budget: 4 << 30 }
    }
}

/// Lists (and, within the budget, decodes) a folder.
///
/// # Errors
/// Missing folders, lists that contradict the folder, classes that differ between the splits, empty classes, damaged
/// images.
pub fn open(path: &Path, options: &FolderOptions) -> Result<Dataset, DataError> {
    let Division { class_names, train, test } = Division::of(path, options.split.as_ref())?;
    let name = path.file_name().map_or("images".into(), |n| n.to_string_lossy().into_owned());
    let train = match options.subset {
        Some(most) => first_of_each_class(train, most, class_names.len()),
        None => train,
    };
    let split = |images: Vec<(PathBuf, u32)>| {
        let (paths, labels) = images.into_iter().unzip();
        Split::new(decode::store(paths, options)?, labels, class_names.len()).map(Arc::new)
    };
    Ok(Dataset { name, train: split(train)?, test: split(test)?, class_names })
}

fn first_of_each_class(
    mut images: Vec<(PathBuf, u32)>,
    most: usize,
    classes: usize,
) -> Vec<(PathBuf, u32)> {
    let mut kept = vec![0; classes];
    images.retain(|(_, class)| {
        let of_class = &mut kept[*class as usize];
        *of_class += 1;
        *of_class <= most
    });
    images
}

#[cfg(test)]
mod tests;
