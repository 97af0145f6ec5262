//! The Python version: pickled dictionaries with an array of pixels and a list of classes.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{CifarLayout, PIXELS, Samples};
use crate::data::pickle::{self, PickleValue};
use crate::data::{Cause, DataError};

/// Advice for a pickle that differs from the published ones.
const AS_PUBLISHED: &str = "Write it again as the published files are: a dictionary of lists and of an array of bytes in rows, \
     pickle.dump(..., protocol=2)";

pub(super) fn names(
    (path, bytes): &(PathBuf, Vec<u8>),
    layout: &CifarLayout,
) -> Result<Vec<String>, DataError> {
    let [_, key] = layout.keys;
    let names = read(path, bytes)?.get(key).and_then(PickleValue::texts);
    let expected = || format!("a list `{key}` of {} texts", layout.classes());
    let names = names.ok_or_else(|| DataError::corrupt(path, expected(), "none"))?;
    match names.len() == layout.classes() {
        true => Ok(names),
        false => Err(DataError::corrupt(path, expected(), format!("{} of them", names.len()))),
    }
}

pub(super) fn samples(
    files: &[&(PathBuf, Vec<u8>)],
    layout: &CifarLayout,
) -> Result<Samples, DataError> {
    let [key, _] = layout.keys;
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for (path, bytes) in files {
        let found = read(path, bytes)?;
        let list = found.get(key).and_then(PickleValue::ints);
        let list = list.ok_or_else(|| {
            DataError::advised(path, format!("a list `{key}` of numbers"), "none", AS_PUBLISHED)
        })?;
        let array = found.get("data").and_then(PickleValue::byte_array);
        let Some((shape, bytes)) = array else {
            let expected = "an array `data` of bytes in rows";
            return Err(DataError::advised(path, expected, "none", AS_PUBLISHED));
        };
        if shape != [list.len(), PIXELS] || bytes.len() != list.len() * PIXELS || list.is_empty() {
            return Err(DataError::corrupt(
                path,
                format!("{} images of {PIXELS} bytes in `data`, one per label", list.len().max(1)),
                format!("shape {shape:?} and {} bytes", bytes.len()),
            ));
        }
        let classes = layout.classes();
        for (i, label) in list.into_iter().enumerate() {
            let id = u32::try_from(label).ok().filter(|id| (*id as usize) < classes);
            labels.push(id.ok_or_else(|| {
                let cause = if label < 0 { Cause::Unlabeled } else { Cause::UnknownLabel };
                DataError::because(
                    cause,
                    path,
                    format!("labels from 0 to {}", classes - 1),
                    format!("label {label} in record {i}"),
                )
            })?);
        }
        pixels.extend_from_slice(bytes);
    }
    Ok((pixels, labels))
}

fn read(path: &Path, bytes: &[u8]) -> Result<PickleValue, DataError> {
    let expected = "a pickled dictionary, as published";
    // Pickles of protocol 2 and later begin with this byte.
    let is_pickle = bytes.starts_with(&[0x80]);
    pickle::read(bytes).map_err(|error| match error.kind() {
        ErrorKind::Unsupported if is_pickle => {
            DataError::advised(path, expected, error.to_string(), AS_PUBLISHED)
        }
        _ => DataError::corrupt(path, expected, error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::cifar::{Cifar, open};
    use crate::data::pickle::tests::{array, dict, ints, texts};

    /// Returns every class of CIFAR-100 once per part; image `i` begins with `i`.
    fn part(key: &str, labels: &[u8], columns: usize) -> Vec<u8> {
        let pixels: Vec<u8> =
            (0..labels.len()).flat_map(|i| (0..columns).map(move |p| (i + p * 7) as u8)).collect();
        dict(&[
            ("filenames", texts(&[])),
            ("coarse_labels", ints(&[3])),
            (key, ints(labels)),
            ("data", array(labels.len(), columns, &pixels)),
        ])
    }

    fn hundred() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("cifar-100-python");
        std::fs::create_dir(&folder).unwrap();
        let names: Vec<String> = (0..100).map(|class| format!("class {class}")).collect();
        let turned: Vec<u8> = (0..100).rev().collect();
        let straight: Vec<u8> = (0..100).collect();
        std::fs::write(folder.join("train"), part("fine_labels", &turned, PIXELS)).unwrap();
        std::fs::write(folder.join("test"), part("fine_labels", &straight, PIXELS)).unwrap();
        std::fs::write(folder.join("meta"), dict(&[("fine_label_names", texts(&names))])).unwrap();
        root
    }

    #[test]
    fn pickles_give_the_fine_classes_and_the_pixels() {
        let root = hundred();
        let data = open(Cifar::Hundred, root.path()).unwrap();
        assert_eq!((data.class_names[99].as_str(), data.train.labels()[0]), ("class 99", 99));
        assert_eq!(data.test.labels()[7], 7);
        let image = data.train.image(5).unwrap();
        assert_eq!((image.channels, image.height), (3, 32));
        assert_eq!(image.pixels[..3], [5, 12, 19]);
    }

    #[test]
    fn an_archive_is_the_same_set() {
        let (root, packed) = (hundred(), tempfile::tempdir().unwrap());
        let path = packed.path().join("cifar-100-python.tar.gz");
        let gzip = flate2::write::GzEncoder::new(
            std::fs::File::create(&path).unwrap(),
            flate2::Compression::fast(),
        );
        let mut archive = tar::Builder::new(gzip);
        archive.append_dir_all("cifar-100-python", root.path().join("cifar-100-python")).unwrap();
        archive.into_inner().unwrap().finish().unwrap();
        let (a, b) =
            (open(Cifar::Hundred, root.path()).unwrap(), open(Cifar::Hundred, &path).unwrap());
        assert_eq!(a.train.digest().unwrap(), b.train.digest().unwrap());
        assert_eq!(a.test.digest().unwrap(), b.test.digest().unwrap());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refusal = |file: &str, bytes: Vec<u8>| {
            let root = hundred();
            std::fs::write(root.path().join("cifar-100-python").join(file), bytes).unwrap();
            open(Cifar::Hundred, root.path()).unwrap_err().to_string()
        };
        let labels: Vec<u8> = (0..100).collect();
        let whole = part("fine_labels", &labels, PIXELS);
        let cases = [
            (
                refusal("train", whole[..whole.len() - 500].to_vec()),
                "train: expected a pickled dictionary, as published, found it breaks off",
            ),
            (
                refusal("train", part("labels", &labels, PIXELS)),
                "a list `fine_labels` of numbers, found none",
            ),
            (
                refusal("test", part("fine_labels", &labels, 1_024)),
                "100 images of 3072 bytes in `data`, one per label, found shape [100, 1024]",
            ),
            (
                refusal("test", part("fine_labels", &[100], PIXELS)),
                "labels from 0 to 99, found label 100 in record 0",
            ),
            (
                refusal("test", part("fine_labels", &labels[..99], PIXELS)),
                "99 records, none of class 99",
            ),
            (
                refusal("meta", dict(&[("fine_label_names", texts(&["apple".into()]))])),
                "a list `fine_label_names` of 100 texts, found 1 of them",
            ),
        ];
        for (found, expected) in cases {
            assert!(found.contains(expected), "{found}\ninstead of\n{expected}");
        }
    }
}
