use std::fs;
use std::io::Cursor;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array};

use super::*;
use crate::data::arrow_file::tests::{images, stream};
use crate::data::folder::{Orientation, StoredForm, StoredSize};
use crate::data::packed::{self, PackedOptions};
use crate::data::table::{self, TableNames};
use crate::data::{Dataset, TestFraction};

/// Writes a part of these files, which stand in its list in this order.
fn part(folder: &Path, files: &[(&str, Vec<u8>)]) {
    fs::create_dir_all(folder).unwrap();
    let names = files.iter().map(|(name, _)| format!(r#"{{"filename": "{name}"}}"#));
    let names = names.collect::<Vec<_>>().join(", ");
    fs::write(folder.join(STATE), format!(r#"{{"_data_files": [{names}], "_split": null}}"#))
        .unwrap();
    fs::write(folder.join("dataset_info.json"), "{}").unwrap();
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
}

fn list(root: &Path, names: &str) {
    fs::write(root.join(PARTS), format!(r#"{{"splits": {names}}}"#)).unwrap();
}

/// Returns a file of images of these colors, with classes named so.
fn of_images(rows: &[(u8, i64)], names: &str) -> Vec<u8> {
    let png = |color: u8| {
        let mut bytes = Cursor::new(Vec::new());
        let image = image::RgbImage::from_pixel(4, 4, image::Rgb([color, 0, 255]));
        image.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
        bytes.into_inner()
    };
    let pngs: Vec<Vec<u8>> = rows.iter().map(|row| png(row.0)).collect();
    let pngs: Vec<_> = pngs.iter().map(|png| (Some(png.as_slice()), Some("x.png"))).collect();
    let label: ArrayRef = Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>());
    stream(&[&[("image", images(&pngs)), ("label", label)]], Some(names))
}

fn open_images(root: &Path) -> Result<Dataset, DataError> {
    let options = PackedOptions {
        form: StoredForm { size: StoredSize::Square(4), orientation: Orientation::Exif },
        input: "image".into(),
        label: "label".into(),
        client: None,
        test_fraction: None,
        budget: 1 << 20,
    };
    packed::open(root, &options)
}

/// Returns a file of rows of two numbers: a label, `a`, and ten times as much, `b`.
fn of_numbers(order: [&str; 3], rows: &[i64]) -> Vec<u8> {
    let column = |name: &str| -> ArrayRef {
        match name {
            "label" => Arc::new(rows.iter().map(|row| row % 2).collect::<Int64Array>()),
            "a" => Arc::new(rows.iter().copied().collect::<Int64Array>()),
            _ => Arc::new(rows.iter().map(|row| 10.0 * *row as f64).collect::<Float64Array>()),
        }
    };
    stream(&[&order.map(|name| (name, column(name)))], None)
}

fn open_table(path: &Path, share: Option<TestFraction>) -> Result<Dataset, String> {
    let names =
        TableNames { width: 2, input: "features".into(), label: "label".into(), client: None };
    table::open(path, &names, share).map_err(|error| error.to_string())
}

#[test]
fn images_are_read_in_the_order_of_the_list_with_names() {
    let root = tempfile::tempdir().unwrap();
    list(root.path(), r#"["train", "validation", "test"]"#);
    let names = r#"["emu", "cat"]"#;
    let first = ("data-00001-of-00002.arrow", of_images(&[(30, 1)], names));
    let second = ("data-00000-of-00002.arrow", of_images(&[(10, 0), (20, 1)], names));
    part(&root.path().join("train"), &[first, second]);
    let test = of_images(&[(40, 1), (50, 0)], r#"["cat", "emu"]"#);
    part(&root.path().join("test"), &[("data-00000-of-00001.arrow", test)]);
    let other = of_images(&[(60, 1)], names);
    part(&root.path().join("validation"), &[("data-00000-of-00001.arrow", other)]);
    let data = open_images(root.path()).unwrap();
    assert_eq!(data.class_names, ["emu", "cat"]);
    assert_eq!((data.train.labels(), data.test.labels()), (&[1, 0, 1][..], &[0, 1][..]));
    for (sample, color) in [30, 10, 20].into_iter().enumerate() {
        assert_eq!(data.train.image(sample).unwrap().pixels[0], color);
    }
    let unused = "validation/data-00000-of-00001.arrow is not used";
    assert!(data.notes[0].contains(unused), "{:?}", data.notes);
}

#[test]
fn columns_of_a_part_belong_to_their_names() {
    let root = tempfile::tempdir().unwrap();
    list(root.path(), r#"["validation", "train"]"#);
    let train = of_numbers(["label", "a", "b"], &[0, 1, 2]);
    part(&root.path().join("train"), &[("data-00000-of-00001.arrow", train)]);
    let test = of_numbers(["b", "label", "a"], &[3, 4]);
    part(&root.path().join("validation"), &[("data-00000-of-00001.arrow", test)]);
    let data = open_table(root.path(), None).unwrap();
    assert_eq!((data.train.labels(), data.test.labels()), (&[0, 1, 0][..], &[1, 0][..]));
    assert_eq!(data.test.rows(&[0, 1]), Some((vec![3.0, 30.0, 4.0, 40.0], 2)));
    assert!(data.notes.iter().any(|note| note.contains("there is no test part")));
}

#[test]
fn one_part_is_divided_by_a_share() {
    let root = tempfile::tempdir().unwrap();
    let name = "data-00000-of-00001.arrow";
    part(root.path(), &[(name, of_numbers(["label", "a", "b"], &[0, 1, 2, 3, 4, 5, 6, 7]))]);
    let share = Some(TestFraction::of_every_class(0.25));
    // The folder, and its only file.
    for path in [root.path().to_owned(), root.path().join(name)] {
        let data = open_table(&path, share).unwrap();
        assert_eq!((data.train.len(), data.test.len()), (6, 2));
        assert!(open_table(&path, None).unwrap_err().contains("data.test_fraction = 0.2"));
    }
}

#[test]
fn selections_and_broken_lists_are_refused_with_their_file() {
    let root = tempfile::tempdir().unwrap();
    let refusal = || {
        let error = open_table(root.path(), None).unwrap_err();
        error.replace(&root.path().display().to_string(), "[root]")
    };
    let name = "data-00000-of-00001.arrow";
    let rows = || of_numbers(["label", "a", "b"], &[0, 1]);
    list(root.path(), r#"["left", "right"]"#);
    let error = refusal();
    assert!(error.contains("dataset_dict.json: expected a part `train`, found the parts left"));
    assert!(error.contains("data.path = \"[root]/left\" with data.test_fraction"), "{error}");
    list(root.path(), r#"["train"]"#);
    assert!(refusal().contains("[root]/train/state.json: not found"));
    let train = root.path().join("train");
    part(&train, &[(name, rows())]);
    for key in ["_indices_files", "_indices_data_files"] {
        let files = format!(r#"[{{"filename": "{name}"}}]"#);
        let state = format!(r#"{{"_data_files": {files}, "{key}": {files}}}"#);
        fs::write(train.join(STATE), state).unwrap();
        assert!(refusal().contains("d.flatten_indices()"), "{}", refusal());
        let error = open_table(&train.join(name), None).unwrap_err();
        assert!(error.contains("d.flatten_indices()"), "{error}");
    }
    for outside in ["../x.arrow", "/x.arrow", "a/b.arrow", ""] {
        let state = format!(r#"{{"_data_files": [{{"filename": "{outside}"}}]}}"#);
        fs::write(train.join(STATE), state).unwrap();
        assert!(refusal().contains("names of files next to it"), "{outside}: {}", refusal());
    }
    fs::write(train.join(STATE), r#"{"_data_files": "#).unwrap();
    assert!(refusal().contains("[root]/train/state.json: expected a list"));
    part(&train, &[(name, rows())]);
    fs::remove_file(train.join(name)).unwrap();
    assert!(refusal().contains("[root]/train/data-00000-of-00001.arrow: "), "{}", refusal());
    fs::write(train.join(name), &rows()[..200]).unwrap();
    assert!(
        refusal().contains("[root]/train/data-00000-of-00001.arrow: expected a whole Arrow file")
    );
}
