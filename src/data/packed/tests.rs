use std::io::Cursor;

use parquet::basic::{Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::*;
use crate::data::folder::{Orientation, StoredSize};

/// Returns an image of one color.
fn png(color: u8, width: u32, height: u32) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    let image = image::RgbImage::from_pixel(width, height, image::Rgb([color, 0, 255]));
    image.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    bytes.into_inner()
}

/// Returns a table as the hub writes it, with the classes emu and cat, or without names.
fn hub(rows: &[(Vec<u8>, i64, i64)], named: bool) -> Vec<u8> {
    hub_of(rows, named.then_some(r#"["emu", "cat"]"#))
}

/// Returns a table as the hub writes it. It has a structure of bytes and path, a label, a writer; names of classes as
/// a list in JSON.
fn hub_of(rows: &[(Vec<u8>, i64, i64)], names: Option<&str>) -> Vec<u8> {
    let leaf = |name, kind, repetition| {
        let leaf = Type::primitive_type_builder(name, kind).with_repetition(repetition);
        Arc::new(leaf.build().unwrap())
    };
    let bytes =
        ["bytes", "path"].map(|name| leaf(name, Physical::BYTE_ARRAY, Repetition::OPTIONAL));
    let image = Type::group_type_builder("image").with_repetition(Repetition::OPTIONAL);
    let image = Arc::new(image.with_fields(bytes.to_vec()).build().unwrap());
    let fields = vec![
        image,
        leaf("label", Physical::INT64, Repetition::OPTIONAL),
        leaf("writer", Physical::INT64, Repetition::OPTIONAL),
    ];
    let schema = Type::group_type_builder("schema").with_fields(fields).build().unwrap();
    let note = |names: &str| {
        let label = format!(r#"{{"names": {names}, "_type": "ClassLabel"}}"#);
        let note = format!(
            r#"{{"info": {{"features": {{"image": {{"_type": "Image"}}, "label": {label}}}}}}}"#
        );
        vec![KeyValue::new("huggingface".to_owned(), note)]
    };
    let zstd = parquet::basic::Compression::ZSTD(Default::default());
    let properties = WriterProperties::builder()
        .set_key_value_metadata(names.map(note))
        .set_compression(zstd)
        .build();
    let mut file = SerializedFileWriter::new(Vec::new(), schema.into(), properties.into()).unwrap();
    let mut group = file.next_row_group().unwrap();
    let given = |level: i16| vec![level; rows.len()];
    let mut at = 0;
    while let Some(mut column) = group.next_column().unwrap() {
        match at {
            0 | 1 => {
                let path = |_| ByteArray::from("x.png");
                let values: Vec<ByteArray> = match at {
                    0 => rows.iter().map(|row| ByteArray::from(row.0.clone())).collect(),
                    _ => rows.iter().map(path).collect(),
                };
                column
                    .typed::<ByteArrayType>()
                    .write_batch(&values, Some(&given(2)), None)
                    .unwrap();
            }
            _ => {
                let values: Vec<i64> =
                    rows.iter().map(|r| if at == 2 { r.1 } else { r.2 }).collect();
                column.typed::<Int64Type>().write_batch(&values, Some(&given(1)), None).unwrap();
            }
        }
        column.close().unwrap();
        at += 1;
    }
    group.close().unwrap();
    file.into_inner().unwrap()
}

fn options() -> PackedOptions {
    PackedOptions {
        form: StoredForm { size: StoredSize::Square(4), orientation: Orientation::Exif },
        input: "image".into(),
        label: "label".into(),
        client: Some("writer".into()),
        test_fraction: None,
        budget: 1 << 20,
    }
}

fn sample(named: bool) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("data")).unwrap();
    let write = |name: &str, rows: &[(Vec<u8>, i64, i64)]| {
        std::fs::write(root.path().join("data").join(name), hub(rows, named)).unwrap();
    };
    write("train-00001-of-00002.parquet", &[(png(30, 8, 4), 1, 9)]);
    write("train-00000-of-00002.parquet", &[(png(10, 4, 4), 0, 7), (png(20, 4, 4), 1, 9)]);
    write("validation-00000-of-00001.parquet", &[(png(40, 5, 5), 1, 7), (png(50, 5, 5), 0, 7)]);
    root
}

#[test]
fn files_are_read_in_order_with_the_names_of_the_hub() {
    let root = sample(true);
    let data = open(root.path(), &options()).unwrap();
    assert_eq!(data.class_names, ["emu", "cat"]);
    assert_eq!((data.train.labels(), data.test.labels()), (&[0, 1, 1][..], &[1, 0][..]));
    assert_eq!(data.train.owners().unwrap(), [0, 1, 1]);
    for (sample, color) in [10, 20, 30].into_iter().enumerate() {
        let image = data.train.image(sample).unwrap();
        assert_eq!((image.height, image.width, image.pixels[0]), (4, 4, color));
    }
    assert!(data.notes[0].contains("validation-00000-of-00001.parquet"), "{:?}", data.notes);
    assert_eq!(open(sample(false).path(), &options()).unwrap().class_names, ["0", "1"]);
}

#[test]
fn a_part_is_in_one_place_and_its_files_are_named_by_it() {
    let root = sample(true);
    let data = |name: &str| root.path().join("data").join(name);
    // Parts of other names: neither trained on nor tested.
    for name in ["train_extra-00000-of-00001.parquet", "tested.parquet"] {
        std::fs::copy(data("train-00001-of-00002.parquet"), data(name)).unwrap();
    }
    assert_eq!(open(root.path(), &options()).unwrap().train.len(), 3);
    // A part in addition to the one that is measured on is not used, and a note says so.
    std::fs::copy(data("validation-00000-of-00001.parquet"), data("test.parquet")).unwrap();
    let both = open(root.path(), &options()).unwrap();
    assert_eq!(
        both.notes,
        ["accuracies are measured on test; data/validation-00000-of-00001.parquet is not used"]
    );
    // A second copy.
    let folder = root.path().join("train");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(data("train-00001-of-00002.parquet"), folder.join("0.parquet")).unwrap();
    let error = open(root.path(), &options()).unwrap_err().to_string();
    assert!(error.contains("0.parquet and ") && error.contains("are both there"), "{error}");
}

#[test]
fn packed_images_are_bounded() {
    let root = sample(true);
    let table = ColumnarFile::open(&root.path().join("data/train-00000-of-00002.parquet")).unwrap();
    let all = (png(10, 4, 4).len() + png(20, 4, 4).len()) as u64;
    assert_eq!(images(std::slice::from_ref(&table), "image", all).unwrap().len(), 2);
    let error = images(&[table], "image", all - 1).unwrap_err().to_string();
    assert!(error.contains("are more than") && error.contains("\"folder\""), "{error}");
}

#[test]
fn memory_and_packed_images_give_the_same_pixels_and_lists_need_none() {
    let root = sample(true);
    let open = |budget| open(root.path(), &PackedOptions { budget, ..options() }).unwrap();
    let (kept, packed, listed) = (open(1 << 20), open(1), open(0));
    for sample in 0..3 {
        assert_eq!(
            kept.train.image(sample).unwrap().pixels,
            packed.train.image(sample).unwrap().pixels
        );
    }
    assert!(matches!(packed.train.image(0).unwrap().pixels, std::borrow::Cow::Owned(_)));
    assert_eq!(
        (listed.train.labels(), listed.class_names),
        (kept.train.labels(), kept.class_names)
    );
}

#[test]
fn what_is_wrong_is_named() {
    let refusal = |root: &tempfile::TempDir, options: &PackedOptions| {
        let error = open(root.path(), options).unwrap_err().to_string();
        error.replace(&root.path().display().to_string(), "[root]")
    };
    let root = sample(true);
    let error = refusal(&root, &PackedOptions { label: "fine_label".into(), ..options() });
    assert!(
        error.contains("expected a column `fine_label`, found the columns image, label, writer"),
        "{error}"
    );
    let error = refusal(&root, &PackedOptions { input: "label".into(), ..options() });
    assert!(error.contains("bytes in the column `label`, found values of type INT64"), "{error}");
    let share = Some(TestFraction::of_every_class(0.5));
    assert!(
        refusal(&root, &PackedOptions { test_fraction: share, ..options() })
            .contains("remove data.test_fraction")
    );
    let bad = hub(&[(png(1, 4, 4), 0, 1), (vec![1, 2, 3], 1, 1)], true);
    std::fs::write(root.path().join("data/train-00001-of-00002.parquet"), bad).unwrap();
    let error = refusal(&root, &options());
    assert!(error.contains("train-00001-of-00002.parquet row 1: expected an image"), "{error}");
    let high = hub(&[(png(1, 4, 4), 2, 1)], true);
    std::fs::write(root.path().join("data/train-00001-of-00002.parquet"), high).unwrap();
    let error = refusal(&root, &options());
    let expected =
        "train-00001-of-00002.parquet: expected labels from 0 to 1, found label 2 of sample 0";
    assert!(error.contains(expected), "{error}");
    let empty = tempfile::tempdir().unwrap();
    assert!(refusal(&empty, &options()).contains("[root]/train.parquet: not found"));
}

#[test]
fn one_file_is_divided_by_a_share() {
    let root = tempfile::tempdir().unwrap();
    let rows: Vec<_> = (0..8).map(|i| (png(i * 9, 4, 4), i64::from(i % 2), 1)).collect();
    std::fs::write(root.path().join("all.parquet"), hub(&rows, true)).unwrap();
    let share = Some(TestFraction::of_every_class(0.25));
    let options = PackedOptions { test_fraction: share, ..options() };
    let data = open(&root.path().join("all.parquet"), &options).unwrap();
    assert_eq!((data.train.len(), data.test.len()), (6, 2));
    for split in [&data.train, &data.test] {
        for (sample, label) in split.labels().iter().enumerate() {
            let color = split.image(sample).unwrap().pixels[0];
            assert_eq!(u32::from(color / 9 % 2), *label);
        }
    }
}

/// Name of a file, gray value and label of each of its images, and its names of classes.
type NamedFile<'a> = (&'a str, &'a [(u8, i64)], Option<&'a str>);

