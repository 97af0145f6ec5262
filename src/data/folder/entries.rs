//! Entries of a folder: classes, images, and everything else.
//!
//! Nothing is left out silently. Images in unsupported formats and folders among images are an error that counts all of
//! them; files that clearly are no samples (notes, licenses, thumbnails of a file manager) are skipped, and
//! [`Census::notes`] reports their number.

use std::path::{Path, PathBuf};

use crate::data::{Cause, DataError, normal_form};

/// Extensions of supported image formats.
const READ: [&str; 5] = ["png", "jpg", "jpeg", "bmp", "webp"];

/// Extensions of files that often lie next to images and are no samples.
const COMPANIONS: [&str; 13] =
    ["txt", "md", "html", "htm", "xml", "json", "csv", "tsv", "yaml", "yml", "log", "pdf", "ini"];

/// Complete names of such files, in lower case.
const NAMES: [&str; 4] = ["thumbs.db", "license", "licence", "readme"];

/// Entries other than images that were met while folders were listed.
#[derive(Debug, Default)]
pub(super) struct Census {
    /// Entries that are neither images nor known to be harmless; any of them is an error.
    strange: Vec<PathBuf>,
    /// Harmless files that were skipped.
    passed: Vec<PathBuf>,
    /// Hidden folders next to those of classes.
    hidden: Vec<PathBuf>,
    /// The first folder without any image.
    empty: Option<PathBuf>,
}

impl Census {
    /// Returns the images in the folder of a class, sorted. If it has none itself, they are those of its sub-folder
    /// `images`, as in Tiny-ImageNet.
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
                () if is_companion(&entry) => self.passed.push(entry),
                () => self.strange.push(entry),
            }
        }
        if images.is_empty() && self.strange.len() == before {
            self.empty.get_or_insert_with(|| folder.to_owned());
        }
        images.sort_unstable();
        Ok(images)
    }

    /// Returns true if a folder is empty; it is then skipped and recorded for the notes.
    pub fn passes_empty(&mut self, folder: &Path) -> Result<bool, DataError> {
        let is_empty = entries(folder, "a folder of images")?.is_empty();
        self.passed.extend(is_empty.then(|| folder.to_owned()));
        Ok(is_empty)
    }

    /// Records the entries next to the folders of classes, which belong to no class.
    pub fn pass_files_next_to_classes(&mut self, folder: &Path) -> Result<(), DataError> {
        for entry in entries(folder, "a folder of classes")? {
            match (is_hidden(&entry), entry.is_dir()) {
                (true, true) => self.hidden.push(entry),
                (true, false) => self.passed.push(entry),
                (false, true) => {}
                (false, false) if is_companion(&entry) => self.passed.push(entry),
                (false, false) => self.strange.push(entry),
            }
        }
        Ok(())
    }

    /// Returns the notes for the user.
    ///
    /// # Errors
    /// Returns an error if an entry may have been meant as a sample and cannot be read, or if a class has no images.
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
            return Err(DataError::because(Cause::ClassWithoutSamples, &folder, expected, "none"));
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

/// Lists the first three files, with their folders.
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

/// Folder that holds the images of one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClassFolder {
    /// Class name in Unicode normal form, so that it is equal on every system.
    pub name: String,
    pub path: PathBuf,
}

/// Returns the folders in a folder, sorted by class name; hidden ones are left out.
pub(super) fn sub_folders(path: &Path) -> Result<Vec<ClassFolder>, DataError> {
    let mut folders = folders_in(path)?;
    if folders.is_empty() {
        let expected = "a folder with one sub-folder of images per class";
        return Err(DataError::because(Cause::OtherContent, path, expected, "no sub-folder"));
    }
    folders.sort_unstable_by(|a, b| (&a.name, &a.path).cmp(&(&b.name, &b.path)));
    if let Some([one, other]) = folders.array_windows().find(|[a, b]| a.name == b.name) {
        return Err(DataError::because(
            Cause::AlikeNames,
            path,
            "names of classes that differ by more than their Unicode form",
            format!("`{}` twice: `{}` and `{}`", one.name, bytes_of(one), bytes_of(other)),
        ));
    }
    differ(path, folders.iter().map(|folder| folder.name.as_str()))?;
    Ok(folders)
}

