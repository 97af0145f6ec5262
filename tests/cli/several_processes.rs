//! Promise: several processes compute one run only if asked to and possible.
//!
//! Starting several by mistake is reported before anything is written.

use crate::command::{fedcast, tell, tell_of, tiny};

#[test]
fn a_launcher_without_mpi_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = ["run", tiny().to_str().unwrap(), "-q", "-o", "run"].map(str::to_owned);
    let run = run.each_ref().map(String::as_str);
    let told = tell_of(fedcast(folder.path(), &run).env("OMPI_COMM_WORLD_SIZE", "3"));
    assert_eq!(told.code, 2, "{}", told.err);
    assert!(told.err.contains("one of 3 processes") && told.err.contains("add --mpi"));
    assert!(!folder.path().join("run").exists());
}

#[test]
#[cfg(not(feature = "mpi"))]
fn a_build_without_mpi_says_how_to_build_one() {
    let folder = tempfile::tempdir().unwrap();
    for command in [["run", "any.toml"], ["resume", "any"]] {
        let told = tell(folder.path(), &[&command[..], &["--mpi"]].concat());
        assert_eq!(told.code, 2, "{}", told.err);
        assert!(told.err.contains("cargo build --release --features mpi"), "{}", told.err);
    }
}

#[test]
fn mpi_is_for_what_computes() {
    let folder = tempfile::tempdir().unwrap();
    let told = tell(folder.path(), &["replay", "run", "--mpi"]);
    assert_eq!(told.code, 2);
    assert!(told.err.contains("--verify"), "{}", told.err);
}
