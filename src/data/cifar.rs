//! CIFAR-10 and CIFAR-100 in the official *binary version*, as a folder or as the `.tar.gz` itself.
//!
//! A record is one label byte (CIFAR-10) or a coarse and a fine one (CIFAR-100; the fine one is the class), then
//! 1,024 red, 1,024 green and 1,024 blue bytes, row by row. Any number of whole records is accepted, so subsets in the
//! same layout work too. Source: Krizhevsky, "Learning Multiple Layers of Features from
//! Tiny Images", 2009, <https://www.cs.toronto.edu/~kriz/cifar.html>.
//!
//! ```no_run
//! use fedcast::data::{Cifar, cifar};
//! let data = cifar::open(Cifar::Hundred, "data/cifar-100-binary.tar.gz".as_ref())?;
//! assert_eq!(data.class_names[0], "apple");
//! # Ok::<(), fedcast::data::DataError>(())
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{DataError, Dataset, Split, archive};
use crate::files::{self, Kind};

/// Which of the two sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cifar {
    /// 10 classes, `data_batch_1.bin` ... `data_batch_5.bin` and `test_batch.bin`.
    Ten,
    /// 100 fine classes, `train.bin` and `test.bin`.
    Hundred,
}

const PIXELS: usize = 3 * 32 * 32;
/// Five times the largest file of either set.
const MEMBER: u64 = 800_000_000;
const SHAPE: [usize; 3] = [3, 32, 32];

/// What tells the two sets apart.
struct Layout {
    name: &'static str,
    folder: &'static str,
    train: &'static [&'static str],
    test: &'static [&'static str],
    names: &'static str,
    /// The number of values of each label byte; the last one is the class.
    labels: &'static [usize],
}

const TEN: Layout = Layout {
    name: "cifar-10",
    folder: "cifar-10-batches-bin",
    train: &[
        "data_batch_1.bin",
        "data_batch_2.bin",
        "data_batch_3.bin",
        "data_batch_4.bin",
        "data_batch_5.bin",
    ],
    test: &["test_batch.bin"],
    names: "batches.meta.txt",
    labels: &[10],
};

const HUNDRED: Layout = Layout {
    name: "cifar-100",
    folder: "cifar-100-binary",
    train: &["train.bin"],
    test: &["test.bin"],
    names: "fine_label_names.txt",
    labels: &[20, 100],
};

impl Layout {
    fn files(&self) -> impl Iterator<Item = &'static str> {
        self.train.iter().chain(self.test).copied().chain([self.names])
    }

    fn classes(&self) -> usize {
        self.labels[self.labels.len() - 1]
    }

    fn wanted(&self) -> String {
        let list: Vec<&str> = self.files().collect();
        format!("the binary version of {} ({})", self.name, list.join(", "))
    }
}

/// Reads the whole set into memory from a folder that holds the files (or the official sub-folder that does),
/// or from a `.tar.gz` with them anywhere inside.
///
/// # Errors
/// Anything missing, cut short or out of range, with the file it was found in.
pub fn open(which: Cifar, path: &Path) -> Result<Dataset, DataError> {
    let layout = match which {
        Cifar::Ten => &TEN,
        Cifar::Hundred => &HUNDRED,
    };
    let meta = std::fs::metadata(path).map_err(|e| DataError::io(path, &layout.wanted(), e))?;
    let files =
        if meta.is_dir() { from_folder(path, layout)? } else { from_archive(path, layout)? };
    let class_names = names(&files, layout)?;
    Ok(Dataset {
        name: layout.name.to_owned(),
        class_names,
        train: Arc::new(split(&files, layout.train, layout)?),
        test: Arc::new(split(&files, layout.test, layout)?),
    })
}

/// File name -> where it was found (for messages) and its bytes.
type Files = BTreeMap<&'static str, (PathBuf, Vec<u8>)>;

fn from_folder(path: &Path, layout: &Layout) -> Result<Files, DataError> {
    let inner = path.join(layout.folder);
    let folder = if inner.is_dir() { inner } else { path.to_owned() };
    layout
        .files()
        .map(|name| {
            let file = folder.join(name);
            let bytes = files::read(&file, Kind::Data).map_err(|e| {
                DataError::io(&file, &format!("one of the files of {}", layout.wanted()), e)
            })?;
            Ok((name, (file, bytes)))
        })
        .collect()
}