/// Returns the name of a folder in ASCII, with other bytes escaped as numbers.
fn bytes_of(folder: &ClassFolder) -> String {
    let name = folder.path.file_name().unwrap_or_default();
    name.as_encoded_bytes().escape_ascii().to_string()
}

/// Checks that no two class names differ only in capitalization.
pub(super) fn differ<'a>(
    path: &Path,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), DataError> {
    let mut small: Vec<(String, &str)> = names.map(|name| (name.to_lowercase(), name)).collect();
    small.sort_unstable();
    match small.array_windows().find(|[a, b]| a.0 == b.0) {
        None => Ok(()),
        Some([(_, one), (_, other)]) => Err(DataError::because(
            Cause::AlikeNames,
            path,
            "names of classes that differ by more than capitals",
            format!("`{one}` and `{other}`"),
        )),
    }
}

/// Returns the folders in a folder, in no order.
///
/// # Errors
/// Returns an error if the folder cannot be listed, or a name is not UTF-8.
pub(super) fn folders_in(path: &Path) -> Result<Vec<ClassFolder>, DataError> {
    let entries = entries(path, "a folder with one sub-folder of images per class")?;
    let folders = entries.into_iter().filter(|entry| entry.is_dir() && !is_hidden(entry));
    let class = |folder: PathBuf| match folder.file_name().map(|name| name.to_str().ok_or(name)) {
        Some(Ok(name)) => Ok(ClassFolder { name: normal_form(name), path: folder }),
        other => {
            let name = other.and_then(Result::err).unwrap_or_default();
            let found = name.as_encoded_bytes().escape_ascii();
            Err(DataError::advised(
                path,
                "folders whose names are UTF-8",
                format!("the name `{found}`"),
                "Rename it; `convmv -f latin1 -t utf8 --notest -r FOLDER` renames all that an older system packed",
            ))
        }
    };
    folders.map(class).collect()
}

/// Returns the file at `path` below `root`, even if names on the disk have another Unicode form.
pub(super) fn file_at(root: &Path, path: &Path) -> Option<PathBuf> {
    let written = root.join(path);
    if written.is_file() {
        return Some(written);
    }
    // Only letters beyond ASCII have two forms.
    if path.to_str().is_none_or(str::is_ascii) {
        return None;
    }
    let mut found = root.to_owned();
    for part in path.components() {
        let wanted = normal_form(part.as_os_str().to_str()?);
        let is_it = |entry: &PathBuf| {
            let name = entry.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| normal_form(name) == wanted)
        };
        found = entries(&found, "a folder of images").ok()?.into_iter().find(is_it)?;
    }
    found.is_file().then_some(found)
}

/// Returns true if a folder holds folders of classes, as `train/` does. A folder that contains images is itself a
/// class.
pub(super) fn holds_classes(path: &Path) -> Result<bool, DataError> {
    if !path.is_dir() {
        return Ok(false);
    }
    let entries = entries(path, "a folder with one sub-folder of images per class")?;
    let holds_images = entries.iter().any(|entry| entry.is_file() && ends_with(entry, &READ));
    Ok(!holds_images && entries.iter().any(|entry| entry.is_dir() && !is_hidden(entry)))
}

/// Lists a folder, in arbitrary order.
pub(in crate::data) fn entries(path: &Path, expected: &str) -> Result<Vec<PathBuf>, DataError> {
    let failed = |e| DataError::io(path, expected, e);
    std::fs::read_dir(path)
        .map_err(failed)?
        .map(|entry| Ok(entry.map_err(failed)?.path()))
        .collect()
}

