use super::*;
use crate::data::Kernel;

fn write(root: &Path, name: &str, width: u32, height: u32, seed: u32) {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    image::RgbImage::from_fn(width, height, |x, y| {
        image::Rgb([(x * 7 + seed) as u8, (y * 11) as u8, (x * y + seed) as u8])
    })
    .save(path)
    .unwrap();
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
        "10.png before 2.png, planes of one colour"
    );
    assert_eq!(data.test.image(1).unwrap().height, 7);
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
    // Three images of 4 x 6 pixels and three colours.
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
