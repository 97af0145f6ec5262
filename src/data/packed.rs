//! Images in Parquet files of the Hugging Face hub, or in the Arrow files of `save_to_disk`.
//!
//! A row has an image, as bytes of a PNG or JPEG (the `bytes` of a structure, or the column itself), and a label. Files
//! of a part are those whose name, or whose folder's name, is `train`, `test` or `validation`, or begins with it
//! followed by `-` or `.`; several are read in the order of their names. A folder of `save_to_disk` lists its files
//! itself. The hub's names of classes are taken from the metadata of each file's schema.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::columnar::ColumnarFile;
use super::folder::{StoredForm, store};
use super::part_files::{self, FileForms, PartFiles};
use super::parts::{DatasetParts, Part, PartFile};
use super::store::{Encoded, Store};
use super::{DataError, Dataset, TestFraction};
use crate::quantity::Bytes;

/// Options for reading images from Parquet or Arrow files.
#[derive(Clone, Debug, PartialEq)]
pub struct PackedOptions {
    /// Form in which images leave their files.
    pub form: StoredForm,
    /// Name of the column of images.
    pub input: String,
    /// Name of the column of labels.
    pub label: String,
    /// Name of the column of owners.
    pub client: Option<String>,
    /// Test fraction to draw if there is no test part.
    pub test_fraction: Option<TestFraction>,
    /// Keep decoded images in memory up to this many bytes per split; with 0 images are not even read.
    pub budget: usize,
}

/// Limit of the encoded images of a part, in bytes; they are held until they are decoded.
const MOST: u64 = 16_000_000_000;

/// File forms that hold images.
const FORMS: FileForms = FileForms {
    endings: &["parquet"],
    arrays: false,
    expected: "train.parquet or train-*.parquet, there, in `data` or in the folder of a configuration; or a \
               folder of save_to_disk",
};

/// Reads the files of a folder.
///
/// # Errors
/// Returns an error if files or columns are missing, images are damaged, or labels do not fit together.
pub fn open(path: &Path, options: &PackedOptions) -> Result<Dataset, DataError> {
    let name = path.file_name().map_or("images".into(), |name| name.to_string_lossy().into_owned());
    let PartFiles { train, test, notes } = match path.is_file() {
        true => part_files::single(path)?,
        false => part_files::find(path, FORMS)?,
    };
    // The test part needs no owners.
    let tested = PackedOptions { client: None, ..options.clone() };
    let train = part(&opened(train)?, options)?;
    let test = test.map(|files| part(&opened(files)?, &tested)).transpose()?;
    DatasetParts { name, train, test, notes }.into_dataset(options.test_fraction)
}

fn opened(files: Vec<PathBuf>) -> Result<Vec<ColumnarFile>, DataError> {
    files.iter().map(|file| ColumnarFile::open(file)).collect()
}

fn part(tables: &[ColumnarFile], options: &PackedOptions) -> Result<Part, DataError> {
    let file = |table: &ColumnarFile| {
        let labels = table.labels(&options.label)?;
        let owners = options.client.as_deref().map(|client| table.labels(client)).transpose()?;
        Ok(PartFile { place: table.path().to_owned(), labels, owners, columns: None })
    };
    let files = tables.iter().map(file).collect::<Result<Vec<_>, DataError>>()?;
    let samples = match options.budget {
        0 => {
            let place = files.first().map_or(Path::new(""), |file| file.place.as_path());
            let unread = Encoded::Packed { bytes: Arc::new([]), table: place.into(), row: 0 };
            let count = files.iter().map(|file| file.labels.len()).sum();
            Store::Files { images: vec![unread; count], form: options.form }
        }
        budget => store(images(tables, &options.input, MOST)?, options.form, budget)?,
    };
    Ok(Part { files, samples })
}

/// Returns the encoded images of a part.
///
/// # Errors
/// Returns an error if they exceed `most` bytes.
fn images(tables: &[ColumnarFile], name: &str, most: u64) -> Result<Vec<Encoded>, DataError> {
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

#[cfg(test)]
mod tests;
