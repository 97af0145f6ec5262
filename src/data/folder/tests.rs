use super::*;
use crate::data::Kernel;

/// A progressive JPEG of 16 x 16 gray pixels.
#[rustfmt::skip]
pub(super) const PROGRESSIVE: &[u8] = &[
    0xff, 0xd8, 0xff, 0xe0, 0x00, 0x10, 0x4a, 0x46, 0x49, 0x46, 0x00, 0x01, 0x01, 0x00, 0x00, 0x01, 0x00, 0x01, 0x00, 0x00,
    0xff, 0xdb, 0x00, 0x43, 0x00, 0x1b, 0x12, 0x14, 0x17, 0x14, 0x11, 0x1b, 0x17, 0x16, 0x17, 0x1e, 0x1c, 0x1b, 0x20, 0x28,
    0x42, 0x2b, 0x28, 0x25, 0x25, 0x28, 0x51, 0x3a, 0x3d, 0x30, 0x42, 0x60, 0x55, 0x65, 0x64, 0x5f, 0x55, 0x5d, 0x5b, 0x6a,
    0x78, 0x99, 0x81, 0x6a, 0x71, 0x90, 0x73, 0x5b, 0x5d, 0x85, 0xb5, 0x86, 0x90, 0x9e, 0xa3, 0xab, 0xad, 0xab, 0x67, 0x80,
    0xbc, 0xc9, 0xba, 0xa6, 0xc7, 0x99, 0xa8, 0xab, 0xa4, 0xff, 0xc2, 0x00, 0x0b, 0x08, 0x00, 0x10, 0x00, 0x10, 0x01, 0x01,
    0x11, 0x00, 0xff, 0xc4, 0x00, 0x15, 0x00, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x04, 0x03, 0xff, 0xda, 0x00, 0x08, 0x01, 0x01, 0x00, 0x00, 0x00, 0x01, 0x1a, 0xe4, 0xbf, 0xff, 0xc4,
    0x00, 0x16, 0x10, 0x00, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x01, 0x02, 0xff, 0xda, 0x00, 0x08, 0x01, 0x01, 0x00, 0x01, 0x05, 0x02, 0x94, 0x4a, 0x25, 0x12, 0x8f, 0xff, 0xc4, 0x00,
    0x14, 0x10, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x20, 0xff,
    0xda, 0x00, 0x08, 0x01, 0x01, 0x00, 0x06, 0x3f, 0x02, 0x1f, 0xff, 0xc4, 0x00, 0x14, 0x10, 0x01, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x20, 0xff, 0xda, 0x00, 0x08, 0x01, 0x01, 0x00, 0x01,
    0x3f, 0x21, 0x00, 0x1f, 0xff, 0xda, 0x00, 0x08, 0x01, 0x01, 0x00, 0x00, 0x00, 0x10, 0x8f, 0xff, 0xc4, 0x00, 0x15, 0x10,
    0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x31, 0xff, 0xda,
    0x00, 0x08, 0x01, 0x01, 0x00, 0x01, 0x3f, 0x10, 0x9a, 0x69, 0xa6, 0xff, 0xd9,
];

fn write(root: &Path, name: &str, width: u32, height: u32, seed: u32) {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    image::RgbImage::from_fn(width, height, |x, y| {
        image::Rgb([(x * 7 + seed) as u8, (y * 11) as u8, (x * y + seed) as u8])
    })
    .save(path)
    .unwrap();
}

/// Returns an image of much detail in a format; or the progressive one.
fn encoded(ending: &str) -> Vec<u8> {
    let root = tempfile::tempdir().unwrap();
    match ending {
        "progressive" => PROGRESSIVE.to_vec(),
        _ => {
            let name = format!("a.{ending}");
            write(root.path(), &name, 61, 47, 3);
            std::fs::read(root.path().join(name)).unwrap()
        }
    }
}

/// Opens a folder of an image and a file with these bytes.
///
/// With a budget of 0 nothing is decoded by that.
fn open_with(bytes: &[u8], budget: usize) -> Result<Dataset, DataError> {
    let root = sample_folder();
    std::fs::write(root.path().join("train/b/0.jpg"), bytes).unwrap();
    let opened = open(root.path(), &FolderOptions { budget, ..FolderOptions::default() })?;
    opened.train.image(1)?;
    Ok(opened)
}

