//! Promise: `invert` shows what a curious server sees of images in an upload, and refuses what it cannot see.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::command::{Told, read, tell};

/// A run on single digits without a network, so that features are the pixels.
fn run(folder: &Path, method: &str, more: &[&str]) {
    let text = format!(
        "schema = 2\ndata = {{ source = \"digits\", subset = 4, test_subset = 2 }}\ntasks = {{ sizes = [5, 5] }}\n\
         partition = {{ kind = \"iid\", min_samples = 1 }}\nbackbone = {{ kind = \"pixels\" }}\nmethod = {method}\n\
         federation = {{ clients = 2, rounds = 1 }}\nclient = {{ epochs = 1, batch_size = 4 }}\n"
    );
    fs::write(folder.join("run.toml"), text).unwrap();
    let told = tell(folder, &[&["run", "run.toml", "-q", "-o", "run", "--force"], more].concat());
    assert_eq!(told.code, 0, "{}", told.err);
}

fn invert(folder: &Path, more: &[&str]) -> Told {
    let pixels = ["invert", "run", "--prior", "pixels", "--steps", "400", "--rate", "0.05"];
    tell(folder, &[&pixels, more].concat())
}

fn document(told: &Told) -> Value {
    assert_eq!(told.code, 0, "{}", told.err);
    serde_json::from_str(&told.out).unwrap()
}

const HGP: &str = r#"{ name = "hgp", train = "head" }"#;

#[test]
fn images_are_found_by_their_features_and_means_by_an_upload() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run(folder, HGP, &[]);
    let all = ["--images", "9", "--format", "json"];
    let found = document(&invert(folder, &all));
    let features = found["features"].as_array().unwrap();
    assert_eq!(features.len() as u64, found["samples"].as_u64().unwrap());
    assert!(features.len() > 1, "HGP describes classes of two samples");
    for image in features {
        assert!(image["psnr"].as_f64().unwrap() > 25.0, "{image}");
        assert!(image["ssim"].as_f64().unwrap() > 0.9, "{image}");
    }
    let upload = &found["upload"];
    assert!(upload["loss"].as_f64().unwrap() < 5e-3, "a mean of pixels is an image: {upload}");
    let less = upload["psnr"].as_f64().unwrap();
    assert!(features.iter().all(|image| image["psnr"].as_f64().unwrap() > less + 3.0), "{found}");
    assert!(found["distance"].as_f64().unwrap() < 1e-10, "{found}");
    let table = read(folder.join("inversion/inversion.csv"));
    assert_eq!(table.lines().count(), features.len() + 2);
    let last = format!("{},{},", found["samples"], "upload");
    assert!(table.lines().last().unwrap().contains(&last), "{table}");
    let sheet = image::open(folder.join("inversion/inversion.png")).unwrap();
    let columns = features.len() as u32;
    assert_eq!((sheet.width(), sheet.height()), (columns * 100 + 4, 3 * 100 + 4));
    let again = invert(folder, &[]);
    assert!(again.code == 2 && again.err.contains("--force"), "{}", again.err);
    document(&invert(folder, &[&all[..], &["--force", "--workers", "1"]].concat()));
    assert_eq!(read(folder.join("inversion/inversion.csv")), table);
}

#[test]
fn later_tasks_and_other_clients_are_those_that_were_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run(folder, HGP, &["--set", "record.checkpoint.every=task"]);
    let partition = read(folder.join("run/partition.csv"));
    let held = |client: u64, class: u64| {
        let line = format!("2,{client},{class},");
        let found = partition.lines().find_map(|row| row.strip_prefix(&line));
        found.map_or(0, |rest| rest.split(',').next().unwrap().parse::<u64>().unwrap())
    };
    for client in [0, 1] {
        let out = format!("of-{client}");
        let number = client.to_string();
        let asked = ["--task", "2", "--client", &number, "-o", &out, "--format", "json"];
        let found = document(&invert(folder, &asked));
        let class = found["class"].as_u64().unwrap();
        assert!((5..10).contains(&class), "{found}");
        assert_eq!(found["samples"].as_u64().unwrap(), held(client, class));
        assert_eq!(found["client"].as_u64().unwrap(), client);
        let named = class.to_string();
        let by_name =
            [&asked[..4], &["--class", &named, "-o", "named", "--force", "--format", "json"]];
        assert_eq!(document(&invert(folder, &by_name.concat()))["upload"], found["upload"]);
    }
}

#[test]
fn sums_of_random_features_of_one_image_give_it_away() {
    for method in ["stsa-e", "stsa"] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let method =
            format!("{{ name = \"{method}\", width = 256, first = {{ name = \"none\" }} }}");
        run(folder, &method, &["--set", "data.subset=2", "--set", "federation.clients=1"]);
        let found = document(&invert(folder, &["--format", "json"]));
        assert!(found["distance"].as_f64().unwrap() < 1e-6, "{found}");
        let one = ["--set", "data.subset=1", "--set", "federation.clients=1"];
        run(folder, &method, &one);
        let found = document(&invert(folder, &["--force", "--format", "json"]));
        assert_eq!(found["samples"], 1, "{found}");
        for image in [&found["features"][0], &found["upload"]] {
            assert!(image["psnr"].as_f64().unwrap() > 20.0, "{found}");
        }
    }
}

#[test]
fn a_prompted_network_is_that_of_the_upload() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/quickstart.toml");
    let told = tell(folder, &["run", scenario, "-q", "-o", "run", "--set", "federation.rounds=1"]);
    assert_eq!(told.code, 0, "{}", told.err);
    let few = ["invert", "run", "--images", "60", "--steps", "2", "--format", "json"];
    let found = document(&tell(folder, &few));
    assert!(found["distance"].as_f64().unwrap() < 1e-6, "{found}");
    let upload = &found["upload"];
    assert!(upload["loss"].as_f64().unwrap() < upload["first_loss"].as_f64().unwrap());
}

#[test]
fn what_a_server_does_not_see_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let refused = |more: &[&str], words: &str| {
        let told = invert(folder, more);
        assert!(told.code == 2 && told.err.contains(words), "{}", told.err);
        assert!(!folder.join("inversion").exists());
    };
    run(folder, r#"{ name = "fedavg", train = "head" }"#, &[]);
    refused(&[], "uploads of fedavg have no means or sums of single classes");
    let noise = r#"privacy.noise={scale=0.1,on=["means"]}"#;
    run(folder, HGP, &["--set", noise]);
    refused(&[], "its uploads have noise");
    run(folder, HGP, &[]);
    refused(&["--client", "7"], "there is no client 7; the run has 2");
    refused(&["--task", "3"], "it has ended 2");
    refused(&["--class", "9"], "client 0 described no 9 in task 1");
    let told = tell(folder, &["invert", "run", "--rate", "0"]);
    assert!(told.code == 2 && told.err.contains("--rate is 0, not above 0"), "{}", told.err);
}
