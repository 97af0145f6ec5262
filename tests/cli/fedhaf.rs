//! Promises: FedHAF runs from a scenario; its clients' memory follows the client, is reported and depends on no
//! number of workers; the previous model is paid for once per task and client.

use std::path::Path;

use crate::command::{read, run_fedcast};
use serde_json::Value;

const DIGITS: &str = r#"
schema = 2
data = { source = "digits", subset = 24 }
tasks = { count = 5 }
partition = { kind = "dirichlet", beta = 1.0, min_samples = 1 }
method = { name = "fedhaf", module_hidden = 32, module_width = 16, head_hidden = 16 }
federation = { clients = 6, rounds = 2 }
participation = { count = 3 }
client = { epochs = 2, batch_size = 8, optimizer = { kind = "sgd", lr = 0.05 } }
wire = { asset_cache = "task" }
time = { preset = "mobile" }
"#;

fn run(folder: &Path, out: &str, more: &[&str]) -> (Value, Value, String) {
    std::fs::write(folder.join("haf.toml"), DIGITS).unwrap();
    let output = run_fedcast(folder, &[&["run", "haf.toml", "-q", "-o", out], more].concat());
    assert_eq!(output.code, 0, "{}", output.err);
    let json =
        |name: &str| -> Value { serde_json::from_str(&read(folder.join(out).join(name))).unwrap() };
    (json("manifest.json"), json("summary.json"), output.out)
}

#[test]
fn workers_change_nothing_and_memory_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (one, summary, out) = run(folder.path(), "one", &["--workers", "1"]);
    let (three, ..) = run(folder.path(), "three", &["--workers", "3"]);
    assert_eq!(one["digests"], three["digests"]);
    let memory = &summary["memory"];
    // A fifth of every class, rounded up, of 8 x 8 bytes each.
    let bytes = memory["bytes"].as_u64().unwrap();
    assert!(bytes % 64 == 0 && bytes > 64 * 240 / 5, "{memory}");
    assert!(out.contains(&format!("clients     {} keep", memory["clients"])), "{out}");
    let clients = read(folder.path().join("one/clients.csv"));
    let column = clients.lines().next().unwrap().split(',').position(|name| name == "bytes_state");
    let kept: u64 = clients
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(column.unwrap()).unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(kept, bytes);
    // So are the seconds of every task, on both clocks.
    let seconds = |of: &Value| -> Vec<f64> {
        of.as_array().unwrap().iter().map(|s| s.as_f64().unwrap()).collect()
    };
    let (virtual_s, wall) = (&summary["virtual_s"], &summary["wall"]);
    for (by_task, all) in
        [(&summary["task_virtual_s"], virtual_s), (&wall["by_task_s"], &wall["total_s"])]
    {
        let (each, all) = (seconds(by_task), all.as_f64().unwrap());
        assert!(each.len() == 5 && each.iter().all(|s| *s > 0.0), "{each:?}");
        assert!((0.5 * all..=all + 1e-6).contains(&each.iter().sum()), "{each:?} of {all}");
    }
    assert_eq!(out.matches("by task: ").count(), 2, "{out}");
    let replayed = run_fedcast(folder.path(), &["replay", "one", "--verify", "-q"]);
    assert_eq!(replayed.code, 0, "{}{}", replayed.out, replayed.err);
}

/// Exemplars keep classes of earlier tasks: with them FedHAF forgets far less than FedAvg on the same features, whose
/// classes all compete, whether or not a second stage trains its module; without them it forgets more than twice as much.
/// (What the losses of the second stage do is in `tests/methods/fedhaf.rs`: no accuracy shows it.)
#[test]
fn exemplars_keep_old_classes() {
    let folder = tempfile::tempdir().unwrap();
    let more = ["--set", "data.subset=60", "--set", "federation.rounds=4"];
    let fedavg = r#"method={name="fedavg", train="head", old_logits="keep"}"#;
    let forgetting = |out: &str, sets: &[&str]| {
        let (_, summary, _) = run(folder.path(), out, &[&more[..], sets].concat());
        summary["accuracy"]["forgetting_from_best"].as_f64().unwrap()
    };
    let (haf, avg) = (forgetting("haf", &[]), forgetting("avg", &["--set", fedavg]));
    assert!(haf < avg - 0.2, "{haf} {avg}");
    let first = ["--set", "method.lambda_fd=0", "--set", "method.lambda_fb=0"];
    let replay = forgetting("replay", &first);
    assert!(replay < avg - 0.2, "{replay} {avg}");
    let none = forgetting("none", &["--set", "method.retention=0"]);
    assert!(none > 2.0 * haf, "{none} {haf}");
}

#[test]
fn what_is_planned_is_what_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (_, summary, _) = run(folder.path(), "run", &[]);
    let sent = summary["bytes"]["down"]["delivered"]["bytes"].as_u64().unwrap();
    let output = run_fedcast(folder.path(), &["plan", "haf.toml", "--format", "json"]);
    let plan: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(plan["total"]["down"].as_u64().unwrap(), sent, "{}", plan["total"]);
}

#[test]
fn fresh_clients_and_foreign_keys_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("haf.toml"), DIGITS).unwrap();
    let check = |sets: &[&str]| {
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
        let output = run_fedcast(folder.path(), &[&["check", "haf.toml"][..], &sets].concat());
        (output.code, output.err)
    };
    let fresh = [
        "participation.population=fresh",
        "partition.samples_per_client=20",
        "wire.asset_cache=none",
    ];
    let (code, err) = check(&fresh);
    assert!(code == 3 && err.contains("fresh clients never come back"), "{err}");
    assert_eq!(check(&[&fresh[..], &["method.retention=0.0"]].concat()).0, 0);
    for (set, why) in [
        ("method.retention=1.5", "at most 1"),
        ("method.herding=random", "`random` is not a value"),
        ("method.lambda_fbb=1.0", "did you mean `lambda_fb`"),
        ("method.residual=skip", "`skip` is not a value"),
        ("method.reinitialize=true", "`batch_norm = \"batch\"`"),
        ("method.teacher_batch_norm=batch", "`batch` is not a value"),
        ("method={name=\"fedlwf-2t\", train=\"head\", alpha=0.8, beta=0.4}", "with `gamma`"),
    ] {
        let (code, err) = check(&[set]);
        assert!(code == 3 && err.contains(why), "{set}: {err}");
    }
}

/// FedProx card, invariant 6: one site has the same data however they would be divided.
#[test]
fn a_central_oracle_knows_no_partition() {
    let folder = tempfile::tempdir().unwrap();
    let digests = |kind: &str| {
        let sets = [
            "method={name=\"oracle\",train=\"head\"}",
            "federation={clients=1,rounds=1}",
            "participation={kind=\"all\"}",
            &format!("partition={{kind={kind}}}"),
        ];
        let sets: Vec<&str> = sets.into_iter().flat_map(|set| ["--set", set]).collect();
        let (manifest, ..) = run(folder.path(), "oracle", &[&sets[..], &["--force"]].concat());
        manifest["digests"].clone()
    };
    let even = digests("\"iid\"");
    for kind in ["\"dirichlet\",beta=0.1", "\"lda\"", "\"quantity\",classes_per_client=2"] {
        assert_eq!(digests(kind), even, "{kind}");
    }
}
