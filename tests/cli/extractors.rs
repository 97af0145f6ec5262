//! Promises: a deep pretrained network gives features, once per sample and to the same bits for any number of
//! workers; it is never trained, and a file that does not hold it is refused by the tensor's name.

use std::path::Path;

use crate::command::{read, run_fedcast};
use fedcast::model::deep_resnet::Depth;
use fedcast::model::{DeepResNetConfig, Parameter, ParameterSet, to_safetensors};
use serde_json::Value;

const DEEP: &str = r#"
schema = 2
data = { source = "digits", subset = 3, train = { normalize = "imagenet" } }
tasks = { count = 2 }
partition = { kind = "iid", min_samples = 1 }
backbone = { kind = "resnet50", weights = "resnet50.safetensors" }
method = { name = "fedavg", train = "head" }
federation = { clients = 3, rounds = 1 }
client = { epochs = 1, batch_size = 8 }
"#;

/// Any finite weights will do: convolutions that keep the size of what they are given, norms that pass it on.
fn weights() -> ParameterSet {
    let config = DeepResNetConfig { depth: Depth::Fifty, image: 8 };
    let filled = |(name, shape): (String, Vec<usize>)| {
        let count: usize = shape.iter().product();
        let fan_in = shape.iter().skip(1).product::<usize>() as f32;
        let value = |at: usize| match name.as_str() {
            _ if name.ends_with("bn3.weight") => 0.2,
            _ if name.ends_with("running_mean") || name.ends_with(".bias") => 0.0,
            _ if shape.len() == 1 => 1.0,
            _ => {
                ((at as u32).wrapping_mul(2_654_435_761) as f32 / u32::MAX as f32 - 0.5)
                    * (24.0 / fan_in).sqrt()
            }
        };
        let values = (0..count).map(value).collect();
        (name, Parameter { shape, values })
    };
    config.parameter_shapes().into_iter().map(filled).collect()
}

fn run(folder: &Path, out: &str, more: &[&str]) -> Value {
    let output = run_fedcast(folder, &[&["run", "deep.toml", "-q", "-o", out], more].concat());
    assert_eq!(output.code, 0, "{}", output.err);
    serde_json::from_str(&read(folder.join(out).join("manifest.json"))).unwrap()
}

fn cache_of(folder: &Path, out: &str) -> Value {
    let summary: Value =
        serde_json::from_str(&read(folder.join(out).join("summary.json"))).unwrap();
    summary["wall"]["cache"].clone()
}

#[test]
fn features_are_computed_once_survive_a_restart_and_do_not_depend_on_workers() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("deep.toml"), DEEP).unwrap();
    let bytes = to_safetensors(&weights()).unwrap();
    std::fs::write(folder.join("resnet50.safetensors"), bytes).unwrap();
    let file = ["--set", r#"cache={features="file", folder="cache"}"#];
    let first = run(folder, "one", &[&file[..], &["--workers", "1"]].concat());
    let again = run(folder, "two", &[&file[..], &["--workers", "2"]].concat());
    assert_eq!(first["digests"], again["digests"]);
    let (cold, warm) = (cache_of(folder, "one"), cache_of(folder, "two"));
    assert_eq!((&cold["computed"], &warm["computed"]), (&Value::from(394), &Value::from(0)));
    assert_eq!(warm["loaded"], cold["computed"]);
}

#[test]
fn a_file_without_the_network_is_refused_by_the_name_of_a_tensor() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("deep.toml"), DEEP).unwrap();
    let output = run_fedcast(folder, &["run", "deep.toml", "-q"]);
    assert!(output.code != 0 && output.err.contains("resnet50.safetensors"), "{}", output.err);
    let small = weights().filter(|name| !name.starts_with("conv1"));
    std::fs::write(folder.join("resnet50.safetensors"), to_safetensors(&small).unwrap()).unwrap();
    let output = run_fedcast(folder, &["run", "deep.toml", "-q"]);
    assert!(output.code != 0 && output.err.contains("`conv1.weight`"), "{}", output.err);
}

#[test]
fn training_it_is_an_error_at_check_time() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("deep.toml"), DEEP).unwrap();
    for set in ["method={name=\"fedavg\"}", "method={name=\"stsa\",first={name=\"fedavg\"}}"] {
        let output = run_fedcast(folder.path(), &["check", "deep.toml", "--set", set]);
        assert_eq!(output.code, 3, "{}", output.err);
        assert!(output.err.contains("\"resnet50\" only gives features"), "{}", output.err);
    }
    let output =
        run_fedcast(folder.path(), &["check", "deep.toml", "--set", "backbone.kind=resnet152"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let output = run_fedcast(folder.path(), &["plan", "deep.toml"]);
    assert!(output.out.contains("23,508,032 parameters"), "{}{}", output.out, output.err);
}
