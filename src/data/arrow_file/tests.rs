use std::sync::Arc;

use arrow_array::builder::{
    FixedSizeListBuilder, Float32Builder, Float64Builder, ListBuilder, StringDictionaryBuilder,
};
use arrow_array::types::Int32Type;
use arrow_array::{
    BinaryArray, BooleanArray, Date32Array, Float16Array, Float64Array, Int8Array, Int64Array,
    LargeBinaryArray, LargeStringArray, RecordBatch, StringArray, StringViewArray, StructArray,
    UInt8Array, UInt64Array,
};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{Fields, Metadata};
use half::f16;

use super::*;

/// Returns a stream of these pieces of columns. `names` are the classes of the column `label`, a list in JSON.
pub(in crate::data) fn stream(pieces: &[&[(&str, ArrayRef)]], names: Option<&str>) -> Vec<u8> {
    let batch = |piece: &&[(&str, ArrayRef)]| {
        let field = |(name, array): &(&str, ArrayRef)| {
            Field::new(name.to_string(), array.data_type().clone(), true)
        };
        let note = |names: &str| {
            let label = format!(r#"{{"names": {names}, "_type": "ClassLabel"}}"#);
            format!(r#"{{"info": {{"features": {{"label": {label}}}}}}}"#)
        };
        let notes: Metadata = names.map(|names| ("huggingface", note(names))).into_iter().collect();
        let schema = arrow_schema::Schema::new(piece.iter().map(field).collect::<Fields>());
        let columns = piece.iter().map(|(_, array)| Arc::clone(array)).collect();
        RecordBatch::try_new(Arc::new(schema.with_metadata(notes)), columns).unwrap()
    };
    let batches: Vec<RecordBatch> = pieces.iter().map(batch).collect();
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

/// Returns a column of images as `datasets` has them.
pub(in crate::data) fn images(rows: &[(Option<&[u8]>, Option<&str>)]) -> ArrayRef {
    let bytes = rows.iter().map(|row| row.0).collect::<BinaryArray>();
    let paths = rows.iter().map(|row| row.1).collect::<StringArray>();
    let fields = [("bytes", DataType::Binary), ("path", DataType::Utf8)];
    let fields: Fields = fields.map(|(name, kind)| Arc::new(Field::new(name, kind, true))).into();
    Arc::new(StructArray::new(fields, vec![Arc::new(bytes), Arc::new(paths)], None))
}

fn written(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("data.arrow");
    std::fs::write(&path, bytes).unwrap();
    (root, path)
}

/// Returns a file of one column `v` in these pieces.
fn file(pieces: &[ArrayRef]) -> (tempfile::TempDir, ArrowFile) {
    let pieces: Vec<[(&str, ArrayRef); 1]> = pieces.iter().map(|p| [("v", p.clone())]).collect();
    let pieces: Vec<&[(&str, ArrayRef)]> = pieces.iter().map(|piece| piece.as_slice()).collect();
    let (root, path) = written(&stream(&pieces, None));
    (root, ArrowFile::open(&path).unwrap())
}

fn labels(piece: ArrayRef) -> Result<Vec<String>, String> {
    let (_root, file) = file(&[piece]);
    let labels = file.labels("v").map_err(|error| error.to_string())?;
    Ok(labels.texts().into_iter().map(str::to_owned).collect())
}

fn numbers(piece: ArrayRef) -> Result<(Vec<f32>, Vec<u32>), String> {
    let (_root, file) = file(&[piece]);
    file.numbers("v").map(|c| (c.values, c.counts)).map_err(|error| error.to_string())
}

#[test]
fn numbers_of_every_type_are_labels_and_values() {
    let half = [7.0, -2.0].map(f16::from_f32).to_vec();
    let columns: [ArrayRef; 5] = [
        Arc::new(Int8Array::from(vec![7, -2])),
        Arc::new(Int64Array::from(vec![7, -2])),
        Arc::new(Float16Array::from(half)),
        Arc::new(arrow_array::Float32Array::from(vec![7.0, -2.0])),
        Arc::new(Float64Array::from(vec![7.0, -2.0])),
    ];
    for column in columns {
        let kind = column.data_type().clone();
        assert_eq!(labels(column.clone()).unwrap(), ["7", "-2"], "{kind}");
        assert_eq!(numbers(column).unwrap(), (vec![7.0, -2.0], vec![1, 1]), "{kind}");
    }
    let unsigned = || Arc::new(UInt64Array::from(vec![7, u64::MAX]));
    assert_eq!(labels(unsigned()).unwrap(), ["7", "18446744073709551615"]);
    assert_eq!(numbers(unsigned()).unwrap().0, [7.0, u64::MAX as f32]);
    assert_eq!(numbers(Arc::new(UInt8Array::from(vec![200]))).unwrap().0, [200.0]);
}

#[test]
fn texts_of_every_type_are_labels_and_no_values() {
    let columns: [ArrayRef; 4] = [
        Arc::new(StringArray::from(vec!["emu", "cat"])),
        Arc::new(LargeStringArray::from(vec!["emu", "cat"])),
        Arc::new(StringViewArray::from(vec!["emu", "cat"])),
        Arc::new(BinaryArray::from_vec(vec![b"emu", b"cat"])),
    ];
    for column in columns {
        assert_eq!(labels(column.clone()).unwrap(), ["emu", "cat"], "{}", column.data_type());
        assert!(numbers(column).unwrap_err().contains("expected numbers in the column `v`"));
    }
    let truth = || Arc::new(BooleanArray::from(vec![true, false]));
    assert_eq!(labels(truth()).unwrap(), ["True", "False"]);
    assert!(numbers(truth()).unwrap_err().contains("values of type Boolean"));
    let other = labels(Arc::new(BinaryArray::from_vec(vec![b"a", b"\xff"]))).unwrap_err();
    assert!(other.contains("texts in UTF-8") && other.contains("in row 1"), "{other}");
}

#[test]
fn pieces_are_one_column_and_a_missing_value_has_its_row() {
    let piece = |values: Vec<Option<i64>>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let (_root, whole) = file(&[piece(vec![Some(3), Some(1)]), piece(vec![Some(2)])]);
    assert_eq!(whole.labels("v").unwrap().texts(), ["3", "1", "2"]);
    assert_eq!(whole.numbers("v").unwrap().values, [3.0, 1.0, 2.0]);
    let (_root, gap) = file(&[piece(vec![Some(3), Some(1)]), piece(vec![Some(2), None])]);
    for error in [gap.labels("v").unwrap_err(), gap.numbers("v").err().unwrap()] {
        assert!(error.to_string().contains("found none in row 3"), "{error}");
    }
    let texts = [Some("a"), None].into_iter().collect::<StringArray>();
    assert!(labels(Arc::new(texts)).unwrap_err().contains("found none in row 1"));
}

#[test]
fn class_numbers_have_the_names_next_to_the_schema() {
    let label: ArrayRef = Arc::new(Int64Array::from(vec![1, 0, 1]));
    let bytes = stream(&[&[("other", label.clone()), ("label", label)]], Some(r#"["emu", "cat"]"#));
    let (_root, path) = written(&bytes);
    let file = ArrowFile::open(&path).unwrap();
    let plain = Labels::of_numbers([1, 0, 1]);
    assert_eq!(file.labels("other").unwrap(), plain);
    let names = Some(vec!["emu".to_owned(), "cat".to_owned()]);
    assert_eq!(file.labels("label").unwrap(), plain.with_names(names));
    let error = file.labels("y").unwrap_err().to_string();
    assert!(error.contains("a column `y`, found the columns other, label"), "{error}");
}

#[test]
fn images_are_bytes_alone_or_in_a_structure() {
    let plain: [ArrayRef; 3] = [
        images(&[(Some(b"one"), Some("1.png")), (Some(b"two"), None)]),
        Arc::new(BinaryArray::from_vec(vec![b"one", b"two"])),
        Arc::new(LargeBinaryArray::from_vec(vec![b"one", b"two"])),
    ];
    for column in plain {
        let (_root, file) = file(&[column.clone(), column]);
        let rows = file.bytes("v", "bytes", 12).unwrap().unwrap();
        assert_eq!(rows, [b"one", b"two", b"one", b"two"]);
        assert_eq!(file.bytes("v", "bytes", 11).unwrap(), None);
    }
    let refusal = |rows: &[(Option<&[u8]>, Option<&str>)]| {
        let (_root, file) = file(&[images(rows)]);
        file.bytes("v", "bytes", 99).unwrap_err().to_string()
    };
    let error = refusal(&[(Some(b"one"), None), (None, Some("far/2.png"))]);
    assert!(error.contains("only its path `far/2.png` in row 1"), "{error}");
    assert!(refusal(&[(None, None)]).contains("found none in row 0"));
    let (_root, file) = file(&[Arc::new(Int8Array::from(vec![1]))]);
    let error = file.bytes("v", "bytes", 99).unwrap_err().to_string();
    assert!(error.contains("expected bytes in the column `v`, found values of type Int8"));
}

#[test]
fn lists_are_rows_of_numbers() {
    let mut lists = ListBuilder::new(Float64Builder::new());
    lists.append_value([Some(1.0), Some(2.0)]);
    lists.append_value([Some(3.0)]);
    let lists = Arc::new(lists.finish());
    assert_eq!(numbers(lists.clone()).unwrap(), (vec![1.0, 2.0, 3.0], vec![2, 1]));
    assert!(labels(lists).unwrap_err().contains("one label a row in `v`, found lists"));
    let mut fixed = FixedSizeListBuilder::new(Float32Builder::new(), 2);
    for value in [1.0, 2.0] {
        fixed.values().append_slice(&[value, 0.5]);
        fixed.append(true);
    }
    let fixed = fixed.finish();
    assert_eq!(numbers(Arc::new(fixed)).unwrap(), (vec![1.0, 0.5, 2.0, 0.5], vec![2, 2]));
    let nested = |last: Option<f64>| {
        let mut nested = ListBuilder::new(ListBuilder::new(Float64Builder::new()));
        for rows in [[Some(1.0), Some(2.0)], [Some(3.0), last]] {
            rows.iter().for_each(|value| nested.values().append_value([*value, Some(9.0)]));
            nested.append(true);
        }
        numbers(Arc::new(nested.finish()))
    };
    let values = vec![1.0, 9.0, 2.0, 9.0, 3.0, 9.0, 4.0, 9.0];
    assert_eq!(nested(Some(4.0)).unwrap(), (values, vec![4, 4]));
    assert!(nested(None).unwrap_err().contains("found none in row 1"));
}

#[test]
fn categories_and_dates_are_refused() {
    let mut categories = StringDictionaryBuilder::<Int32Type>::new();
    categories.append_value("emu");
    let categories: ArrayRef = Arc::new(categories.finish());
    for error in [labels(categories.clone()).unwrap_err(), numbers(categories).unwrap_err()] {
        assert!(error.contains("a dictionary") && error.contains("astype(str)"), "{error}");
    }
    let date: ArrayRef = Arc::new(Date32Array::from(vec![1]));
    assert!(labels(date.clone()).unwrap_err().contains("values of type Date32"));
    assert!(numbers(date).unwrap_err().contains("values of type Date32"));
}

#[test]
fn files_that_are_not_whole_are_refused() {
    let row: ArrayRef = Arc::new(Int64Array::from(vec![u32::MAX as i64; 8]));
    let whole = stream(&[&[("label", row.clone())], &[("label", row)]], None);
    let opened = |bytes: &[u8]| {
        let (_root, path) = written(bytes);
        ArrowFile::open(&path).map(|file| file.labels("label").unwrap().len())
    };
    assert_eq!(opened(&whole).unwrap(), 16);
    // Also where the mark of the end alone is missing, and a piece ends with what looks like one.
    let cuts = (0..whole.len()).step_by(whole.len() / 10).chain((1..=8).map(|n| whole.len() - n));
    for cut in cuts {
        let error = opened(&whole[..cut]).unwrap_err().to_string();
        assert!(error.contains("data.arrow: expected"), "{cut}: {error}");
    }
    let twice = opened(&[whole.as_slice(), whole.as_slice()].concat()).unwrap_err().to_string();
    assert!(twice.contains("more behind its mark of the end"), "{twice}");
    assert!(opened(b"ARROW1\0\0").unwrap_err().to_string().contains("read_feather"));
    // No lost byte causes a panic.
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xff;
        let (_root, path) = written(&damaged);
        let _ = ArrowFile::open(&path).and_then(|file| file.labels("label"));
    }
}
