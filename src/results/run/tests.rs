use std::fs;

use super::*;
use crate::results::{Arm, Repeat};

/// A run directory made by hand: figures that no two fields share.
fn directory(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let manifest = serde_json::json!({
        "format": 2, "fedcast": "0.1.0", "status": "done",
        "scenario": { "name": "hand", "hash": "00" }, "method": "hgp",
        "seeds": { "run": 1, "partition": 2, "class_order": 3 },
        "data": null, "backbone": null, "level": "N", "workers": 1,
        "machine": crate::experiment::Machine::here(),
    });
    let summary = serde_json::json!({
        "rounds": 3, "accuracy": { "faa": 0.5, "forgetting": 0.25 }, "virtual_s": 12.5, "failed": 2,
        "bytes": {
            "down": { "delivered": { "frames": 4, "bytes": 1000, "control": 10, "kinds": { "prompt": 900, "head": 90 } },
                      "lost": { "frames": 1, "bytes": 100, "control": 1, "kinds": { "prompt": 99 } } },
            "up": { "late": { "frames": 2, "bytes": 30, "control": 7, "kinds": { "prototypes": 23 } } },
        },
        "wall": { "total_s": 9.0 },
    });
    let rounds = "round,closed_s,participants,aggregated,bytes_down,bytes_up,accuracy_seen\n\
                  1,1.5,5,4,10,1,0.3\n2,2.5,7,7,20,2,\n3,4.5,6,6,40,4,0.8\n4,8,6,1,80,8,0.9\n";
    let closed = |loss: f64| {
        format!(
            "{{\"event\":{{\"type\":\"round_closed\"}},\"numbers\":{{\"metrics\":{{\"loss\":{loss}}}}}}}\n"
        )
    };
    let trained = |client: u32, samples: u32, figure: &str| {
        format!(
            "{{\"event\":{{\"type\":\"client_trained\",\"client\":{client},\"samples\":{samples}}},\"numbers\":{{\"metrics\":{{{figure}}}}}}}\n"
        )
    };
    // The loss of two trainings of one client and one of another; a third did not say its own.
    let events = [
        closed(0.5),
        trained(0, 30, "\"loss\":100.0"),
        trained(4, 10, "\"loss\":10.0"),
        closed(1.0),
        trained(0, 30, "\"loss\":40.0"),
        trained(5, 20, "\"loss_before\":7.0"),
    ]
    .concat();
    let clients = "client,kind,rounds_sampled,samples_trained\n\
                   0,client,3,30\n4,client,1,12\n5,client,0,0\n9,load_client,3,0\n";
    for (name, text) in [
        (names::MANIFEST, manifest.to_string()),
        (names::SCENARIO, "schema = 2\n[federation]\nclients = 6\n".to_owned()),
        (names::SUMMARY, summary.to_string()),
        (names::ROUNDS, rounds.to_owned()),
        (names::CLIENTS, clients.to_owned()),
        (names::EVENTS, events),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
}

#[test]
fn runs_of_equal_seeds_count_once_and_what_is_done_stays() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let edit = |name: &str, from: &str, to: &str| {
        let path = at(name).join(names::MANIFEST);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(path, text.replace(from, to)).unwrap();
    };
    for name in ["a", "b", "c", "d"] {
        directory(&at(name));
    }
    // The first is not whole; the last differs in a seed that is not that of the run.
    edit("a", "\"done\"", "\"failed\"");
    edit("d", "\"class_order\":3", "\"class_order\":4");
    let arms = Arm::sort(RunRecord::find(root.path()).unwrap());
    assert_eq!(arms.len(), 1);
    let kept: Vec<_> = arms[0].runs.iter().map(|run| run.path.clone()).collect();
    assert_eq!(kept, [at("b"), at("d")]);
    let repeat = |name: &str| Repeat { path: at(name), same_as: at("b"), differs: false };
    assert_eq!(arms[0].repeats, [repeat("c"), repeat("a")]);
    assert!(arms[0].repeats[0].to_string().contains("c is the same run as "));
}

#[test]
fn load_clients_are_no_participants_of_metrics() {
    let root = tempfile::tempdir().unwrap();
    directory(root.path());
    let path = root.path().join(names::SUMMARY);
    let text = fs::read_to_string(&path).unwrap();
    let load = "{\"load_clients\":{\"frames\":6,\"bytes\":60},";
    fs::write(path, text.replacen('{', load, 1)).unwrap();
    let rows = "outcome,participants\naggregated,13\nload_client,2\nlate,5\nload_client,2\n";
    fs::write(root.path().join(names::PARTICIPATION), rows).unwrap();
    let run = RunRecord::read(root.path()).unwrap();
    assert_eq!(figure(&run, "participants"), Some(20.0), "24 less 4");
    let silent = figure(&run, "silent_participants").unwrap();
    assert!((silent - 0.1).abs() < 1e-12, "18 of 20 were aggregated: {silent}");
}

fn figure(run: &RunRecord, name: &str) -> Option<f64> {
    run.figure(&Metric::parse(name).unwrap())
}

