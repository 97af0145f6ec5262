use super::*;
use crate::experiment::directory_state::DirectoryState;
use crate::experiment::machine::Machine;
use crate::experiment::manifest::Status;

fn manifest(hash: &str, status: Status) -> String {
    let text = format!(
        r#"{{"format": 2, "fedcast": "0", "status": "{status}", "scenario": {{"name": "a", "hash": "{hash}"}},
        "method": "m", "seeds": {{"run": 1, "partition": 1, "class_order": 1}}, "level": "N", "workers": 1,
        "machine": {}}}"#,
        serde_json::to_string(&Machine::here()).unwrap()
    );
    serde_json::from_str::<Manifest>(&text).unwrap().to_json()
}

fn left(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[test]
fn what_is_there_is_replaced_only_with_force_and_an_unborn_run_at_once() {
    let root = tempfile::tempdir().unwrap();
    let claim = |force| RunDirectory::claim(root.path(), "1", force).map(drop);
    for name in ["manifest.json.part", "scenario.effective.toml", "run.lock"] {
        fs::write(root.path().join(name), "").unwrap();
    }
    claim(false).unwrap();
    assert_eq!(left(root.path()), ["run.lock"]);
    let stands = |hash: &str, status| {
        fs::write(root.path().join(names::MANIFEST), manifest(hash, status)).unwrap();
        claim(false).unwrap_err()
    };
    use DirectoryError::{Finished, OtherScenario, Unfinished};
    assert!(matches!(stands("2", Status::Running), OtherScenario { .. }));
    assert!(matches!(stands("1", Status::Running), Unfinished { .. }));
    assert!(matches!(stands("1", Status::Done), Finished(_)));
    claim(true).unwrap();
    assert_eq!(left(root.path()), ["run.lock"]);
}

#[test]
fn a_run_that_is_replaced_never_looks_whole_and_never_becomes_a_foreign_folder() {
    let root = tempfile::tempdir().unwrap();
    let all = [names::SCENARIO, names::EVENTS, names::SUMMARY, "checkpoints/1.ckpt"];
    fs::create_dir(root.path().join(names::CHECKPOINTS)).unwrap();
    let mut seen = Vec::new();
    for count in 0.. {
        fs::create_dir_all(root.path().join(names::CHECKPOINTS)).unwrap();
        all.iter().for_each(|name| fs::write(root.path().join(name), "").unwrap());
        fs::write(root.path().join(names::MANIFEST), manifest("1", Status::Done)).unwrap();
        let disk = Disk::dying_after(count);
        let claimed = RunDirectory::claim_on(&disk, root.path(), "1", true).is_ok();
        let stands = inspect_directory(root.path(), "1").unwrap();
        let whole = all.iter().all(|name| root.path().join(name).exists());
        assert!(stands != DirectoryState::Done || whole, "{count}: {:?}", left(root.path()));
        assert!(stands != DirectoryState::Foreign, "{count}: {:?}", left(root.path()));
        seen.push(stands);
        if claimed {
            break;
        }
    }
    seen.dedup();
    assert_eq!(
        seen,
        [DirectoryState::Done, DirectoryState::Unfinished(Status::Running), DirectoryState::Free]
    );
}

#[test]
fn files_that_were_never_finished_are_removed_and_others_stay() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join(names::CHECKPOINTS)).unwrap();
    let stale = ["summary.json.part", "checkpoints/1.ckpt.part"];
    let own = ["thesis.part", "checkpoints/1.ckpt", "checkpoints/notes.part"];
    stale.iter().chain(&own).for_each(|name| fs::write(root.path().join(name), "").unwrap());
    RunDirectory::reopen(root.path()).unwrap();
    assert!(stale.iter().all(|name| !root.path().join(name).exists()));
    assert!(own.iter().all(|name| root.path().join(name).exists()));
}

