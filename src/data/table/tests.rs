use std::io::Write;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, FloatType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::*;
use crate::data::numpy::tests::{floats, npy};

fn names(width: usize, client: Option<&str>) -> TableNames {
    let client = client.map(str::to_owned);
    TableNames { width, input: "features".into(), label: "label".into(), client }
}

fn read_with(
    root: &Path,
    path: &str,
    names: &TableNames,
    share: Option<f64>,
) -> Result<Dataset, String> {
    let share = share.map(TestFraction::of_every_class);
    open(&root.join(path), names, share)
        .map_err(|error| error.to_string().replace(&root.display().to_string(), "[root]"))
}

fn write(root: &Path, name: &str, bytes: impl AsRef<[u8]>) {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

const TRAIN: &str = "a,label,b,user\n1,cat,2,x\n3,emu,4,y\n5,cat,6.5,x\n";
const TEST: &str = "a,label,b,user\n7,emu,8,z\n9,cat,-1e1,z\n";

#[test]
fn the_rows_of_a_csv_file_are_its_other_columns() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "train.csv", TRAIN);
    write(root.path(), "test.csv", TEST);
    let data = read_with(root.path(), "", &names(2, Some("user")), None).unwrap();
    assert_eq!(data.class_names, ["cat", "emu"]);
    assert_eq!((data.train.labels(), data.test.labels()), (&[0, 1, 0][..], &[1, 0][..]));
    assert_eq!(data.train.owners().unwrap(), [0, 1, 0]);
    assert_eq!(data.train.rows(&[2, 0]).unwrap(), (vec![5.0, 6.5, 1.0, 2.0], 2));
    assert_eq!(data.test.rows(&[1]).unwrap().0, [9.0, -10.0]);
    assert_eq!(data.train.image_shape(), Some([2, 1, 1]));
    let stacked = data.train.pixels(&crate::data::Transform::default(), &[1]).unwrap();
    assert_eq!((stacked.pixels, stacked.shape), (vec![3.0, 4.0], [1, 2, 1, 1]));
}

#[test]
fn one_file_is_divided_by_a_share() {
    let root = tempfile::tempdir().unwrap();
    let lines: String = (0..20).map(|i| format!("{i},{},0,u\n", i % 2)).collect();
    write(root.path(), "all.csv", format!("a,label,b,user\n{lines}"));
    let names = names(2, Some("user"));
    let data = read_with(root.path(), "all.csv", &names, Some(0.3)).unwrap();
    assert_eq!((data.train.len(), data.test.len()), (14, 6));
    assert_eq!(data.test.by_class()[1].len(), 3);
    // A row keeps its label: even rows are of class 0.
    for split in [&data.train, &data.test] {
        for (sample, label) in (0..).zip(split.labels()) {
            assert_eq!(split.rows(&[sample]).unwrap().0[0] as u32 % 2, *label);
        }
    }
    let error = read_with(root.path(), "all.csv", &names, None).unwrap_err();
    assert!(error.contains("data.test_fraction = 0.2"), "{error}");
    write(root.path(), "train.csv", TRAIN);
    write(root.path(), "val.csv", TEST);
    assert!(
        read_with(root.path(), "", &names, Some(0.3))
            .unwrap_err()
            .contains("remove data.test_fraction")
    );
    let noted = read_with(root.path(), "", &names, None).unwrap();
    assert!(noted.notes[0].contains("val.csv: there is no test part"), "{:?}", noted.notes);
}

