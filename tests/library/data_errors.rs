//! Promise: data that is missing, cut short or damaged gives an error that names the file, what was expected, what
//! was found and what to do.

use std::fs;
use std::path::Path;

use fedcast::data::{Cifar, FolderOptions, StoredSize, cifar, folder};

const RECORD: usize = 3_074;

/// The message with the temporary folder's path replaced.
fn message<T>(root: &Path, result: Result<T, fedcast::data::DataError>) -> String {
    match result {
        Ok(_) => "no error".to_owned(),
        Err(error) => error.to_string().replace(&root.display().to_string(), "[root]"),
    }
}

/// A folder with two records of every CIFAR-100 class in both splits.
fn cifar_folder() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let records: Vec<u8> = (0..200usize)
        .flat_map(|i| {
            let class = (i % 100) as u8;
            [class % 20, class].into_iter().chain((0..3_072).map(move |p| (p * 31 + i * 7) as u8))
        })
        .collect();
    let names: String = (0..100).map(|c| format!("class {c}\n")).collect();
    fs::write(root.path().join("train.bin"), &records).unwrap();
    fs::write(root.path().join("test.bin"), &records).unwrap();
    fs::write(root.path().join("fine_label_names.txt"), names).unwrap();
    root
}

/// Writes `cifar.tar.gz` in its own folder.
fn cifar_archive() -> tempfile::TempDir {
    let (from, root) = (cifar_folder(), tempfile::tempdir().unwrap());
    let file = fs::File::create(root.path().join("cifar.tar.gz")).unwrap();
    let gzip = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    archive.append_dir_all("cifar-100-binary", from.path()).unwrap();
    archive.into_inner().unwrap().finish().unwrap();
    root
}

fn open_folder(root: &tempfile::TempDir) -> String {
    message(root.path(), cifar::open(Cifar::Hundred, root.path()))
}

fn open_archive(root: &tempfile::TempDir) -> String {
    message(root.path(), cifar::open(Cifar::Hundred, &root.path().join("cifar.tar.gz")))
}

#[test]
fn whole_sets_open_alike_from_folder_and_archive() {
    let (folder, archive) = (cifar_folder(), cifar_archive());
    let a = cifar::open(Cifar::Hundred, folder.path()).unwrap();
    let b = cifar::open(Cifar::Hundred, &archive.path().join("cifar.tar.gz")).unwrap();
    assert_eq!((a.train.len(), a.class_names[99].as_str()), (200, "class 99"));
    assert_eq!(a.train.labels(), b.train.labels());
    let image = a.test.image(150).unwrap();
    let written: Vec<u8> = (0..3_072).map(|p| (p * 31 + 150 * 7) as u8).collect();
    assert_eq!(image.pixels, written);
    assert_eq!(image.pixels, b.test.image(150).unwrap().pixels);
}

#[test]
fn a_path_that_is_not_there() {
    let root = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(open_archive(&root), @"[root]/cifar.tar.gz: not found; expected the binary or the Python version of cifar-100 (train.bin, test.bin, fine_label_names.txt; or train, test, meta). Check the data path of the scenario (relative paths start at the scenario file)");
}

#[test]
fn a_folder_of_something_else() {
    let root = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(open_folder(&root), @"[root]/train.bin: not found; expected the binary or the Python version of cifar-100 (train.bin, test.bin, fine_label_names.txt; or train, test, meta). Check the data path of the scenario (relative paths start at the scenario file)");
}

#[test]
fn a_truncated_archive() {
    let root = cifar_archive();
    let path = root.path().join("cifar.tar.gz");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 4]).unwrap();
    insta::assert_snapshot!(open_archive(&root), @"[root]/cifar.tar.gz: expected a whole .tar.gz of the binary or the Python version of cifar-100 (train.bin, test.bin, fine_label_names.txt; or train, test, meta), found an archive that is cut off at its end. Fetch or unpack the data set again");
    // Wherever it is cut, it is an error.
    for percent in [0, 1, 20, 50, 80, 99] {
        fs::write(&path, &whole[..whole.len() * percent / 100]).unwrap();
        let message = open_archive(&root);
        assert!(message.contains("an archive that is cut off at"), "{percent} %: {message}");
    }
}

#[test]
fn a_damaged_archive() {
    let root = cifar_archive();
    let path = root.path().join("cifar.tar.gz");
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[end - 6] ^= 1; // in gzip's checksum
    fs::write(&path, &bytes).unwrap();
    insta::assert_snapshot!(open_archive(&root), @"[root]/cifar.tar.gz: expected a whole .tar.gz of the binary or the Python version of cifar-100 (train.bin, test.bin, fine_label_names.txt; or train, test, meta), found damage at its end: corrupt gzip stream does not have a matching checksum. Fetch or unpack the data set again");
    fs::write(&path, "this is no archive, whatever its name says").unwrap();
    insta::assert_snapshot!(open_archive(&root), @"[root]/cifar.tar.gz: expected a whole .tar.gz of the binary or the Python version of cifar-100 (train.bin, test.bin, fine_label_names.txt; or train, test, meta), found damage at its beginning: invalid gzip header. Fetch or unpack the data set again");
}

