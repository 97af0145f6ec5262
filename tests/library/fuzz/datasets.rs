//! Data sets of other programs: arrays, tables, images of digits, federated benchmarks, pickles.

use std::path::Path;

use proptest::prelude::*;

use super::cases;
use super::damage::damaged;
use fedcast::data::table::{self, TableNames};
use fedcast::data::{Cifar, DataError, cifar, idx, leaf};

/// Returns an array as NumPy writes it.
fn npy(descr: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}\n");
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", length.as_slice(), header.as_bytes(), values].concat()
}

/// Six rows of two features.
fn rows() -> Vec<u8> {
    let values: Vec<u8> = (0..12).flat_map(|i| (i as f32 / 4.0).to_le_bytes()).collect();
    npy("<f4", "6, 2", &values)
}

fn labels() -> Vec<u8> {
    npy("<i8", "6,", &(0..6).flat_map(|i| (i % 3i64).to_le_bytes()).collect::<Vec<u8>>())
}

const CSV: &str = "x0,x1,y\n0.5,1,a\n-2e-3,0,b\n3,4,a\n1,1,b\n";

/// Reads a folder with these arrays as both of its parts.
fn arrays(rows: &[u8], labels: &[u8]) -> Result<(), DataError> {
    let root = tempfile::tempdir().unwrap();
    for part in ["train", "test"] {
        std::fs::create_dir(root.path().join(part)).unwrap();
        std::fs::write(root.path().join(part).join("x.npy"), rows).unwrap();
        std::fs::write(root.path().join(part).join("y.npy"), labels).unwrap();
    }
    read_table(root.path())
}

/// Reads a folder with this file as both of its parts.
fn csv(text: &[u8]) -> Result<(), DataError> {
    let root = tempfile::tempdir().unwrap();
    for part in ["train.csv", "test.csv"] {
        std::fs::write(root.path().join(part), text).unwrap();
    }
    read_table(root.path())
}

fn read_table(folder: &Path) -> Result<(), DataError> {
    let names = TableNames { width: 2, input: "x".into(), label: "y".into(), client: None };
    table::open(folder, &names, None).map(drop)
}

/// Returns a file of digits: a magic number, extents, values.
fn words(kind: u32, extents: &[u32], values: &[u8]) -> Vec<u8> {
    let head = std::iter::once(&kind).chain(extents).flat_map(|word| word.to_be_bytes());
    head.chain(values.iter().copied()).collect()
}

fn digits() -> [Vec<u8>; 2] {
    [words(0x803, &[4, 28, 28], &[9; 4 * 784]), words(0x801, &[4], &[0, 1, 0, 1])]
}

fn read_digits(images: &[u8], labels: &[u8]) -> Result<(), DataError> {
    let root = tempfile::tempdir().unwrap();
    for part in ["train", "t10k"] {
        std::fs::write(root.path().join(format!("{part}-images-idx3-ubyte")), images).unwrap();
        std::fs::write(root.path().join(format!("{part}-labels-idx1-ubyte")), labels).unwrap();
    }
    idx::open(root.path()).map(drop)
}

fn writers() -> Vec<u8> {
    let image = vec![0.5; 784];
    let of = |label: u8| serde_json::json!({ "x": [image, image], "y": [label, 1] });
    let data = serde_json::json!({ "w1": of(0), "w2": of(1) });
    serde_json::json!({ "users": ["w1", "w2"], "num_samples": [2, 2], "user_data": data })
        .to_string()
        .into_bytes()
}

fn read_writers(text: &[u8]) -> Result<(), DataError> {
    let root = tempfile::tempdir().unwrap();
    for part in ["train", "test"] {
        std::fs::create_dir(root.path().join(part)).unwrap();
        std::fs::write(root.path().join(part).join("all_data.json"), text).unwrap();
    }
    leaf::open(root.path(), None).map(drop)
}

fn text(bytes: &[u8]) -> Vec<u8> {
    [b"T", &(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
}

/// A dictionary of ten images as Python 2 pickles it.
fn pickle() -> Vec<u8> {
    let mut all = b"\x80\x02}q\x01(".to_vec();
    all.extend(text(b"labels"));
    all.extend(b"](K\x00K\x01K\x02K\x03K\x04K\x05K\x06K\x07K\x08K\x09e");
    all.extend(text(b"data"));
    all.extend(
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01",
    );
    all.extend([b"M", &10u16.to_le_bytes()[..], b"M", &3072u16.to_le_bytes()[..]].concat());
    all.extend(b"\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89");
    all.extend(text(&[7; 30_720]));
    all.extend(b"tbu.");
    all
}

fn read_pickles(batch: &[u8]) -> Result<(), DataError> {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("cifar-10-batches-py");
    std::fs::create_dir(&folder).unwrap();
    for number in 1..=5 {
        std::fs::write(folder.join(format!("data_batch_{number}")), batch).unwrap();
    }
    std::fs::write(folder.join("test_batch"), pickle()).unwrap();
    let names: Vec<u8> = (b'a'..=b'j').flat_map(|name| text(&[name])).collect();
    let names = [b"](", names.as_slice(), b"e"].concat();
    let meta = [b"\x80\x02}(", text(b"label_names").as_slice(), &names, b"u."].concat();
    std::fs::write(folder.join("batches.meta"), meta).unwrap();
    cifar::open(Cifar::Ten, root.path()).map(drop)
}

#[test]
fn the_corpus_is_valid() {
    arrays(&rows(), &labels()).unwrap();
    csv(CSV.as_bytes()).unwrap();
    read_digits(&digits()[0], &digits()[1]).unwrap();
    read_writers(&writers()).unwrap();
    read_pickles(&pickle()).unwrap();
}

/// An error says little enough to be read.
fn bounded(read: Result<(), DataError>) -> Result<(), TestCaseError> {
    let length = read.err().map_or(0, |error| error.to_string().len());
    prop_assert!(length < 5_000, "{} bytes", length);
    Ok(())
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn any_array_is_read_or_refused(rows in damaged(vec![rows()]), labels in damaged(vec![labels()])) {
        bounded(arrays(&rows, &self::labels()))?;
        bounded(arrays(&self::rows(), &labels))?;
    }

    #[test]
    fn any_column_is_read_or_refused(text in damaged(vec![CSV.into()])) {
        bounded(csv(&text))?;
    }

    #[test]
    fn any_digits_are_read_or_refused(
        images in damaged(vec![digits()[0].clone()]),
        labels in damaged(vec![digits()[1].clone()]),
    ) {
        bounded(read_digits(&images, &digits()[1]))?;
        bounded(read_digits(&digits()[0], &labels))?;
    }

    #[test]
    fn any_writers_are_read_or_refused(text in damaged(vec![writers()])) {
        bounded(read_writers(&text))?;
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn any_pickle_is_read_or_refused(batch in damaged(vec![pickle()])) {
        bounded(read_pickles(&batch))?;
    }
}
