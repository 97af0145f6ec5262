//! Division into training and test images.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::division::Division;
use super::entries::{Census, differ, folders_in, holds_classes, sub_folders};
use super::{FolderLayout, FolderOptions, SplitSection, list, published};
use crate::data::undivided::TestFraction;
use crate::data::{Cause, DataError};

/// Folders that replace a missing `test/`, in this order.
const VALIDATION: [&str; 3] = ["val", "valid", "validation"];

/// Folder of unsorted test images, as in `test/` of Tiny-ImageNet; alone it is not taken for a class.
const UNSORTED: &str = "images";

impl Division {
    /// Returns the division that the options describe. Without options it follows a published form, recognized by its
    /// files, or the folders `train` and `test`.
    ///
    /// # Errors
    /// Returns an error if folders or images are missing, lists contradict themselves, or a tested class has no
    /// training images.
    pub fn of(root: &Path, options: &FolderOptions) -> Result<Division, DataError> {
        match (&options.split, options.test_fraction) {
            (Some(SplitSection::List { list }), _) => list::read(root, list, list),
            (Some(SplitSection::Lists { train, test }), _) => list::read(root, train, test),
            (None, Some(share)) => drawn(root, share, options.layout),
            (None, None) => match published::recognized(root, options.clients)? {
                Some(division) => Ok(division),
                None => by_folders(root, options.layout),
            },
        }
    }
}

/// Divides by folders: `train/CLASS/*` and `test/CLASS/*`, or `val/CLASS/*` if `test` is missing or has no classes.
fn by_folders(root: &Path, layout: FolderLayout) -> Result<Division, DataError> {
    let train = root.join("train");
    if !train.is_dir() {
        return Err(undivided(root));
    }
    let mut census = Census::default();
    let train_classes = classes(&train, layout, &mut census)?;
    let (test, mut notes) = measured(root, &train_classes)?;
    let tested = classes(&test, layout, &mut census)?;
    trained_on(&tested, &train_classes, &train)?;
    notes.extend(census.notes()?);
    let class_names: Vec<String> = train_classes.keys().cloned().collect();
    let test = numbered(tested, &class_names);
    Ok(Division { train: numbered(train_classes, &class_names), test, class_names, notes })
}

/// Returns the folder on which accuracies are measured, and notes about the choice.
fn measured(root: &Path, train_classes: &Classes) -> Result<(PathBuf, Vec<String>), DataError> {
    let test = root.join("test");
    let is_class = |name: &str| name != UNSORTED || train_classes.contains_key(UNSORTED);
    let has_classes = test.is_dir() && folders_in(&test)?.iter().any(|f| is_class(&f.name));
    let other = VALIDATION.into_iter().find(|name| root.join(name).is_dir());
    let note = match (has_classes, other) {
        (true, None) => return Ok((test, Vec::new())),
        (false, None) => {
            return Err(DataError::Missing {
                path: test,
                expected: "a folder with one sub-folder of images per class, or `val` in its place"
                    .to_owned(),
                advice: "Add it, or draw a part of train/ to test on: data.test_fraction = 0.2"
                    .to_owned(),
            });
        }
        (true, Some(name)) => format!("accuracies are measured on test/; {name}/ is not used"),
        (false, Some(name)) if test.is_dir() => {
            format!(
                "accuracies are measured on {name}/: test/ has no folders of classes, so no labels"
            )
        }
        (false, Some(name)) => format!("accuracies are measured on {name}/: there is no test/"),
    };
    let folder = if has_classes { test } else { root.join(other.unwrap_or("test")) };
    Ok((folder, vec![note]))
}

/// Returns the error for a folder with neither `train` nor a known published list.
fn undivided(root: &Path) -> DataError {
    match folders_in(root) {
        Err(error) => error,
        Ok(folders) if folders.is_empty() => DataError::because(
            Cause::OtherContent,
            root,
            "train/CLASS/* and test/CLASS/*, or a folder of images per class",
            "no sub-folder",
        ),
        Ok(folders) => DataError::Unfit {
            what: format!(
                "{}: there is no train/ and test/, and {} other folders",
                root.display(),
                folders.len()
            ),
            advice: "draw a part to test on (data.test_fraction = 0.2: of every class a fifth), or name the published \
                     lists in data.split"
                .to_owned(),
            key: None,
        },
    }
}

