//! Promise: a plan with the faults of its scenario counts the work and the bytes of the run, and says which sizes it
//! cannot know.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::command::{read, run_fedcast};
use crate::plan_bytes::{all, sent_and_took};

const SCENARIO: &str = r#"
schema = 2
data = { source = "digits", subset = 12, test_subset = 5 }
tasks = { count = 3 }
partition = { kind = "iid", min_samples = 1 }
backbone = { kind = "pixels" }
method = { name = "fedavg" }
federation = { clients = 6, rounds = 1 }
client = { epochs = 2 }
"#;

/// Runs and plans the scenario with these keys in `folder`; returns the plan as JSON and as text.
fn run_and_plan(folder: &Path, keys: &[&str]) -> (Value, String) {
    std::fs::write(folder.join("a.toml"), SCENARIO).unwrap();
    let sets: Vec<&str> = keys.iter().flat_map(|set| ["--set", set]).collect();
    let of = |arguments: &[&str]| {
        let output = run_fedcast(folder, &[arguments, &sets[..]].concat());
        // A run whose uploads all get lost ends with 7.
        assert!([0, 7].contains(&output.code), "{keys:?}: {}", output.err);
        output.out
    };
    of(&["run", "a.toml", "-q", "-o", "run", "--force"]);
    let plan = of(&["plan", "a.toml", "--faults", "--format", "json"]);
    (serde_json::from_str(&plan).unwrap(), of(&["plan", "a.toml", "--faults"]))
}

/// Events of a type in the journal of the run.
fn events(folder: &Path, kind: &str) -> Vec<Value> {
    let journal = read(folder.join("run/events.jsonl"));
    let entries = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    entries.map(|mut entry| entry["event"].take()).filter(|event| event["type"] == kind).collect()
}

/// Training jobs are the clients that a run trains; passes are those of clients that finish their work.
#[test]
fn clients_that_fail_before_their_work_is_done_have_no_job() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (mut failed, mut skipped) = (0, 0);
    for keys in [
        &["faults=[{kind=\"lose\",direction=\"down\",clients=[0,1]}]"][..],
        &["faults=[{kind=\"crash\",when=\"before\",clients=[0,1]}]"],
        &["faults=[{kind=\"crash\",when=\"while\",rate=0.5}]", "preset=\"mobile\""],
        &["faults=[{kind=\"corrupt\",direction=\"down\",rate=0.5}]"],
        &["faults=[{kind=\"server-restart\",rounds=[2]}]", "preset=\"heavy-tail\""],
        &["round={close=\"deadline\",deadline_s=0.5}", "preset=\"heavy-tail\"", "faults=[]"],
    ] {
        let (plan, text) = run_and_plan(folder, keys);
        let trained = events(folder, "client_trained");
        let late = events(folder, "client_skipped").len();
        let total = &plan["total"];
        assert_eq!(total["training_jobs"], trained.len(), "{keys:?}");
        assert_eq!(total["skipped_jobs"].as_u64().unwrap_or(0), late as u64, "{keys:?}");
        assert!(text.contains(&format!("training      {} jobs", trained.len())), "{text}");
        let samples: u64 = trained.iter().map(|event| event["samples"].as_u64().unwrap()).sum();
        let passes = total["sample_passes"].as_f64().unwrap();
        let flops = total["client_flops"].as_f64().unwrap();
        if late == 0 {
            assert_eq!(passes, 2.0 * samples as f64, "{keys:?}");
        } else {
            assert!(passes > 2.0 * samples as f64, "{keys:?}");
        }
        // A pass of an image of 64 pixels by a head of ten rows.
        assert_eq!(flops, passes * 4.0 * 640.0, "{keys:?}");
        let phases = plan["phases"].as_array().unwrap().iter();
        let of_phases: f64 = phases.map(|row| row["sample_passes"].as_f64().unwrap()).sum();
        assert_eq!(of_phases, passes, "{keys:?}");
        failed += events(folder, "client_failed").len();
        skipped += late;
    }
    assert!(failed > 9 && skipped > 0, "{failed} failed, {skipped} were skipped");
}

