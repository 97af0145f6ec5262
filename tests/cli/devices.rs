//! Promises: the scenario chooses the devices; what is not available is reported with the way
//! out; the path of a GPU gives the numbers of the CPU within a tolerance, and the same events.

use std::path::Path;

use crate::command::{read, run_fedcast};
use candle_core::DType;
use fedcast::experiment::assemble::assemble;
use fedcast::federation::{Entry, Event, Interrupt, MemorySink, Workforce, simulate};
use fedcast::methods::Registry;
use fedcast::model::{DeviceSpec, ops::without_kernels};
use fedcast::scenario::{Compute, DeviceName, Loaded, Override, Scenario, ScenarioError};
use serde_json::Value;

const HGP: &str = r#"
schema = 2
data = { source = "digits", subset = 12, train = { normalize = "half" } }
tasks = { count = 2 }
partition = { kind = "iid" }
backbone = { weights = "embedded" }
method = { name = "hgp", prompt_len = 4 }
federation = { clients = 2, rounds = 1 }
record = { evaluate = "task" }
client = { epochs = 1, batch_size = 16, optimizer = { kind = "adamw", lr = 0.003 } }
"#;

fn load(overrides: &[&str]) -> Result<Loaded, ScenarioError> {
    let overrides: Vec<Override> = overrides.iter().map(|text| Override::new(*text)).collect();
    Scenario::from_toml(HGP, "hgp", Path::new("/"), &overrides, &Registry::builtin())
}

#[test]
fn devices_are_read_from_the_scenario_and_the_command_line() {
    let section = load(&[]).unwrap().scenario.devices;
    assert_eq!((section.names, section.compute), (vec![DeviceName::Cpu], Compute::Auto));
    let set = ["devices.use=[\"cuda:0\", \"cuda:1\"]", "devices.compute=f32"];
    let scenario = load(&set).unwrap().scenario;
    assert_eq!(scenario.devices.names, [DeviceName::Cuda(0), DeviceName::Cuda(1)]);
    assert_eq!(scenario.devices.compute, Compute::F32);
    let text = scenario.to_effective_toml();
    assert!(text.contains("use = [\"cuda:0\", \"cuda:1\"]"), "{text}");
    let again = Scenario::from_toml(&text, "hgp", Path::new("/"), &[], &Registry::builtin());
    assert_eq!(again.unwrap().scenario, scenario);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for (set, why) in [
        ("devices.use=[]", "names no device"),
        ("devices.use=[\"cpu\", \"cuda:0\"]", "a run uses only one kind"),
        ("devices.use=[\"cuda:0\", \"cuda:0\"]", "named twice"),
        ("devices.use=[\"gpu\"]", "`gpu` is not a device"),
    ] {
        let error = load(&[set]).expect_err(set).to_string();
        assert!(error.contains(why), "{set}: {error}");
    }
}

/// No machine has this many GPUs, so this holds for a program with GPUs too.
#[test]
fn a_gpu_that_is_not_there_ends_with_code_20_and_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("hgp.toml"), HGP).unwrap();
    let arguments = ["run", "hgp.toml", "-q", "-o", "out", "--set", "devices.use=[\"cuda:4000\"]"];
    let output = run_fedcast(folder.path(), &arguments);
    assert_eq!(output.code, 20, "{}", output.err);
    for part in ["cuda:4000", "devices.use = [\"cpu\"]"] {
        assert!(output.err.contains(part), "{}", output.err);
    }
    assert!(!folder.path().join("out").exists(), "nothing was begun");
}

#[test]
fn the_manifest_says_what_computed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("hgp.toml"), HGP).unwrap();
    let arguments = ["run", "hgp.toml", "-q", "-o", "out", "--set", "tasks.count=1"];
    assert_eq!(run_fedcast(folder.path(), &arguments).code, 0);
    let manifest = read(folder.path().join("out/manifest.json"));
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["devices"], serde_json::json!(["cpu"]));
    assert_eq!(manifest["pack"], 1);
    assert_eq!((&manifest["compute"], &manifest["level"]), (&"f32".into(), &"N".into()));
}

/// Runs the scenario into `out`, and gives its manifest and the digests of events and numbers.
fn run_of(folder: &Path, out: &str, more: &[&str]) -> (Value, String, String) {
    std::fs::write(folder.join("hgp.toml"), HGP).unwrap();
    let output = run_fedcast(folder, &[&["run", "hgp.toml", "-q", "-o", out], more].concat());
    assert_eq!(output.code, 0, "{}", output.err);
    let manifest = read(folder.join(out).join("manifest.json"));
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    let digest = |level: &str| manifest["digests"][level].as_str().expect("a digest").to_owned();
    let (events, numbers) = (digest("events"), digest("numbers"));
    (manifest, events, numbers)
}

