//! Promise: the server's model after any task comes out as safetensors: kept, from a checkpoint, or computed again to the
//! same bits; and as one network where it is one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use safetensors::SafeTensors;

use crate::command::{CommandOutput, read, run_fedcast, tiny_run};

fn export(folder: &Path, out: &str, more: &[&str]) -> CommandOutput {
    run_fedcast(folder, &[&["export", "run", "-o", out], more].concat())
}

fn said(bytes: &[u8]) -> BTreeMap<String, String> {
    let (_, header) = SafeTensors::read_metadata(bytes).unwrap();
    serde_json::from_str(&header.metadata().as_ref().unwrap()["fedcast"]).unwrap()
}

/// Digests of the server's state at the ends of tasks, in the journal.
fn digests(folder: &Path) -> Vec<String> {
    let lines = read(folder.join("run/events.jsonl"));
    let lines = lines.lines().filter(|line| line.contains("\"task_ended\""));
    let digest = |line: &str| {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        entry["numbers"]["digest"].as_str().unwrap().to_string()
    };
    lines.map(digest).collect()
}

#[test]
fn a_model_that_was_kept_is_the_one_that_is_computed_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(tiny_run(folder, &["--set", "record.models=tasks"]).code, 0);
    let digests = digests(folder);
    let mut kept = Vec::new();
    for (task, out) in [("1", "one.safetensors"), ("2", "two.safetensors")] {
        let output = export(folder, out, &["--task", task]);
        assert_eq!(output.code, 0, "{}", output.err);
        let bytes = fs::read(folder.join(out)).unwrap();
        let said = said(&bytes);
        assert_eq!((said["task"].as_str(), said["method"].as_str()), (task, "hgp"));
        assert_eq!(said["digest"], digests[kept.len()]);
        assert_eq!(said["classes"].split(',').count(), 10);
        let file = SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(file.tensor("head/head.weight").unwrap().shape(), [10, 64]);
        assert_eq!(file.tensor("prompt/prompt.00").unwrap().shape(), [8, 64]);
        kept.push(bytes);
    }
    assert_ne!(kept[0], kept[1]);
    assert_eq!(export(folder, "last.safetensors", &["--task", "last"]).code, 0);
    assert_eq!(fs::read(folder.join("last.safetensors")).unwrap(), kept[1]);

    fs::remove_dir_all(folder.join("run/models")).unwrap();
    let gone = export(folder, "gone.safetensors", &[]);
    assert_eq!(gone.code, 2);
    assert!(gone.err.contains("record.models") && gone.err.contains("--recompute"), "{}", gone.err);
    assert!(!folder.join("gone.safetensors").exists());
    for (task, kept) in [("1", &kept[0]), ("2", &kept[1])] {
        let again = ["--task", task, "--recompute", "--force"];
        let output = export(folder, "again.safetensors", &again);
        assert_eq!(output.code, 0, "{}", output.err);
        assert!(output.out.contains("bytes, computed again from"), "{}", output.out);
        assert_eq!(fs::read(folder.join("again.safetensors")).unwrap(), *kept, "task {task}");
    }
    let there = export(folder, "again.safetensors", &["--recompute"]);
    assert_eq!(there.code, 2);
    assert!(there.err.contains("replace it with --force"), "{}", there.err);
    assert_eq!(fs::read(folder.join("again.safetensors")).unwrap(), kept[1]);
    let best = export(folder, "gone.safetensors", &["--task", "best"]);
    assert_eq!(best.code, 2);
    assert!(best.err.contains("cannot be compared"), "{}", best.err);
    let none = export(folder, "gone.safetensors", &["--task", "3"]);
    assert_eq!(none.code, 2);
    assert!(none.err.contains("has not ended task 3; it has ended 2"), "{}", none.err);
}

