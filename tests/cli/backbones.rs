//! Promises: what turns images into features is a choice of the scenario; what a method cannot
//! work with is refused before anything is loaded.

use std::path::Path;

use crate::command::{read, run_fedcast};
use fedcast::experiment::assemble::assemble;
use fedcast::methods::Registry;
use fedcast::model::{BackboneConfig, PixelShape};
use fedcast::scenario::{BackboneSection, Loaded, Override, Scenario, ScenarioError};
use serde_json::Value;

const PIXELS: &str = r#"
schema = 2
data = { source = "digits", subset = 30 }
tasks = { count = 1 }
partition = { kind = "iid" }
backbone = { kind = "pixels" }
method = { name = "fedavg" }
federation = { clients = 4, rounds = 6 }
client = { epochs = 4, batch_size = 8, optimizer = { kind = "sgd", lr = 0.1 } }
"#;

fn load(overrides: &[&str]) -> Result<Loaded, ScenarioError> {
    let overrides: Vec<Override> = overrides.iter().map(|text| Override::new(*text)).collect();
    Scenario::from_toml(PIXELS, "pixels", Path::new("/"), &overrides, &Registry::builtin())
}

fn scenario(overrides: &[&str]) -> Scenario {
    load(overrides).unwrap_or_else(|error| panic!("{error}")).scenario
}

#[test]
fn pixels_have_the_shape_of_what_the_transforms_give() {
    let assembly = assemble(&scenario(&[]), &Registry::builtin(), Some(1)).unwrap();
    let shape = BackboneConfig::Pixels(PixelShape { channels: 1, image: 8 });
    assert_eq!(assembly.setup.facts.backbone, shape);
    assert_eq!(assembly.setup.ctx.backbone.dim(), 64);
    let larger = ["data.train.resize=10", "data.test.resize=10"];
    let assembly = assemble(&scenario(&larger), &Registry::builtin(), Some(1)).unwrap();
    assert_eq!(assembly.setup.ctx.backbone.dim(), 100);
}

#[test]
fn the_effective_scenario_keeps_the_kind() {
    let scenario = scenario(&[]);
    assert_eq!(scenario.backbone, BackboneSection::Pixels);
    let text = scenario.to_effective_toml();
    let again = Scenario::from_toml(&text, "pixels", Path::new("/"), &[], &Registry::builtin());
    assert_eq!(again.unwrap().scenario, scenario);
}

#[test]
fn what_needs_blocks_is_refused_where_the_backbone_is_named() {
    let refused = |overrides: &[&str], parts: &[&str]| {
        let error = load(overrides).expect_err("no blocks").to_string();
        for part in parts.iter().chain(&["pixels.toml:6:21", "\"pixels\" has none"]) {
            assert!(error.contains(part), "{part} is not in {error}");
        }
    };
    refused(&["method={name=\"hgp\"}"], &["the prompt of HGP", "`method.train = \"head\"`"]);
    for name in ["fedavg", "joint"] {
        let method = format!("method={{name=\"{name}\",train=\"prompt\"}}");
        refused(&[&method, "federation.clients=1"], &["`method.train = \"head\"`"]);
    }
    for method in ["{name=\"hgp\",train=\"head\"}", "{name=\"fedavg\",train=\"head\"}"] {
        assert!(load(&[&format!("method={method}")]).is_ok(), "{method}");
    }
}

#[test]
fn keys_of_a_transformer_have_no_meaning_with_pixels() {
    for key in [
        "weights=embedded",
        "architecture=vit-tiny-patch16-224",
        "resolution=8",
        "heads=1",
        "width=4",
        "stem=small",
    ] {
        let error = load(&[&format!("backbone.{key}")]).expect_err("a foreign key").to_string();
        assert!(error.contains("no meaning with `kind = \"pixels\"`"), "{error}");
    }
    let error = load(&["data.train.resize=16"]).expect_err("two sizes").to_string();
    assert!(error.contains("[data.test] gives 8"), "{error}");
}

const RESNET: [&str; 3] = [
    "backbone={kind=\"resnet18\",width=4}",
    "client.optimizer={kind=\"sgd\",lr=0.1,momentum=0.9,weight_decay=5e-4}",
    "client.round_schedule.kind=cosine",
];

#[test]
fn a_residual_network_takes_its_images_from_the_data_and_its_start_from_the_seed() {
    let digest = |more: &[&str]| {
        let overrides = [&RESNET[..], more].concat();
        let assembly = assemble(&scenario(&overrides), &Registry::builtin(), Some(1)).unwrap();
        assert_eq!(assembly.backbone.name, "random");
        assembly.backbone.digest
    };
    assert_eq!(digest(&[]), digest(&["client.epochs=1"]));
    assert_ne!(digest(&[]), digest(&["seed.run=2"]));
    let assembly = assemble(&scenario(&RESNET), &Registry::builtin(), Some(1)).unwrap();
    assert_eq!(assembly.setup.facts.backbone.input(), [1, 8, 8]);
    assert_eq!(assembly.setup.ctx.backbone.dim(), 32);
    let text = scenario(&RESNET).to_effective_toml();
    let again = Scenario::from_toml(&text, "resnet", Path::new("/"), &[], &Registry::builtin());
    assert_eq!(again.unwrap().scenario, scenario(&RESNET));
    for key in ["resolution=8", "heads=1"] {
        let set = format!("backbone.{key}");
        let error =
            load(&[&RESNET[..], &[set.as_str()]].concat()).expect_err("foreign").to_string();
        assert!(error.contains("no meaning with `kind = \"resnet18\"`"), "{error}");
    }
}

