//! Images in Parquet files, as data sets lie on the Hugging Face hub.
//!
//! A row has an image, as bytes of a PNG or JPEG (the `bytes` of a structure, or the column itself), and a label. Files
//! are those whose name, or whose folder's, is `train`, and `test` or `validation`, or goes on behind it with `-` or `.`;
//! several are read one behind the other in the order of their names. The hub's names of classes are taken from beside
//! the schema.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::columns::Table;
use super::folder::{StoredSize, store};
use super::labels::Labels;
use super::parquet_files::files_of;
use super::parts::{Part, Parts};
use super::store::{Encoded, Store};
use super::{DataError, Dataset, TestShare};
use crate::quantity::Bytes;

/// How to read images from Parquet files.
#[derive(Clone, Debug, PartialEq)]
pub struct PackedOptions {
    /// What every image is resized to, once.
    pub size: StoredSize,
    /// The column of images.
    pub input: String,
    /// The column of labels.
    pub label: String,
    /// The column of owners.
    pub client: Option<String>,
    /// What is tested where there is no test part.
    pub test_share: Option<TestShare>,
    /// Keep decoded images in memory up to this many bytes per split; with 0 images are not even read.
    pub budget: usize,
}

/// Images as they lie in the files of a part are held until they are decoded: at most so many bytes.
const MOST: u64 = 16_000_000_000;

/// Words that the files of the test part begin with, the first that is there.
const TEST: [&str; 5] = ["test", "validation", "valid", "val", "dev"];

/// Reads the files of a folder.
///
/// # Errors
/// Files and columns that are missing, damaged images, labels that do not fit.
pub fn open(path: &Path, options: &PackedOptions) -> Result<Dataset, DataError> {
    let name = path.file_name().map_or("images".into(), |name| name.to_string_lossy().into_owned());
    let train_files = match path.is_file() {
        true => vec![path.to_owned()],
        false => files_of(path, "train")?,
    };
    if train_files.is_empty() {
        return Err(DataError::Missing {
            path: path.join("train*.parquet"),
            expected: "train.parquet or train-*.parquet, there or in `data`".to_owned(),
            advice: "Check data.path; a single file is named itself, with data.test_share = 0.2"
                .to_owned(),
        });
    }
    let mut notes = Vec::new();
    let mut test: Option<(&str, Vec<PathBuf>)> = None;
    for word in TEST.into_iter().filter(|_| path.is_dir()) {
        let files = files_of(path, word)?;
        if files.is_empty() {
            continue;
        }
        match &test {
            Some((measured, _)) => notes.push(format!(
                "accuracies are measured on {measured}*.parquet; {word}*.parquet is not used"
            )),
            None => {
                if word != TEST[0] {
                    notes.push(format!(
                        "accuracies are measured on {word}*.parquet: there is no test*.parquet"
                    ));
                }
                test = Some((word, files));
            }
        }
    }
    let train_files = opened(train_files)?;
    let class_names = train_files.first().and_then(|table| names(table, &options.label));
    let train = part(&train_files, options)?;
    let test = test.map(|(_, files)| part(&opened(files)?, options)).transpose()?;
    Parts { name, class_names, train, test, notes }.into_dataset(options.test_share)
}

fn opened(files: Vec<PathBuf>) -> Result<Vec<Table>, DataError> {
    whole(&files)?;
    files.iter().map(|file| Table::open(file)).collect()
}

/// Files that number themselves (`train-00003-of-00014.parquet`) say how many there are: a download that was cut short has
/// fewer.
fn whole(files: &[PathBuf]) -> Result<(), DataError> {
    let of = |file: &Path| -> Option<usize> {
        let name = file.file_name()?.to_string_lossy().into_owned();
        let (_, rest) = name.split_once("-of-")?;
        rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
    };
    let Some(first) = files.first() else { return Ok(()) };
    let Some(all) = of(first) else { return Ok(()) };
    let there = files.iter().filter(|file| of(file) == Some(all)).count();
    if there == all {
        return Ok(());
    }
    let found = format!("{there}: fetch the others, too");
    Err(DataError::corrupt(first, format!("{all} files of its kind"), found))
}

fn part(tables: &[Table], options: &PackedOptions) -> Result<Part, DataError> {
    let labels = joined(tables, &options.label)?;
    let owners = options.client.as_deref().map(|client| joined(tables, client)).transpose()?;
    let place = tables.first().map(|table| table.path().to_owned()).unwrap_or_default();
    let samples = match options.budget {
        0 => {
            let table = Arc::from(place.as_path());
            let unread = Encoded::Packed { bytes: Arc::new([]), table, row: 0 };
            Store::Files { images: vec![unread; labels.len()], size: options.size }
        }
        budget => store(images(tables, &options.input, MOST)?, options.size, budget)?,
    };
    Ok(Part { place, samples, labels, owners })
}

/// A column of several files, one behind the other.
fn joined(tables: &[Table], name: &str) -> Result<Labels, DataError> {
    let (mut numbers, mut words, mut place) = (Vec::new(), Vec::new(), None);
    for table in tables {
        match table.labels(name)? {
            Labels::Numbers(found) => numbers.extend(found),
            Labels::Words(found) => words.extend(found),
        }
        if !numbers.is_empty() && !words.is_empty() {
            place = Some(table.path());
        }
    }
    match place {
        Some(place) => {
            let expected = format!("numbers in the column `{name}`, as in the files before");
            Err(DataError::corrupt(place, expected, "texts"))
        }
        None if words.is_empty() => Ok(Labels::Numbers(numbers)),
        None => Ok(Labels::Words(words)),
    }
}

/// The images of a part, which are at most so many bytes as they lie there.
fn images(tables: &[Table], name: &str, most: u64) -> Result<Vec<Encoded>, DataError> {
    let (mut images, mut left) = (Vec::new(), most);
    for table in tables {
        let path: Arc<Path> = table.path().into();
        let rows = table.bytes(name, "bytes", left)?.ok_or_else(|| {
            DataError::unfit(
                format!("{}: the images of this part are more than {}", path.display(), Bytes(most)),
                "write them as files into train/CLASS/ and test/CLASS/, which are read one by one: data.source = \"folder\"",
            )
        })?;
        left -= rows.iter().map(|row| row.len() as u64).sum::<u64>();
        images.extend((0..).zip(rows).map(|(row, bytes)| Encoded::Packed {
            bytes: bytes.into(),
            table: Arc::clone(&path),
            row,
        }));
    }
    Ok(images)
}

/// The names of classes that the hub writes beside the schema.
fn names(table: &Table, label: &str) -> Option<Vec<String>> {
    let note: Value = serde_json::from_str(table.note("huggingface")?).ok()?;
    let names = note.get("info")?.get("features")?.get(label)?.get("names")?.as_array()?;
    names.iter().map(|name| name.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests;
