//! Files that make up a part of a data set, found in a folder or in a subfolder of a repository.

mod numbered;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use numbered::{numbered, several, whole};

use super::DataError;
use super::folder::entries;
use super::numpy::NamedArrays;
use super::saved_folder::{SavedFolder, check_whole_part};

/// File forms that a source reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileForms {
    /// File name extensions.
    pub endings: &'static [&'static str],
    /// True if a folder of arrays (`.npy`) counts as a file.
    pub arrays: bool,
    /// Expected form of the training part, for errors.
    pub expected: &'static str,
}

/// Files of the training and the test part.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PartFiles {
    pub train: Vec<PathBuf>,
    /// Test files; `None` if there are none.
    pub test: Option<Vec<PathBuf>>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Places of the training and the test part.
#[derive(Debug)]
pub(super) enum PartPlaces {
    /// Arrays of both parts in one `.npz`.
    Packed {
        train: NamedArrays,
        test: NamedArrays,
    },
    Files(PartFiles),
}

impl PartPlaces {
    /// Finds both parts at a path: a `.npz` with an array of inputs for each, a folder, or a single file, which is a
    /// training part.
    ///
    /// # Errors
    /// Fails as [`find`] and [`single`] do, or if a `.npz` cannot be read.
    pub fn at(path: &Path, input: &str, forms: FileForms) -> Result<PartPlaces, DataError> {
        let packed = has_ending(path, "npz").then(|| NamedArrays::both(path, input)).transpose()?;
        Ok(match packed.flatten() {
            Some((train, test)) => PartPlaces::Packed { train, test },
            None if path.is_dir() => PartPlaces::Files(find(path, forms)?),
            None => PartPlaces::Files(single(path)?),
        })
    }
}

/// Expected form of a folder that cannot be listed.
const TABLES: &str = "a folder of tables";

/// Names of a test part, in order of preference.
const TEST: [&str; 5] = ["test", "validation", "valid", "val", "dev"];

/// Subfolders of a repository that may hold its files.
const WITHIN: [&str; 2] = ["data", "default"];

/// Finds the files of both parts in a folder, or in its folder `data` or `default`. If there is no training part, the
/// only subfolder with one is used (a configuration on the hub). In a folder that `save_to_disk` wrote, the files that
/// it lists are used.
///
/// # Errors
/// Returns an error if there is no training part or several, if the files of a part are in two places or have two
/// forms, or if files of a numbered set are missing.
pub(super) fn find(folder: &Path, forms: FileForms) -> Result<PartFiles, DataError> {
    let mut train = files_of(folder, "train", forms)?;
    if let Some(saved) = SavedFolder::open(folder)? {
        return match train.first() {
            Some(file) => Err(both(&saved.list(), file)),
            None => PartFiles::of(folder, saved.train()?, |word| saved.part(word)),
        };
    }
    let mut root = folder.to_owned();
    if train.is_empty() && folder.is_dir() {
        root = configuration(folder, forms)?;
        train = files_of(&root, "train", forms)?;
    }
    if train.is_empty() {
        return Err(lacking(folder, forms));
    }
    let mut found = PartFiles::of(&root, train, |word| files_of(&root, word, forms))?;
    if root != folder {
        let note = format!("read from {}: no other folder has a training part", root.display());
        found.notes.insert(0, note);
    }
    Ok(found)
}

impl PartFiles {
    /// Returns the given training files, and those of the first test part that exists.
    fn of(
        root: &Path,
        train: Vec<PathBuf>,
        files_of: impl Fn(&str) -> Result<Vec<PathBuf>, DataError>,
    ) -> Result<PartFiles, DataError> {
        let mut notes = Vec::new();
        let mut test: Option<(&str, Vec<PathBuf>)> = None;
        for word in TEST {
            let files = files_of(word)?;
            let Some(file) = files.first() else { continue };
            let shown = file.strip_prefix(root).unwrap_or(file).display().to_string();
            match &test {
                Some((measured, _)) => {
                    notes.push(format!(
                        "accuracies are measured on {measured}; {shown} is not used"
                    ));
                }
                None if word == TEST[0] => test = Some((word, files)),
                None => {
                    notes
                        .push(format!("accuracies are measured on {shown}: there is no test part"));
                    test = Some((word, files));
                }
            }
        }
        let test = test.map(|(_, files)| files);
        for files in [Some(&train), test.as_ref()].into_iter().flatten() {
            whole(files)?;
            notes.extend(several(files));
        }
        Ok(PartFiles { train, test, notes })
    }
}