#[test]
fn wrong_tables_say_where_and_what_to_do() {
    let cases = [
        (
            TRAIN,
            names(3, Some("user")),
            "[root]/train.csv: expected rows of 3 numbers, found rows of 2: a, b. Set data.width = 2 if all of them are \
             numbers of a row; every column but `label` and `user` is",
        ),
        (
            TRAIN,
            names(3, None),
            "[root]/train.csv:2: expected a finite number, found `x` in the column `user`",
        ),
        (
            "a,class,b,user\n1,0,2,3\n",
            names(2, None),
            "expected a column `label`, found the columns a, class, b, user",
        ),
        (
            "a,label,b,user\n1,0\n",
            names(2, Some("user")),
            "as many cells in every line, found 2 cells in line 2, where the header has 4",
        ),
        (
            "a,label,b,user\n1,0,nan,x\n",
            names(2, Some("user")),
            "[root]/train.csv:2: expected a finite number, found `nan` in the column `b`",
        ),
        ("a,label,b,user\n", names(2, Some("user")), "at least one sample"),
        (
            "a,label,b,user\n1,cat,2,x\n",
            names(2, Some("user")),
            "test.csv: expected labels that the training part has, too, found `emu` of sample 0",
        ),
    ];
    for (train, names, expected) in cases {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "train.csv", train);
        write(root.path(), "test.csv", TEST);
        let error = read_with(root.path(), "", &names, None).unwrap_err();
        assert!(error.contains(expected), "{error}\ninstead of\n{expected}");
    }
    let root = tempfile::tempdir().unwrap();
    assert!(
        read_with(root.path(), "", &names(2, None), None)
            .unwrap_err()
            .contains("train.csv: not found")
    );
    write(root.path(), "train.csv", TRAIN);
    write(root.path(), "train.npz", "");
    assert!(
        read_with(root.path(), "", &names(2, None), None).unwrap_err().contains("are both there")
    );
    write(root.path(), "rows.npy", "");
    assert!(
        read_with(root.path(), "rows.npy", &names(2, None), None)
            .unwrap_err()
            .contains("has no labels")
    );
}

