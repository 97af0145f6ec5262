//! Promise: several processes compute one run only if asked to and possible.
//!
//! Starting several by mistake is reported before anything is written.

use crate::command::{fedcast, run_command, run_fedcast, tiny};

#[test]
fn a_launcher_without_mpi_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = ["run", tiny().to_str().unwrap(), "-q", "-o", "run"].map(str::to_owned);
    let run = run.each_ref().map(String::as_str);
    let output = run_command(fedcast(folder.path(), &run).env("OMPI_COMM_WORLD_SIZE", "3"));
    assert_eq!(output.code, 2, "{}", output.err);
    assert!(output.err.contains("one of 3 processes") && output.err.contains("add --mpi"));
    assert!(!folder.path().join("run").exists());
}

#[test]
#[cfg(not(feature = "mpi"))]
fn a_build_without_mpi_says_how_to_build_one() {
    let folder = tempfile::tempdir().unwrap();
    for command in [["run", "any.toml"], ["resume", "any"]] {
        let output = run_fedcast(folder.path(), &[&command[..], &["--mpi"]].concat());
        assert_eq!(output.code, 2, "{}", output.err);
        assert!(output.err.contains("cargo build --release --features mpi"), "{}", output.err);
    }
}

#[test]
fn mpi_is_for_what_computes() {
    let folder = tempfile::tempdir().unwrap();
    let output = run_fedcast(folder.path(), &["replay", "run", "--mpi"]);
    assert_eq!(output.code, 2);
    assert!(output.err.contains("--verify"), "{}", output.err);
}
