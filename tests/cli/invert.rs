//! Promise: `invert` shows what a curious server sees of images in an upload, and refuses what it cannot see.

use std::fs;
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView, serialize_to_file};
use serde_json::Value;

use crate::command::{CommandOutput, read, run_fedcast};

/// A run on single digits without a network, so that features are the pixels.
fn run(folder: &Path, method: &str, more: &[&str]) {
    let text = format!(
        "schema = 2\ndata = {{ source = \"digits\", subset = 4, test_subset = 2 }}\ntasks = {{ sizes = [5, 5] }}\n\
         partition = {{ kind = \"iid\", min_samples = 1 }}\nbackbone = {{ kind = \"pixels\" }}\nmethod = {method}\n\
         federation = {{ clients = 2, rounds = 1 }}\nclient = {{ epochs = 1, batch_size = 4 }}\n"
    );
    fs::write(folder.join("run.toml"), text).unwrap();
    let output =
        run_fedcast(folder, &[&["run", "run.toml", "-q", "-o", "run", "--force"], more].concat());
    assert_eq!(output.code, 0, "{}", output.err);
}

fn invert(folder: &Path, more: &[&str]) -> CommandOutput {
    let pixels = ["invert", "run", "--prior", "pixels", "--rate", "0.05", "--steps", "400"];
    run_fedcast(folder, &[&pixels, more].concat())
}

