//! Everything that can be wrong with a command ends in a documented exit code and a message
//! that says what to do.

use std::fs;
use std::path::Path;

use crate::command::{CommandOutput, read, run_fedcast, tiny, tiny_run};

fn tiny_with(folder: &Path, more: &[&str]) -> CommandOutput {
    tiny_run(folder, more)
}

#[test]
fn bad_usage_is_2() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&["run"][..], &["frobnicate"], &["run", "x.toml", "--workers", "0"]] {
        let output = run_fedcast(folder.path(), arguments);
        assert_eq!(output.code, 2, "{arguments:?}: {}", output.err);
        assert!(output.out.is_empty());
    }
    let unknown = run_fedcast(folder.path(), &["methods", "show", "hpg"]);
    assert_eq!(unknown.code, 2);
    assert_eq!(unknown.err, "error: there is no method `hpg`; did you mean `hgp`?\n");
}

#[test]
fn a_bad_scenario_is_3_with_every_mistake_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let text = read(tiny())
        .replace("clients = 3", "clinets = 3")
        .replace("prompt_len = 8", "prompt_len = \"long\"")
        .replace("beta = 1.0", "beta = -1.0");
    fs::write(folder.path().join("bad.toml"), text).unwrap();
    let output = run_fedcast(folder.path(), &["run", "bad.toml"]);
    assert_eq!(output.code, 3);
    insta::assert_snapshot!(output.err);
    assert!(!folder.path().join("runs").exists(), "no run directory for a run that cannot be");
    assert_eq!(run_fedcast(folder.path(), &["check", "bad.toml"]).code, 3);
    assert_eq!(run_fedcast(folder.path(), &["plan", "nowhere.toml"]).code, 3);
}

#[test]
fn check_gives_programs_the_place_of_a_mistake() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("bad.toml"), read(tiny()).replace("hgp", "hpg")).unwrap();
    let output = run_fedcast(folder.path(), &["check", "bad.toml", "--format", "json"]);
    assert_eq!(output.code, 3);
    let answer: serde_json::Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(answer["files"][0]["valid"], false);
    assert_eq!(answer["files"][0]["errors"][0]["place"]["line"], 17, "{}", output.out);
}

#[test]
fn missing_and_truncated_data_are_6() {
    let folder = tempfile::tempdir().unwrap();
    let cifar = |path: &str| {
        let source = ["--set", "data.source=cifar10", "--set", &format!("data.path={path}")]
            .map(str::to_string);
        let resize = ["--set", "data.train.resize=8", "--set", "data.test.resize=8"];
        let all: Vec<&str> = source.iter().map(String::as_str).chain(resize).collect();
        tiny_with(folder.path(), &all)
    };
    let missing = cifar("nowhere");
    assert_eq!(missing.code, 6, "{}", missing.err);
    assert!(missing.err.contains("nowhere: not found"), "{}", missing.err);

    let batches = folder.path().join("cifar");
    fs::create_dir(&batches).unwrap();
    for name in (1..=5).map(|i| format!("data_batch_{i}.bin")).chain(["test_batch.bin".into()]) {
        fs::write(batches.join(name), vec![0; 3073 * 4 - 7]).unwrap();
    }
    let names = "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n";
    fs::write(batches.join("batches.meta.txt"), names).unwrap();
    let truncated = cifar("cifar");
    assert_eq!(truncated.code, 6, "{}", truncated.err);
    assert!(truncated.err.contains("data_batch_1.bin"), "{}", truncated.err);
    assert!(!folder.path().join("run").exists());
}

