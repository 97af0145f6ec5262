//! Rows of numbers with a label each, such as features that a network gave elsewhere.
//!
//! | file | rows | labels, and whose a row is |
//! |---|---|---|
//! | `.csv` | every other column | columns by name |
//! | `.parquet`, `.arrow` | a column of lists, or every other column | columns by name |
//! | `.npz`, a folder of `.npy` | an array `(rows, width)` | arrays by name |
//!
//! A folder holds one or more files, or a folder of arrays, per part: `train.csv` and `test.csv` (or `val.csv`),
//! `train-00000-of-00002.parquet`, `train/features.npy`; or `save_to_disk` wrote it (`.arrow`). A single file is
//! undivided, unless it is a `.npz` with the arrays of both parts (`features_train` or `train_features`). Rows are not
//! transformed: with `backbone.kind = "pixels"` they are the features.

mod arrays;
mod columnar_file;
mod csv_file;
mod header;
mod rows;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::columnar::is_arrow;
use super::foreign::foreign;
use super::numpy::NamedArrays;
use super::part_files::{FileForms, PartFiles, PartPlaces, has_ending};
use super::parts::{DatasetParts, Part, PartFile, Reference};
use super::store::Store;
use super::{Cause, DataError, Dataset, TestFraction};
pub use rows::TableNames;
use rows::{FileRows, PartRole, wide};

/// File forms that hold tables.
const FORMS: FileForms = FileForms {
    endings: &["csv", "parquet", "npz"],
    arrays: true,
    expected: "the training part as train.csv, train.parquet, train.npz, numbered ones such as \
               train-00000-of-00002.parquet, arrays (.npy) in a folder train, or a folder of \
               save_to_disk",
};

/// Reads a file or a folder of tables.
///
/// # Errors
/// Returns an error if files or columns are missing, rows have another width, values are not finite numbers, or labels
/// and columns do not fit together.
pub fn open(
    path: &Path,
    names: &TableNames,
    share: Option<TestFraction>,
) -> Result<Dataset, DataError> {
    let name = path.file_stem().map_or("table".into(), |name| name.to_string_lossy().into_owned());
    let mut notes = Vec::new();
    let (train, test) = match PartPlaces::at(path, &names.input, FORMS)? {
        PartPlaces::Packed { train, test } => {
            let part = |of: &NamedArrays, role| {
                let rows = arrays::rows(of, names, role)?;
                part(vec![(path.to_owned(), rows)], names, &mut Vec::new())
            };
            (part(&train, PartRole::Train)?, Some(part(&test, PartRole::Test)?))
        }
        PartPlaces::Files(PartFiles { train, test, notes: found }) => {
            notes.extend(found);
            let mut reference = None;
            let mut part_of = |files, role| {
                part(read_all(files, role, names, &mut reference)?, names, &mut notes)
            };
            let train = part_of(train, PartRole::Train)?;
            (train, test.map(|test| part_of(test, PartRole::Test)).transpose()?)
        }
    };
    DatasetParts { name, train, test, notes }.into_dataset(share)
}

/// Reads the files of a part.
///
/// `reference` is set to the columns of the first file that names them, if it is still empty.
fn read_all(
    files: Vec<PathBuf>,
    role: PartRole,
    names: &TableNames,
    reference: &mut Option<Reference>,
) -> Result<Vec<(PathBuf, FileRows)>, DataError> {
    let mut found = Vec::new();
    for place in files {
        let rows = read(&place, names, (role, reference.as_ref()))?;
        if let (None, Some(columns)) = (&reference, &rows.columns) {
            *reference = Some(Reference { place: place.clone(), columns: columns.clone() });
        }
        found.push((place, rows));
    }
    Ok(found)
}

fn read(
    path: &Path,
    names: &TableNames,
    which: (PartRole, Option<&Reference>),
) -> Result<FileRows, DataError> {
    let role = which.0;
    match () {
        () if path.is_dir() => arrays::rows(&NamedArrays::folder(path), names, role),
        () if !path.exists() => {
            let error = std::io::ErrorKind::NotFound.into();
            Err(DataError::io(
                path,
                "a table (.csv, .parquet, .arrow, .npz) or a folder of them",
                error,
            ))
        }
        () if has_ending(path, "csv") => match foreign(path) {
            Some(error) => Err(error),
            None => csv_file::read(path, names, which),
        },
        () if has_ending(path, "parquet") || is_arrow(path) => {
            columnar_file::read(path, names, which)
        }
        () if has_ending(path, "npz") => arrays::rows(&NamedArrays::packed(path), names, role),
        () if has_ending(path, "npy") => Err(DataError::unfit(
            format!("{}: one array has no labels", path.display()),
            "put it into a folder with an array of labels and name that: data.path = \"features\" with \
             features/train/features.npy and features/train/label.npy",
        )),
        () => Err(foreign(path).unwrap_or_else(|| {
            DataError::unfit(
                format!("{}: a table of unknown form", path.display()),
                "give a file that ends with .csv, .parquet, .arrow or .npz, or a folder of .npy",
            )
        })),
    }
}

/// Checks the content of the files and concatenates their rows.
fn part(
    files: Vec<(PathBuf, FileRows)>,
    names: &TableNames,
    notes: &mut Vec<String>,
) -> Result<Part, DataError> {
    let width = names.width;
    let (mut found, mut values) = (Vec::new(), Vec::new());
    let mut known = BTreeSet::new();
    for (place, rows) in files {
        check(&place, &rows, width)?;
        let FileRows { values: of_file, labels, owners, columns, notes: said } = rows;
        // A note that several files share is given once.
        let new = said.into_iter().filter(|said| known.insert(said.clone()));
        notes.extend(new.map(|said| format!("{}: {said}", place.display())));
        // Rows of a single file are moved, not copied.
        match values.is_empty() {
            true => values = of_file,
            false => values.extend(of_file),
        }
        found.push(PartFile { place, labels, owners, columns });
    }
    Ok(Part { files: found, samples: Store::Rows { values, width } })
}

/// Checks that a file has a label and an owner for every row, and only finite numbers.
fn check(path: &Path, rows: &FileRows, width: usize) -> Result<(), DataError> {
    let FileRows { values, labels, owners, .. } = rows;
    let count = labels.len();
    if values.len() != count * width {
        let found = format!("{} rows and {count} labels", values.len() / width);
        return Err(DataError::because(Cause::OtherContent, path, "a label for every row", found));
    }
    if let Some(owners) = owners.as_ref().filter(|owners| owners.len() != count) {
        let found = format!("{} for {count} rows", owners.len());
        return Err(DataError::because(Cause::OtherContent, path, "whose every row is", found));
    }
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => Err(DataError::advised(
            path,
            "finite numbers",
            format!("{} in row {}", values[at], at / width),
            "Fill or remove such rows before",
        )),
    }
}