#[test]
fn a_cpu_multiplies_in_bf16_where_it_is_asked_to_with_the_same_events_and_any_number_of_workers() {
    let folder = tempfile::tempdir().unwrap();
    let (_, events, numbers) = run_of(folder.path(), "full", &["--workers", "1"]);
    let half = ["--set", "devices.compute=\"bf16\"", "--workers", "1"];
    let (manifest, half_events, half_numbers) = run_of(folder.path(), "half", &half);
    assert_eq!((&manifest["compute"], &manifest["level"]), (&"bf16".into(), &"N".into()));
    assert_eq!(half_events, events);
    assert_ne!(half_numbers, numbers, "products are rounded");
    let verified = run_fedcast(folder.path(), &["replay", "half", "--verify", "--workers", "2"]);
    assert_eq!(verified.code, 0, "{}", verified.err);
}

#[test]
fn bf16_on_a_cpu_is_refused_where_it_would_do_nothing() {
    let resnet = ["backbone={ kind = \"resnet18\" }", "method={ name = \"fedavg\" }"];
    let half = [&resnet[..], &["devices.compute=bf16"]].concat();
    assert!(load(&resnet).is_ok(), "{}", load(&resnet).unwrap_err());
    let error = load(&half).expect_err("a network that multiplies in f32").to_string();
    assert!(error.contains("only a backbone of kind \"vit\" multiplies in bf16"), "{error}");
    assert!(load(&[&half[..], &["devices.use=[\"cuda:0\"]"]].concat()).is_ok());
}

/// Digest of the events, and correct answers at the end.
struct Outcome {
    events: String,
    correct: u64,
    total: u64,
}

fn run(workers: Workforce, pack: usize) -> Outcome {
    let mut setup =
        assemble(&load(&[]).unwrap().scenario, &Registry::builtin(), None).unwrap().setup;
    setup.workers = workers;
    setup.rules.pack = pack;
    let memory = MemorySink::default();
    simulate(setup, Box::new(memory.clone()), Box::new(()), Interrupt::default()).unwrap();
    let entries = memory.entries();
    let tested = |entry: &&Entry| matches!(entry.event, Event::Evaluated { .. });
    let last = entries.iter().rev().find(tested).and_then(|entry| entry.numbers.clone());
    let tasks = last.expect("an evaluation").tasks;
    Outcome {
        events: memory.digests().events.to_string(),
        correct: tasks.iter().map(|task| task.correct).sum(),
        total: tasks.iter().map(|task| task.total).sum(),
    }
}

/// Workers with places of their own, in half precision, on packs: everything a GPU does but the GPU.
#[test]
fn workers_with_places_of_their_own_give_the_same_events_and_nearly_the_same_numbers() {
    let half = DeviceSpec { compute: DType::BF16, ..DeviceSpec::cpu() };
    let cpu = run(Workforce::Cpu(1), 1);
    for pack in [1, 2] {
        let places = run(Workforce::Gpus(vec![half.clone(), half.clone()]), pack);
        assert_eq!(cpu.events, places.events);
        assert_eq!(cpu.total, places.total);
        let off = cpu.correct.abs_diff(places.correct) as f64 / cpu.total as f64;
        assert!(off <= 0.05, "{} and {} of {}", cpu.correct, places.correct, cpu.total);
    }
}

/// The switch holds in its own thread only, so a forward pass is compared here.
#[test]
fn composed_ops_give_the_features_of_the_kernels() {
    let scenario = load(&[]).unwrap().scenario;
    let ctx = assemble(&scenario, &Registry::builtin(), Some(1)).unwrap().setup.ctx;
    let shard = (0..8).collect();
    let batch = ctx.statistics_loader(&shard).in_order(8).next().unwrap().unwrap();
    let pixels = ctx.pixels(&batch).unwrap();
    let none = fedcast::model::Adaptation::none();
    let features = || ctx.backbone.features(&pixels, &none).unwrap();
    let (kernels, composed) = (features(), without_kernels(features));
    let off = (kernels - composed).unwrap().abs().unwrap().max_all().unwrap();
    assert!(off.to_scalar::<f32>().unwrap() < 1e-4);
}
