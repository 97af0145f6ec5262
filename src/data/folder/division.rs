//! Who is trained on and who is tested.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{FolderLayout, SplitSection, list};
use crate::data::DataError;
use crate::numerics::distributions::shuffle;
use crate::numerics::share::floor;
use crate::numerics::streams::{Domain, StreamKey};

/// The images of a folder, divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    /// Class id -> name.
    pub class_names: Vec<String>,
    /// Path and class.
    pub train: Vec<(PathBuf, u32)>,
    pub test: Vec<(PathBuf, u32)>,
}

impl Division {
    /// The division that `split` describes; without one that of the folders `train` and `test`.
    ///
    /// # Errors
    /// Missing folders and images, lists that contradict themselves, classes in one part only.
    pub fn of(root: &Path, split: Option<&SplitSection>) -> Result<Division, DataError> {
        match split {
            None => by_folders(root),
            Some(SplitSection::List { list }) => list::read(root, list, list),
            Some(SplitSection::Lists { train, test }) => list::read(root, train, test),
            Some(SplitSection::Share { share, seed, layout }) => {
                drawn(root, *share, *seed, *layout)
            }
        }
    }
}

/// `train/CLASS/*` and `test/CLASS/*`.
fn by_folders(root: &Path) -> Result<Division, DataError> {
    let (train, test) = (root.join("train"), root.join("test"));
    let class_names = sub_folders(&train)?;
    let others = sub_folders(&test)?;
    agree(&class_names, &others, &test)?;
    agree(&others, &class_names, &train)?;
    let images = |part: &Path| {
        let mut images = Vec::new();
        for (class, name) in (0..).zip(&class_names) {
            images.extend(images_in(&part.join(name))?.into_iter().map(|path| (path, class)));
        }
        Ok::<_, DataError>(images)
    };
    Ok(Division { train: images(&train)?, test: images(&test)?, class_names })
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

/// All images in a drawn order; the first `share` of them, rounded down, are trained on. As HePCo's release draws
/// (over all images, not class by class), though from our own stream: not the same images.
fn drawn(root: &Path, share: f64, seed: u64, layout: FolderLayout) -> Result<Division, DataError> {
    let mut classes: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let above = match layout {
        FolderLayout::Classes => vec![root.to_owned()],
        FolderLayout::Domains => {
            sub_folders(root)?.into_iter().map(|domain| root.join(domain)).collect()
        }
    };
    for folder in above {
        for class in sub_folders(&folder)? {
            let images = images_in(&folder.join(&class))?;
            classes.entry(class).or_default().extend(images);
        }
    }
    let (class_names, images): (Vec<String>, Vec<Vec<PathBuf>>) = classes.into_iter().unzip();
    let of_class =
        |(class, images): (u32, Vec<PathBuf>)| images.into_iter().map(move |i| (i, class));
    let images: Vec<(PathBuf, u32)> = (0..).zip(images).flat_map(of_class).collect();
    let mut order: Vec<usize> = (0..images.len()).collect();
    shuffle(&mut StreamKey::new(seed, Domain::HoldOut).rng(), &mut order);
    let (train, test) = order.split_at(floor(share * images.len() as f64).min(images.len()));
    let part = |chosen: &[usize]| {
        let mut chosen = chosen.to_vec();
        chosen.sort_unstable();
        chosen.into_iter().map(|i| images[i].clone()).collect::<Vec<_>>()
    };
    let (train, test) = (part(train), part(test));
    for (part, what) in [(&train, "trained on"), (&test, "tested")] {
        let mut left = vec![true; class_names.len()];
        part.iter().for_each(|(_, class)| left[*class as usize] = false);
        if let Some(class) = left.iter().position(|left| *left) {
            return Err(DataError::unfit(
                format!("no image of class `{}` is {what} in this draw", class_names[class]),
                "choose another data.split.seed or data.split.share",
            ));
        }
    }
    Ok(Division { class_names, train, test })
}

/// Names of the folders in a folder, sorted.
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

/// The images in a folder, sorted.
fn images_in(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let expected = "at least one .png, .jpg or .jpeg file";
    let mut files = entries(folder, expected)?;
    files.retain(|file| is_image(file));
    if files.is_empty() {
        return Err(DataError::corrupt(folder, expected, "none"));
    }
    files.sort_unstable();
    Ok(files)
}

fn entries(path: &Path, expected: &str) -> Result<Vec<PathBuf>, DataError> {
    let failed = |e| DataError::io(path, expected, e);
    std::fs::read_dir(path)
        .map_err(failed)?
        .map(|entry| Ok(entry.map_err(failed)?.path()))
        .collect()
}

fn is_image(path: &Path) -> bool {
    let extension = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
    matches!(extension.as_deref(), Some("png" | "jpg" | "jpeg"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn folder(images: &[(&str, usize)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (class, count) in images {
            std::fs::create_dir_all(root.path().join(class)).unwrap();
            for i in 0..*count {
                std::fs::write(root.path().join(class).join(format!("{i}.jpg")), "").unwrap();
            }
        }
        root
    }

    fn share(share: f64, seed: u64, layout: FolderLayout) -> SplitSection {
        SplitSection::Share { share, seed, layout }
    }

    #[test]
    fn domains_are_pooled_class_by_class_and_every_image_is_in_one_part() {
        let counts = [("clipart/cat", 60), ("clipart/dog", 40), ("real/cat", 15), ("real/emu", 38)];
        let root = folder(&counts);
        let division = |seed| {
            Division::of(root.path(), Some(&share(0.8, seed, FolderLayout::Domains))).unwrap()
        };
        let made = division(0);
        assert_eq!(made.class_names, ["cat", "dog", "emu"]);
        // 153 images: 122.4 of them.
        assert_eq!((made.train.len(), made.test.len()), (122, 31));
        let all: BTreeSet<_> = made.train.iter().chain(&made.test).collect();
        assert_eq!(all.len(), 153);
        for (path, class) in all {
            let folder = path.parent().unwrap().file_name().unwrap().to_string_lossy();
            assert_eq!(made.class_names[*class as usize], folder);
        }
        let cats = |part: &[(PathBuf, u32)]| part.iter().filter(|(_, c)| *c == 0).count();
        assert_eq!(cats(&made.train) + cats(&made.test), 75, "of both domains");
        assert_eq!(made, division(0));
        assert_ne!(made.test, division(1).test);
        // Drawn over all images: not every class has its four fifths.
        let shares: BTreeSet<usize> = (0..20).map(|seed| cats(&division(seed).test)).collect();
        assert!(shares.len() > 2, "{shares:?}");
    }

    #[test]
    fn undivided_classes_are_drawn_too_and_none_may_be_missing_in_a_part() {
        let root = folder(&[("a", 30), ("b", 30)]);
        let split = share(0.5, 3, FolderLayout::Classes);
        let made = Division::of(root.path(), Some(&split)).unwrap();
        assert_eq!((made.train.len(), made.test.len()), (30, 30));
        assert!(made.train.is_sorted() && made.test.is_sorted());
        let root = folder(&[("a", 30), ("b", 1)]);
        let error = Division::of(root.path(), Some(&split)).unwrap_err().to_string();
        assert!(error.contains("no image of class `b` is"), "{error}");
    }
}
