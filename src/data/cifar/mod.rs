//! CIFAR-10 and CIFAR-100 as they are downloaded: the *binary version* or the *Python version*, as a folder or as the
//! `.tar.gz` itself.
//!
//! In the binary version a record is one label byte (CIFAR-10) or a coarse and a fine one (CIFAR-100; the fine one is
//! the class), then 1,024 red, 1,024 green and 1,024 blue bytes, row by row; in the Python version (what torchvision
//! fetches) a file is a pickled dictionary with the same bytes as an array. Both give the same samples in the same
//! order. Any number of whole records is accepted, so subsets in the same layout work too. Source: Krizhevsky,
//! "Learning Multiple Layers of Features from Tiny Images", 2009, <https://www.cs.toronto.edu/~kriz/cifar.html>.
//!
//! ```no_run
//! use fedcast::data::{Cifar, cifar};
//! let data = cifar::open(Cifar::Hundred, "data/cifar-100-python.tar.gz".as_ref())?;
//! assert_eq!(data.class_names[0], "apple");
//! # Ok::<(), fedcast::data::DataError>(())
//! ```

mod binary;
mod layout;
mod python;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Cause, DataError, Dataset, Split};
use crate::files::{self, FileKind, TarLimits};
use layout::{CifarLayout, HUNDRED, TEN, Version};

/// CIFAR-10 or CIFAR-100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cifar {
    /// 10 classes, `data_batch_1` ... `data_batch_5` and `test_batch`.
    Ten,
    /// 100 fine classes, `train` and `test`.
    Hundred,
}

const PIXELS: usize = 3 * 32 * 32;
/// Largest file that is read, in bytes: about five times the largest published one.
const MEMBER: u64 = 800_000_000;

/// Limits of an archive. The published ones have some ten members and unpack to 185 MB.
const ARCHIVE: TarLimits = TarLimits { bytes: 4 << 30, members: 10_000 };
const SHAPE: [usize; 3] = [3, 32, 32];

/// Reads the whole set into memory from a folder that holds the files, or from a `.tar.gz`. The folder may be the
/// official sub-folder's parent; the archive may have the files anywhere inside.
///
/// # Errors
/// Returns an error if a file is missing or cut short, or has values out of range; it names the file.
pub fn open(which: Cifar, path: &Path) -> Result<Dataset, DataError> {
    let layout = match which {
        Cifar::Ten => &TEN,
        Cifar::Hundred => &HUNDRED,
    };
    let meta = std::fs::metadata(path).map_err(|e| DataError::io(path, &layout.wanted(), e))?;
    let (version, files) =
        if meta.is_dir() { from_folder(path, layout)? } else { from_archive(path, layout)? };
    let class_names = match version.python {
        true => python::names(&files[version.names], layout)?,
        false => binary::names(&files[version.names], layout)?,
    };
    let split = |parts: &[&str]| {
        let files: Vec<&(PathBuf, Vec<u8>)> = parts.iter().map(|part| &files[part]).collect();
        let (pixels, labels) = match version.python {
            true => python::samples(&files, layout)?,
            false => binary::samples(&files, layout)?,
        };
        let split = Split::from_buffer(pixels, SHAPE, labels, layout.classes())?;
        if let Some(class) = split.by_class().iter().position(Vec::is_empty) {
            return Err(DataError::because(
                Cause::ClassWithoutSamples,
                &files[0].0,
                "samples of every class",
                format!("{} records, none of class {class}", split.len()),
            ));
        }
        Ok(Arc::new(split))
    };
    Ok(Dataset {
        name: layout.name.to_owned(),
        class_names,
        train: split(version.train)?,
        test: split(version.test)?,
        notes: Vec::new(),
    })
}

/// Found files: path (for messages) and bytes, by file name.
type Files = BTreeMap<&'static str, (PathBuf, Vec<u8>)>;

/// Samples of a part: concatenated pixels, and class ids.
type Samples = (Vec<u8>, Vec<u32>);

fn from_folder(
    path: &Path,
    layout: &'static CifarLayout,
) -> Result<(&'static Version, Files), DataError> {
    let places = |version: &'static Version| [path.join(version.folder), path.to_owned()];
    let found = layout.versions.iter().find_map(|version| {
        let holds = |folder: &PathBuf| version.files().any(|file| folder.join(file).is_file());
        places(version).into_iter().find(holds).map(|folder| (version, folder))
    });
    let (version, folder) = found.ok_or_else(|| DataError::Missing {
        path: path.join(layout.versions[0].train[0]),
        expected: layout.wanted(),
        advice: "Check the data path of the scenario (relative paths start at the scenario file)"
            .to_owned(),
    })?;
    let read = |name: &'static str| {
        let file = folder.join(name);
        let bytes = files::read(&file, FileKind::Data).map_err(|e| {
            DataError::io(&file, &format!("one of the files of {}", layout.wanted()), e)
        })?;
        Ok((name, (file, bytes)))
    };
    Ok((version, version.files().map(read).collect::<Result<_, DataError>>()?))
}

fn from_archive(
    path: &Path,
    layout: &'static CifarLayout,
) -> Result<(&'static Version, Files), DataError> {
    let file =
        files::open(path, FileKind::Data).map_err(|e| DataError::io(path, &layout.wanted(), e))?;
    let stream = flate2::read::GzDecoder::new(std::io::BufReader::new(file));
    let mut last = "its beginning".to_owned();
    let mut files = Files::new();
    let known: Vec<&'static str> = layout.versions.iter().flat_map(Version::files).collect();
    let done = files::tar_members(stream, ARCHIVE, |member, entry| {
        last = member.display().to_string();
        if let Some(name) = known.iter().find(|name| member.file_name() == Some((**name).as_ref()))
        {
            files.insert(name, (path.join(member), files::tar_bytes(entry, MEMBER)?));
        }
        Ok(())
    });
    let done = done.and_then(|rest| {
        last = "its end".to_owned();
        files::finish_tar(rest)
    });
    if let Err(error) = done {
        let found = match error.kind() {
            std::io::ErrorKind::UnexpectedEof => format!("an archive that is cut off at {last}"),
            _ => format!("damage at {last}: {error}"),
        };
        let expected = format!("a whole .tar.gz of {}", layout.wanted());
        return Err(DataError::corrupt(path, expected, found));
    }
    let holds = |version: &&Version| version.files().any(|file| files.contains_key(file));
    let version = layout.versions.iter().find(holds).unwrap_or(&layout.versions[0]);
    match version.files().find(|name| !files.contains_key(name)) {
        None => Ok((version, files)),
        Some(name) => Err(DataError::Missing {
            path: path.join(name),
            expected: layout.wanted(),
            advice: "Use the binary or the Python version of the data set, not the Matlab one"
                .to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::shared_data;

    #[test]
    fn the_shared_subset_has_the_published_colors() {
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
