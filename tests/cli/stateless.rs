//! Promises of HePCo's protocol: new clients in every round, any round drawn alone; the same run for any
//! number of workers; and prompts that depend on queries through the whole program.

use std::collections::BTreeSet;
use std::path::Path;

use crate::command::{read, run_fedcast};
use fedcast::data::{Dataset, FreshClients, Tokenizer};
use fedcast::experiment::assemble::{rules, task_sequence_of};
use fedcast::federation::participation::cohort;
use fedcast::methods::Registry;
use fedcast::quantity::{ClientId, Round};
use fedcast::scenario::Scenario;
use serde_json::Value;

/// Three clients a round of a million, two tasks of two rounds, a few samples each.
const SCENARIO: &str = r#"schema = 2
data = { source = "digits", train = { normalize = "half" }, test = { normalize = "half" } }
tasks = { count = 2 }
partition = { kind = "ratios", split = 0.1, category = 0.6 }
backbone = { weights = "embedded" }
federation = { clients = 1_000_000, rounds = 2 }
participation = { count = 3, population = "fresh" }
client = { epochs = 1, batch_size = 16, epoch_schedule = "quarter-cosine" }
record = { evaluate = "task" }

[method]
name = "hepco"
pool = 4
prompt_len = 4
n_blocks = 2
generator_steps = 5
old_steps_per_task = 3
prompt_steps = 5
head_steps = 5
server_batch = 16
"#;

const PLAIN: &str = "method={name=\"fedavg-prompt\", pool=4, prompt_len=4, n_blocks=2}";

fn run(folder: &Path, name: &str, sets: &[&str]) -> Value {
    std::fs::write(folder.join("scenario.toml"), SCENARIO).unwrap();
    let mut arguments = vec!["run", "scenario.toml", "-q", "-o", name];
    arguments.extend(sets.iter().flat_map(|set| ["--set", set]));
    let output = run_fedcast(folder, &arguments);
    assert_eq!(output.code, 0, "{}", output.err);
    serde_json::from_str(&read(folder.join(name).join("summary.json"))).unwrap()
}

fn events(folder: &Path, kind: &str) -> Vec<Value> {
    let text = read(folder.join("events.jsonl"));
    let all = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    all.map(|entry| entry["event"].clone()).filter(|event| event["type"] == kind).collect()
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
}

#[test]
fn workers_packs_and_the_wire_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str, sets: &[&str]| {
        let sets = [sets, &["federation.rounds=1"]].concat();
        run(folder.path(), name, &sets)["digests"].clone()
    };
    let one = of("one", &["devices.workers=1"]);
    assert_eq!(one, of("three", &["devices.workers=3"]));
    assert_eq!(one, of("packs", &["devices.workers=2", "devices.pack=3"]));
    assert_eq!(one, of("verified", &["wire=verify"]));
    assert_ne!(one, of("plain", &[PLAIN]));
}

/// Cohorts and shards of a run are those that are drawn for each round alone, the last round first.
#[test]
fn any_round_is_drawn_alone() {
    let folder = tempfile::tempdir().unwrap();
    let summary = run(folder.path(), "run", &[PLAIN]);
    assert_eq!(summary["rounds"], 4);
    let (opened, trained) = (
        events(&folder.path().join("run"), "round_opened"),
        events(&folder.path().join("run"), "client_trained"),
    );
    let loaded = Scenario::load(&folder.path().join("scenario.toml"), &[], &Registry::builtin());
    let scenario = loaded.unwrap().scenario;
    let data = Dataset::open(&scenario.data, &Tokenizer::Characters).unwrap();
    let task_sequence = task_sequence_of(&scenario, data.classes()).unwrap();
    let tasks = &task_sequence.tasks;
    let fresh = FreshClients::from_scenario(&scenario.partition, scenario.seed.partition).unwrap();
    let asking = rules(&scenario, &task_sequence).participation;
    let mut met = BTreeSet::new();
    for round in opened.iter().rev() {
        let (number, task) = (round["round"].as_u64().unwrap(), round["task"].as_u64().unwrap());
        let view = &tasks[task as usize];
        let asked = cohort(&asking, 1_000_000, scenario.seed.run, view.task, Round(number as u32));
        let expected: Vec<u64> = asked.iter().map(|ClientId(client)| u64::from(*client)).collect();
        assert_eq!(numbers(&round["cohort"]), expected);
        for client in asked {
            assert!(met.insert(client), "{client} comes back");
            let shard = fresh.shard(view, client, data.train.by_class());
            let of_client = |event: &&Value| event["client"] == u64::from(client.0);
            let event = trained.iter().find(of_client).expect("who is asked trains");
            assert_eq!(event["samples"], shard.len() as u64);
            let counts = fresh.counts(view, client, &data.class_sizes());
            assert_eq!(counts.iter().filter(|count| **count > 0).count(), 3, "of five classes");
        }
    }
    assert_eq!(met.len(), 12);
}

/// A long tail in the reported counts alone changes neither shards nor clients, but what HePCo's server does.
#[test]
fn a_tail_in_the_counts_alone_reaches_only_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let tail = ["partition.imbalance=0.2", "partition.counts_only=true", "federation.rounds=1"];
    let with = |name: &str, sets: &[&str]| {
        run(folder.path(), name, sets);
        let sent = |event: &Value| (event["client"].as_u64(), event["samples"].as_u64());
        let trained: Vec<_> =
            events(&folder.path().join(name), "client_trained").iter().map(sent).collect();
        let text = read(folder.path().join(name).join("events.jsonl"));
        let digest = text.lines().filter(|line| line.contains("\"round_closed\""));
        let digest = digest.map(|line| line.split("\"digest\"").nth(1).map(String::from));
        (trained, digest.collect::<Vec<_>>())
    };
    let balanced = with("a", &["federation.rounds=1"]);
    let reported = with("b", &tail);
    let real = with("c", &[tail[0], tail[2]]);
    assert_eq!(balanced.0, reported.0);
    assert_ne!(balanced.0, real.0);
    assert_ne!(balanced.1, reported.1);
    let plain = with("d", &[PLAIN, "federation.rounds=1"]);
    assert_eq!(plain.1, with("e", &[&[PLAIN][..], &tail].concat()).1);
}

/// `plan` says what a run sends, also of label counts.
#[test]
fn a_run_sends_what_was_planned() {
    let folder = tempfile::tempdir().unwrap();
    let summary = run(folder.path(), "run", &[]);
    let output = run_fedcast(folder.path(), &["plan", "scenario.toml", "--format", "json"]);
    let plan: Value = serde_json::from_str(&output.out).unwrap();
    for way in ["down", "up"] {
        assert_eq!(summary["bytes"][way]["delivered"]["bytes"], plan["total"][way], "{way}");
    }
    let payload = plan["phases"][0]["up"]["largest"]["payload"].as_u64().unwrap();
    let pools = 2 * 4 * (4 + 1) * 64 + 65 * 10;
    assert_eq!(payload, 4 * (pools + 5), "five counts beside pools and head");
    let accuracy = &summary["accuracy"];
    assert!(accuracy["micro"].is_number() && accuracy["forgetting_consecutive"].is_number());
    assert!(
        summary["server_metrics"]["old_generator_distance"].is_number(),
        "{}",
        summary["server_metrics"]
    );
}
