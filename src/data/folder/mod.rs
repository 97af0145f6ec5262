//! Image folders.
//!
//! | what lies there | recognized by |
//! |---|---|
//! | `train/CLASS/*` and `test/CLASS/*` (or `val/CLASS/*`) | the folder `train` |
//! | Tiny-ImageNet as it is downloaded | `val/val_annotations.txt` |
//! | CUB-200-2011 as it is downloaded | `train_test_split.txt` next to `images.txt` |
//! | DomainNet as it is downloaded | `DOMAIN_train.txt` and `DOMAIN_test.txt` |
//! | anything undivided | the published lists of a [split](SplitSection), or a [share that is drawn](TestFraction) |
//!
//! Class ids are the class folders sorted by name (byte order), samples the files sorted by class, then name, so a copy
//! of the folder on another system gives the same data set; a published list has its own classes and order. A class
//! without test images has no accuracy; every tested class must have training images. Every image is resized once to
//! its [stored size](StoredSize): a square (Pillow's bicubic, as the HGP benchmark's loader does), a shorter side with
//! the shape kept, or not at all. A part is kept in memory if all of its images fit the budget, 4 GiB; otherwise images
//! are decoded whenever they are read, so that memory is bounded by the budget and one image per worker (those of
//! Parquet files are held packed, up to 16 GB).

mod decode;
mod divide;
mod division;
mod entries;
mod form;
mod list;
mod published;
mod turning;
mod whole;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::store::Encoded;
pub use super::undivided::TestFraction;
use super::{DataError, Dataset, Split, normal_form};
pub use crate::scenario::{FolderLayout, Orientation, SplitSection, StoredSize};
pub(super) use decode::{decode, store};
use division::Division;
pub(super) use entries::entries;
pub use form::StoredForm;

/// Options for reading an image folder.
#[derive(Clone, Debug, PartialEq)]
pub struct FolderOptions {
    /// Size that every image is resized to, once.
    pub size: StoredSize,
    /// Treatment of the orientation that cameras recorded.
    pub orientation: Orientation,
    /// Division into training and test images; `None`: by the folders `train` and `test`.
    pub split: Option<SplitSection>,
    /// Test fraction of images without a division.
    pub test_fraction: Option<TestFraction>,
    /// Layout of the folders.
    pub layout: FolderLayout,
    /// True if the folder above a class's, with [`FolderLayout::Domains`], names the owner: `train/CLIENT/CLASS/*`.
    pub clients: bool,
    /// Number of first training images of every class to keep.
    pub subset: Option<usize>,
    /// Number of first test images of every class to keep.
    pub test_subset: Option<usize>,
    /// Keep decoded images in memory up to this many bytes per split.
    pub budget: usize,
}

impl Default for FolderOptions {
    /// Returns options for all images at their own sizes, divided by folders, with 4 GiB per split.
    fn default() -> Self {
        FolderOptions {
            size: StoredSize::Original,
            orientation: Orientation::Ignored,
            split: None,
            test_fraction: None,
            layout: FolderLayout::Classes,
            clients: false,
            subset: None,
            test_subset: None,
            budget: 4 << 30,
        }
    }
}

/// Lists (and, within the budget, decodes) a folder.
///
/// # Errors
/// Returns an error if folders are missing, lists contradict the folder, the splits differ in their classes, a class is
/// empty, an image is damaged, or a file may be an image and is not supported.
pub fn open(path: &Path, options: &FolderOptions) -> Result<Dataset, DataError> {
    if path.is_file() {
        return Err(DataError::unfit(
            format!(
                "{} is a file, and data.source = \"folder\" reads a folder of images",
                path.display()
            ),
            "set data.source to what it is: \"table\" for rows of numbers (.csv, .npz, .npy, .parquet), \"parquet\" for images \
             of the Hugging Face hub; unpack an archive",
        ));
    }
    let Division { class_names, train, test, notes } = Division::of(path, options)?;
    let name = path.file_name().map_or("images".into(), |n| n.to_string_lossy().into_owned());
    let kept = |images, most: Option<usize>| match most {
        Some(most) => first_of_each_class(images, most, class_names.len()),
        None => images,
    };
    let (train, test) = (kept(train, options.subset), kept(test, options.test_subset));
    let form = StoredForm { size: options.size, orientation: options.orientation };
    let split = |images: Vec<(PathBuf, u32)>| {
        let (paths, labels): (Vec<PathBuf>, Vec<u32>) = images.into_iter().unzip();
        let class = |label: &u32| class_names[*label as usize].as_str();
        let owners = options.clients.then(|| owners(paths.iter().zip(labels.iter().map(class))));
        let images = paths.into_iter().map(Encoded::File).collect();
        let store = decode::store(images, form, options.budget)?;
        let split = Split::new(store, labels, class_names.len())?;
        Ok::<_, DataError>(Arc::new(match owners {
            Some(owners) => split.with_owners(owners),
            None => split,
        }))
    };
    Ok(Dataset { name, train: split(train)?, test: split(test)?, class_names, notes })
}

/// Returns the owner of every image: the folder above that of its class, numbered in the order of names.
///
/// A class may keep its images one folder deeper, in `images`.
fn owners<'a>(images: impl Iterator<Item = (&'a PathBuf, &'a str)>) -> Vec<u32> {
    let folder = |(path, class): (&'a PathBuf, &str)| {
        let is_named = |folder: &&Path, name: &str| {
            let found = folder.file_name().map(|found| normal_form(&found.to_string_lossy()));
            found.is_some_and(|found| found == name)
        };
        let holds = path.parent()?;
        let deeper = is_named(&holds, "images") && class != "images";
        let above = holds.parent().filter(|above| deeper && is_named(above, class));
        above.unwrap_or(holds).parent()
    };
    let folders: Vec<Option<&Path>> = images.map(folder).collect();
    let mut numbers: BTreeMap<&Option<&Path>, u32> = folders.iter().map(|f| (f, 0)).collect();
    (0..).zip(numbers.values_mut()).for_each(|(number, value)| *value = number);
    folders.iter().map(|folder| numbers[folder]).collect()
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
