//! Rows of numbers with a label each, such as features that a network gave elsewhere.
//!
//! | file | rows | labels, and whose a row is |
//! |---|---|---|
//! | `.csv` | every other column | columns by name |
//! | `.parquet` | a column of lists, or every other column | columns by name |
//! | `.npz`, a folder of `.npy` | an array `(rows, width)` | arrays by name |
//!
//! A folder holds a file, or a folder of arrays, per part: `train.csv` and `test.csv` (or `val.csv`), `train/features.npy`.
//! One file alone is undivided, but for a `.npz` with the arrays of both parts (`features_train` or `train_features`).
//! Rows are not transformed: with `backbone.kind = "pixels"` they are the features.

mod arrays;
mod csv_file;
mod npy;
mod parquet_file;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use super::labels::Labels;
use super::parts::{Part, Parts};
use super::store::Store;
use super::{DataError, Dataset, TestShare};

/// How to read a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableNames {
    /// Numbers in a row.
    pub width: usize,
    /// The column or array of rows.
    pub input: String,
    /// The column or array of labels.
    pub label: String,
    /// The column or array of owners.
    pub client: Option<String>,
}

/// What a file holds.
struct Rows {
    values: Vec<f32>,
    labels: Labels,
    owners: Option<Labels>,
}

/// The parts of a folder and the words that stand for each, the first that is there.
const TEST: [&str; 4] = ["test", "val", "valid", "validation"];

/// Reads a file or a folder of tables.
///
/// # Errors
/// Files and columns that are missing, rows of another width, values that are no finite numbers, labels that do not fit.
pub fn open(
    path: &Path,
    names: &TableNames,
    share: Option<TestShare>,
) -> Result<Dataset, DataError> {
    let name = path.file_stem().map_or("table".into(), |name| name.to_string_lossy().into_owned());
    let both = path.extension().is_some_and(|ending| ending == "npz");
    let (train, test) = match () {
        () if both => match arrays::both(path, names)? {
            Some((train, test)) => (part(path, train, names)?, Some(part(path, test, names)?)),
            None => (part_of(path, names)?, None),
        },
        () if path.is_dir() => {
            let train = find(path, "train")?;
            let train = train.ok_or_else(|| lacking(path))?;
            let test = TEST.iter().find_map(|word| find(path, word).transpose()).transpose()?;
            (part_of(&train, names)?, test.map(|test| part_of(&test, names)).transpose()?)
        }
        () => (part_of(path, names)?, None),
    };
    let notes = match &test {
        Some(test)
            if !test.place.file_name().is_some_and(|n| n.to_string_lossy().starts_with("test"))
                && test.place != train.place =>
        {
            vec![format!(
                "accuracies are measured on {}: there is no test part",
                test.place.display()
            )]
        }
        _ => Vec::new(),
    };
    Parts { name, class_names: None, train, test, notes }.into_dataset(share)
}

/// The table of a part in a folder.
fn find(folder: &Path, word: &str) -> Result<Option<PathBuf>, DataError> {
    let arrays = folder.join(word);
    let files =
        ["csv", "parquet", "npz"].iter().map(|ending| folder.join(format!("{word}.{ending}")));
    let mut found = files.filter(|file| file.is_file()).chain(arrays.is_dir().then_some(arrays));
    let Some(first) = found.next() else { return Ok(None) };
    match found.next() {
        None => Ok(Some(first)),
        Some(other) => Err(DataError::unfit(
            format!("{} and {} are both there", first.display(), other.display()),
            "take one of them away",
        )),
    }
}

fn lacking(folder: &Path) -> DataError {
    DataError::Missing {
        path: folder.join("train.csv"),
        expected: "the training part as train.csv, train.parquet, train.npz, or arrays (.npy) in a folder train"
            .to_owned(),
        advice: "Name a folder with such files in data.path, or a single file with data.test_share = 0.2".to_owned(),
    }
}

fn part_of(path: &Path, names: &TableNames) -> Result<Part, DataError> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    let rows = match ending.as_deref() {
        _ if path.is_dir() => arrays::folder(path, names),
        Some("csv") => csv_file::read(path, names),
        Some("parquet") => parquet_file::read(path, names),
        Some("npz") => arrays::packed(path, names, &|name| name.to_owned()),
        Some("npy") => Err(DataError::unfit(
            format!("{}: one array has no labels", path.display()),
            "put it into a folder with an array of labels and name that: data.path = \"features\" with \
             features/train/features.npy and features/train/label.npy",
        )),
        _ if !path.exists() => {
            let error = std::io::ErrorKind::NotFound.into();
            Err(DataError::io(path, "a table (.csv, .parquet, .npz) or a folder of them", error))
        }
        _ => Err(DataError::unfit(
            format!("{}: a table of unknown form", path.display()),
            "give a file that ends with .csv, .parquet or .npz, or a folder of .npy",
        )),
    }?;
    part(path, rows, names)
}

/// Checks what a file holds.
fn part(path: &Path, rows: Rows, names: &TableNames) -> Result<Part, DataError> {
    let Rows { values, labels, owners } = rows;
    let (width, count) = (names.width, labels.len());
    if values.len() != count * width {
        let found = format!("{} rows and {count} labels", values.len() / width);
        return Err(DataError::corrupt(path, "a label for every row", found));
    }
    if let Some(owners) = owners.as_ref().filter(|owners| owners.len() != count) {
        let found = format!("{} for {count} rows", owners.len());
        return Err(DataError::corrupt(path, "whose every row is", found));
    }
    if let Some(at) = values.iter().position(|value| !value.is_finite()) {
        let found = format!("{} in row {}", values[at], at / width);
        return Err(DataError::Corrupt {
            path: path.to_owned(),
            expected: "finite numbers".to_owned(),
            found,
            advice: "Fill or remove such rows before".to_owned(),
        });
    }
    Ok(Part { place: path.to_owned(), samples: Store::Rows { values, width }, labels, owners })
}

/// Rows of another width than the scenario says.
fn wide(path: &Path, names: &TableNames, found: usize) -> DataError {
    DataError::Corrupt {
        path: path.to_owned(),
        expected: format!("rows of {} numbers", names.width),
        found: format!("rows of {found}"),
        advice: format!("Set data.width = {found}"),
    }
}