#[test]
fn wrong_weights_are_6() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("broken.safetensors"), b"not a tensor in sight").unwrap();
    let weights = |file: &str| {
        let set = format!(
            "backbone={{weights=\"{file}\", architecture={{image=8, patch=2, channels=1, dim=64, depth=6, heads=4}}}}"
        );
        tiny_with(folder.path(), &["--set", &set])
    };
    let broken = weights("broken.safetensors");
    assert_eq!(broken.code, 6, "{}", broken.err);
    assert!(broken.err.contains("broken.safetensors"), "{}", broken.err);
    let missing = weights("missing.safetensors");
    assert_eq!(missing.code, 6, "{}", missing.err);
}

#[test]
fn a_run_directory_of_another_scenario_is_2_unless_forced() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(tiny_with(folder.path(), &[]).code, 0);
    let before = read(folder.path().join("run/manifest.json"));
    let other = tiny_with(folder.path(), &["--seed", "2"]);
    assert_eq!(other.code, 2, "{}", other.err);
    assert!(other.err.contains("--force"), "{}", other.err);
    assert_eq!(read(folder.path().join("run/manifest.json")), before);
    let same = tiny_with(folder.path(), &[]);
    assert_eq!(same.code, 4, "what is done is not computed again: {}", same.err);
    assert!(
        same.err.contains("is already complete") && same.err.contains("--force"),
        "{}",
        same.err
    );
    assert_eq!(read(folder.path().join("run/manifest.json")), before);
    assert_eq!(tiny_with(folder.path(), &["--force"]).code, 0);
    assert_eq!(tiny_with(folder.path(), &["--seed", "2", "--force"]).code, 0);

    let lock = fs::File::options().write(true).open(folder.path().join("run/run.lock")).unwrap();
    lock.lock().unwrap();
    let used = tiny_with(folder.path(), &["--seed", "2", "--force"]);
    assert_eq!(used.code, 2, "{}", used.err);
    assert!(used.err.contains("being written by another"), "{}", used.err);
}

#[test]
fn a_path_that_can_be_no_directory_is_2() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "in the way").unwrap();
    let tiny = tiny();
    for out in ["file", "file/run"] {
        let output = run_fedcast(folder.path(), &["run", tiny.to_str().unwrap(), "-q", "-o", out]);
        assert_eq!(output.code, 2, "{}", output.err);
        assert!(output.err.contains("cannot be a run directory"), "{}", output.err);
    }
    let label = format!("name=\"{}\"", "ü".repeat(200));
    let output =
        run_fedcast(folder.path(), &["run", tiny.to_str().unwrap(), "-q", "--set", &label]);
    assert_eq!(output.code, 0, "a long label is cut: {}", output.err);
}

#[test]
fn what_a_data_set_cannot_meet_is_3_and_training_that_gives_nothing_is_7() {
    let folder = tempfile::tempdir().unwrap();
    let few = tiny_with(folder.path(), &["--set", "partition.min_samples=1000"]);
    assert_eq!(few.code, 3, "{}", few.err);
    let crashed = tiny_with(folder.path(), &["--set", "faults=[{kind=\"crash\",rate=1.0}]"]);
    assert_eq!(crashed.code, 7, "{}", crashed.err);
    assert!(crashed.out.contains("no update was ever aggregated"), "{}", crashed.out);
    let bad = "faults=[{kind=\"bad-update\",how=\"nan\",rate=1.0}]";
    let abort = ["--force", "--set", bad, "--set", "federation.on_bad_update=abort"];
    let output = tiny_with(folder.path(), &abort);
    assert_eq!(output.code, 7, "{}", output.err);
    assert!(output.err.contains("must not be used"), "{}", output.err);
}

#[cfg(target_os = "linux")]
#[test]
fn unwritable_results_are_12_and_lines_on_stderr_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let tiny = tiny();
    let run = ["run", tiny.to_str().unwrap(), "-o", "run"];
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let run = crate::command::fedcast(folder.path(), &run).stderr(full()).status().unwrap();
    assert_eq!(run.code(), Some(0));
    let again = ["replay", "run"];
    let output = crate::command::fedcast(folder.path(), &again).stdout(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(12));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write to stdout"));
}