fn from_archive(path: &Path, layout: &Layout) -> Result<Files, DataError> {
    let file =
        files::open(path, Kind::Data).map_err(|e| DataError::io(path, &layout.wanted(), e))?;
    let stream = flate2::read::GzDecoder::new(std::io::BufReader::new(file));
    let mut last = "its beginning".to_owned();
    let mut files = Files::new();
    let done = archive::members(stream, |member, entry| {
        last = member.display().to_string();
        if let Some(name) = layout.files().find(|name| member.file_name() == Some(name.as_ref())) {
            files.insert(name, (path.join(member), archive::bounded(entry, MEMBER)?));
        }
        Ok(())
    });
    let done = done.and_then(|rest| {
        last = "its end".to_owned();
        archive::finish(rest)
    });
    if let Err(error) = done {
        let found = match error.kind() {
            std::io::ErrorKind::UnexpectedEof => format!("an archive that breaks off at {last}"),
            _ => format!("damage at {last}: {error}"),
        };
        return Err(DataError::corrupt(
            path,
            format!("a whole .tar.gz of {}", layout.wanted()),
            found,
        ));
    }
    for name in layout.files() {
        if !files.contains_key(name) {
            return Err(DataError::Missing {
                path: path.join(name),
                expected: layout.wanted(),
                advice: "Take the \"binary version\" of the data set, not the Python or Matlab one"
                    .to_owned(),
            });
        }
    }
    Ok(files)
}

fn names(files: &Files, layout: &Layout) -> Result<Vec<String>, DataError> {
    let (path, bytes) = &files[layout.names];
    let text = String::from_utf8_lossy(bytes);
    let names: Vec<String> =
        text.lines().map(str::trim).filter(|l| !l.is_empty()).map(str::to_owned).collect();
    if names.len() != layout.classes() {
        return Err(DataError::corrupt(
            path,
            format!("{} class names, one per line", layout.classes()),
            format!("{} lines", names.len()),
        ));
    }
    Ok(names)
}

fn split(files: &Files, parts: &[&str], layout: &Layout) -> Result<Split, DataError> {
    let record = layout.labels.len() + PIXELS;
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for part in parts {
        let (path, bytes) = &files[part];
        if bytes.is_empty() || bytes.len() % record != 0 {
            return Err(DataError::corrupt(
                path,
                format!("one or more whole records of {record} bytes"),
                format!(
                    "{} bytes: {} records and {} bytes more",
                    bytes.len(),
                    bytes.len() / record,
                    bytes.len() % record
                ),
            ));
        }
        pixels.reserve_exact(bytes.len() / record * PIXELS);
        for (i, bytes) in bytes.chunks_exact(record).enumerate() {
            let (ids, image) = bytes.split_at(layout.labels.len());
            for (&id, &values) in ids.iter().zip(layout.labels) {
                if usize::from(id) >= values {
                    return Err(DataError::corrupt(
                        path,
                        format!("labels below {values}"),
                        format!("label {id} in record {i}"),
                    ));
                }
            }
            labels.push(u32::from(ids[ids.len() - 1]));
            pixels.extend_from_slice(image);
        }
    }
    let split = Split::from_buffer(pixels, SHAPE, labels, layout.classes())?;
    if let Some(class) = split.by_class().iter().position(Vec::is_empty) {
        return Err(DataError::corrupt(
            &files[parts[0]].0,
            "samples of every class",
            format!("{} records, none of class {class}", split.len()),
        ));
    }
    Ok(split)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::shared_data;

    #[test]
    fn the_shared_subset_has_the_published_colours() {
        let Some(path) = shared_data("cifar100-mini/cifar-100-mini-binary.tar.gz") else { return };
        let data = open(Cifar::Hundred, &path).unwrap();
        assert_eq!((data.train.len(), data.test.len()), (10_000, 2_500));
        assert!(data.class_sizes().iter().all(|&n| n == 100));
        assert_eq!((data.class_names[0].as_str(), data.classes()), ("apple", 100));
        let mut sums = [0u64; 3];
        for i in 0..data.train.len() {
            let image = data.train.image(i).unwrap();
            for (sum, plane) in sums.iter_mut().zip(image.pixels.chunks_exact(1_024)) {
                *sum += plane.iter().map(|&v| u64::from(v)).sum::<u64>();
            }
        }
        // The mean of the whole training split; that of 10,000 images of it deviates by about 0.001.
        for (sum, mean) in sums.into_iter().zip([0.5071, 0.4865, 0.4409]) {
            let got = sum as f64 / 255.0 / 1_024.0 / data.train.len() as f64;
            assert!((got - mean).abs() < 0.006, "{got} instead of {mean}");
        }
    }
}