#[test]
fn a_model_is_in_the_checkpoint_of_its_task_and_models_of_another_run_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let set = ["--set", "record.checkpoint={every=\"task\",keep=9,max_time_fraction=1.0}"];
    assert_eq!(tiny_run(folder, &[&set[..], &["--set", "record.models=last"]].concat()).code, 0);
    let output = export(folder, "one.safetensors", &["--task", "1"]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(output.out.contains("from a checkpoint"), "{}", output.out);
    assert_eq!(
        said(&fs::read(folder.join("one.safetensors")).unwrap())["digest"],
        digests(folder)[0]
    );
    let models = folder.join("run/models");
    assert_eq!(fs::read_dir(&models).unwrap().count(), 1, "only the last is kept");
    fs::copy(models.join("task-02.safetensors"), models.join("task-01.safetensors")).unwrap();
    let output = export(folder, "wrong.safetensors", &["--task", "1"]);
    assert_eq!(output.code, 12);
    assert!(output.err.contains("another run or task"), "{}", output.err);
}

#[test]
fn a_network_that_was_trained_whole_is_one_file_and_prompts_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let keep = ["--set", "record.models=last"];
    let fedavg = ["--set", "method={name=\"fedavg\"}"];
    assert_eq!(tiny_run(folder, &[&keep[..], &fedavg].concat()).code, 0);
    let output = export(folder, "whole.safetensors", &["--merged"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let whole = fs::read(folder.join("whole.safetensors")).unwrap();
    let recorded = digests(folder).pop().unwrap();
    assert!(
        output.out.contains(&format!("digest of the server's state {recorded}")),
        "{}",
        output.out
    );
    let about = said(&whole);
    assert_eq!(about["state_digest"], recorded);
    assert_ne!(about["digest"], recorded, "the digest of the network");
    let whole = SafeTensors::deserialize(&whole).unwrap();
    let kept = fs::read(folder.join("run/models/task-02.safetensors")).unwrap();
    let kept = SafeTensors::deserialize(&kept).unwrap();
    for name in ["blocks.0.attn.qkv.weight", "norm.bias", "cls_token"] {
        let trained = kept.tensor(&format!("weights/{name}")).unwrap();
        assert_eq!(whole.tensor(name).unwrap().data(), trained.data(), "{name}");
    }
    let head = kept.tensor("head/head.weight").unwrap();
    assert_eq!(whole.tensor("head.weight").unwrap().data(), head.data());

    // Of a head alone the rest is the backbone as it was.
    let head = ["--force", "--set", "method={name=\"fedavg\",train=\"head\"}"];
    assert_eq!(tiny_run(folder, &[&keep[..], &head].concat()).code, 0);
    assert_eq!(export(folder, "head.safetensors", &["--merged"]).code, 0);
    let probe = fs::read(folder.join("head.safetensors")).unwrap();
    let probe = SafeTensors::deserialize(&probe).unwrap();
    let mut names = [probe.names(), whole.names()];
    names.iter_mut().for_each(|names| names.sort_unstable());
    assert_eq!(names[0], names[1]);
    let block = "blocks.0.attn.qkv.weight";
    assert_ne!(probe.tensor(block).unwrap().data(), whole.tensor(block).unwrap().data());

    for (method, why) in [("hgp\",prompt_len=8", "prompts"), ("stsa\"", "no linear layer")] {
        let method = format!("method={{name=\"{method}}}");
        let output =
            tiny_run(folder, &["--force", "--set", &method, "--set", "record.models=last"]);
        assert_eq!(output.code, 0, "{}", output.err);
        let output = export(folder, "none.safetensors", &["--merged"]);
        assert_eq!(output.code, 2, "{method}");
        assert!(output.err.contains(why) && output.err.contains("--merged"), "{}", output.err);
    }
    assert!(!folder.join("none.safetensors").exists());
}

/// Keys of a small generator.
const SMALL: &str =
    "latent=8,generator_width=4,generator_steps=2,generator_batch=8,synthetic_batch=8";

/// Runs a method on a small residual network and keeps the server's state after every task.
fn generating(folder: &Path, method: &str) {
    let method = format!("method={{{method}}}");
    let more = ["--set", "backbone={kind=\"resnet18\",width=4}", "--set", &method];
    let keep = ["--force", "--set", "record.models=tasks"];
    let output = tiny_run(folder, &[&keep[..], &more].concat());
    assert_eq!(output.code, 0, "{}", output.err);
}

/// Colors of a picture's images, of 8 x 8 pixels that are 12 x 12 each, with 4 between images.
fn colors(folder: &Path, images: u32) -> Vec<u8> {
    let sheet = image::open(folder.join("sheet.png")).unwrap().to_rgb8();
    let (columns, rows) = (images.min(8), images.div_ceil(8));
    assert_eq!(sheet.dimensions(), (columns * 100 + 4, rows * 100 + 4));
    let pixel = |image: u32, at: u32| {
        let (x, y) = (image % 8 * 100 + 4 + at % 8 * 12, image / 8 * 100 + 4 + at / 8 * 12);
        let color = sheet.get_pixel(x + 11, y).0;
        assert!(color.iter().all(|value| *value == color[0]), "gray");
        color[0]
    };
    (0..images)
        .flat_map(|image| (0..64).map(move |at| (image, at)))
        .map(|(i, at)| pixel(i, at))
        .collect()
}

#[test]
fn generated_images_are_those_that_clients_replay() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    generating(
        folder,
        &format!(
            "name=\"target\",{SMALL},synthesis_rounds=2,warmup=1,student_steps=1,student_batch=8"
        ),
    );
    let output = export(folder, "sheet.png", &["--task", "1", "--images", "10"]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(output.out.contains("10 generated images after task 1"), "{}", output.out);
    assert_eq!(export(folder, "state.safetensors", &["--task", "1"]).code, 0);
    let state = fs::read(folder.join("state.safetensors")).unwrap();
    let state = SafeTensors::deserialize(&state).unwrap();
    let name = state.names().into_iter().find(|name| name.ends_with("/images")).unwrap().to_owned();
    let images = state.tensor(&name).unwrap();
    assert_eq!(images.shape()[1..], [1, 8, 8]);
    let known = images.shape()[0];
    let shown = (0..10).flat_map(|place| {
        let at = place * known / 10 * 64;
        images.data()[at..at + 64].to_vec()
    });
    assert_eq!(colors(folder, 10), shown.collect::<Vec<u8>>());
}

#[test]
fn generators_make_the_same_picture_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let gan = "name=\"fedcil\",channel_divisor=16,noise=24,steps=1,server_steps=1,server_batch=8";
    let lander = format!(
        "name=\"lander\",embedding_width=16,{SMALL},synthesis_rounds=1,warmup=0,student_steps=1,student_batch=8"
    );
    for method in [&format!("name=\"mfcl\",{SMALL}"), &lander, gan] {
        generating(folder, method);
        let picture = |count: &str| {
            let output =
                export(folder, "sheet.png", &["--task", "1", "--images", count, "--force"]);
            assert_eq!(output.code, 0, "{method}: {}", output.err);
            fs::read(folder.join("sheet.png")).unwrap()
        };
        let eight = picture("8");
        assert!(colors(folder, 8).windows(2).any(|pair| pair[0] != pair[1]), "{method}");
        assert_eq!(picture("8"), eight, "{method}");
        assert_ne!(picture("3"), eight);
        colors(folder, 3);
    }
    let none = export(folder, "sheet.png", &["--images", "8", "--merged", "--force"]);
    assert_eq!(none.code, 2, "{}", none.err);
    generating(folder, "name=\"fedavg\"");
    let none = export(folder, "none.png", &["--images", "8"]);
    assert_eq!(none.code, 2);
    let says = "fedavg: its server has generated no images by the end of task 2";
    assert!(none.err.contains(says) && none.err.contains("mfcl"), "{}", none.err);
    assert!(!folder.join("none.png").exists());
}
