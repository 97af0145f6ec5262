//! Journals that were written by hand: every line canonical, every seal right, and the meaning anything. Checkpoints.

use std::ffi::OsString;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use tempfile::TempDir;

use super::cases;
use super::damage::damaged;
use fedcast::experiment::{
    JournalReader, JournalWriter, ResumeOptions, Run, RunOptions, names, replay, resume, what_if,
};
use fedcast::federation::{Entry, EventSink, Interrupt};
use fedcast::methods::Registry;
use fedcast::report::{Summary, final_table};
use fedcast::scenario::Scenario;

const TEXT: &str = r#"
schema = 2
data = { source = "digits", subset = 4 }
tasks = { sizes = [5, 5] }
partition = { kind = "iid" }
backbone = { kind = "pixels" }
method = { name = "fedavg" }
federation = { clients = 2, rounds = 1 }
client = { epochs = 1, batch_size = 16 }
time = { preset = "mobile" }
record = { checkpoint = { every = "round", max_time_fraction = 1.0, keep = 1 } }
"#;

/// A whole run.
static RUN: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let methods = Registry::builtin();
    let loaded = Scenario::from_toml(TEXT, "a", Path::new("."), &[], &methods).unwrap();
    let out = Some(folder.path().to_path_buf());
    let options = RunOptions { workers: Some(1), out, force: true, ..RunOptions::default() };
    let run = Run::prepare(&loaded.scenario, &methods, &options).unwrap();
    run.execute(Vec::new(), Box::new(()), Interrupt::default(), |_, _| Ok(())).unwrap();
    folder
});

fn journal() -> Vec<u8> {
    std::fs::read(RUN.path().join(names::EVENTS)).unwrap()
}

fn checkpoint_name() -> OsString {
    let mut kept = std::fs::read_dir(RUN.path().join(names::CHECKPOINTS)).unwrap();
    kept.next().unwrap().unwrap().file_name()
}

fn checkpoint() -> Vec<u8> {
    std::fs::read(RUN.path().join(names::CHECKPOINTS).join(checkpoint_name())).unwrap()
}

/// The lines that are entries, sealed again; their order and numbers are mended.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut writer = JournalWriter::new(Vec::new());
    let text = String::from_utf8_lossy(bytes);
    let entries = text.lines().filter_map(|line| Entry::from_line(line).ok());
    for (seq, entry) in entries.enumerate() {
        writer.push(&Entry { seq: seq as u64, ..entry }).unwrap();
    }
    writer.settle().unwrap();
    writer.file().clone()
}

/// A directory with this journal and a manifest that fits it.
fn run_with(journal: &[u8]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at(names::EVENTS), journal).unwrap();
    std::fs::copy(RUN.path().join(names::SCENARIO), at(names::SCENARIO)).unwrap();
    let text = std::fs::read_to_string(RUN.path().join(names::MANIFEST)).unwrap();
    let mut manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    manifest.as_object_mut().unwrap().remove("digests");
    std::fs::write(at(names::MANIFEST), manifest.to_string()).unwrap();
    folder
}

fn walk(folder: &Path) {
    let mut summary = Summary::new("a");
    let readers: &mut [&mut dyn EventSink] = &mut [&mut summary];
    let _ = replay(folder, readers);
    let _ = final_table(&summary);
    let slower = ["time.ms_per_sample=50".to_string()];
    let _ = what_if(folder, &slower, &Registry::builtin(), Vec::new());
}

#[test]
fn the_corpus_is_valid() {
    let mut reader = JournalReader::open(&RUN.path().join(names::EVENTS)).unwrap();
    while reader.next_entry().unwrap().is_some() {}
    assert_eq!(sealed(&journal()), journal());
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn any_checkpoint_is_taken_up_or_passed_over(bytes in damaged(vec![checkpoint()])) {
        let folder = run_with(&journal());
        let kept = folder.path().join(names::CHECKPOINTS);
        std::fs::create_dir(&kept).unwrap();
        std::fs::write(kept.join(checkpoint_name()), bytes).unwrap();
        let options = ResumeOptions { resources: Some(1).into(), ..ResumeOptions::default() };
        let _ = resume(folder.path(), &Registry::builtin(), options);
    }

    #[test]
    fn any_journal_is_replayed_or_refused(bytes in damaged(vec![journal()])) {
        walk(run_with(&bytes).path());
        walk(run_with(&sealed(&bytes)).path());
    }
}