/// A limit on the size of files stands for a full disk.
#[cfg(unix)]
#[test]
fn a_full_disk_is_12_and_the_manifest_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let limited = format!(
        "trap '' XFSZ; ulimit -f 8; exec '{}' run '{}' -q -o run --set federation.rounds=5",
        env!("CARGO_BIN_EXE_fedcast"),
        tiny().display()
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &limited])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(12), "{err}");
    let lines: Vec<&str> = err.lines().collect();
    assert!(lines[0].starts_with("error: recording failed: run/"), "{err}");
    assert_eq!(lines[1..], ["  help: free disk space, then resume: fedcast resume run"]);
    let manifest: serde_json::Value =
        serde_json::from_str(&read(folder.path().join("run/manifest.json"))).unwrap();
    assert_eq!(manifest["status"], "failed");
    assert!(manifest["digests"].is_null());
    let replayed = run_fedcast(folder.path(), &["replay", "run"]);
    assert_eq!(replayed.code, 12, "what was recorded is not taken for a whole run");
}

#[test]
fn a_replay_of_nothing_is_2() {
    let folder = tempfile::tempdir().unwrap();
    let output = run_fedcast(folder.path(), &["replay", "nowhere"]);
    assert_eq!(output.code, 2, "{}", output.err);
    assert!(output.err.contains("not a run directory"), "{}", output.err);
}

/// Runs a scenario whose updates are beyond what half precision holds.
fn diverging(folder: &Path, codec: &str) -> CommandOutput {
    let settings = [
        "backbone={kind=\"pixels\"}",
        "method={name=\"fedavg\",train=\"head\"}",
        "client={epochs=1,max_grad_norm=0.0,optimizer={kind=\"sgd\",lr=1e7}}",
        "federation.rounds=2",
        codec,
    ];
    let tiny = tiny();
    let mut words = vec!["run", tiny.to_str().unwrap(), "-o", "run"];
    words.extend(settings.iter().flat_map(|setting| ["--set", setting]));
    let output = run_fedcast(folder, &words);
    assert_eq!(output.code, 7, "{}", output.err);
    assert!(output.err.contains("codec f16 cannot carry"), "{}", output.err);
    assert!(output.err.contains("choose codec f32 or bf16"), "{}", output.err);
    output
}

#[test]
fn a_download_that_its_codec_cannot_carry_ends_as_bad_training_does() {
    let folder = tempfile::tempdir().unwrap();
    let output = diverging(folder.path(), "wire.down.codec=\"f16\"");
    assert!(output.err.contains("could not pack the broadcast of round"), "{}", output.err);
    assert!(output.err.contains("head."), "{}", output.err);
}

#[test]
fn uploads_that_their_codec_cannot_carry_are_refused_and_never_aggregated() {
    let folder = tempfile::tempdir().unwrap();
    let output = diverging(folder.path(), "wire.up.codec=\"f16\"");
    assert!(output.err.contains("update of client 0 rejected: tensor `head."), "{}", output.err);
    assert!(output.out.contains("no update was ever aggregated"), "{}", output.out);
}

/// A server whose own training diverges ends as one that gets nothing to use.
#[test]
fn a_generator_that_diverges_is_7() {
    let folder = tempfile::tempdir().unwrap();
    let target = "method={name=\"target\",latent=8,generator_width=8,synthetic_batch=8,\
                  generator_batch=8,synthesis_rounds=3,generator_steps=4,crop_padding=1,flip=0,\
                  epoch_end=\"samples\",warmup=1,student_steps=2,generator_lr=1e30}";
    let network = "backbone={kind=\"resnet18\",width=8}";
    let output = tiny_with(folder.path(), &["--set", target, "--set", network]);
    assert_eq!(output.code, 7, "{}", output.err);
    let why = "loss of the generator (step 1) is not finite; lower the learning rate";
    assert!(output.err.contains(why), "{}", output.err);
}