#[test]
fn an_archive_with_a_part_of_a_version() {
    let root = tempfile::tempdir().unwrap();
    let file = fs::File::create(root.path().join("cifar.tar.gz")).unwrap();
    let gzip = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    let mut header = tar::Header::new_gnu();
    header.set_size(3);
    header.set_cksum();
    archive.append_data(&mut header, "cifar-100-python/train", &b"abc"[..]).unwrap();
    archive.into_inner().unwrap().finish().unwrap();
    insta::assert_snapshot!(open_archive(&root), @"[root]/cifar.tar.gz/test: not found; expected the binary or the Python version of cifar-100 (train.bin, test.bin, fine_label_names.txt; or train, test, meta). Use the binary or the Python version of the data set, not the Matlab one");
}

#[test]
fn records_of_the_wrong_length() {
    let root = cifar_folder();
    let path = root.path().join("train.bin");
    let mut bytes = fs::read(&path).unwrap();
    bytes.truncate(RECORD * 150 + 1_000);
    fs::write(&path, &bytes).unwrap();
    insta::assert_snapshot!(open_folder(&root), @"[root]/train.bin: expected one or more whole records of 3074 bytes, found 462100 bytes: 150 records and 1000 bytes more. Fetch or unpack the data set again");
    fs::write(&path, "").unwrap();
    insta::assert_snapshot!(open_folder(&root), @"[root]/train.bin: expected one or more whole records of 3074 bytes, found 0 bytes: 0 records and 0 bytes more. Fetch or unpack the data set again");
    // Cut between two records: only the missing classes show it.
    bytes.truncate(RECORD * 70);
    fs::write(&path, &bytes).unwrap();
    insta::assert_snapshot!(open_folder(&root), @"[root]/train.bin: expected samples of every class, found 70 records, none of class 70. Add samples of the class, take it out of the other part, or draw a part to test on from all samples (data.test_fraction = 0.2)");
}

#[test]
fn labels_out_of_range() {
    let root = cifar_folder();
    let path = root.path().join("test.bin");
    let mut bytes = fs::read(&path).unwrap();
    bytes[RECORD * 17 + 1] = 137;
    fs::write(&path, &bytes).unwrap();
    insta::assert_snapshot!(open_folder(&root), @"[root]/test.bin: expected labels below 100, found label 137 in record 17. Fetch or unpack the data set again");
}

#[test]
fn a_short_list_of_names() {
    let root = cifar_folder();
    fs::write(root.path().join("fine_label_names.txt"), "apple\nbaby\n").unwrap();
    insta::assert_snapshot!(open_folder(&root), @"[root]/fine_label_names.txt: expected 100 class names, one per line, found 2 lines. Fetch or unpack the data set again");
}

/// Two classes with one small image each, in both splits.
fn image_folder() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for name in ["train/cat/1.png", "train/dog/1.png", "test/cat/1.png", "test/dog/1.png"] {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        image::RgbImage::from_pixel(4, 4, image::Rgb([9, 8, 7])).save(path).unwrap();
    }
    root
}

fn open_images(root: &tempfile::TempDir) -> String {
    let options = FolderOptions { size: StoredSize::Square(4), ..FolderOptions::default() };
    message(root.path(), folder::open(root.path(), &options))
}

#[test]
fn a_missing_class_folder() {
    let root = image_folder();
    assert_eq!(open_images(&root), "no error");
    fs::rename(root.path().join("train/dog"), root.path().join("train/emu")).unwrap();
    insta::assert_snapshot!(open_images(&root), @"[root]/train/dog: not found; expected images of class `dog`, which is tested. Add images to train on, or take the folder of tests away");
    fs::remove_dir_all(root.path().join("test/dog")).unwrap();
    assert_eq!(open_images(&root), "no error", "a class without tests");
    fs::remove_dir_all(root.path().join("test")).unwrap();
    insta::assert_snapshot!(open_images(&root), @"[root]/test: not found; expected a folder with one sub-folder of images per class, or `val` in its place. Add it, or draw a part of train/ to test on: data.test_fraction = 0.2");
}

#[test]
fn an_empty_class_folder() {
    let root = image_folder();
    fs::remove_file(root.path().join("train/cat/1.png")).unwrap();
    insta::assert_snapshot!(open_images(&root), @"[root]/train/cat: expected at least one image (png, jpg, jpeg, bmp, webp), found none. Add samples of the class, take it out of the other part, or draw a part to test on from all samples (data.test_fraction = 0.2)");
}

#[test]
fn a_corrupt_image() {
    let root = image_folder();
    let path = root.path().join("train/dog/1.png");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    insta::assert_snapshot!(open_images(&root), @"[root]/train/dog/1.png: expected an image (PNG, JPEG, BMP or WebP), found a file that is cut off before its end. Fetch or unpack the data set again");
    // Without room in memory the image is met later, with the same message.
    let options = FolderOptions { budget: 0, ..FolderOptions::default() };
    let data = folder::open(root.path(), &options).unwrap();
    insta::assert_snapshot!(message(root.path(), data.train.image(1)), @"[root]/train/dog/1.png: expected an image (PNG, JPEG, BMP or WebP), found a file that is cut off before its end. Fetch or unpack the data set again");
    fs::write(&path, "").unwrap();
    insta::assert_snapshot!(open_images(&root), @"[root]/train/dog/1.png: expected an image (PNG, JPEG, BMP or WebP), found an empty file. Fetch or unpack the data set again");
}
