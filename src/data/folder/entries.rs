//! What lies in a folder: classes, images, and what is neither.
//!
//! Nothing is left out in silence. An image in a format that is not read, or a folder among images, is an error that
//! counts all of them; files that nobody takes for samples (notes, licences, thumbnails of a file manager) are passed
//! over, and [`Census::notes`] says how many.

use std::path::{Path, PathBuf};

use crate::data::DataError;

/// Formats that are read.
const READ: [&str; 5] = ["png", "jpg", "jpeg", "bmp", "webp"];

/// Endings of files that lie beside images and are none.
const BESIDE: [&str; 13] =
    ["txt", "md", "html", "htm", "xml", "json", "csv", "tsv", "yaml", "yml", "log", "pdf", "ini"];

/// Whole names of such files, in small letters.
const NAMES: [&str; 4] = ["thumbs.db", "license", "licence", "readme"];

/// What was met among images while folders were listed.
#[derive(Debug, Default)]
pub(super) struct Census {
    /// Neither read nor harmless.
    strange: Vec<PathBuf>,
    /// Harmless.
    passed: Vec<PathBuf>,
    /// Folders beside those of classes whose names say that they are none.
    hidden: Vec<PathBuf>,
    /// The first folder without any image.
    empty: Option<PathBuf>,
}

impl Census {
    /// The images in the folder of a class, sorted; of one that keeps all of them in a sub-folder `images`, as
    /// Tiny-ImageNet does, those.
    pub fn images(&mut self, folder: &Path) -> Result<Vec<PathBuf>, DataError> {
        let mut found = entries(folder, "a folder of images")?;
        let inner = folder.join("images");
        let mut folder = folder;
        if inner.is_dir() && !found.iter().any(|entry| ends_with(entry, &READ)) {
            found = entries(&inner, "a folder of images")?;
            folder = &inner;
        }
        let before = self.strange.len();
        let mut images = Vec::new();
        for entry in found {
            match () {
                () if is_hidden(&entry) => self.passed.push(entry),
                () if entry.is_dir() => self.strange.push(entry),
                () if ends_with(&entry, &READ) => images.push(entry),
                () if is_beside(&entry) => self.passed.push(entry),
                () => self.strange.push(entry),
            }
        }
        if images.is_empty() && self.strange.len() == before {
            self.empty.get_or_insert_with(|| folder.to_owned());
        }
        images.sort_unstable();
        Ok(images)
    }

    /// Notices what lies beside the folders of classes, and so is of none.
    pub fn beside_classes(&mut self, folder: &Path) -> Result<(), DataError> {
        for entry in entries(folder, "a folder of classes")? {
            match (is_hidden(&entry), entry.is_dir()) {
                (true, true) => self.hidden.push(entry),
                (true, false) => self.passed.push(entry),
                (false, true) => {}
                (false, false) if is_beside(&entry) => self.passed.push(entry),
                (false, false) => self.strange.push(entry),
            }
        }
        Ok(())
    }

    /// What to tell people.
    ///
    /// # Errors
    /// Anything that may have been meant as a sample and cannot be read; a class without images.
    pub fn notes(mut self) -> Result<Vec<String>, DataError> {
        self.strange.sort_unstable();
        self.passed.sort_unstable();
        self.hidden.sort_unstable();
        if let Some(first) = self.strange.first() {
            let place = first.parent().unwrap_or(first);
            return Err(DataError::Corrupt {
                path: place.to_owned(),
                expected: format!("a folder per class with nothing but images ({})", READ.join(", ")),
                found: format!("{} that cannot be a sample of a class: {}", count(&self.strange), names(&self.strange)),
                advice: "Convert them (`mogrify -format png FOLDER/*.tif`), sort what lies in folders below a class \
                         into it, or take them away: samples are never left out in silence"
                    .to_owned(),
            });
        }
        if let Some(folder) = self.empty {
            let expected = format!("at least one image ({})", READ.join(", "));
            return Err(DataError::corrupt(&folder, expected, "none"));
        }
        let mut notes = Vec::new();
        if !self.passed.is_empty() {
            let (count, names) = (count(&self.passed), names(&self.passed));
            notes.push(format!("{count} among the images passed over, no image: {names}"));
        }
        if !self.hidden.is_empty() {
            let names = names(&self.hidden);
            notes.push(format!("folders that begin with `.` or `__` are no classes: {names}"));
        }
        Ok(notes)
    }
}

fn count(files: &[PathBuf]) -> String {
    match files.len() {
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    }
}

/// The first three, with the folders they are in.
fn names(files: &[PathBuf]) -> String {
    let short = |path: &PathBuf| {
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
        Path::new(folder).join(path.file_name().unwrap_or_default()).display().to_string()
    };
    let mut names: Vec<String> = files.iter().take(3).map(short).collect();
    if files.len() > names.len() {
        names.push("...".to_owned());
    }
    names.join(", ")
}

/// Names of the folders in a folder, sorted; hidden ones are passed over.
pub(super) fn sub_folders(path: &Path) -> Result<Vec<String>, DataError> {
    let expected = "a folder with one sub-folder of images per class";
    let mut names = folders_in(path)?;
    if names.is_empty() {
        return Err(DataError::corrupt(path, expected, "no sub-folder"));
    }
    names.sort_unstable();
    let mut small: Vec<(String, &String)> =
        names.iter().map(|name| (name.to_lowercase(), name)).collect();
    small.sort_unstable();
    if let Some([(_, one), (_, other)]) = small.array_windows().find(|[a, b]| a.0 == b.0) {
        return Err(DataError::Corrupt {
            path: path.to_owned(),
            expected: "names of classes that differ by more than capitals".to_owned(),
            found: format!("`{one}` and `{other}`"),
            advice: "Rename one of them, or put the images of one class into one folder".to_owned(),
        });
    }
    Ok(names)
}

