use std::fs;

use super::*;
use crate::experiment::names;

const STUDY: &str = r#"schema = 2
study = "shrunk"
base = "base.toml"
replicates = 2
[axes.method]
hgp = { method = { name = "hgp" } }
"#;

/// Writes the smallest folder that counts as a run.
fn run(folder: &Path, seed: u64) {
    let manifest = serde_json::json!({
        "format": 2, "fedcast": "0.1.0", "status": "done",
        "scenario": { "name": "hand", "hash": "00" }, "method": "hgp",
        "seeds": { "run": seed, "partition": seed, "class_order": seed },
        "data": null, "backbone": null, "level": "N", "workers": 1,
        "machine": crate::experiment::Machine::here(),
    });
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join(names::MANIFEST), manifest.to_string()).unwrap();
    fs::write(folder.join(names::SCENARIO), "schema = 2\n").unwrap();
}

#[test]
fn of_a_study_only_its_cells_are_shown_and_the_rest_is_one_remark() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_owned();
    fs::write(root.join("study.effective.toml"), STUDY).unwrap();
    let cells: Vec<PathBuf> =
        ReportOptions::of(&root).unwrap().cells.into_iter().map(|cell| cell.path).collect();
    assert_eq!(cells.len(), 2);
    for (cell, seed) in cells.iter().zip([1, 2]) {
        run(&root.join(cell), seed);
    }
    run(&root.join("method=hgp/seed-3"), 3);
    run(&root.join("method=stsa/seed-1"), 4);
    let content =
        PageContent::gather(std::slice::from_ref(&root), &[], &Registry::builtin()).unwrap();
    let runs = content.arms.iter().flat_map(|arm| &arm.runs);
    let seeds: Vec<u64> = runs.map(|run| run.manifest.seeds.run).collect();
    assert_eq!(seeds, [1, 2]);
    let [remark] = content.left_out.as_slice() else { panic!("{:?}", content.left_out) };
    assert!(remark.starts_with("2 runs below "), "{remark}");
    assert!(remark.ends_with(" that are not cells of the current study"), "{remark}");
    // A run that is named explicitly is included.
    let named = [root.clone(), root.join("method=stsa/seed-1")];
    let content = PageContent::gather(&named, &[], &Registry::builtin()).unwrap();
    assert_eq!(content.arms.iter().map(|arm| arm.runs.len()).sum::<usize>(), 3);
    // A folder without a study has no foreign runs, and a copy counts once.
    fs::remove_file(root.join("study.effective.toml")).unwrap();
    run(&root.join("zcopy"), 2);
    let content =
        PageContent::gather(std::slice::from_ref(&root), &[], &Registry::builtin()).unwrap();
    assert_eq!(content.arms[0].runs.len(), 4);
    assert_eq!(content.left_out.len(), 1);
    assert!(content.left_out[0].contains("zcopy is the same run as "), "{:?}", content.left_out);
}

/// Writes a run of a method with this number of clients.
fn run_with(folder: &Path, method: &str, clients: u32) {
    run(folder, 1);
    let text = fs::read_to_string(folder.join(names::MANIFEST)).unwrap();
    let text = text.replace("\"method\":\"hgp\"", &format!("\"method\":\"{method}\""));
    fs::write(folder.join(names::MANIFEST), text).unwrap();
    let scenario = format!(
        "schema = 2\nmethod = {{ name = \"{method}\" }}\nfederation = {{ clients = {clients} }}\n"
    );
    fs::write(folder.join(names::SCENARIO), scenario).unwrap();
}

/// Returns the names of the figures of curves, and the names and colors of the arms in them.
fn figures(content: &PageContent) -> Vec<(String, Vec<(usize, String)>)> {
    let arm = |arm: &usize| (content.curve_number(*arm), content.curve_name(*arm));
    content
        .charts()
        .iter()
        .map(|(name, arms)| (name.clone(), arms.iter().map(arm).collect()))
        .collect()
}

/// Writes a study with these axes and its runs; `of` reads method and clients from the path of a cell.
fn study(root: &Path, axes: &str, of: impl Fn(&str) -> (String, u32)) -> Vec<PathBuf> {
    let text = format!("schema = 2\nstudy = \"s\"\nbase = \"base.toml\"\n{axes}");
    fs::write(root.join("study.effective.toml"), text).unwrap();
    let cells = ReportOptions::of(root).unwrap().cells;
    let paths: Vec<PathBuf> = cells.iter().map(|cell| root.join(&cell.path)).collect();
    for path in &paths {
        let (method, clients) = of(&path.display().to_string());
        run_with(path, &method, clients);
    }
    paths
}

const METHODS: &str = "[axes.method]\nhgp = { method = { name = \"hgp\" } }\n\
                       stsa = { method = { name = \"stsa\" } }\n";
const CLIENTS: &str = "[axes.clients]\nkey = \"federation.clients\"\nvalues = [10, 20]\n";

fn method_of(path: &str) -> String {
    if path.contains("stsa") { "stsa" } else { "hgp" }.to_owned()
}

fn clients_of(path: &str) -> u32 {
    if path.contains("20") { 20 } else { 10 }
}