/// Tries every tenth of an image in a folder, read at once and later, and in a table.
fn refuses_cuts(ending: &str) {
    let whole = encoded(ending);
    open_with(&whole, 1 << 20).unwrap();
    for tenth in 0..10 {
        let cut = &whole[..whole.len() * tenth / 10];
        for budget in [1 << 20, 0] {
            let error = open_with(cut, budget).unwrap_err().to_string();
            assert!(error.contains("train/b/0.jpg: expected an image"), "{tenth}: {error}");
        }
        let table = Path::new("train.parquet").into();
        let packed = Encoded::Packed { bytes: cut.into(), table, row: 7 };
        for orientation in [Orientation::Exif, Orientation::Ignored] {
            let form = StoredForm { size: StoredSize::Square(8), orientation };
            let error = decode(&packed, form).unwrap_err().to_string();
            assert!(error.contains("train.parquet row 7: expected an image"), "{tenth}: {error}");
        }
    }
}

#[test]
fn jpeg_files_cut_anywhere_are_refused() {
    refuses_cuts("jpg");
}

#[test]
fn progressive_jpeg_files_cut_anywhere_are_refused() {
    refuses_cuts("progressive");
}

#[test]
fn png_files_cut_anywhere_are_refused() {
    refuses_cuts("png");
}

#[test]
fn bmp_files_cut_anywhere_are_refused() {
    refuses_cuts("bmp");
}

#[test]
fn webp_files_cut_anywhere_are_refused() {
    refuses_cuts("webp");
}

#[test]
fn a_png_file_without_some_of_its_rows_is_refused() {
    let whole = encoded("png");
    let place = whole.windows(4).position(|name| name == b"IDAT").unwrap();
    let length = u32::from_be_bytes(whole[place - 4..place].try_into().unwrap()) as usize;
    // Half of the packed rows, with a length and a checksum that fit.
    let chunk = &whole[place..place + 4 + length / 2];
    let mut sum = flate2::Crc::new();
    sum.update(chunk);
    let length = (length as u32 / 2).to_be_bytes();
    let end = &whole[whole.len() - 12..];
    let bytes = [&whole[..place - 4], &length, chunk, &sum.sum().to_be_bytes(), end].concat();
    open_with(&bytes, 1 << 20).unwrap_err();
}

#[test]
fn pointers_of_git_lfs_are_named() {
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";
    let error = open_with(pointer, 1 << 20).unwrap_err().to_string();
    assert!(error.contains("0.jpg") && error.contains("git lfs pull"), "{error}");
}

fn sample_folder() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, seed) in [("train/b/2.png", 1), ("train/b/10.png", 2), ("train/a/x.png", 3)] {
        write(root.path(), name, 6, 4, seed);
    }
    write(root.path(), "test/a/1.png", 9, 9, 4);
    write(root.path(), "test/b/1.jpg", 5, 7, 5);
    std::fs::write(root.path().join("train/b/notes.txt"), "not an image").unwrap();
    root
}

#[test]
fn classes_and_files_are_sorted_by_name() {
    let root = sample_folder();
    let data = open(root.path(), &FolderOptions::default()).unwrap();
    assert_eq!(data.class_names, ["a", "b"]);
    assert_eq!(data.train.labels(), [0, 1, 1]);
    let second = data.train.image(1).unwrap();
    assert_eq!((second.channels, second.height, second.width), (3, 4, 6));
    assert_eq!(
        second.pixels[..6],
        [2, 9, 16, 23, 30, 37],
        "10.png before 2.png, planes of one color"
    );
    assert_eq!(data.test.image(1).unwrap().height, 7);
}

/// As in torchvision; labels in tables are ordered by value.
#[test]
fn folders_that_are_numbers_are_in_the_order_of_their_letters() {
    let root = tempfile::tempdir().unwrap();
    for (seed, class) in ["0", "1", "10", "2"].into_iter().enumerate() {
        write(root.path(), &format!("train/{class}/a.png"), 1, 1, seed as u32);
        write(root.path(), &format!("test/{class}/a.png"), 1, 1, seed as u32);
    }
    let data = open(root.path(), &FolderOptions::default()).unwrap();
    assert_eq!(data.class_names, ["0", "1", "10", "2"]);
    let seeds: Vec<u8> = (0..4).map(|at| data.train.image(at).unwrap().pixels[0]).collect();
    assert_eq!((data.train.labels(), seeds), (&[0, 1, 2, 3][..], vec![0, 1, 2, 3]));
}