/// 11,168,832 parameters, 9,600 running moments, 20 counters, and a linear head.
#[test]
fn the_bytes_of_a_residual_network_are_planned_without_data() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("resnet.toml"), PIXELS).unwrap();
    let sets = ["data={source=\"cifar100\",path=\"absent\"}", "backbone={kind=\"resnet18\"}"];
    let set = |text| ["--set", text];
    let args = ["plan", "resnet.toml", "--format", "json"];
    let output = run_fedcast(folder.path(), &[&args[..], &set(sets[0]), &set(sets[1])].concat());
    assert_eq!(output.code, 0, "{}", output.err);
    let plan: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(plan["backbone"]["parameters"], 11_168_832);
    let payload = 4 * (11_168_832 + 9_600 + 20 + 100 * 513);
    assert_eq!(plan["phases"][0]["down"]["largest"]["payload"], payload);
    // STSA on Tiny-ImageNet: windows of 7 x 7 in place of 3 x 3, and nothing else is larger.
    let stem = "backbone.stem=imagenet";
    let args = [&args[..], &set(sets[0]), &set(sets[1]), &set(stem)].concat();
    let output = run_fedcast(folder.path(), &args);
    assert_eq!(output.code, 0, "{}", output.err);
    let plan: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(plan["backbone"]["parameters"], 11_168_832 + (49 - 9) * 3 * 64);
    let payload = payload + 4 * (49 - 9) * 3 * 64;
    assert_eq!(plan["phases"][0]["down"]["largest"]["payload"], payload);
}

#[test]
fn a_residual_network_learns_in_a_federation_and_its_statistics_travel() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("resnet.toml"), PIXELS).unwrap();
    let run = |workers: &str| {
        let sets = RESNET.map(|set| ["--set", set]).concat();
        let args = ["run", "resnet.toml", "-q", "-o", workers, "--workers", workers];
        let output = run_fedcast(folder.path(), &[&args[..], &sets[..]].concat());
        assert_eq!(output.code, 0, "{}", output.err);
        let manifest = read(folder.path().join(workers).join("manifest.json"));
        serde_json::from_str::<Value>(&manifest).unwrap()
    };
    assert_eq!(run("1")["digests"], run("3")["digests"]);
    let summary: Value = serde_json::from_str(&read(folder.path().join("1/summary.json"))).unwrap();
    // With the statistics of the start (mean 0, variance 1) evaluation would guess.
    let accuracy = summary["accuracy"]["faa"].as_f64().unwrap_or_else(|| panic!("{summary}"));
    assert!(accuracy > 0.5, "{accuracy}");
}

/// 3,072 pixels and a bias for each of 100 classes.
#[test]
fn logistic_regression_is_planned_without_data() {
    let folder = tempfile::tempdir().unwrap();
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/studies/logistic-regression.toml");
    let set = "data={source=\"cifar100\",path=\"absent\"}";
    let output = run_fedcast(
        folder.path(),
        &["plan", file.to_str().unwrap(), "--format", "json", "--set", set],
    );
    assert_eq!(output.code, 0, "{}", output.err);
    let plan: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(plan["backbone"]["kind"], "pixels");
    assert_eq!(plan["backbone"]["dim"], 3_072);
    assert_eq!(plan["phases"][0]["down"]["largest"]["payload"], 4 * 100 * 3_073);
}

#[test]
fn logistic_regression_learns_and_its_digests_do_not_depend_on_workers() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("pixels.toml"), PIXELS).unwrap();
    let run = |workers: &str| {
        let output = run_fedcast(
            folder.path(),
            &["run", "pixels.toml", "-q", "-o", workers, "--workers", workers],
        );
        assert_eq!(output.code, 0, "{}", output.err);
        let run = folder.path().join(workers);
        serde_json::from_str::<Value>(&read(run.join("manifest.json"))).unwrap()
    };
    let one = run("1");
    assert_eq!(one["backbone"]["name"], "pixels");
    assert_eq!(one["digests"], run("3")["digests"]);
    let summary: Value = serde_json::from_str(&read(folder.path().join("1/summary.json"))).unwrap();
    let accuracy = summary["accuracy"]["faa"].as_f64().unwrap_or_else(|| panic!("{summary}"));
    assert!(accuracy > 0.8, "{accuracy}");
}