#[test]
fn methods_of_a_single_axis_stand_in_one_figure() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_owned();
    let runs = study(&root, METHODS, |path| (method_of(path), 10));
    let both = vec![(String::new(), vec![(0, "HGP".to_owned()), (1, "STSA".to_owned())])];
    let of_study = PageContent::gather(&[root], &[], &Registry::builtin()).unwrap();
    assert_eq!((figures(&of_study), &of_study.x), (both.clone(), &None));
    // The figures are those of the same runs given one by one.
    let of_runs = PageContent::gather(&runs, &[], &Registry::builtin()).unwrap();
    assert_eq!((figures(&of_runs), of_runs.figures()), (both, of_study.figures()));
}

#[test]
fn numbers_of_a_single_axis_stand_in_one_figure_and_along_the_bottom() {
    let folder = tempfile::tempdir().unwrap();
    // The folder's own name has digits.
    let root = folder.path().join("study");
    fs::create_dir(&root).unwrap();
    let runs = study(&root, CLIENTS, |path| {
        ("hgp".into(), clients_of(path.rsplit_once("study").unwrap().1))
    });
    let both =
        vec![(String::new(), vec![(0, "clients=10".to_owned()), (1, "clients=20".to_owned())])];
    for roots in [vec![root], runs] {
        let content = PageContent::gather(&roots, &[], &Registry::builtin()).unwrap();
        assert_eq!(figures(&content), both);
        assert_eq!(content.x.as_deref(), Some("clients"));
    }
}

#[test]
fn numbers_over_another_axis_have_a_figure_each() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("study");
    fs::create_dir(&root).unwrap();
    study(&root, &format!("{CLIENTS}{METHODS}"), |path| {
        (method_of(path), clients_of(path.rsplit_once("study").unwrap().1))
    });
    let methods = || vec![(0, "HGP".to_owned()), (1, "STSA".to_owned())];
    let content = PageContent::gather(&[root], &[], &Registry::builtin()).unwrap();
    let wanted = vec![("clients=10".to_owned(), methods()), ("clients=20".to_owned(), methods())];
    assert_eq!(figures(&content), wanted);
}

#[test]
fn a_study_compares_named_arms_even_along_the_horizontal_axis() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("study");
    fs::create_dir(&root).unwrap();
    let extra = "[report]\nx = \"method\"\n[[extra]]\nlabel = \"lone\"\n";
    let runs = study(&root, &format!("{CLIENTS}{METHODS}{extra}"), |path| {
        let path = path.rsplit_once("study").unwrap().1;
        (method_of(path), if path.contains("lone") { 30 } else { clients_of(path) })
    });
    let content = PageContent::gather(&[root], &[], &Registry::builtin()).unwrap();
    assert_eq!(content.x.as_deref(), Some("method"));
    let groups: Vec<Vec<usize>> = (0..5).map(|arm| content.comparable(arm)).collect();
    assert_eq!(groups, [vec![0, 1], vec![0, 1], vec![2, 3], vec![2, 3], vec![4]]);
    let names = |arm| [content.series_name(arm), content.compared_label(arm), content.label(arm)];
    assert_eq!(names(1), ["clients=10", "STSA", "clients=10, STSA"]);
    // Without a study arms are compared at every value of the horizontal axis.
    let content = PageContent::gather(&runs[..4], &[], &Registry::builtin()).unwrap();
    assert_eq!(content.x.as_deref(), Some("clients"));
    assert_eq!(content.comparable(2), [2, 3]);
}

#[test]
fn a_run_of_another_scenario_is_no_run_of_its_cell() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_owned();
    let runs = study(&root, METHODS, |path| (method_of(path), 10));
    let stale = runs[1].strip_prefix(&root).unwrap().display();
    let cells = format!("status,path,error\nother scenario,\"{stale}\",old run\n");
    fs::write(root.join("cells.csv"), cells).unwrap();
    let content = PageContent::gather(&[root], &[], &Registry::builtin()).unwrap();
    let shown: Vec<&Path> =
        content.arms.iter().flat_map(|arm| &arm.runs).map(|run| run.path.as_path()).collect();
    assert_eq!(shown, [runs[0].as_path()]);
    let undone: Vec<(&str, &str)> =
        content.undone.iter().map(|cell| (cell.status.as_str(), cell.error.as_str())).collect();
    assert_eq!(undone, [("other scenario", "old run")]);
}

#[test]
fn cells_with_one_scenario_stay_apart() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_owned();
    let extra = "[[extra]]\nlabel = \"lone\"\n[compare]\nbaseline = { method = \"hgp\" }\n";
    let runs = study(&root, &format!("{METHODS}{extra}"), |_| ("hgp".to_owned(), 10));
    let content =
        PageContent::gather(std::slice::from_ref(&root), &[], &Registry::builtin()).unwrap();
    let paths: Vec<&Path> = content.arms.iter().map(|arm| arm.runs[0].path.as_path()).collect();
    assert_eq!(paths, [&runs[0], &runs[1], &runs[2]]);
    assert_eq!(content.baselines[..2], [None, Some(0)]);
    assert_eq!(content.left_out, [""; 0]);
    let labels: Vec<String> = (0..3).map(|arm| content.label(arm)).collect();
    assert_eq!(labels, ["HGP", "STSA", "lone"]);
    // Given one by one, they are the same run three times.
    let content = PageContent::gather(&runs, &[], &Registry::builtin()).unwrap();
    assert_eq!((content.arms.len(), content.left_out.len()), (1, 2));
}