/// Returns true for hidden entries, whose names begin with a dot or with `__` (such as `__MACOSX`).
fn is_hidden(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with('.') || name.starts_with("__")
}

fn is_companion(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    NAMES.contains(&name.as_str()) || ends_with(path, &COMPANIONS)
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
        // Next to `images`, and next to the folders of classes.
        let (images, notes) = listed(&["images/a.png", "b.png"]);
        assert_eq!(images, 1);
        assert!(
            notes.unwrap_err().contains("1 file that cannot be a sample of a class: cat/images")
        );
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("stray.jpg"), "").unwrap();
        std::fs::write(root.path().join("classes.txt"), "").unwrap();
        let mut census = Census::default();
        census.pass_files_next_to_classes(root.path()).unwrap();
        assert!(census.notes().unwrap_err().to_string().contains("stray.jpg"));
        // Any kind of entry, unless it is clearly no sample.
        std::fs::rename(root.path().join("stray.jpg"), root.path().join("stray.tif")).unwrap();
        let mut census = Census::default();
        census.pass_files_next_to_classes(root.path()).unwrap();
        assert!(census.notes().unwrap_err().to_string().contains("stray.tif"));
        std::fs::remove_file(root.path().join("stray.tif")).unwrap();
        std::fs::create_dir(root.path().join("__cat")).unwrap();
        let mut census = Census::default();
        census.pass_files_next_to_classes(root.path()).unwrap();
        let notes = census.notes().unwrap();
        assert!(notes[0].contains("1 file among") && notes[0].contains("classes.txt"), "{notes:?}");
        assert!(notes[1].contains("no classes: ") && notes[1].contains("__cat"), "{notes:?}");
    }

    #[test]
    fn both_unicode_forms_of_a_name_are_one_class() {
        let root = tempfile::tempdir().unwrap();
        for class in ["Zoe\u{308}", "Cafe\u{301}", "cafe"] {
            std::fs::create_dir_all(root.path().join(class)).unwrap();
        }
        let folders = sub_folders(root.path()).unwrap();
        let names: Vec<&str> = folders.iter().map(|folder| folder.name.as_str()).collect();
        assert_eq!(names, ["Café", "Zoë", "cafe"], "in one form, and sorted by it");
        assert!(folders[0].path.is_dir());
        std::fs::write(folders[0].path.join("é.png"), "").unwrap();
        let file = file_at(root.path(), Path::new("Café/e\u{301}.png")).unwrap();
        assert_eq!(file, folders[0].path.join("é.png"));
        assert_eq!(file_at(root.path(), Path::new("Café/e.png")), None);
        std::fs::create_dir(root.path().join("Café")).unwrap();
        // Of a file system with case-sensitive names.
        if folders_in(root.path()).unwrap().len() == 4 {
            let error = sub_folders(root.path()).unwrap_err().to_string();
            assert!(error.contains(r#"`Cafe\xcc\x81` and `Caf\xc3\xa9`"#), "{error}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn names_that_are_not_utf_8_are_said_to_be_so() {
        use std::os::unix::ffi::OsStrExt;
        let root = tempfile::tempdir().unwrap();
        let name = std::ffi::OsStr::from_bytes(b"caf\xE9");
        std::fs::create_dir(root.path().join(name)).unwrap();
        let error = sub_folders(root.path()).unwrap_err().to_string();
        assert!(error.contains("names are UTF-8") && error.contains(r"`caf\xe9`"), "{error}");
    }

    #[test]
    fn classes_that_differ_in_capitals_only_are_refused() {
        let root = tempfile::tempdir().unwrap();
        for class in ["cat", "Emu", "Cat"] {
            std::fs::create_dir_all(root.path().join(class)).unwrap();
        }
        // Of a file system with case-sensitive names.
        if folders_in(root.path()).unwrap().len() == 3 {
            let error = sub_folders(root.path()).unwrap_err().to_string();
            assert!(error.contains("`Cat` and `cat`"), "{error}");
        }
    }
}
