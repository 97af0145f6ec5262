//! Promise: methods of LoRA and of regression means run on a few digits and learn, verify from their checkpoints to the
//! same events, and say at their key what a scenario cannot have.

use std::path::Path;

use crate::command::{read, run_fedcast};
use serde_json::Value;

/// Two tasks of five digits over three clients.
const SCENARIO: &str = r#"schema = 2
data = { source = "digits", subset = 20 }
tasks = { sizes = [5, 5] }
partition = { kind = "iid", min_samples = 2 }
federation = { clients = 3, rounds = 2 }
client = { epochs = 3, batch_size = 8, optimizer = { kind = "adamw", lr = 0.01 } }
record = { evaluate = "task", checkpoint = { every = 1, keep = 9 } }
"#;

/// Methods, and what they are to reach on all digits after both tasks, in percent: far more than chance, which is 10.
const METHODS: [(&str, f64); 6] = [
    ("name = \"fedavg\"\ntrain = \"lora\"", 40.0),
    ("name = \"fedavg\"\ntrain = \"adapter\"\nbottleneck = 8", 40.0),
    ("name = \"pilora\"\nprototype_lr = 20", 30.0),
    ("name = \"lorm\"\nrank = 2", 30.0),
    ("name = \"regmean\"\ntrain = \"head\"", 30.0),
    (
        "name = \"stsa\"\nwidth = 200\nlambda = 1e-3\nlambda_scale = \"trace\"\nfirst = { name = \"pilora\" }",
        60.0,
    ),
];

fn write(folder: &Path, method: &str) {
    std::fs::write(folder.join("s.toml"), format!("{SCENARIO}\n[method]\n{method}\n")).unwrap();
}

#[test]
fn they_learn_and_verify_from_a_checkpoint() {
    for (method, least) in METHODS {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        write(folder, method);
        let ran = run_fedcast(folder, &["run", "s.toml", "-q", "-o", "run"]);
        assert_eq!(ran.code, 0, "{method}: {}", ran.err);
        let summary: Value = serde_json::from_str(&read(folder.join("run/summary.json"))).unwrap();
        let faa = 100.0 * summary["accuracy"]["faa"].as_f64().unwrap();
        assert!(faa >= least, "{method}: {faa}");
        for more in [&["--from-round", "3"][..], &["--workers", "2"]] {
            let again = [&["replay", "run", "--verify"][..], more].concat();
            let verified = run_fedcast(folder, &again);
            assert_eq!(verified.code, 0, "{method} {more:?}: {}{}", verified.out, verified.err);
        }
    }
}

#[test]
fn plans_say_what_the_server_holds() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "name = \"regmean\"");
    let output = run_fedcast(folder.path(), &["plan", "s.toml", "--format", "json"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let plan: Value = serde_json::from_str(&output.out).unwrap();
    let held = plan["held"]["server"].as_u64().expect("what a server holds");
    write(folder.path(), "name = \"regmean\"\ngamma_backbone = 0\ngamma_head = 0");
    let output = run_fedcast(folder.path(), &["plan", "s.toml", "--format", "json"]);
    let plan: Value = serde_json::from_str(&output.out).unwrap();
    assert!(plan["held"]["server"].as_u64().unwrap() < held);
}

#[test]
fn impossible_settings_are_refused_at_their_key() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |method: &str, more: &str| {
        write(folder.path(), method);
        let text = read(folder.path().join("s.toml"));
        std::fs::write(folder.path().join("s.toml"), format!("{text}{more}")).unwrap();
        let output = run_fedcast(folder.path(), &["check", "s.toml"]);
        assert_eq!(output.code, 3, "{}{}", output.out, output.err);
        output.err + &output.out
    };
    for (method, more, why) in [
        ("name = \"fedavg\"\ntrain = \"lora\"\nlora_at = []", "", "no layer trains nothing"),
        ("name = \"fedavg\"\ntrain = \"lora\"\nlora_at = [\"k\"]", "", "is not a value"),
        ("name = \"pilora\"\nrank = 0", "", "rank"),
        ("name = \"regmean\"\nclassifier = \"cosine\"", "", "least squares"),
        ("name = \"pilora\"", "[backbone]\nkind = \"pixels\"", "needs the blocks"),
        ("name = \"lorm\"", "[privacy]\nsecure_aggregation = true", "own moments"),
        ("name = \"regmean\"", "[privacy]\nsecure_aggregation = true", "own moments"),
    ] {
        let message = refused(method, more);
        assert!(message.contains(why), "{method}: {message}");
    }
}