#[cfg(unix)]
#[test]
fn a_directory_with_links_in_it_is_left_alone() {
    let root = tempfile::tempdir().unwrap();
    for name in [names::EVENTS, names::CHECKPOINTS, names::LOCK] {
        let path = root.path().join(name);
        std::os::unix::fs::symlink(root.path(), &path).unwrap();
        let refused = |claimed: Result<RunDirectory, DirectoryError>| {
            assert!(matches!(claimed, Err(DirectoryError::Link(p)) if p == path), "{name}");
        };
        refused(RunDirectory::claim(root.path(), "1", true));
        refused(RunDirectory::reopen(root.path()));
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_directory_in_use_is_refused_and_free_again_when_dropped() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a");
    let held = RunDirectory::claim(&path, "1", false).unwrap();
    assert!(matches!(
        RunDirectory::claim(&path, "1", true),
        Err(DirectoryError::InUse(p)) if p == path
    ));
    drop(held);
    RunDirectory::claim(&path, "1", false).unwrap();
}

#[test]
fn a_restarted_run_can_be_resumed_at_any_moment() {
    let root = tempfile::tempdir().unwrap();
    let held = RunDirectory::claim(root.path(), "1", false).unwrap();
    for name in [names::MANIFEST, names::SCENARIO, names::EVENTS, names::SUMMARY] {
        held.write(name, b"a").unwrap();
    }
    held.clear().unwrap();
    let there = |name: &&str| root.path().join(name).exists();
    let all = [names::MANIFEST, names::SCENARIO, names::EVENTS, names::SUMMARY];
    let left: Vec<_> = all.iter().filter(|name| there(name)).collect();
    assert_eq!(left, [&names::MANIFEST, &names::SCENARIO]);
}

#[test]
fn foreign_files_are_never_removed() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("thesis.tex"), "years of work").unwrap();
    assert!(matches!(
        RunDirectory::claim(root.path(), "1", false),
        Err(DirectoryError::NotARun(_))
    ));
    fs::write(root.path().join(names::EVENTS), "old").unwrap();
    RunDirectory::claim(root.path(), "1", true).unwrap();
    assert!(root.path().join("thesis.tex").exists());
    assert!(!root.path().join(names::EVENTS).exists());
}

#[test]
fn a_manifest_of_another_program_makes_no_run() {
    let root = tempfile::tempdir().unwrap();
    let site = [(names::MANIFEST, "{\"short_name\": \"App\"}"), (names::SUMMARY, "[]")];
    for (name, text) in site {
        fs::write(root.path().join(name), text).unwrap();
    }
    assert!(matches!(
        RunDirectory::claim(root.path(), "1", false),
        Err(DirectoryError::NotARun(_))
    ));
    for (name, text) in site {
        assert_eq!(fs::read_to_string(root.path().join(name)).unwrap(), text);
    }
    RunDirectory::claim(root.path(), "1", true).unwrap();
    assert!(!root.path().join(names::SUMMARY).exists());
}

#[test]
fn deleting_takes_what_a_run_wrote_and_leaves_foreign_files() {
    let root = tempfile::tempdir().unwrap();
    let (full, shared) = (root.path().join("full"), root.path().join("shared"));
    for path in [&full, &shared] {
        let held = RunDirectory::claim(path, "1", false).unwrap();
        for name in RESULTS.iter().chain(&[names::MANIFEST, names::SCENARIO]) {
            held.write(name, b"a").unwrap();
        }
        held.write("histograms/a.hgrm", b"a").unwrap();
        held.write("checkpoints/1.ckpt", b"a").unwrap();
        held.write("tensorboard/events.out.tfevents.0.fedcast", b"a").unwrap();
        held.write("models/task-01.safetensors.part", b"a").unwrap();
    }
    fs::write(shared.join("notes.md"), "mine").unwrap();
    fs::write(shared.join("checkpoints/mine.txt"), "mine").unwrap();
    assert!(RunDirectory::reopen(&full).unwrap().delete().unwrap());
    assert!(!RunDirectory::reopen(&shared).unwrap().delete().unwrap());
    assert!(!full.exists());
    let left = |path: &Path| {
        let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(left(&shared), ["checkpoints".into(), "notes.md".into()].into());
    assert_eq!(left(&shared.join("checkpoints")), ["mine.txt".into()].into());
}

#[test]
fn a_run_of_format_1_is_refused_and_replaced_with_force() {
    let root = tempfile::tempdir().unwrap();
    let text = manifest("1", Status::Done).replace("\"format\": 2", "\"format\": 1");
    for name in ["slots.csv", names::EVENTS] {
        fs::write(root.path().join(name), "").unwrap();
    }
    // Its other keys need not be those of this version.
    for text in [text, r#"{"format": 1, "fedcast": "0", "commit": "c0ffee"}"#.to_owned()] {
        fs::write(root.path().join(names::MANIFEST), &text).unwrap();
        let refusals = [
            read_manifest(root.path()).unwrap_err(),
            RunDirectory::claim(root.path(), "1", false).unwrap_err(),
        ];
        for error in refusals.map(|error| error.to_string()) {
            let expected =
                "run directory of format 1, expected format 2\n  help: run the scenario again";
            assert!(error.contains(expected) && error.contains("fedcast 0"), "{error}");
            assert_eq!(error.contains("(commit c0ffee)"), text.contains("c0ffee"), "{error}");
        }
    }
    RunDirectory::claim(root.path(), "1", true).unwrap();
    assert_eq!(left(root.path()), ["run.lock"]);
}
