//! CUB-200-2011 as it is downloaded: `images.txt` (number, path below `images/`), `image_class_labels.txt` (number,
//! class), `train_test_split.txt` (number, 1 for training), `classes.txt` (class, name). Classes are counted from 1.

use std::collections::BTreeMap;
use std::path::Path;

use crate::data::DataError;
use crate::data::folder::division::Division;
use crate::data::folder::list::{self, ImageLine, ImageList, at, wrong};
use crate::files::{FileKind, read_text};

pub(super) fn is_at(root: &Path) -> bool {
    ["images.txt", "image_class_labels.txt", "train_test_split.txt"]
        .iter()
        .all(|name| root.join(name).is_file())
}

pub(super) fn read(root: &Path) -> Result<Division, DataError> {
    let images = pairs(&root.join("images.txt"))?;
    let classes = pairs(&root.join("image_class_labels.txt"))?;
    let split_file = root.join("train_test_split.txt");
    let parts = pairs(&split_file)?;
    let names = match root.join("classes.txt").is_file() {
        true => pairs(&root.join("classes.txt"))?,
        false => BTreeMap::new(),
    };
    let file = root.join("images.txt");
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for (image, (number, path)) in &images {
        let lacking = |what: &str| {
            wrong(at(&file, *number), format!("image {image} in {what}, too"), "no line for it")
        };
        let (line, class) = classes.get(image).ok_or_else(|| lacking("image_class_labels.txt"))?;
        let id =
            class.parse().ok().and_then(|class: u32| class.checked_sub(1)).ok_or_else(|| {
                let place = at(&root.join("image_class_labels.txt"), *line);
                wrong(place, "a class counted from 1", format!("`{class}`"))
            })?;
        let name = class.parse().ok().and_then(|class| names.get(&class)).map(|(_, n)| n.clone());
        let entry =
            ImageLine { number: *number, path: format!("images/{path}"), class: Some(id), name };
        let (line, part) = parts.get(image).ok_or_else(|| lacking("train_test_split.txt"))?;
        match part.as_str() {
            "1" => train.push(entry),
            "0" => test.push(entry),
            other => {
                let found = format!("`{other}`");
                return Err(wrong(at(&split_file, *line), "1 (train) or 0 (test)", found));
            }
        }
    }
    let part = |lines| ImageList { file: file.clone(), lines };
    list::divide(root, &[part(train)], &[part(test)])
}

/// Returns line number and text by the number at the start of each line.
fn pairs(file: &Path) -> Result<BTreeMap<u32, (usize, String)>, DataError> {
    let text = read_text(file, FileKind::Table)
        .map_err(|error| DataError::io(file, "a list of CUB-200-2011", error))?;
    let mut found = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let pair = line.trim().split_once(' ');
        let pair = pair.and_then(|(id, text)| Some((id.parse().ok()?, text.trim().to_owned())));
        let Some((id, text)) = pair else {
            return Err(wrong(at(file, number), "a number and a text", format!("`{line}`")));
        };
        if found.insert(id, (number, text)).is_some() {
            return Err(wrong(at(file, number), "every number once", format!("{id} again")));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::folder::FolderOptions;

    const FILES: [(&str, &str); 4] = [
        ("images.txt", "1 002.Auk/b.jpg\n2 001.Tern/a.jpg\n3 002.Auk/c.jpg\n4 001.Tern/d.jpg\n"),
        ("image_class_labels.txt", "1 2\n2 1\n3 2\n4 1\n"),
        ("train_test_split.txt", "1 1\n2 0\n3 0\n4 1\n"),
        ("classes.txt", "1 001.Tern\n2 002.Auk\n"),
    ];

    fn divide(change: impl Fn(&str, &str) -> String) -> Result<Division, String> {
        let root = tempfile::tempdir().unwrap();
        for image in ["002.Auk/b.jpg", "001.Tern/a.jpg", "002.Auk/c.jpg", "001.Tern/d.jpg"] {
            let path = root.path().join("images").join(image);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        for (name, text) in FILES {
            std::fs::write(root.path().join(name), change(name, text)).unwrap();
        }
        Division::of(root.path(), &FolderOptions::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_four_lists_divide_the_images() {
        let made = divide(|_, text| text.to_owned()).unwrap();
        assert_eq!(made.class_names, ["001.Tern", "002.Auk"]);
        let short = |part: &[(std::path::PathBuf, u32)]| -> Vec<(String, u32)> {
            let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
            part.iter().map(|(path, class)| (name(path), *class)).collect()
        };
        assert_eq!(short(&made.train), [("b.jpg".to_owned(), 1), ("d.jpg".to_owned(), 0)]);
        assert_eq!(short(&made.test), [("a.jpg".to_owned(), 0), ("c.jpg".to_owned(), 1)]);
    }

    #[test]
    fn lists_that_contradict_each_other_are_shown() {
        let cases = [
            (
                "train_test_split.txt",
                "3 0",
                "3 2",
                "train_test_split.txt:3: expected 1 (train) or 0 (test)",
            ),
            (
                "train_test_split.txt",
                "3 0\n",
                "",
                "images.txt:3: expected image 3 in train_test_split.txt",
            ),
            (
                "image_class_labels.txt",
                "2 1",
                "2 0",
                "image_class_labels.txt:2: expected a class counted from 1",
            ),
            ("images.txt", "c.jpg", "e.jpg", "e.jpg: not found"),
            ("images.txt", "4 001", "3 001", "images.txt:4: expected every number once"),
        ];
        for (file, from, to, expected) in cases {
            let error = divide(
                |name, text| {
                    if name == file { text.replace(from, to) } else { text.to_owned() }
                },
            );
            let error = error.unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