/// Files of two classes that number them as they like; what is read of them.
fn of_names(files: &[NamedFile<'_>]) -> Result<Dataset, String> {
    let root = tempfile::tempdir().unwrap();
    for (name, rows, names) in files {
        let rows: Vec<_> =
            rows.iter().map(|(color, label)| (png(*color, 4, 4), *label, 1)).collect();
        std::fs::write(root.path().join(name), hub_of(&rows, *names)).unwrap();
    }
    open(root.path(), &options()).map_err(|error| error.to_string())
}

#[test]
fn numbers_of_a_file_are_indices_into_its_own_names() {
    let (one, other) = (Some(r#"["emu", "cat"]"#), Some(r#"["cat", "emu"]"#));
    let shards = |last| {
        of_names(&[
            ("train-0-of-2.parquet", &[(10, 0), (20, 1)], one),
            ("train-1-of-2.parquet", &[(30, 0), (40, 1)], last),
            ("test.parquet", &[(50, 0), (60, 1)], other),
        ])
    };
    let data = shards(other).unwrap();
    assert_eq!(data.class_names, ["emu", "cat"]);
    assert_eq!((data.train.labels(), data.test.labels()), (&[0, 1, 1, 0][..], &[1, 0][..]));
    assert!(data.notes[0].contains("number their classes differently"), "{:?}", data.notes);
    let error = shards(None).unwrap_err();
    assert!(error.contains("train-1-of-2.parquet: expected names of its classes"), "{error}");
    let data = shards(Some(r#"["emu", "dog"]"#)).unwrap();
    assert_eq!(data.class_names, ["emu", "cat", "dog"]);
    assert_eq!((data.train.labels(), data.test.labels()), (&[0, 1, 0, 2][..], &[1, 0][..]));
}

#[test]
fn the_folder_of_the_only_configuration_is_read() {
    let root = sample(true);
    std::fs::rename(root.path().join("data"), root.path().join("plain_text")).unwrap();
    let data = open(root.path(), &options()).unwrap();
    assert_eq!((data.train.len(), data.test.len()), (3, 2));
    assert!(data.notes[0].contains("plain_text"), "{:?}", data.notes);
}