/// Names of the folders in a folder, in no order.
pub(super) fn folders_in(path: &Path) -> Result<Vec<String>, DataError> {
    let entries = entries(path, "a folder with one sub-folder of images per class")?;
    let folders = entries.into_iter().filter(|entry| entry.is_dir() && !is_hidden(entry));
    Ok(folders.filter_map(|e| Some(e.file_name()?.to_string_lossy().into_owned())).collect())
}

pub(super) fn entries(path: &Path, expected: &str) -> Result<Vec<PathBuf>, DataError> {
    let failed = |e| DataError::io(path, expected, e);
    std::fs::read_dir(path)
        .map_err(failed)?
        .map(|entry| Ok(entry.map_err(failed)?.path()))
        .collect()
}

/// Of the system or of an unpacker: begins with a dot, or with two underscores as `__MACOSX` does.
fn is_hidden(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with('.') || name.starts_with("__")
}

fn is_beside(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    NAMES.contains(&name.as_str()) || ends_with(path, &BESIDE)
}

fn ends_with(path: &Path, endings: &[&str]) -> bool {
    let ending = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
    ending.is_some_and(|ending| endings.contains(&ending.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(files: &[&str]) -> (usize, Result<Vec<String>, String>) {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join("cat").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let mut census = Census::default();
        let images = census.images(&root.path().join("cat")).unwrap();
        let notes = census.notes().map_err(|error| {
            error.to_string().replace(&root.path().display().to_string(), "[root]")
        });
        (images.len(), notes)
    }

    #[test]
    fn every_format_that_is_read_is_listed_whatever_its_capitals() {
        let files = ["a.png", "b.JPG", "c.jpeg", "d.BMP", "e.WebP"];
        assert_eq!(listed(&files), (5, Ok(vec![])));
    }

    #[test]
    fn what_is_no_sample_is_passed_over_and_said() {
        let files = ["a.png", "Thumbs.db", ".DS_Store", "LICENSE", "notes.txt"];
        let note = "4 files among the images passed over, no image: cat/.DS_Store, cat/LICENSE, cat/Thumbs.db, ...";
        assert_eq!(listed(&files), (1, Ok(vec![note.to_owned()])));
    }

    #[test]
    fn what_may_be_a_sample_and_is_not_read_is_an_error_that_counts() {
        let (images, notes) = listed(&["a.png", "b.tif", "c.gif", "d", "more/e.png"]);
        let error = notes.unwrap_err();
        assert_eq!(images, 1);
        assert!(
            error.contains(
                "4 files that cannot be a sample of a class: cat/b.tif, cat/c.gif, cat/d, ..."
            ),
            "{error}"
        );
        // Nothing else but such: not "no image".
        assert!(
            listed(&["b.tif"])
                .1
                .unwrap_err()
                .contains("1 file that cannot be a sample of a class: cat/b.tif")
        );
        assert!(listed(&["notes.txt"]).1.unwrap_err().contains("at least one image"));
    }

    #[test]
    fn images_below_images_are_those_of_the_class() {
        assert_eq!(listed(&["images/a.JPEG", "images/b.JPEG", "n1_boxes.txt"]), (2, Ok(vec![])));
    }

    #[test]
    fn images_of_no_class_are_noticed() {
        // Beside `images`, and beside the folders of classes.
        let (images, notes) = listed(&["images/a.png", "b.png"]);
        assert_eq!(images, 1);
        assert!(
            notes.unwrap_err().contains("1 file that cannot be a sample of a class: cat/images")
        );
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("stray.jpg"), "").unwrap();
        std::fs::write(root.path().join("classes.txt"), "").unwrap();
        let mut census = Census::default();
        census.beside_classes(root.path()).unwrap();
        assert!(census.notes().unwrap_err().to_string().contains("stray.jpg"));
        // Whatever it is, unless nobody would take it for a sample.
        std::fs::rename(root.path().join("stray.jpg"), root.path().join("stray.tif")).unwrap();
        let mut census = Census::default();
        census.beside_classes(root.path()).unwrap();
        assert!(census.notes().unwrap_err().to_string().contains("stray.tif"));
        std::fs::remove_file(root.path().join("stray.tif")).unwrap();
        std::fs::create_dir(root.path().join("__cat")).unwrap();
        let mut census = Census::default();
        census.beside_classes(root.path()).unwrap();
        let notes = census.notes().unwrap();
        assert!(notes[0].contains("1 file among") && notes[0].contains("classes.txt"), "{notes:?}");
        assert!(notes[1].contains("no classes: ") && notes[1].contains("__cat"), "{notes:?}");
    }

    #[test]
    fn classes_that_differ_in_capitals_only_are_refused() {
        let root = tempfile::tempdir().unwrap();
        for class in ["cat", "Emu", "Cat"] {
            std::fs::create_dir_all(root.path().join(class)).unwrap();
        }
        // Of a file system that tells them apart.
        if folders_in(root.path()).unwrap().len() == 3 {
            let error = sub_folders(root.path()).unwrap_err().to_string();
            assert!(error.contains("`Cat` and `cat`"), "{error}");
        }
    }
}