/// Checks that every tested class is also a training class; `there` is the training folder.
fn trained_on(tested: &Classes, train_classes: &Classes, there: &Path) -> Result<(), DataError> {
    match tested.keys().find(|class| !train_classes.contains_key(*class)) {
        None => Ok(()),
        Some(class) => {
            let small = class.to_lowercase();
            let alike = train_classes.keys().find(|other| other.to_lowercase() == small);
            Err(DataError::Missing {
                path: there.join(class),
                expected: format!("images of class `{class}`, which is tested"),
                advice: match alike {
                    Some(other) => format!("Rename `{other}`, which differs in capitals only"),
                    None => "Add images to train on, or take the folder of tests away".to_owned(),
                },
            })
        }
    }
}

/// Image paths by class name.
type Classes = BTreeMap<String, Vec<PathBuf>>;

/// Returns the images of a folder by class.
fn classes(root: &Path, layout: FolderLayout, census: &mut Census) -> Result<Classes, DataError> {
    let mut classes = Classes::new();
    let above = match layout {
        FolderLayout::Classes => vec![root.to_owned()],
        FolderLayout::Domains => sub_folders(root)?.into_iter().map(|domain| domain.path).collect(),
    };
    for folder in above {
        census.pass_files_next_to_classes(&folder)?;
        let folders = sub_folders(&folder)?;
        let sorted = folders.len() > 1;
        for class in folders {
            if sorted && class.name == UNSORTED && census.passes_empty(&class.path)? {
                continue;
            }
            let images = census.images(&class.path)?;
            classes.entry(class.name).or_default().extend(images);
        }
    }
    // Class names are compared over all domains.
    differ(root, classes.keys().map(String::as_str))?;
    Ok(classes)
}

/// Returns the images of the classes `names` with class ids, which are the positions in `names`.
fn numbered(mut classes: Classes, names: &[String]) -> Vec<(PathBuf, u32)> {
    let of_class = |(class, name): (u32, &String)| {
        let images = classes.remove(name).unwrap_or_default();
        images.into_iter().map(move |image| (image, class))
    };
    (0..).zip(names).flat_map(of_class).collect()
}