#[test]
fn sixteen_bits_become_eight_by_the_nearest_of_257ths() {
    let root = sample_folder();
    let values = [0, 500, 32_896, 65_000, 65_535];
    image::ImageBuffer::<image::Luma<u16>, _>::from_fn(5, 1, |x, _| {
        image::Luma([values[x as usize]])
    })
    .save(root.path().join("train/b/0.png"))
    .unwrap();
    let data = open(root.path(), &FolderOptions::default()).unwrap();
    assert_eq!(data.train.image(1).unwrap().pixels[..5], [0, 2, 128, 253, 255]);
}

#[test]
fn memory_and_files_give_the_same_pixels() {
    let root = sample_folder();
    let shorter = StoredSize::Shorter { side: 3, kernel: Kernel::Bilinear };
    for (size, first) in [
        (StoredSize::Square(8), (8, 8)),
        (StoredSize::Original, (4, 6)),
        // 4 x 6: the shorter side becomes 3, the other 18 / 4 without its fraction.
        (shorter, (3, 4)),
    ] {
        let open = |budget| {
            super::open(root.path(), &FolderOptions { size, budget, ..FolderOptions::default() })
                .unwrap()
        };
        let (kept, lazy) = (open(1 << 20), open(0));
        assert!(matches!(lazy.train.image(0).unwrap().pixels, std::borrow::Cow::Owned(_)));
        assert!(matches!(kept.train.image(0).unwrap().pixels, std::borrow::Cow::Borrowed(_)));
        let image = kept.train.image(0).unwrap();
        assert_eq!((image.height, image.width), first, "{size:?}");
        for (a, b) in [(&kept.train, &lazy.train), (&kept.test, &lazy.test)] {
            assert_eq!(a.sample_bytes().unwrap(), b.sample_bytes().unwrap());
            for i in 0..a.len() {
                let (a, b) = (a.image(i).unwrap(), b.image(i).unwrap());
                assert_eq!(
                    (a.height, a.width, a.pixels),
                    (b.height, b.width, b.pixels),
                    "{size:?}, image {i}"
                );
            }
        }
    }
}

#[test]
fn a_budget_is_for_all_images_of_a_split() {
    let root = sample_folder();
    let is_kept = |budget| {
        let options = FolderOptions { budget, ..FolderOptions::default() };
        let data = open(root.path(), &options).unwrap();
        matches!(data.train.image(2).unwrap().pixels, std::borrow::Cow::Borrowed(_))
    };
    // Three images of 4 x 6 pixels and three colors.
    assert_eq!((is_kept(3 * 72), is_kept(3 * 72 - 1)), (true, false));
}

#[test]
fn a_list_divides_a_folder_and_a_subset_keeps_its_first_images() {
    let root = sample_folder();
    let list = root.path().join("split.json");
    let text = r#"{"train": [["train/b/10.png", 0, "b"], ["train/b/2.png", 0, "b"], ["test/a/1.png", 1, "a"]],
        "val": [], "test": [["train/a/x.png", 1, "a"], ["test/b/1.jpg", 0, "b"]]}"#;
    std::fs::write(&list, text).unwrap();
    let options = |subset| FolderOptions {
        split: Some(SplitSection::List { list: list.clone() }),
        subset,
        ..FolderOptions::default()
    };
    let all = open(root.path(), &options(None)).unwrap();
    assert_eq!((all.train.labels(), all.test.labels()), (&[0, 0, 1][..], &[1, 0][..]));
    assert_eq!(all.class_names, ["b", "a"]);
    let few = open(root.path(), &options(Some(1))).unwrap();
    assert_eq!(few.train.labels(), [0, 1]);
    // The first of the list, not of the alphabet.
    assert_eq!(few.train.image(0).unwrap().pixels, all.train.image(0).unwrap().pixels);
    assert_eq!(few.train.image(0).unwrap().pixels[0], 2);
}