/// Returns the given file as an undivided part.
///
/// # Errors
/// Returns an error if it belongs to a saved part that selects some of its rows.
pub(super) fn single(file: &Path) -> Result<PartFiles, DataError> {
    check_whole_part(file)?;
    let note = numbered(file).filter(|(_, count)| *count > 1).map(|(_, count)| {
        format!("{} is one of {count} files, the others are not read", file.display())
    });
    Ok(PartFiles { train: vec![file.to_owned()], test: None, notes: note.into_iter().collect() })
}

/// Returns the only subfolder that has a training part.
fn configuration(folder: &Path, forms: FileForms) -> Result<PathBuf, DataError> {
    let mut found = Vec::new();
    for place in [folder.to_owned(), folder.join(WITHIN[0])] {
        if !place.is_dir() {
            continue;
        }
        for path in entries(&place, TABLES)? {
            let is_hidden = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.'));
            if path.is_dir() && !is_hidden && !files_of(&path, "train", forms)?.is_empty() {
                found.push(path);
            }
        }
    }
    found.sort_unstable();
    match found.as_slice() {
        [] => Err(lacking(folder, forms)),
        [only] => Ok(only.clone()),
        [first, ..] => {
            let name =
                |path: &PathBuf| path.strip_prefix(folder).unwrap_or(path).display().to_string();
            let names: Vec<String> = found.iter().map(name).collect();
            Err(DataError::unfit(
                format!(
                    "{}: several folders have a training part: {}",
                    folder.display(),
                    names.join(", ")
                ),
                format!(
                    "name the folder of one: data.path = \"{}\"; in a name of the hub it stands behind a colon, \
                     hf:datasets/OWNER/NAME:{}",
                    first.display(),
                    names[0]
                ),
            ))
        }
    }
}

fn lacking(folder: &Path, forms: FileForms) -> DataError {
    let first = forms.endings.first().copied().unwrap_or_default();
    DataError::Missing {
        path: folder.join(format!("train.{first}")),
        expected: forms.expected.to_owned(),
        advice: "Name a folder with such files in data.path, or a single file with data.test_fraction = 0.2"
            .to_owned(),
    }
}

/// Returns the sorted files of the part `word`.
///
/// Their name, or that of their folder, is `word` or begins with it followed by `-` or `.` (`train_extra-0.parquet`
/// does not belong to `train`).
///
/// # Errors
/// Returns an error if a folder cannot be read, or if such files are in two places or have two forms, and so are
/// probably two copies of the same samples.
fn files_of(folder: &Path, word: &str, forms: FileForms) -> Result<Vec<PathBuf>, DataError> {
    let is_named = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let rest = name.strip_prefix(word);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']))
    };
    let mut groups: BTreeMap<(usize, bool, &str), Vec<PathBuf>> = BTreeMap::new();
    let within = WITHIN.iter().map(|name| folder.join(name));
    for (number, place) in [folder.to_owned()].into_iter().chain(within).enumerate() {
        if !place.is_dir() {
            continue;
        }
        for path in entries(&place, TABLES)?.into_iter().filter(|path| is_named(path)) {
            if !path.is_dir() {
                if let Some(form) = form(&path, forms) {
                    groups.entry((number, false, form)).or_default().push(path);
                }
                continue;
            }
            let inner = entries(&path, TABLES)?;
            if forms.arrays && inner.iter().any(|file| has_ending(file, "npy")) {
                groups.entry((number, true, "npy")).or_default().push(path);
                continue;
            }
            for file in inner {
                if let Some(form) = form(&file, forms) {
                    groups.entry((number, true, form)).or_default().push(file);
                }
            }
        }
    }
    groups.values_mut().for_each(|found| found.sort_unstable());
    let mut found = groups.into_values();
    let (first, other) = (found.next(), found.next());
    match (first, other) {
        (None, _) => Ok(Vec::new()),
        (Some(first), None) => alone(first, word),
        (Some(first), Some(other)) => Err(both(&first[0], &other[0])),
    }
}

/// Returns the files, unless one has the part's exact name and others continue it.
///
/// # Errors
/// Returns an error in that case: the others are probably an older or another copy.
fn alone(files: Vec<PathBuf>, word: &str) -> Result<Vec<PathBuf>, DataError> {
    let whole = files.iter().find(|file| file.file_stem().is_some_and(|stem| stem == word));
    match whole.and_then(|whole| Some((whole, files.iter().find(|file| *file != whole)?))) {
        Some((whole, other)) => Err(both(whole, other)),
        None => Ok(files),
    }
}

