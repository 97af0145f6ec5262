//! Promise: `fedcast report --figures` writes every figure of the page as SVG, PDF and CSV; accuracies after tasks are those of
//! the runs, and the page lists the settings of its arms.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::arms::{HEAD, STSA, run};
use crate::command::{read, run_fedcast};

/// Two methods with two seeds.
fn runs(folder: &Path) {
    for (name, method) in [("fedavg", HEAD), ("stsa", STSA)] {
        for seed in [1, 2] {
            run(folder, &format!("runs/{name}-{seed}"), method, seed, &[]);
        }
    }
}

/// Accuracy on all classes seen at the last tested round of every task, in percent.
fn after_tasks(folder: &Path, run: &str) -> BTreeMap<u64, f64> {
    let mut reader = csv::Reader::from_path(folder.join(run).join("rounds.csv")).unwrap();
    let head = reader.headers().unwrap().clone();
    let at = |name: &str| head.iter().position(|column| column == name).unwrap();
    let (task, accuracy) = (at("task"), at("accuracy_seen"));
    let rows = reader.records().map(|row| row.unwrap());
    let tested = rows.filter(|row| !row[accuracy].is_empty());
    tested
        .map(|row| (row[task].parse().unwrap(), 100.0 * row[accuracy].parse::<f64>().unwrap()))
        .collect()
}

#[test]
fn figures_are_files_with_the_numbers_of_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    runs(folder);
    let output =
        run_fedcast(folder, &["report", "runs", "-o", "page.html", "--figures", "paper/figures"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let page = read(folder.join("page.html"));
    let ids: Vec<&str> =
        page.split("<figure id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(ids.contains(&"task-1") && ids.contains(&"curve-1"), "{ids:?}");
    assert!(
        output.out.ends_with(&format!("{} figures in paper/figures\n", ids.len())),
        "{}",
        output.out
    );
    let figures = folder.join("paper/figures");
    assert_eq!(fs::read_dir(&figures).unwrap().count(), 3 * ids.len());
    for id in &ids {
        let svg = read(figures.join(format!("{id}.svg")));
        assert!(
            svg.contains("xmlns=\"http://www.w3.org/2000/svg\"") && svg.ends_with("</svg>\n"),
            "{id}"
        );
        let pdf = fs::read(figures.join(format!("{id}.pdf"))).unwrap();
        assert!(pdf.starts_with(b"%PDF-1.7") && pdf.ends_with(b"%%EOF"), "{id}");
        let csv = read(figures.join(format!("{id}.csv")));
        assert!(csv.lines().count() > 1 && !csv.contains('±'), "{id}: {csv}");
    }
    // Names of the series are in the drawing, which has no page around it.
    let svg = read(figures.join("task-1.svg"));
    assert!(["FedAvg", "STSA"].iter().all(|name| svg.contains(&format!(">{name}<"))), "{svg}");
    let csv = read(figures.join("task-1.csv"));
    assert!(csv.starts_with("series,method,task,accuracy (%)"), "{csv}");
    let lines: Vec<Vec<&str>> = csv.lines().skip(1).map(|line| line.split(',').collect()).collect();
    for name in ["fedavg", "stsa"] {
        let seeds = [1, 2].map(|seed| after_tasks(folder, &format!("runs/{name}-{seed}")));
        assert!(seeds[0].len() >= 2, "several tasks");
        for (task, first) in &seeds[0] {
            let mean = (first + seeds[1][task]) / 2.0;
            let line = lines
                .iter()
                .find(|line| line[0].to_lowercase() == name && line[2] == task.to_string());
            assert_eq!(line.unwrap()[1], name, "the arm on its axis, without its name in print");
            let plotted: f64 = line.unwrap()[3].parse().unwrap();
            assert!(
                (plotted - mean).abs() < 0.006,
                "{name}, task {task}: {plotted} instead of {mean}"
            );
        }
    }
}

#[test]
fn the_page_lists_the_settings_of_its_arms() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let crash = "faults=[{kind=\"crash\",when=\"while\",rate=0.1}]";
    run(folder, "runs/a", HEAD, 1, &["--set", "federation.clients=3", "--set", crash]);
    run(folder, "runs/b", HEAD, 1, &["--set", "federation={clients=4,load_clients=2,rounds=2}"]);
    let output = run_fedcast(folder, &["report", "runs", "-o", "page.html"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let page = read(folder.join("page.html"));
    let settings = page
        .split("<h2 id=\"settings\">")
        .nth(1)
        .and_then(|rest| rest.split("</section>").next())
        .unwrap();
    let value = |key: &str| {
        let cell = settings
            .split(&format!(">{key}</th>"))
            .nth(1)
            .unwrap_or_else(|| panic!("{key}: {settings}"));
        cell.split("</td>").next().unwrap().rsplit('>').next().unwrap().to_owned()
    };
    assert_eq!(value("federation.clients"), "3, 4");
    assert_eq!(value("data.source"), "digits");
    assert!(value("weights").contains("(digest "), "{}", value("weights"));
    assert!(!settings.contains("round.deadline_s"));
    assert_eq!(value("federation.load_clients"), "2 (some arms have none)");
    assert_eq!(value("faults[1].rate"), "0.1 (some arms have none)");
}

#[test]
fn figures_need_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run(folder, "runs/a", HEAD, 1, &[]);
    fs::write(folder.join("file"), "").unwrap();
    let output =
        run_fedcast(folder, &["report", "runs/a", "-o", "page.html", "--figures", "file/x"]);
    assert_eq!(output.code, 2, "{}", output.err);
    assert!(output.err.contains("choose another --figures"), "{}", output.err);
}
