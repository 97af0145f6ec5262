//! Promises: data of one's own are read as they lie, planned without an image, divided as a file says, and nothing is
//! left out in silence.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::command::{CommandOutput, read, run_fedcast};

/// A scenario whose network is nothing, for `data` and `partition` in TOML.
fn scenario(folder: &Path, data: &str, partition: &str) {
    let text = format!(
        "schema = 2\ndata = {data}\ntasks = {{ count = 1 }}\npartition = {partition}\n\
         backbone = {{ kind = \"pixels\" }}\nmethod = {{ name = \"fedavg\" }}\n\
         federation = {{ clients = 2, rounds = 1 }}\nclient = {{ epochs = 1, batch_size = 4 }}\n"
    );
    fs::write(folder.join("own.toml"), text).unwrap();
}

fn run(folder: &Path, out: &str, more: &[&str]) -> CommandOutput {
    run_fedcast(folder, &[&["run", "own.toml", "-q", "-o", out], more].concat())
}

fn digests(folder: &Path, out: &str, more: &[&str]) -> Value {
    let output = run(folder, out, more);
    assert_eq!(output.code, 0, "{}", output.err);
    let manifest: Value =
        serde_json::from_str(&read(folder.join(out).join("manifest.json"))).unwrap();
    manifest["digests"].clone()
}

const IID: &str = r#"{ kind = "iid", min_samples = 1 }"#;

/// Writes images of two classes to a folder; the brightness gives the class.
fn images(folder: &Path, part: &str, count: u8) {
    for (class, base) in [("cat", 40), ("emu", 180)] {
        let place = folder.join(part).join(class);
        fs::create_dir_all(&place).unwrap();
        for i in 0..count {
            let image = image::GrayImage::from_pixel(6, 4, image::Luma([base + i]));
            image.save(place.join(format!("{i:02}.png"))).unwrap();
        }
    }
}

