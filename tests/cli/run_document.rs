//! Promise: `run --format json` says where the run is and which scenario it has, and so does the command for a run that is
//! complete; the rest is `summary.json`.

use serde_json::Value;

use crate::command::{read, run_fedcast, tiny};

#[test]
fn the_document_of_a_run_is_its_summary_with_place_and_hash() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let scenario = tiny();
    let command = ["run", scenario.to_str().unwrap(), "-q", "-o", "out/run", "--format", "json"];
    let run = run_fedcast(folder, &command);
    // The run is complete: nothing is computed again.
    let resumed = run_fedcast(folder, &[&command[..], &["--resume"]].concat());
    let manifest: Value =
        serde_json::from_str(&read(folder.join("out/run/manifest.json"))).unwrap();
    for output in [run, resumed] {
        assert_eq!(output.code, 0, "{}", output.err);
        let mut document: Value = serde_json::from_str(&output.out).unwrap();
        let entries = document.as_object_mut().unwrap();
        assert_eq!(entries.remove("directory"), Some("out/run".into()));
        assert_eq!(entries.remove("hash").as_ref(), Some(&manifest["scenario"]["hash"]));
        assert_eq!(entries["format"], manifest["format"]);
        let summary: Value =
            serde_json::from_str(&read(folder.join("out/run/summary.json"))).unwrap();
        assert_eq!(document, summary);
    }
}