/// Draws a test fraction of the images in `train/` if that holds classes, otherwise of those in `root`.
fn drawn(root: &Path, share: TestFraction, layout: FolderLayout) -> Result<Division, DataError> {
    let train = root.join("train");
    let folder = if holds_classes(&train)? { train } else { root.to_owned() };
    let others = ["test"].into_iter().chain(VALIDATION).map(|name| root.join(name));
    if let Some(other) = others.into_iter().find(|other| folder != root && other.is_dir()) {
        return Err(DataError::unfit(
            format!(
                "{} is there already, and data.test_fraction would draw another one",
                other.display()
            ),
            "remove data.test_fraction to measure on it, or set data.path to the folder `train`",
        ));
    }
    let mut census = Census::default();
    let classes = classes(&folder, layout, &mut census)?;
    let notes = census.notes()?;
    let class_names: Vec<String> = classes.keys().cloned().collect();
    let images = numbered(classes, &class_names);
    let mut samples = vec![Vec::new(); class_names.len()];
    for (sample, (_, class)) in (0..).zip(&images) {
        samples[*class as usize].push(sample);
    }
    let (train, test) = share.divide(&samples, &class_names)?;
    let part = |chosen: Vec<u32>| chosen.iter().map(|i| images[*i as usize].clone()).collect();
    Ok(Division { train: part(train), test: part(test), class_names, notes })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::scenario::TestDraw;

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

    fn together(share: f64, seed: u64, layout: FolderLayout) -> FolderOptions {
        let test_fraction = Some(TestFraction { fraction: share, drawn: TestDraw::Together, seed });
        FolderOptions { test_fraction, layout, ..FolderOptions::default() }
    }

    #[test]
    fn domains_are_pooled_class_by_class_and_every_image_is_in_one_part() {
        let counts = [("clipart/cat", 60), ("clipart/dog", 40), ("real/cat", 15), ("real/emu", 38)];
        let root = folder(&counts);
        let division =
            |seed| Division::of(root.path(), &together(0.2, seed, FolderLayout::Domains)).unwrap();
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

    /// A class in the middle has no tests: those behind it keep their numbers.
    #[test]
    fn a_class_may_be_trained_on_and_not_tested() {
        let root =
            folder(&[("train/a", 2), ("train/b", 2), ("train/c", 2), ("test/a", 1), ("test/c", 3)]);
        let made = Division::of(root.path(), &FolderOptions::default()).unwrap();
        assert_eq!(made.class_names, ["a", "b", "c"]);
        let tested: Vec<u32> = made.test.iter().map(|(_, class)| *class).collect();
        assert_eq!(tested, [0, 2, 2, 2]);
        std::fs::rename(root.path().join("test/c"), root.path().join("test/d")).unwrap();
        let error = Division::of(root.path(), &FolderOptions::default()).unwrap_err().to_string();
        assert!(error.contains("images of class `d`, which is tested"), "{error}");
    }

    #[test]
    fn undivided_classes_are_drawn_too_and_none_may_be_missing_in_training() {
        let root = folder(&[("a", 30), ("b", 30)]);
        let split = together(0.5, 3, FolderLayout::Classes);
        let made = Division::of(root.path(), &split).unwrap();
        assert_eq!((made.train.len(), made.test.len()), (30, 30));
        assert!(made.train.is_sorted() && made.test.is_sorted());
        let root = folder(&[("a", 30), ("b", 1)]);
        let drawn = |seed| {
            let made = Division::of(root.path(), &together(0.5, seed, FolderLayout::Classes));
            made.map(|made| made.test.iter().filter(|(_, class)| *class == 1).count())
        };
        let drawn: Vec<_> = (0..20).map(drawn).collect();
        let refused = drawn.iter().filter_map(|drawn| drawn.as_ref().err());
        assert!(
            refused
                .map(|e| e.to_string())
                .all(|e| e.contains("no sample of class `b` is trained on"))
        );
        assert!(
            drawn.iter().any(Result::is_err) && drawn.iter().flatten().all(|tests| *tests == 0)
        );
        assert!(drawn.iter().any(Result::is_ok));
    }

    #[test]
    fn a_class_called_train_is_a_class() {
        let root = folder(&[("train", 10), ("tram", 5)]);
        let made = Division::of(root.path(), &tested(0.2)).unwrap();
        assert_eq!(made.class_names, ["train", "tram"]);
        assert_eq!((made.train.len(), made.test.len()), (12, 3));
        // A folder that holds classes is a part, and what lies next to it is not in it.
        let root = folder(&[("train/cat", 10), ("train/emu", 5)]);
        let made = Division::of(root.path(), &tested(0.2)).unwrap();
        assert_eq!(made.class_names, ["cat", "emu"]);
    }

    fn tested(share: f64) -> FolderOptions {
        FolderOptions {
            test_fraction: Some(TestFraction::of_every_class(share)),
            ..FolderOptions::default()
        }
    }

    #[test]
    fn a_share_of_every_class_is_tested_and_whole_domains_can_be_clients() {
        let root = folder(&[("clipart/cat", 10), ("clipart/emu", 5), ("real/cat", 10)]);
        let options = FolderOptions { layout: FolderLayout::Domains, ..tested(0.2) };
        let made = Division::of(root.path(), &options).unwrap();
        assert_eq!(made.class_names, ["cat", "emu"]);
        let of = |class| made.test.iter().filter(|(_, c)| *c == class).count();
        assert_eq!((of(0), of(1), made.train.len()), (4, 1, 20));
        // Without domains these folders would be classes, of folders.
        let error = Division::of(root.path(), &tested(0.2)).unwrap_err();
        assert!(error.to_string().contains("clipart/cat"), "{error}");
    }

    #[test]
    fn a_part_that_is_there_is_not_drawn_again() {
        let root = folder(&[("train/a", 4), ("val/a", 2)]);
        let error = Division::of(root.path(), &tested(0.5)).unwrap_err();
        assert!(error.to_string().contains("remove data.test_fraction"), "{error}");
        std::fs::remove_dir_all(root.path().join("val")).unwrap();
        let made = Division::of(root.path(), &tested(0.5)).unwrap();
        assert_eq!((made.class_names, made.test.len()), (vec!["a".to_owned()], 2));
    }

    #[test]
    fn val_stands_for_test_where_that_has_no_classes_and_it_is_said() {
        let plain = FolderOptions::default();
        let root = folder(&[("train/a", 4), ("val/a", 2)]);
        let made = Division::of(root.path(), &plain).unwrap();
        assert_eq!(made.test.len(), 2);
        assert_eq!(made.notes, ["accuracies are measured on val/: there is no test/"]);
        std::fs::create_dir(root.path().join("test")).unwrap();
        std::fs::write(root.path().join("test/1.jpg"), "").unwrap();
        let made = Division::of(root.path(), &plain).unwrap();
        assert!(made.notes[0].contains("test/ has no folders of classes"), "{:?}", made.notes);
        // Tiny-ImageNet with val/ sorted: test/images is of no class.
        let root = folder(&[("train/a", 4), ("val/a", 2), ("test/images", 3)]);
        let made = Division::of(root.path(), &plain).unwrap();
        assert_eq!((made.class_names.len(), made.test.len()), (1, 2));
        assert!(made.notes[0].starts_with("accuracies are measured on val/"), "{:?}", made.notes);
        // Unless `images` is a class itself.
        let root = folder(&[("train/images", 4), ("val/images", 2), ("test/images", 3)]);
        assert_eq!(Division::of(root.path(), &plain).unwrap().test.len(), 3);
        let root = folder(&[("train/a", 4), ("test/images", 3)]);
        let error = Division::of(root.path(), &plain).unwrap_err().to_string();
        assert!(error.contains("test_fraction = 0.2"), "{error}");
        let root = folder(&[("train/a", 4), ("val/a", 2), ("test/a", 1)]);
        let made = Division::of(root.path(), &plain).unwrap();
        assert_eq!((made.test.len(), made.notes.len()), (1, 1));
    }

    #[test]
    fn parts_from_two_systems_have_the_same_classes() {
        let root =
            folder(&[("train/Cafe\u{301}", 4), ("train/z", 1), ("test/Café", 2), ("test/z", 1)]);
        let made = Division::of(root.path(), &FolderOptions::default()).unwrap();
        assert_eq!(made.class_names, ["Café", "z"]);
        assert_eq!((made.train.len(), made.test.len()), (5, 3));
        assert!(made.train.iter().chain(&made.test).all(|(path, _)| path.is_file()));
        let root = folder(&[("train/Cat", 4), ("test/cat", 2)]);
        if !root.path().join("test/Cat").is_dir() {
            let error = Division::of(root.path(), &FolderOptions::default()).unwrap_err();
            assert!(error.to_string().contains("differs in capitals only"), "{error}");
        }
        let root = folder(&[("clipart/Cat", 4), ("real/cat", 4)]);
        let options = FolderOptions { layout: FolderLayout::Domains, ..tested(0.2) };
        let error = Division::of(root.path(), &options).unwrap_err().to_string();
        assert!(error.contains("more than capitals"), "{error}");
    }

    #[test]
    fn an_undivided_folder_says_what_to_do() {
        let root = folder(&[("a", 4), ("b", 2)]);
        let error = Division::of(root.path(), &FolderOptions::default()).unwrap_err().to_string();
        assert!(
            error.contains("2 other folders") && error.contains("data.test_fraction = 0.2"),
            "{error}"
        );
        let root = folder(&[("train/a", 4)]);
        let error = Division::of(root.path(), &FolderOptions::default()).unwrap_err().to_string();
        assert!(error.contains("test: not found") && error.contains("test_fraction"), "{error}");
    }
}