#[test]
fn a_test_subset_keeps_the_first_test_images_of_every_class() {
    let root = sample_folder();
    let list = root.path().join("split.json");
    let text = r#"{"train": [["train/a/x.png", 0, "a"], ["train/b/10.png", 1, "b"]], "val": [],
        "test": [["train/b/2.png", 1, "b"], ["test/a/1.png", 0, "a"], ["test/b/1.jpg", 1, "b"]]}"#;
    std::fs::write(&list, text).unwrap();
    let options = |test_subset| FolderOptions {
        split: Some(SplitSection::List { list: list.clone() }),
        test_subset,
        ..FolderOptions::default()
    };
    let all = open(root.path(), &options(None)).unwrap();
    assert_eq!(all.test.labels(), [1, 0, 1]);
    let few = open(root.path(), &options(Some(1))).unwrap();
    assert_eq!((few.train.labels(), few.test.labels()), (&[0, 1][..], &[1, 0][..]));
    assert_eq!(few.test.image(0).unwrap().pixels, all.test.image(0).unwrap().pixels);
}

#[test]
fn cars_as_published_are_refused_with_the_line_that_lists_them() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "cars_train/00001.jpg", 3, 3, 1);
    std::fs::create_dir(root.path().join("devkit")).unwrap();
    std::fs::write(root.path().join("devkit/cars_train_annos.mat"), "MATLAB 5.0").unwrap();
    let error = open(root.path(), &FolderOptions::default()).unwrap_err().to_string();
    for said in
        ["cars_train_annos.mat: Matlab's files", "list = \"cars.json\"", "python -c 'import"]
    {
        assert!(error.contains(said), "{error}");
    }
    // A list, once it is there, is read.
    let list = root.path().join("cars.json");
    let line = r#"[["cars_train/00001.jpg", 0, "AM General Hummer SUV 2000"]]"#;
    std::fs::write(&list, format!(r#"{{"train": {line}, "test": {line}}}"#)).unwrap();
    let split = Some(SplitSection::List { list });
    let options = FolderOptions { split, ..FolderOptions::default() };
    let error = open(root.path(), &options).unwrap_err().to_string();
    assert!(error.contains("00001.jpg"), "an image of both parts: {error}");
}

#[test]
fn a_file_is_no_folder_and_may_be_a_table() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("features.csv");
    std::fs::write(&path, "x,label\n1,0\n").unwrap();
    let error = open(&path, &FolderOptions::default()).unwrap_err().to_string();
    assert!(error.contains("features.csv is a file") && error.contains("\"table\""), "{error}");
}

#[test]
fn published_sets_without_owners_have_no_clients() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "val/images/1.png", 3, 3, 1);
    std::fs::write(root.path().join("val/val_annotations.txt"), "").unwrap();
    let options =
        FolderOptions { clients: true, layout: FolderLayout::Domains, ..FolderOptions::default() };
    let error = open(root.path(), &options).unwrap_err().to_string();
    assert!(error.contains("Tiny-ImageNet does not say whose an image is"), "{error}");
}

#[test]
fn the_folder_above_that_of_the_class_is_the_client() {
    let root = tempfile::tempdir().unwrap();
    let train = ["train/w2/cat/1.png", "train/w1/emu/1.png", "train/w1/cat/1.png"];
    for name in train.into_iter().chain(["test/w3/cat/1.png", "test/w3/emu/1.png"]) {
        write(root.path(), name, 3, 3, 1);
    }
    let options =
        FolderOptions { clients: true, layout: FolderLayout::Domains, ..FolderOptions::default() };
    let data = open(root.path(), &options).unwrap();
    assert_eq!(data.class_names, ["cat", "emu"]);
    assert_eq!((data.train.labels(), data.test.labels()), (&[0, 0, 1][..], &[0, 1][..]));
    assert_eq!(data.train.owners().unwrap(), [0, 1, 0], "class by class; w1, w2, w1");
    // The class keeps its images one folder deeper; the client is the same.
    let (from, to) = (root.path().join("train/w2/cat"), root.path().join("train/w2/cat/images"));
    std::fs::create_dir(&to).unwrap();
    std::fs::rename(from.join("1.png"), to.join("1.png")).unwrap();
    assert_eq!(open(root.path(), &options).unwrap().train.owners().unwrap(), [0, 1, 0]);
    let plain = open(sample_folder().path(), &FolderOptions::default()).unwrap();
    assert!(plain.train.owners().is_none());
}
