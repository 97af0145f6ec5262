use std::fs;

use super::*;
use crate::experiment::names;

const STUDY: &str = r#"schema = 1
study = "shrunk"
base = "base.toml"
replicates = 2
[axes.method]
hgp = { method = { name = "hgp" } }
"#;

/// The least that is a run.
fn run(folder: &Path, seed: u64) {
    let manifest = serde_json::json!({
        "format": 1, "fedcast": "0.1.0", "status": "done",
        "scenario": { "name": "hand", "hash": "00" }, "method": "hgp",
        "seeds": { "run": seed, "partition": seed, "class_order": seed },
        "data": null, "backbone": null, "level": "N", "workers": 1,
        "machine": crate::experiment::Machine::here(),
    });
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join(names::MANIFEST), manifest.to_string()).unwrap();
    fs::write(folder.join(names::SCENARIO), "schema = 1\n").unwrap();
}

#[test]
fn of_a_study_only_its_cells_are_shown_and_the_rest_is_one_remark() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_owned();
    fs::write(root.join("study.effective.toml"), STUDY).unwrap();
    let cells: Vec<PathBuf> =
        Wishes::of(&root).unwrap().cells.into_iter().map(|cell| cell.path).collect();
    assert_eq!(cells.len(), 2);
    for (cell, seed) in cells.iter().zip([1, 2]) {
        run(&root.join(cell), seed);
    }
    run(&root.join("method=hgp/seed-3"), 3);
    run(&root.join("method=stsa/seed-1"), 4);
    let content = Content::gather(std::slice::from_ref(&root), &[]).unwrap();
    let runs = content.arms.iter().flat_map(|arm| &arm.runs);
    let seeds: Vec<u64> = runs.map(|run| run.manifest.seeds.run).collect();
    assert_eq!(seeds, [1, 2]);
    let [remark] = content.left_out.as_slice() else { panic!("{:?}", content.left_out) };
    assert!(remark.starts_with("2 runs below "), "{remark}");
    assert!(remark.ends_with(" that are no cells of the study as it is now"), "{remark}");
    // Who names such a run asks for it.
    let named = [root.clone(), root.join("method=stsa/seed-1")];
    let content = Content::gather(&named, &[]).unwrap();
    assert_eq!(content.arms.iter().map(|arm| arm.runs.len()).sum::<usize>(), 3);
    // A folder that is no study holds no strangers, and a copy counts once.
    fs::remove_file(root.join("study.effective.toml")).unwrap();
    run(&root.join("zcopy"), 2);
    let content = Content::gather(std::slice::from_ref(&root), &[]).unwrap();
    assert_eq!(content.arms[0].runs.len(), 4);
    assert_eq!(content.left_out.len(), 1);
    assert!(content.left_out[0].contains("zcopy is the same run as "), "{:?}", content.left_out);
}