#[test]
fn a_folder_with_val_runs_and_says_what_it_measures_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    images(folder, "pets/train", 8);
    images(folder, "pets/val", 3);
    scenario(folder, r#"{ source = "folder", path = "pets", stored_size = 4 }"#, IID);
    let output = run(folder, "one", &[]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(
        output.err.contains("note: accuracies are measured on val/: there is no test/"),
        "{}",
        output.err
    );
    let matrix = read(folder.join("one/matrix.csv"));
    assert!(matrix.contains(",6,"), "three of each class: {matrix}");
    // The plan lists the same folder, and needs no image: these are damaged now.
    for i in 0..8 {
        fs::write(folder.join(format!("pets/train/cat/{i:02}.png")), "gone").unwrap();
    }
    let plan = run_fedcast(folder, &["plan", "own.toml"]);
    assert_eq!(plan.code, 0, "{}", plan.err);
    assert!(plan.err.contains("note: accuracies are measured on val/"), "{}", plan.err);
    let output = run(folder, "two", &[]);
    assert_eq!(output.code, 6, "{}", output.err);
    assert!(
        output.err.contains("cat/00.png: expected an image (PNG, JPEG, BMP or WebP)"),
        "{}",
        output.err
    );
}

#[test]
fn an_image_that_cannot_be_read_is_an_error_and_no_silent_loss() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    images(folder, "pets/train", 4);
    images(folder, "pets/test", 2);
    scenario(folder, r#"{ source = "folder", path = "pets", stored_size = 4 }"#, IID);
    let whole = digests(folder, "whole", &[]);
    fs::write(folder.join("pets/train/cat/.DS_Store"), "").unwrap();
    fs::write(folder.join("pets/train/cat/LICENSE"), "").unwrap();
    let output = run(folder, "beside", &[]);
    assert!(output.err.contains("2 files among the images passed over"), "{}", output.err);
    assert_eq!(digests(folder, "again", &[]), whole);
    for i in 0..5 {
        fs::write(folder.join(format!("pets/train/emu/{i}.tif")), "").unwrap();
    }
    let output = run(folder, "tif", &[]);
    assert_eq!(output.code, 6);
    assert!(
        output.err.contains(
            "5 files that cannot be a sample of a class: emu/0.tif, emu/1.tif, emu/2.tif, ..."
        ),
        "{}",
        output.err
    );
    let plan = run_fedcast(folder, &["plan", "own.toml"]);
    assert!(plan.code == 6 && plan.err.contains("5 files"), "{}", plan.err);
}

#[test]
fn a_cut_image_is_an_error_and_no_gray_picture() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    images(folder, "pets/train", 4);
    images(folder, "pets/test", 2);
    let path = folder.join("pets/train/emu/cut.jpg");
    let noise = |x: u32, y: u32| image::Luma([(x * 37 + y * 101 + x * y) as u8]);
    image::GrayImage::from_fn(64, 64, noise).save(&path).unwrap();
    scenario(folder, r#"{ source = "folder", path = "pets", stored_size = 4 }"#, IID);
    assert_eq!(run(folder, "whole", &[]).code, 0);
    let whole = fs::read(&path).unwrap();
    // The last tenth, and the end mark alone.
    for lost in [whole.len() / 10, 2] {
        fs::write(&path, &whole[..whole.len() - lost]).unwrap();
        let output = run(folder, "cut", &[]);
        assert_eq!(output.code, 6, "{}", output.err);
        assert!(
            output.err.contains("emu/cut.jpg") && output.err.contains("cut off"),
            "{}",
            output.err
        );
    }
}

/// A PNG file with EXIF data that say nothing but an orientation.
fn noted(png: &[u8], orientation: u8) -> Vec<u8> {
    let entry = [0x12, 0x01, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0];
    let exif = [b"eXIfII*\0\x08\0\0\0\x01\0".as_slice(), &entry, &[0; 4]].concat();
    let mut sum = flate2::Crc::new();
    sum.update(&exif);
    let length = (exif.len() as u32 - 4).to_be_bytes();
    let chunk = [length.as_slice(), &exif, &sum.sum().to_be_bytes()].concat();
    // Behind the signature and the head.
    [&png[..33], chunk.as_slice(), &png[33..]].concat()
}

#[test]
fn photographs_are_turned_where_the_scenario_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (class, base) in [("cat", 0), ("emu", 9)] {
        for (part, count) in [("train", 4), ("test", 2)] {
            for i in 0..count {
                let value = |x: u32, y: u32| image::Luma([(base + 31 * x + 7 * y * y + i) as u8]);
                let picture = image::GrayImage::from_fn(4, 4, value);
                let place = |set: &str| folder.join(set).join(part).join(class);
                for set in ["noted", "turned"] {
                    fs::create_dir_all(place(set)).unwrap();
                }
                let name = format!("{i}.png");
                let turned = image::imageops::rotate90(&picture);
                turned.save(place("turned").join(&name)).unwrap();
                let path = place("noted").join(&name);
                picture.save(&path).unwrap();
                fs::write(&path, noted(&fs::read(&path).unwrap(), 6)).unwrap();
            }
        }
    }
    scenario(folder, r#"{ source = "folder", path = "noted", stored_size = 4 }"#, IID);
    let ignored = digests(folder, "one", &[]);
    let turned = digests(folder, "two", &["--set", "data.path=\"turned\""]);
    let exif = digests(folder, "three", &["--set", "data.orientation=\"exif\""]);
    assert_eq!(exif, turned, "as if the pixels had been turned");
    assert_ne!(exif, ignored, "torchvision's ImageFolder does not look");
    let recorded = read(folder.join("three/scenario.effective.toml"));
    assert!(recorded.contains("orientation = \"exif\""), "{recorded}");
}

#[test]
fn undivided_images_are_drawn_class_by_class() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    images(folder, "pets", 10);
    scenario(folder, r#"{ source = "folder", path = "pets", stored_size = 4 }"#, IID);
    let output = run(folder, "none", &[]);
    assert_eq!(output.code, 3);
    assert!(output.err.contains("data.test_fraction = 0.2"), "{}", output.err);
    let share = ["--set", "data.test_fraction=0.3"];
    let one = digests(folder, "one", &share);
    assert!(read(folder.join("one/matrix.csv")).contains(",6,"), "three of ten of each class");
    let other = [&share[..], &["--set", "data.test_seed=1"]].concat();
    assert_ne!(one, digests(folder, "other", &other));
    let again =
        [&share[..], &["--set", "data.test_seed=0", "--seed", "1", "--workers", "1"]].concat();
    let moved = digests(folder, "again", &[&share[..], &["--workers", "2"]].concat());
    assert_eq!(one, moved);
    // Another run, the same division: the split belongs to the benchmark.
    assert_eq!(run(folder, "seeded", &again).code, 0);
    let data = |out: &str| {
        let text = read(folder.join(out).join("manifest.json"));
        serde_json::from_str::<Value>(&text).unwrap()["data"].clone()
    };
    assert_eq!(data("seeded"), data("one"));
    assert_ne!(data("other"), data("one"));
}

fn table(folder: &Path, name: &str, rows: u32) {
    let line = |i: u32| {
        format!("{}.5,{},{}\n", i % 2 * 8, i, if i.is_multiple_of(2) { "cat" } else { "emu" })
    };
    let lines: String = (0..rows).map(line).collect();
    fs::write(folder.join(name), format!("a,writer,label\n{lines}")).unwrap();
}

#[test]
fn rows_of_a_table_are_averaged_over_their_writers() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let lines = "1.5,7,cat\n0.5,9,emu\n1.25,7,cat\n0.75,9,emu\n1.0,7,emu\n";
    fs::write(folder.join("train.csv"), format!("a,writer,label\n{lines}")).unwrap();
    fs::write(folder.join("test.csv"), "a,writer,label\n1.5,1,cat\n0.5,1,emu\n").unwrap();
    let data = r#"{ source = "table", path = ".", width = 1, client = "writer" }"#;
    scenario(folder, data, r#"{ kind = "natural", min_samples = 1 }"#);
    let one = digests(folder, "one", &["--workers", "1"]);
    assert_eq!(one, digests(folder, "two", &["--workers", "2"]));
    assert_eq!(
        read(folder.join("one/partition.csv")),
        "task,client,class,samples,name\n1,0,0,2,cat\n1,0,1,1,emu\n1,1,1,2,emu\n",
        "writer 7 has most"
    );
    let check = run_fedcast(folder, &["check", "own.toml", "--set", "backbone.kind=vit"]);
    assert_eq!(check.code, 3);
    assert!(check.err.contains("set `backbone.kind = \"pixels\"`"), "{}", check.err);
    let plan = run_fedcast(folder, &["plan", "own.toml", "--format", "json"]);
    let plan: Value = serde_json::from_str(&plan.out).unwrap();
    assert_eq!(plan["total"]["rounds"], 1);
}

#[test]
fn a_file_says_who_holds_which_sample() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    table(folder, "train.csv", 6);
    table(folder, "test.csv", 4);
    let data = r#"{ source = "table", path = ".", width = 1, client = "writer" }"#;
    scenario(folder, data, r#"{ kind = "file", file = "who.csv" }"#);
    let who =
        |lines: &str| fs::write(folder.join("who.csv"), format!("sample,client\n{lines}")).unwrap();
    who("5,0\n0,1\n1,1\n2,1\n3,0\n4,0\n");
    let one = digests(folder, "one", &[]);
    let expected =
        "task,client,class,samples,name\n1,0,0,1,cat\n1,0,1,2,emu\n1,1,0,2,cat\n1,1,1,1,emu\n";
    assert_eq!(read(folder.join("one/partition.csv")), expected);
    // Another order of lines is the same partition.
    who("0,1\n1,1\n2,1\n3,0\n4,0\n5,0\n");
    assert_eq!(one, digests(folder, "sorted", &[]));
    let planned = run_fedcast(folder, &["plan", "own.toml"]);
    assert_eq!(planned.code, 0, "{}", planned.err);
    who("0,1\n1,1\n2,0\n");
    let output = run(folder, "holes", &[]);
    assert_eq!(output.code, 6);
    assert!(output.err.contains("none for 3 of them, the first is sample 3"), "{}", output.err);
    let dropped = run(folder, "dropped", &["--set", "partition.unlisted=drop"]);
    assert_eq!(dropped.code, 0, "{}", dropped.err);
    let expected = "task,client,class,samples,name\n1,0,0,1,cat\n1,1,0,1,cat\n1,1,1,1,emu\n";
    assert_eq!(read(folder.join("dropped/partition.csv")), expected);
    who("0,1\n9,0\n");
    let output = run(folder, "beyond", &["--set", "partition.unlisted=drop"]);
    assert!(
        output.code == 6
            && output.err.contains("who.csv:3: expected a training sample from 0 to 5"),
        "{}",
        output.err
    );
    who("0,1\n1,0\n0,0\n");
    let output = run(folder, "twice", &[]);
    assert_eq!(output.code, 3);
    let shown = output.err.replace(&folder.display().to_string(), "[folder]");
    insta::assert_snapshot!(shown.trim_end());
    let nested = ["--set", "data.subset=2"];
    who("0,1\n1,0\n");
    let output = run(folder, "subset", &nested);
    assert!(output.code == 3 && output.err.contains("not with `partition.file`"), "{}", output.err);
}

#[test]
fn keys_that_make_no_sense_are_shown_at_their_places() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let data = r#"{ source = "table", path = ".", width = 0, split = { list = "a.json" }, train = { flip = 0.5 } }"#;
    scenario(folder, data, r#"{ kind = "natural" }"#);
    let output = run_fedcast(folder, &["check", "own.toml"]);
    assert_eq!(output.code, 3);
    let foreign = r#"{ source = "cifar10", path = ".", test_fraction = 0.2, label = "y", client = "folder" }"#;
    scenario(folder, foreign, r#"{ kind = "file" }"#);
    let more = run_fedcast(folder, &["check", "own.toml"]);
    let both = r#"{ source = "folder", path = ".", test_fraction = 0.2, split = { list = "a.json" }, client = "who" }"#;
    scenario(folder, both, IID);
    let last = run_fedcast(folder, &["check", "own.toml"]);
    insta::assert_snapshot!([output.err, more.err, last.err].join("\n"));
    // What depends on a source that cannot be read is not judged.
    let output = run_fedcast(folder, &["check", "own.toml", "--set", "data.source=csv"]);
    assert!(output.code == 3 && !output.err.contains("embedded in the program"), "{}", output.err);
}

#[test]
fn the_effective_scenario_is_the_same_scenario() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    table(folder, "train.csv", 8);
    fs::write(folder.join("who.csv"), "sample,client\n0,1\n1,0\n2,1\n3,1\n4,0\n5,1\n").unwrap();
    let data = r#"{ source = "table", path = "train.csv", width = 1, client = "writer", test_fraction = 0.25 }"#;
    scenario(folder, data, r#"{ kind = "file", file = "who.csv" }"#);
    let one = digests(folder, "one", &[]);
    let effective = folder.join("one/scenario.effective.toml");
    let output = run_fedcast(folder, &["run", effective.to_str().unwrap(), "-q", "-o", "two"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let manifest = |out: &str| -> Value {
        serde_json::from_str(&read(folder.join(out).join("manifest.json"))).unwrap()
    };
    assert_eq!(manifest("two")["digests"], one);
    assert_eq!(manifest("two")["scenario"]["hash"], manifest("one")["scenario"]["hash"]);
    let verified = run_fedcast(folder, &["replay", "one", "--verify", "-q"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
}

/// Writes gray images of 4 x 4 pixels as an array and their labels as another, as `numpy.save` does.
fn arrays(folder: &Path, descr: &str, of: impl Fn(usize) -> Vec<u8>) {
    for (part, count) in [("train", 8), ("test", 4)] {
        let place = folder.join("images").join(part);
        fs::create_dir_all(&place).unwrap();
        let npy = |descr: &str, shape: String, values: Vec<u8>| {
            let header =
                format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}\n");
            let length = (header.len() as u16).to_le_bytes();
            [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &values].concat()
        };
        let values = (0..count).flat_map(|image| (0..16).flat_map(move |_| [image])).flat_map(&of);
        let images = npy(descr, format!("{count}, 1, 4, 4"), values.collect());
        fs::write(place.join("image.npy"), images).unwrap();
        let labels = (0..count).map(|image| (image % 2) as u8).collect();
        fs::write(place.join("label.npy"), npy("|u1", format!("{count},"), labels)).unwrap();
    }
}

#[test]
fn images_in_arrays_reach_a_network_as_bytes_or_floats() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    scenario(folder, r#"{ source = "arrays", path = "images", shape = [1, 4, 4] }"#, IID);
    let network = [
        "--set",
        r#"backbone={kind="resnet18",weights="random",width=2}"#,
        "--set",
        "data.train.normalize=half",
    ];
    let brightness = |image: usize| (image % 2 * 200 + image) as u8;
    arrays(folder, "|u1", |image| vec![brightness(image)]);
    let bytes = digests(folder, "bytes", &network);
    arrays(folder, "<f4", |image| (f32::from(brightness(image)) / 255.0).to_le_bytes().to_vec());
    assert_eq!(digests(folder, "floats", &network)["numbers"], bytes["numbers"]);
    arrays(folder, "<f4", |image| f32::from(brightness(image)).to_le_bytes().to_vec());
    assert_ne!(digests(folder, "unscaled", &network)["numbers"], bytes["numbers"]);
    let verified = run_fedcast(folder, &["replay", "unscaled", "--verify", "-q"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
}

#[test]
fn images_of_another_shape_are_refused_with_the_right_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    scenario(folder, r#"{ source = "arrays", path = "images" }"#, IID);
    let output = run_fedcast(folder, &["check", "own.toml"]);
    assert!(output.code == 3 && output.err.contains("lacks the key `shape`"), "{}", output.err);
    arrays(folder, "<f2", |_| vec![0, 0]);
    let output = run(folder, "other", &["--set", "data.shape=[1,6,6]"]);
    assert_eq!(output.code, 6, "{}", output.err);
    assert!(output.err.contains("Set data.shape = [1, 4, 4]"), "{}", output.err);
    let output = run(folder, "wide", &["--set", "data.shape=[1,4,6]"]);
    assert!(
        output.code == 3 && output.err.contains("does not make images square"),
        "{}",
        output.err
    );
    let foreign = ["check", "own.toml", "--set", "data.source=digits"];
    scenario(folder, r#"{ source = "digits", shape = [1, 8, 8] }"#, IID);
    let output = run_fedcast(folder, &foreign);
    assert!(
        output.code == 3 && output.err.contains("`data.shape` has no meaning"),
        "{}",
        output.err
    );
}
