//! Tiny-ImageNet as it is downloaded: `train/WNID/images/*.JPEG`, and `val/images/*.JPEG` with
//! `val/val_annotations.txt`, where a line is a file, its class and a box, between tabs. `test/` has no labels and is
//! not used.

use std::collections::BTreeMap;
use std::path::Path;

use crate::data::DataError;
use crate::data::folder::division::Division;
use crate::data::folder::entries::{Census, sub_folders};
use crate::data::folder::list::{at, wrong};
use crate::files::{FileKind, read_text};

/// Returns true for Tiny-ImageNet as downloaded, whose `val` images are not sorted into class folders.
pub(super) fn is_at(root: &Path) -> bool {
    let val = root.join("val");
    // Sorting may leave an empty folder `val/images` behind.
    let unsorted = std::fs::read_dir(val.join("images")).ok().and_then(|mut left| left.next());
    val.join("val_annotations.txt").is_file() && unsorted.is_some()
}

pub(super) fn read(root: &Path) -> Result<Division, DataError> {
    let train_folder = root.join("train");
    let folders = sub_folders(&train_folder)?;
    let mut census = Census::default();
    census.pass_files_next_to_classes(&train_folder)?;
    let mut train = Vec::new();
    for (class, folder) in (0..).zip(&folders) {
        let images = census.images(&folder.path)?;
        train.extend(images.into_iter().map(|path| (path, class)));
    }
    let class_names: Vec<String> = folders.into_iter().map(|folder| folder.name).collect();
    let folder = root.join("val/images");
    let images = census.images(&folder)?;
    let mut notes = census.notes()?;
    let said = annotations(&root.join("val/val_annotations.txt"), &class_names)?;
    let mut test = Vec::with_capacity(images.len());
    for path in images {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some((class, _)) = said.get(name.as_ref()) else {
            let expected = "a line of val_annotations.txt for it";
            return Err(DataError::advised(
                &path,
                expected,
                "none",
                "Add its line, or take it away",
            ));
        };
        test.push((path, *class));
    }
    if test.len() != said.len() {
        let lacking = said.iter().find(|(name, _)| !folder.join(name).is_file());
        if let Some((name, (_, line))) = lacking {
            return Err(DataError::Missing {
                path: folder.join(name),
                expected: format!("the image that line {line} of val_annotations.txt names"),
                advice: "Unpack the data set again".to_owned(),
            });
        }
    }
    test.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
    notes.push("Tiny-ImageNet: accuracies are measured on val/; test/ has no labels".to_owned());
    Ok(Division { class_names, train, test, notes })
}

/// Returns class and line number by file name.
fn annotations(
    file: &Path,
    class_names: &[String],
) -> Result<BTreeMap<String, (u32, usize)>, DataError> {
    let text = read_text(file, FileKind::Table)
        .map_err(|error| DataError::io(file, "the classes of val/images", error))?;
    let mut classes = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let broken = |expected: &str| wrong(at(file, number), expected, format!("`{line}`"));
        let mut cells = line.split('\t');
        let (Some(image), Some(class)) = (cells.next(), cells.next()) else {
            return Err(broken("a file and its class, with a tab between them"));
        };
        let id = class_names.binary_search_by(|name| name.as_str().cmp(class));
        let id = id.map_err(|_| broken("a class that is a folder of train/"))?;
        if classes.insert(image.to_owned(), (id as u32, number)).is_some() {
            return Err(broken("every file once"));
        }
    }
    Ok(classes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::folder::FolderOptions;

    fn sample(annotations: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let files = [
            "train/n02/images/n02_0.JPEG",
            "train/n02/n02_boxes.txt",
            "train/n01/images/n01_0.JPEG",
            "train/n01/images/n01_1.JPEG",
            "val/images/val_0.JPEG",
            "val/images/val_1.JPEG",
            "val/images/val_10.JPEG",
            "test/images/test_0.JPEG",
        ];
        for file in files {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        std::fs::write(root.path().join("val/val_annotations.txt"), annotations).unwrap();
        root
    }

    const RIGHT: &str = "val_0.JPEG\tn02\t0\t32\t44\t62\nval_10.JPEG\tn01\t1\t2\t3\t4\nval_1.JPEG\tn02\t0\t0\t5\t5\n";

    fn divide(annotations: &str) -> Result<Division, String> {
        let root = sample(annotations);
        Division::of(root.path(), &FolderOptions::default()).map_err(|error| {
            error.to_string().replace(&root.path().display().to_string(), "[root]")
        })
    }

    #[test]
    fn the_validation_images_have_the_classes_of_their_lines() {
        let made = divide(RIGHT).unwrap();
        assert_eq!(made.class_names, ["n01", "n02"]);
        let short = |part: &[(std::path::PathBuf, u32)]| -> Vec<(String, u32)> {
            let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
            part.iter().map(|(path, class)| (name(path), *class)).collect()
        };
        let pair = |name: &str, class| (name.to_owned(), class);
        assert_eq!(
            short(&made.train),
            [pair("n01_0.JPEG", 0), pair("n01_1.JPEG", 0), pair("n02_0.JPEG", 1)]
        );
        assert_eq!(
            short(&made.test),
            [pair("val_10.JPEG", 0), pair("val_0.JPEG", 1), pair("val_1.JPEG", 1)]
        );
        assert!(made.notes[0].contains("measured on val/"), "{:?}", made.notes);
    }

    #[test]
    fn sorted_validation_images_are_measured() {
        let root = sample(RIGHT);
        let val = root.path().join("val");
        for (image, class) in [("val_0", "n02"), ("val_10", "n01"), ("val_1", "n02")] {
            let folder = val.join(class).join("images");
            std::fs::create_dir_all(&folder).unwrap();
            let name = format!("{image}.JPEG");
            std::fs::rename(val.join("images").join(&name), folder.join(&name)).unwrap();
        }
        let sorted = |what: &str| {
            let made = Division::of(root.path(), &FolderOptions::default()).unwrap();
            assert_eq!(made.class_names, ["n01", "n02"], "{what}");
            let classes: Vec<u32> = made.test.iter().map(|(_, class)| *class).collect();
            assert_eq!((classes, made.train.len()), (vec![0, 1, 1], 3), "{what}");
            assert!(
                made.notes[0].starts_with("accuracies are measured on val/"),
                "{:?}",
                made.notes
            );
        };
        sorted("with the empty folder and the annotations");
        std::fs::remove_dir(val.join("images")).unwrap();
        sorted("without the folder");
        std::fs::remove_file(val.join("val_annotations.txt")).unwrap();
        sorted("without both");
    }

    #[test]
    fn lines_that_do_not_fit_are_shown() {
        let cases = [
            (
                RIGHT.replace("n01", "n07"),
                "val_annotations.txt:2: expected a class that is a folder of train/",
            ),
            (RIGHT.replace("val_10", "val_0"), "val_annotations.txt:2: expected every file once"),
            (RIGHT.replace("\tn01\t", " n01 "), "val_annotations.txt:2"),
            (
                RIGHT.replace("val_1.JPEG\tn02\t0\t0\t5\t5\n", ""),
                "val/images/val_1.JPEG: expected a line",
            ),
            (
                format!("{RIGHT}val_9.JPEG\tn01\t0\t0\t1\t1\n"),
                "val/images/val_9.JPEG: not found; expected the image that line 4",
            ),
        ];
        for (text, expected) in cases {
            let error = divide(&text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