fn both(one: &Path, other: &Path) -> DataError {
    DataError::unfit(
        format!("{} and {} are both there", one.display(), other.display()),
        "take one of the two copies away, or name the folder of one in data.path",
    )
}

fn form(path: &Path, forms: FileForms) -> Option<&'static str> {
    forms.endings.iter().copied().find(|ending| has_ending(path, ending))
}

/// Returns true if a file name has this extension, in any capitalization.
pub(super) fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMS: FileForms =
        FileForms { endings: &["csv", "parquet"], arrays: true, expected: "train.csv" };

    fn folder(names: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for name in names {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        root
    }

    fn found(names: &[&str]) -> Result<PartFiles, String> {
        let root = folder(names);
        let shown = |text: String| text.replace(&root.path().display().to_string(), "[root]");
        let inner = |files: Vec<PathBuf>| -> Vec<PathBuf> {
            files.iter().map(|f| f.strip_prefix(root.path()).unwrap().to_owned()).collect()
        };
        let found = find(root.path(), FORMS).map_err(|error| shown(error.to_string()))?;
        Ok(PartFiles {
            train: inner(found.train),
            test: found.test.map(inner),
            notes: found.notes.into_iter().map(shown).collect(),
        })
    }

    #[test]
    fn parts_are_found_by_their_names_in_every_form() {
        let made = found(&["train.csv", "test.csv", "trained.csv"]).unwrap();
        assert_eq!(
            (made.train, made.test),
            (vec!["train.csv".into()], Some(vec!["test.csv".into()]))
        );
        assert_eq!(made.notes, [""; 0]);
        let made =
            found(&["data/train-1-of-2.parquet", "data/train-0-of-2.parquet", "data/val.csv"])
                .unwrap();
        let train: Vec<PathBuf> =
            vec!["data/train-0-of-2.parquet".into(), "data/train-1-of-2.parquet".into()];
        assert_eq!(made.train, train);
        assert_eq!(made.notes, ["accuracies are measured on data/val.csv: there is no test part"]);
        let made = found(&["train/x.npy", "train/label.npy", "test/0.parquet"]).unwrap();
        assert_eq!(
            (made.train, made.test),
            (vec!["train".into()], Some(vec!["test/0.parquet".into()]))
        );
        let made = found(&["train-b.csv", "train-a.csv", "test.csv"]).unwrap();
        assert_eq!(made.train.len(), 2);
        assert!(made.notes[0].contains("2 files are one part"), "{:?}", made.notes);
    }

    #[test]
    fn the_only_folder_of_a_configuration_is_read_and_named() {
        let made = found(&[
            "README.md",
            ".git/train.csv",
            "mnist/train.csv",
            "mnist/test.csv",
            "docs/a.txt",
        ])
        .unwrap();
        assert_eq!(made.train, [PathBuf::from("mnist/train.csv")]);
        assert_eq!(made.test, Some(vec!["mnist/test.csv".into()]));
        assert!(made.notes[0].contains("read from [root]/mnist"), "{:?}", made.notes);
        let error = found(&["cola/train.csv", "data/mnli/train.csv"]).unwrap_err();
        assert!(
            error.contains("cola, data/mnli; name the folder of one: data.path = \"[root]/cola\""),
            "{error}"
        );
        assert!(error.contains("hf:datasets/OWNER/NAME:cola"), "{error}");
        assert!(found(&["a.txt"]).unwrap_err().contains("[root]/train.csv: not found"));
    }

    #[test]
    fn copies_and_other_forms_of_a_part_are_refused() {
        for names in [
            &["train.csv", "train.parquet"][..],
            &["train.csv", "train-old.csv"],
            &["train.csv", "data/train.csv"],
            &["train/0.csv", "train/label.npy", "train.csv"],
        ] {
            let error = found(names).unwrap_err();
            assert!(error.contains("are both there"), "{names:?}: {error}");
        }
    }

    #[test]
    fn folders_of_save_to_disk_are_not_read_next_to_a_copy() {
        let state = "state.json";
        let error = found(&["dataset_info.json", state, "train.parquet"]).unwrap_err();
        assert!(error.contains("[root]/state.json and [root]/train.parquet are both"), "{error}");
    }
}