fn document(output: &CommandOutput) -> Value {
    assert_eq!(output.code, 0, "{}", output.err);
    serde_json::from_str(&output.out).unwrap()
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
    let table = read(folder.join("run/inversion/inversion.csv"));
    assert_eq!(table.lines().count(), features.len() + 2);
    let last = format!("{},{},", found["samples"], "upload");
    assert!(table.lines().last().unwrap().contains(&last), "{table}");
    fs::write(folder.join("taken"), "").unwrap();
    let refused = invert(folder, &["-o", "taken"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("taken is no folder for results"), "{}", refused.err);
    let sheet = image::open(folder.join("run/inversion/inversion.png")).unwrap();
    let columns = features.len() as u32;
    assert_eq!((sheet.width(), sheet.height()), (columns * 100 + 4, 3 * 100 + 4));
    let whole: Value =
        serde_json::from_str(&read(folder.join("run/inversion/inversion.json"))).unwrap();
    assert_eq!(whole, found, "the record is what was printed");
    assert_eq!(
        (&found["prior"], &found["steps"], &found["rate"]),
        (&"pixels".into(), &400.into(), &0.05.into())
    );
    let again = invert(folder, &[]);
    assert!(again.code == 2 && again.err.contains("--force"), "{}", again.err);
    document(&invert(folder, &[&all[..], &["--force", "--workers", "1"]].concat()));
    assert_eq!(read(folder.join("run/inversion/inversion.csv")), table);
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

/// A run of the quickstart on another method: two tasks of a round of one epoch.
fn prompted(folder: &Path, method: &str, more: &[&str]) {
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/quickstart.toml");
    let method = format!("method={method}");
    let all = ["run", scenario, "-q", "-o", "run", "--force", "--set", "federation.rounds=1"];
    let short = ["--set", "tasks.count=2", "--set", "client.epochs=1"];
    let output = run_fedcast(folder, &[&all[..], &short, &["--set", &method], more].concat());
    assert_eq!(output.code, 0, "{method}: {}", output.err);
}

#[test]
fn means_are_of_the_network_that_the_client_used() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // A network that moves while the means are taken is there at its end only.
    let still = ["--set", "client.optimizer={kind=\"sgd\",lr=1e-9}"];
    for (method, more) in [
        (r#"{name="hgp"}"#, &[][..]),
        (r#"{name="pip"}"#, &[]),
        (r#"{name="pip",features="trained"}"#, &[]),
        (r#"{name="pilora",min_features=0}"#, &still),
        (r#"{name="c2prompt"}"#, &[]),
        // After the adapters of the first task, which an update would show.
        (r#"{name="stsa-e",width=64}"#, &[]),
    ] {
        prompted(folder, method, more);
        let few = ["invert", "run", "--images", "60", "--steps", "2", "--format", "json"];
        let found = document(&run_fedcast(folder, &few));
        assert_eq!(found["target"], "means", "{method}");
        assert!(found["distance"].as_f64().unwrap() < 1e-6, "{method}: {found}");
        let features = found["features"].as_array().unwrap();
        assert_eq!(features.len() as u64, found["samples"].as_u64().unwrap(), "{method}");
        let upload = &found["upload"];
        let losses = ["first_loss", "loss"].map(|key| upload[key].as_f64().unwrap());
        assert!(losses[1] < losses[0], "{method}: {upload}");
    }
}

/// The first step of a client with one image is along its gradient.
#[test]
fn an_update_by_one_image_gives_it_away() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sgd = "client.optimizer={kind=\"sgd\",lr=0.1}";
    let one = ["--set", "data.subset=1", "--set", "federation.clients=5", "--set", sgd];
    run(folder, r#"{ name = "fedavg", train = "head" }"#, &one);
    let found = document(&invert(folder, &["--client", "3", "--format", "json"]));
    assert_eq!((&found["target"], &found["samples"]), (&"update".into(), &1.into()), "{found}");
    assert_eq!(found["distance"], Value::Null);
    for image in [&found["features"][0], &found["upload"]] {
        assert!(image["loss"].as_f64().unwrap() < 1e-2, "{found}");
        assert!(image["psnr"].as_f64().unwrap() > 15.0, "{found}");
    }
    let output = invert(folder, &["--client", "3", "--force"]);
    let sample = &found["features"][0]["sample"];
    for words in [format!("gradient of sample {sample} "), "update of 1 samples".to_owned()] {
        assert!(output.out.contains(&words), "{}", output.out);
    }
    let output = run_fedcast(folder, &["report", "run", "-o", "page.html"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let page = read(folder.join("page.html"));
    assert!(page.contains("the direction in which training moved the parameters"), "{page}");
    assert!(page.contains(&format!("sample {sample}, found by its gradient")), "{page}");
}

#[test]
fn prompts_and_adapters_are_inverted_by_their_update() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for method in [r#"{name="l2p"}"#, r#"{name="dualprompt"}"#, r#"{name="powder"}"#] {
        prompted(folder, method, &[]);
        let few = ["invert", "run", "--images", "1", "--steps", "12", "--prior", "pixels"];
        let found = document(&run_fedcast(folder, &[&few[..], &["--format", "json"]].concat()));
        assert_eq!(found["target"], "update", "{method}");
        let image = &found["features"][0];
        let losses = ["first_loss", "loss"].map(|key| image[key].as_f64().unwrap());
        assert!(losses[1] < losses[0] && losses[0] < 2.0, "{method}: {image}");
    }
}

/// By the moments of a batch of one image of one pixel a network would see nothing of it.
#[test]
fn batch_norms_do_not_hide_an_image_from_its_gradient() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let network = ["--set", "backbone={kind=\"resnet18\",width=4}"];
    run(folder, r#"{ name = "fedavg" }"#, &network);
    let few = ["invert", "run", "--images", "1", "--steps", "3", "--prior", "pixels"];
    let found = document(&run_fedcast(folder, &[&few[..], &["--format", "json"]].concat()));
    let image = &found["features"][0];
    assert!(image["first_loss"].as_f64().unwrap() > 0.05, "{image}");
}

/// A file of weights for LPIPS, of numbers by a formula.
fn lpips_file(path: &Path, without: &str) {
    let convolutions = [(0, 64, 3, 11), (3, 192, 64, 5), (6, 384, 192, 3), (8, 256, 384, 3)];
    let mut tensors = Vec::new();
    for (at, (number, outputs, inputs, side)) in
        convolutions.into_iter().chain([(10, 256, 256, 3)]).enumerate()
    {
        tensors.push((format!("features.{number}.weight"), vec![outputs, inputs, side, side]));
        tensors.push((format!("features.{number}.bias"), vec![outputs]));
        tensors.push((format!("lin{at}.model.1.weight"), vec![1, outputs, 1, 1]));
    }
    tensors.retain(|(name, _)| name != without);
    let values = |shape: &Vec<usize>| -> Vec<u8> {
        let numbers = (0..shape.iter().product()).map(|at: usize| at * 7919 % 1009);
        numbers.flat_map(|number| (number as f32 / 5e4).to_le_bytes()).collect()
    };
    let bytes: Vec<Vec<u8>> = tensors.iter().map(|(_, shape)| values(shape)).collect();
    let views = tensors.iter().zip(&bytes).map(|((name, shape), bytes)| {
        (name.clone(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
    });
    serialize_to_file(views, None, path).unwrap();
}

#[test]
fn lpips_is_computed_only_with_weights_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run(folder, HGP, &[]);
    let few = ["invert", "run", "--steps", "3", "--prior", "pixels", "--lpips"];
    let with = |file: &str, more: &[&str]| run_fedcast(folder, &[&few[..], &[file], more].concat());
    let output = with("no.safetensors", &[]);
    assert!(
        output.code == 2 && output.err.contains("there is no file no.safetensors"),
        "{}",
        output.err
    );
    lpips_file(&folder.join("part.safetensors"), "lin3.model.1.weight");
    let output = with("part.safetensors", &[]);
    let words = "part.safetensors: tensor `lin3.model.1.weight` is missing";
    assert!(output.code == 6 && output.err.contains(words), "{}", output.err);
    lpips_file(&folder.join("alex.safetensors"), "");
    let found = document(&with("alex.safetensors", &["--format", "json"]));
    assert_eq!(found["lpips_scale"], 4, "{found}");
    let lpips = |image: &Value| image["lpips"].as_f64().unwrap();
    let features = found["features"].as_array().unwrap();
    assert!(features.iter().chain([&found["upload"]]).all(|image| lpips(image) > 0.0), "{found}");
    let table = read(folder.join("run/inversion/inversion.csv"));
    let last = table.lines().last().unwrap().rsplit(',').next().unwrap().parse::<f64>().unwrap();
    assert_eq!(last, lpips(&found["upload"]));
    let output = with("alex.safetensors", &["--force"]);
    assert!(output.out.contains("LPIPS") && output.out.contains("images enlarged 4 times"));
    let plain = document(&invert(folder, &["--force", "--format", "json"]));
    assert!(plain["upload"].get("lpips").is_none() && plain.get("lpips_scale").is_none());
}

#[test]
fn what_a_server_does_not_see_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let refused = |more: &[&str], words: &str| {
        let output = invert(folder, more);
        assert!(output.code == 2 && output.err.contains(words), "{}", output.err);
        assert!(!folder.join("run/inversion").exists());
    };
    run(folder, r#"{ name = "fedweit", train = "head" }"#, &[]);
    refused(&[], "uploads of fedweit have no means of single classes");
    let noise = r#"privacy.noise={scale=0.1,on=["means"]}"#;
    run(folder, HGP, &["--set", noise]);
    refused(&[], "its uploads have noise");
    run(folder, HGP, &[]);
    refused(&["--client", "7"], "there is no client 7; the run has 2");
    refused(&["--task", "3"], "it has ended 2");
    refused(&["--class", "9"], "client 0 sent nothing about a 9 in task 1");
    // Files of others are not overwritten, whatever they are.
    for name in ["upload.png", "inversion.csv"] {
        fs::create_dir_all(folder.join(name).join("own")).unwrap();
        let pictures = folder.join(name).join("own");
        fs::write(pictures.join(name), "mine").unwrap();
        let out = pictures.to_str().unwrap();
        refused(&["-o", out], "has results already");
        assert_eq!(read(pictures.join(name)), "mine");
    }
    let output = run_fedcast(folder, &["invert", "run", "--rate", "0"]);
    assert!(output.code == 2 && output.err.contains("--rate is 0, not above 0"), "{}", output.err);
}