#[test]
fn figures_come_from_their_places() {
    let root = tempfile::tempdir().unwrap();
    directory(root.path());
    let run = RunRecord::read(root.path()).unwrap();
    assert_eq!(run.scenario["federation"]["clients"].as_integer(), Some(6));
    for (name, value) in [
        ("faa", 0.5),
        ("forgetting", 0.25),
        ("bytes", 1130.0),
        ("bytes_down", 1100.0),
        ("bytes_up", 30.0),
        ("bytes_per_round", 1130.0 / 3.0),
        ("bytes_down_per_round", 1100.0 / 3.0),
        ("bytes_up_per_round", 10.0),
        ("frames", 7.0),
        ("bytes_down_prompt", 999.0),
        ("bytes_down_head", 90.0),
        ("bytes_down_control", 11.0),
        ("bytes_up_prototypes", 23.0),
        ("wasted_up", 1.0),
        ("silent_participants", 0.25),
        ("figure:loss", 0.75),
        // 150 of three trainings; by samples it would be 4300 / 70, client by client 40.
        ("client:loss", 50.0),
        ("bytes_up_prompt", 0.0),
        ("participants", 24.0),
        ("clients_sampled", 2.0),
        ("samples_trained", 42.0),
        ("virtual_s", 12.5),
        ("wall_s", 9.0),
        ("failed", 2.0),
        ("rounds_to:0.3", 1.0),
        ("rounds_to:0.8", 3.0),
        ("virtual_s_to:0.8", 4.5),
        ("bytes_to:0.8", 77.0),
    ] {
        assert_eq!(figure(&run, name), Some(value), "{name}");
    }
    for absent in ["micro", "rounds_to:0.95", "peak_memory_mb", "client_memory", "sample_passes"] {
        assert_eq!(figure(&run, absent), None, "{absent}");
    }
    for unsaid in ["figure:gain", "client:gain", "figure:loss_before"] {
        assert_eq!(figure(&run, unsaid), None, "{unsaid}");
    }
    assert_eq!(run.kinds("down"), ["head", "prompt"]);
    // What the manifest adds up of all processes goes before the last one's clock.
    let path = root.path().join(names::MANIFEST);
    let costs = "{\"wall_s\":7,\"peak_memory_mb\":64,";
    fs::write(&path, fs::read_to_string(&path).unwrap().replacen('{', costs, 1)).unwrap();
    let run = RunRecord::read(root.path()).unwrap();
    assert_eq!((figure(&run, "wall_s"), figure(&run, "peak_memory_mb")), (Some(7.0), Some(64.0)));
}

#[test]
fn runs_are_found_by_manifests_and_in_order_of_path() {
    let root = tempfile::tempdir().unwrap();
    for name in ["b", "a/deep/er", "c", "a"] {
        directory(&root.path().join(name));
    }
    fs::remove_file(root.path().join("c").join(names::SUMMARY)).unwrap();
    fs::create_dir(root.path().join("site")).unwrap();
    fs::write(root.path().join("site").join(names::MANIFEST), "{\"short_name\": \"App\"}").unwrap();
    let found = RunRecord::find(root.path()).unwrap();
    let paths: Vec<_> =
        found.iter().map(|run| run.path.strip_prefix(root.path()).unwrap().to_owned()).collect();
    assert_eq!(paths, ["a", "a/deep/er", "b", "c"].map(PathBuf::from));
    assert_eq!(figure(&found[3], "faa"), None, "a run without a summary has no figures yet");
    assert_eq!(RunRecord::find(&root.path().join("b")).unwrap().len(), 1, "the folder itself");
    assert!(RunRecord::find(&root.path().join("nowhere")).unwrap().is_empty());
}

#[test]
fn what_is_no_run_and_what_is_damaged_is_said() {
    let root = tempfile::tempdir().unwrap();
    assert!(matches!(RunRecord::read(root.path()), Err(ResultsError::Run(_))));
    directory(root.path());
    fs::write(root.path().join(names::SUMMARY), "{\"rounds\": ").unwrap();
    let message = RunRecord::find(root.path()).unwrap_err().to_string();
    assert!(message.contains("summary.json is damaged"), "{message}");
}

#[test]
fn refused_uploads_are_unused() {
    let root = tempfile::tempdir().unwrap();
    directory(root.path());
    let summary = root.path().join(names::SUMMARY);
    let text = fs::read_to_string(&summary).unwrap().replace("\"late\"", "\"delivered\"");
    fs::write(summary, text).unwrap();
    let wasted = || figure(&RunRecord::read(root.path()).unwrap(), "wasted_up");
    assert_eq!(wasted(), Some(0.0));
    let rows = "client,outcome,bytes_up\n0,aggregated,20\n1,rejected,6\n2,restart,4\n";
    fs::write(root.path().join(names::PARTICIPATION), rows).unwrap();
    assert_eq!(wasted(), Some(1.0 - 20.0 / 30.0));
}