fn zipped(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in members {
        zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn arrays(rows: &[f32], labels: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let count = labels.len();
    let rows = npy("<f4", false, &format!("{count}, 2"), &floats(rows));
    (rows, npy("|u1", false, &format!("{count},"), labels))
}

#[test]
fn arrays_are_read_from_folders_and_packed() {
    let root = tempfile::tempdir().unwrap();
    let (rows, labels) = arrays(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[4, 9, 4]);
    let (tests, tested) = arrays(&[7.0, 8.0, 9.0, 0.5], &[9, 4]);
    for (part, rows, labels) in [("train", &rows, &labels), ("test", &tests, &tested)] {
        write(root.path(), &format!("folder/{part}/features.npy"), rows);
        write(root.path(), &format!("folder/{part}/label.npy"), labels);
        let members = [("features.npy", rows.clone()), ("label.npy", labels.clone())];
        write(root.path(), &format!("files/{part}.npz"), zipped(&members));
    }
    let members = [
        ("features_train.npy", rows),
        ("label_train.npy", labels),
        ("features_test.npy", tests),
        ("label_test.npy", tested),
    ];
    write(root.path(), "both.npz", zipped(&members));
    for path in ["folder", "files", "both.npz"] {
        let data = read_with(root.path(), path, &names(2, None), None).unwrap();
        assert_eq!(data.class_names, ["4", "9"], "{path}");
        assert_eq!(data.train.rows(&[1]).unwrap().0, [3.0, 4.0], "{path}");
        assert_eq!(
            (data.test.labels(), data.test.rows(&[1]).unwrap().0),
            (&[1, 0][..], vec![9.0, 0.5])
        );
        assert!(data.notes.is_empty(), "{path}: {:?}", data.notes);
    }
    let other = TableNames { label: "y".into(), ..names(2, None) };
    let error = read_with(root.path(), "files", &other, None).unwrap_err();
    assert!(error.contains("expected an array `y`, found the arrays features, label"), "{error}");
    let error = read_with(root.path(), "both.npz", &names(5, None), None).unwrap_err();
    assert!(error.contains("Set data.width = 2"), "{error}");
    write(root.path(), "files/train.npz", "PK not a zip");
    assert!(
        read_with(root.path(), "files", &names(2, None), None)
            .unwrap_err()
            .contains("a whole .npz file")
    );
}

/// Returns a file with a column of lists, or a column per number, and labels as texts.
fn parquet(lists: bool, rows: &[[f32; 2]], labels: &[&str]) -> Vec<u8> {
    let leaf = |name, kind, repetition| {
        let builder = Type::primitive_type_builder(name, kind).with_repetition(repetition);
        let text = kind == Physical::BYTE_ARRAY;
        std::sync::Arc::new(
            builder.with_logical_type(text.then_some(LogicalType::String)).build().unwrap(),
        )
    };
    let mut fields = match lists {
        true => {
            let group = |name, repetition, field| {
                let builder = Type::group_type_builder(name).with_repetition(repetition);
                std::sync::Arc::new(builder.with_fields(vec![field]).build().unwrap())
            };
            let element = leaf("element", Physical::FLOAT, Repetition::OPTIONAL);
            let list = group("list", Repetition::REPEATED, element);
            vec![group("features", Repetition::OPTIONAL, list)]
        }
        false => {
            ["a", "b"].iter().map(|n| leaf(n, Physical::FLOAT, Repetition::REQUIRED)).collect()
        }
    };
    fields.push(leaf("label", Physical::BYTE_ARRAY, Repetition::OPTIONAL));
    fields.push(leaf("user", Physical::INT64, Repetition::REQUIRED));
    let schema = Type::group_type_builder("schema").with_fields(fields).build().unwrap();
    let properties =
        WriterProperties::builder().set_compression(parquet::basic::Compression::SNAPPY).build();
    let mut file = SerializedFileWriter::new(Vec::new(), schema.into(), properties.into()).unwrap();
    // Two row groups: the second begins in the middle.
    for (rows, labels) in [(&rows[..1], &labels[..1]), (&rows[1..], &labels[1..])] {
        let mut group = file.next_row_group().unwrap();
        let mut at = 0;
        while let Some(mut column) = group.next_column().unwrap() {
            match (at, lists) {
                (0, true) => {
                    let values: Vec<f32> = rows.concat();
                    let begins: Vec<i16> = rows.iter().flat_map(|_| [0, 1]).collect();
                    let whole = vec![3; values.len()];
                    column
                        .typed::<FloatType>()
                        .write_batch(&values, Some(&whole), Some(&begins))
                        .unwrap();
                }
                (0 | 1, false) => {
                    let values: Vec<f32> = rows.iter().map(|row| row[at]).collect();
                    column.typed::<FloatType>().write_batch(&values, None, None).unwrap();
                }
                (1, true) | (2, false) => {
                    let given: Vec<i16> =
                        labels.iter().map(|label| i16::from(!label.is_empty())).collect();
                    let values: Vec<ByteArray> = labels
                        .iter()
                        .filter(|l| !l.is_empty())
                        .map(|l| ByteArray::from(*l))
                        .collect();
                    column
                        .typed::<ByteArrayType>()
                        .write_batch(&values, Some(&given), None)
                        .unwrap();
                }
                _ => {
                    let users: Vec<i64> = (0..labels.len() as i64).map(|i| 10 - i % 2).collect();
                    column.typed::<Int64Type>().write_batch(&users, None, None).unwrap();
                }
            }
            column.close().unwrap();
            at += 1;
        }
        group.close().unwrap();
    }
    file.into_inner().unwrap()
}

#[test]
fn parquet_has_lists_or_columns() {
    let (rows, labels) = ([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], ["emu", "cat", "emu"]);
    for lists in [true, false] {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "train.parquet", parquet(lists, &rows, &labels));
        write(root.path(), "test.parquet", parquet(lists, &rows[..2], &labels[..2]));
        let data = read_with(root.path(), "", &names(2, Some("user")), None).unwrap();
        assert_eq!((data.class_names.len(), data.train.labels()), (2, &[1, 0, 1][..]));
        assert_eq!(data.train.rows(&[2, 1]).unwrap().0, [5.0, 6.0, 3.0, 4.0]);
        assert_eq!(data.train.owners().unwrap(), [1, 1, 0], "users 10, 10 and 9 of two row groups");
        let error = read_with(root.path(), "", &names(3, Some("user")), None).unwrap_err();
        assert!(error.contains("rows of 3 numbers, found rows of 2"), "{error}");
        write(root.path(), "train.parquet", parquet(lists, &rows, &["emu", "cat", ""]));
        let error = read_with(root.path(), "", &names(2, Some("user")), None).unwrap_err();
        assert!(error.contains("a value of `label` in every row, found none in row 2"), "{error}");
        let whole = parquet(lists, &rows, &labels);
        write(root.path(), "train.parquet", &whole[..whole.len() - 9]);
        let error = read_with(root.path(), "", &names(2, Some("user")), None).unwrap_err();
        assert!(error.contains("a whole Parquet file"), "{error}");
    }
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "all.parquet", parquet(true, &rows, &labels));
    let other = TableNames { label: "class".into(), ..names(2, None) };
    let error = read_with(root.path(), "all.parquet", &other, None).unwrap_err();
    assert!(error.contains("a column `class`, found the columns features, label, user"), "{error}");
}

