//! Whole runs.

use std::path::Path;

use crate::launched::{SMALL, alone, document, folder_with, mpirun, run_command};

#[test]
fn three_ranks_come_to_the_digests_of_one_process() {
    let folder = folder_with(SMALL);
    let folder = folder.path();
    let one = alone(folder, &["run", "small.toml", "-q", "-o", "one"]);
    assert_eq!(one.code, Some(0), "{}", one.err);
    let three =
        run_command(&mut mpirun(3, folder, &["run", "small.toml", "--mpi", "-q", "-o", "three"]));
    assert_eq!(three.code, Some(0), "{}", three.err);
    assert_eq!(three.out.matches("digests ").count(), 1, "others print nothing: {}", three.out);
    let [one, three] = ["one", "three"].map(|run| document(folder.join(run).join("manifest.json")));
    assert_eq!(three["digests"], one["digests"]);
    assert_eq!((&three["status"], &three["level"]), (&one["status"], &one["level"]));
    let ranks = three["ranks"].as_array().expect("a list");
    assert_eq!(ranks.len(), 3);
    assert!(ranks[1..].iter().all(|rank| rank["jobs"].as_u64() > Some(0)), "{ranks:?}");
    assert!(one.get("ranks").is_none() && three.get("lost_ranks").is_none());
    let verified =
        run_command(&mut mpirun(2, folder, &["replay", "one", "--verify", "--mpi", "-q"]));
    assert_eq!(verified.code, Some(0), "{}", verified.err);
    assert!(verified.out.contains("identical"), "{}", verified.out);
}

#[test]
fn the_quickstart_has_the_digests_of_the_front_page() {
    let readme = include_str!("../../README.md");
    let digests = readme.lines().find(|line| line.starts_with("digests ")).expect("a line");
    let folder = tempfile::tempdir().expect("a folder");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/quickstart.toml");
    let ran =
        run_command(&mut mpirun(3, folder.path(), &["run", file, "--mpi", "-q", "-o", "run"]));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains(digests), "{digests} in {}", ran.out);
}

#[test]
fn errors_are_printed_once_with_their_code() {
    let folder = folder_with(&SMALL.replace("rounds = 2", "rounds = 0"));
    let run = ["run", "small.toml", "--mpi", "-q"];
    let ran = run_command(&mut mpirun(3, folder.path(), &run));
    assert_eq!(ran.code, Some(3), "{}", ran.err);
    assert_eq!(ran.err.matches("federation.rounds").count(), 1, "{}", ran.err);
    assert!(!Path::new(&folder.path().join("runs")).exists());
    let without = run_command(&mut mpirun(2, folder.path(), &["run", "small.toml", "-q"]));
    assert_eq!(without.code, Some(2), "{}", without.err);
    assert!(without.err.contains("add --mpi"), "{}", without.err);
}