/// An asset that clients hold is not sent again after a task that changed nothing, and is after one that changed it.
#[test]
fn assets_that_did_not_change_are_not_planned_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let crash = |round: u32| match round {
        0 => "faults=[]".to_owned(),
        round => format!("faults=[{{kind=\"crash\",when=\"before\",rounds=[{round}]}}]"),
    };
    let new_values = "fedhaf\",reinitialize=true,batch_norm=\"batch";
    let mut counts = Vec::new();
    for (method, round) in [
        ("fedlwf-mc", 0),
        ("fedlwf-mc", 2),
        ("ewc", 0),
        // No client reports Fisher information if none has trained.
        ("ewc", 3),
        // The model is new, and its Fisher information stays.
        ("ewc", 4),
        // A task that starts with new values ends with another model, trained or not.
        (new_values, 2),
    ] {
        let method = format!("method={{name=\"{method}\"}}");
        let keys = [&method, "wire.asset_cache=run", &crash(round)];
        let (plan, _) = run_and_plan(folder, &keys);
        sent_and_took(folder, &plan);
        let frames = events(folder, "frame_charged");
        let assets = frames.iter().filter(|frame| frame.get("asset").is_some()).count();
        assert_eq!(all(&plan, "/assets/frames").iter().sum::<u64>(), assets as u64, "{keys:?}");
        counts.push(assets);
    }
    assert_eq!(counts, [12, 6, 24, 12, 18, 12]);
}

/// Notes and documents say which messages may be smaller in the run: for Powder's `look` those of both directions.
#[test]
fn downloads_that_depend_on_learned_values_are_upper_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let powder = "method={name=\"powder\"}";
    let few = ["backbone.kind=vit", powder, "data.subset=8", "participation.count=4"];
    let (plan, text) = run_and_plan(folder, &few);
    for phase in plan["phases"].as_array().unwrap() {
        let looks = phase["phase"] == "look";
        assert_eq!(phase["down_at_most"], if looks { Value::Bool(true) } else { Value::Null });
        assert_eq!(phase["upload_size"] == "from_values", looks, "{phase}");
    }
    for note in [
        "the size of uploads of look depends on learned values and is known only in the run\n",
        "downloads of look hold what the server has learned so far: sizes are upper bounds\n",
    ] {
        assert!(text.contains(note), "{text}");
    }
    let summary: Value = serde_json::from_str(&read(folder.join("run/summary.json"))).unwrap();
    let sent = summary["bytes"]["down"]["delivered"]["bytes"].as_u64().unwrap();
    assert!(sent < plan["total"]["down"].as_u64().unwrap());
    let (_, text) = run_and_plan(folder, &[]);
    assert!(!text.contains("upper bounds") && !text.contains("learned values"), "{text}");
}

/// The table of one client has all of its frames, those of secure aggregation among them.
#[test]
fn one_client_s_frames_of_secure_aggregation_count() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let secure = "privacy={secure_aggregation=true}";
    for faults in ["faults=[]", "faults=[{kind=\"crash\",when=\"after\",rate=1}]"] {
        let (plan, text) = run_and_plan(folder, &[secure, faults]);
        let mut clients = BTreeMap::<u64, (u64, u64)>::new();
        for frame in events(folder, "frame_charged") {
            if frame["direction"] == "up" {
                let client = clients.entry(frame["client"].as_u64().unwrap()).or_default();
                *client = (client.0 + frame["sent"].as_u64().unwrap(), client.1 + 1);
            }
        }
        let most = clients.values().max().unwrap();
        let [row] = &plan["one_client"].as_array().unwrap()[..] else { panic!("{plan}") };
        assert_eq!((row["up"]["frame"].as_u64(), row["frames"].as_u64()), {
            (Some(most.0), Some(most.1))
        });
        assert!(text.contains("uploads most, with its frames of secure aggregation"), "{text}");
    }
    let (plan, text) = run_and_plan(folder, &["faults=[{kind=\"crash\",rate=1}]"]);
    assert_eq!(plan["one_client"].as_array().unwrap().len(), 0);
    assert!(text.contains("\nno client sends anything to the server\n"), "{text}");
}