/// Opens a folder with these files.
fn opened(files: &[(&str, &str)], client: Option<&str>) -> Result<Dataset, String> {
    let root = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, text)| write(root.path(), name, text));
    read_with(root.path(), "", &names(2, client), None)
}

#[test]
fn columns_belong_to_their_names_in_every_part() {
    let train = ("train.csv", "label,a,b\n0,1,10\n1,2,20\n");
    let data = opened(&[train, ("test.csv", "b,label,a\n30,1,3\n40,0,4\n")], None).unwrap();
    assert_eq!(data.test.rows(&[0, 1]).unwrap().0, [3.0, 30.0, 4.0, 40.0]);
    assert_eq!(
        (data.train.rows(&[1]).unwrap().0, data.test.labels()),
        (vec![2.0, 20.0], &[1, 0][..])
    );
    assert!(data.notes[0].contains("a row is the columns `a`, `b`"), "{:?}", data.notes);
    let error = opened(&[train, ("test.csv", "label,a,c\n1,3,30\n")], None).unwrap_err();
    assert!(error.contains("test.csv: expected the columns of [root]/train.csv"), "{error}");
    assert!(error.contains("no column `b`, in addition `c`"), "{error}");
    let error = opened(&[train, ("test.csv", "label,a,b,c\n1,3,30,0\n")], None).unwrap_err();
    assert!(error.contains("in addition `c`") && !error.contains("data.width"), "{error}");
    // The same for files of one part.
    let shards = [
        ("train-0-of-2.csv", train.1),
        ("train-1-of-2.csv", "b,a,label\n50,5,1\n"),
        ("test.csv", train.1),
    ];
    let data = opened(&shards, None).unwrap();
    assert_eq!(data.train.rows(&[2, 0]).unwrap().0, [5.0, 50.0, 1.0, 10.0]);
    assert_eq!(data.train.labels(), [0, 1, 1]);
}

#[test]
fn labels_of_any_spelling_are_ordered_by_value() {
    let train = ("train.csv", "label,a,b\n10.0,1,1\n2.0,2,2\n9,3,3\n");
    let data = opened(&[train, ("test.csv", "label,a,b\n9,3,3\n2,2,2\n10,1,1\n")], None).unwrap();
    assert_eq!(data.class_names, ["2", "9", "10"]);
    assert_eq!((data.train.labels(), data.test.labels()), (&[2, 0, 1][..], &[1, 0, 2][..]));
    let texts = |labels: &[&str]| parquet(false, &[[1.0, 2.0], [3.0, 4.0]], labels);
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "train.parquet", texts(&["10", "9"]));
    write(root.path(), "test.parquet", texts(&["9", "10"]));
    let data = read_with(root.path(), "", &names(2, Some("user")), None).unwrap();
    assert_eq!(
        (data.class_names, data.train.labels()),
        (vec!["9".into(), "10".into()], &[1, 0][..])
    );
    let fractions = "label,a,b\n0.5,1,1\n2,2,2\n";
    let error = opened(&[("train.csv", fractions), ("test.csv", fractions)], None).unwrap_err();
    assert!(error.contains("0.5 in row 0"), "{error}");
}

#[test]
fn lines_are_counted_with_empty_ones_and_any_line_end() {
    let test = ("test.csv", "label,a,b\n0,1,1\n");
    for (rows, number) in [
        ("label,a,b\r\n0,1,1\r\n1,x,2\r\n", 3),
        ("label,a,b\r\n\r\n0,1,1\r\n\r\n\r\n1,x,2\r\n", 6),
        ("label,a,b\n0,1,1\n\n\n1,x,2\n", 5),
        ("\n\nlabel,a,b\n0,\"1\n\",1\n1,x,2\n", 6),
    ] {
        let error = opened(&[("train.csv", rows), test], None).unwrap_err();
        let expected = format!("[root]/train.csv:{number}: expected a finite number, found `x`");
        assert!(error.contains(&expected), "{rows:?}: {error}");
        let short = rows.replace("x,2", "2");
        let error = opened(&[("train.csv", &short), test], None).unwrap_err();
        assert!(error.contains(&format!("found 2 cells in line {number}, ")), "{short:?}: {error}");
    }
}

#[test]
fn cells_without_a_label_or_owner_are_refused_with_their_line() {
    let test = ("test.csv", "label,a,b\n0,1,1\n");
    for cell in ["", "NaN", "nan", "null", "None", "NA"] {
        let label = format!("label,a,b\n0,1,1\n{cell},2,2\n");
        let error = opened(&[("train.csv", &label), test], None).unwrap_err();
        let expected = "[root]/train.csv:3: expected a value of `label` in every row, found";
        assert!(error.contains(expected), "`{cell}`: {error}");
        let owner = format!("label,user,a,b\n0,u,1,1\n0,{cell},2,2\n");
        let error = opened(&[("train.csv", &owner), test], Some("user")).unwrap_err();
        assert!(error.contains("train.csv:3: expected a value of `user`"), "`{cell}`: {error}");
    }
}

#[test]
fn a_test_part_needs_no_owners() {
    let train = ("train.csv", "label,user,a,b\n0,u,1,1\n1,v,2,2\n");
    for test in ["label,a,b\n0,1,1\n1,2,3\n", "user,label,b,a\n,0,1,1\nNaN,1,3,2\n"] {
        let data = opened(&[train, ("test.csv", test)], Some("user")).unwrap();
        assert_eq!(data.train.owners().unwrap(), [0, 1]);
        assert_eq!(data.test.rows(&[1]).unwrap().0, [2.0, 3.0], "{test}");
    }
    let root = tempfile::tempdir().unwrap();
    let (rows, labels) = arrays(&[1.0, 2.0, 3.0, 4.0], &[0, 1]);
    let users = npy("<i8", false, "2,", &[7u64.to_le_bytes(), 5u64.to_le_bytes()].concat());
    let members =
        [("features.npy", rows.clone()), ("label.npy", labels.clone()), ("user.npy", users)];
    write(root.path(), "train.npz", zipped(&members));
    write(root.path(), "test.npz", zipped(&members[..2]));
    let data = read_with(root.path(), "", &names(2, Some("user")), None).unwrap();
    assert_eq!(data.train.owners().unwrap(), [1, 0]);
}

#[test]
fn numbered_parquet_files_are_one_table() {
    let root = tempfile::tempdir().unwrap();
    write(
        root.path(),
        "train-00001-of-00002.parquet",
        parquet(false, &[[5.0, 6.0], [7.0, 8.0]], &["cat", "emu"]),
    );
    write(
        root.path(),
        "train-00000-of-00002.parquet",
        parquet(false, &[[1.0, 2.0], [3.0, 4.0]], &["emu", "cat"]),
    );
    write(root.path(), "test.parquet", parquet(false, &[[1.0, 2.0], [3.0, 4.0]], &["emu", "cat"]));
    let data = read_with(root.path(), "", &names(2, Some("user")), None).unwrap();
    assert_eq!(data.train.labels(), [1, 0, 0, 1]);
    assert_eq!(data.train.rows(&[3, 0]).unwrap().0, [7.0, 8.0, 1.0, 2.0]);
    std::fs::remove_file(root.path().join("train-00000-of-00002.parquet")).unwrap();
    let error = read_with(root.path(), "", &names(2, Some("user")), None).unwrap_err();
    assert!(error.contains("2 files of its kind") && error.contains("without number 0"), "{error}");
}

#[test]
fn objects_of_python_are_named_with_what_helps() {
    let root = tempfile::tempdir().unwrap();
    let (rows, _) = arrays(&[1.0, 2.0], &[0]);
    let objects = npy("|O", false, "1,", b"pickle");
    write(root.path(), "all.npz", zipped(&[("features.npy", rows), ("label.npy", objects)]));
    let error = read_with(root.path(), "all.npz", &names(2, None), Some(0.5)).unwrap_err();
    assert!(error.contains("all.npz/label") && error.contains("Python objects"), "{error}");
    assert!(error.contains("x.astype(str)") && !error.contains("numpy.save"), "{error}");
}
