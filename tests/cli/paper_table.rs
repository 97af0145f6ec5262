//! Promise: a study whose cells have scenarios of their own prints the table of a paper: published numbers next to
//! measured ones, in its tables and on its page, also after the scenario files are gone.

use std::fs;
use std::path::Path;

use crate::command::{CommandOutput, read, run_fedcast};

const STUDY: &str = r#"schema = 2
study = "table-1"
replicates = 2

[axes.method]
short = {}
long = {}

[axes.setting]
"two, clients" = {}
"three, clients" = {}

[[cell]]
method = "short"
setting = "two, clients"
scenario = "../files/short.toml"

[[cell]]
method = "long"
scenario = "../files/long.toml"

[[cell]]
method = "long"
setting = "three, clients"
set = { federation.clients = 3 }
expected = { faa = 71.25, deviation = { faa = 0.85 } }

[compare]
metrics = ["bytes_up"]

[report]
grid = { rows = "method", columns = "setting" }
"#;

const SCENARIO: &str = r#"schema = 2
data = { source = "digits", subset = 12 }
tasks = { sizes = [5, 5] }
partition = { kind = "iid", min_samples = 1 }
method = { name = "fedavg", train = "head" }
federation = { clients = 2, rounds = 2 }
backbone = { kind = "pixels" }
"#;

/// A folder with the study and the two scenarios that its cells name.
fn folder(study: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("tables/table.study.toml", study.to_owned());
    let short = "client = { epochs = 1, batch_size = 16 }\n[expected]\nsource = \"Table 1\"\nfaa = 76.54\n\
                 deviation = { faa = 1.14 }\naccuracy_by_stage = [50.5]\n";
    write("files/short.toml", format!("{SCENARIO}{short}"));
    let long =
        "client = { epochs = 3, batch_size = 16 }\n[expected]\nsource = \"Table 1\"\nfaa = 80.0\n";
    write("files/long.toml", format!("{SCENARIO}{long}"));
    folder
}

fn study(folder: &Path, more: &[&str]) -> CommandOutput {
    run_fedcast(folder, &[&["study", "tables/table.study.toml", "-o", "out"], more].concat())
}

/// Rows of a grid in `table.md`: cells between bars.
fn grid(markdown: &str) -> Vec<Vec<String>> {
    let lines = markdown.lines().skip_while(|line| !line.ends_with("published / measured:"));
    let rows = lines.skip(2).take_while(|line| line.starts_with('|'));
    let cells =
        |line: &str| line.trim_matches('|').split('|').map(|c| c.trim().to_owned()).collect();
    rows.map(cells).collect()
}

/// Mean of `faa` over the two runs of a cell, as tables show it.
fn mean(folder: &Path, cell: &str) -> String {
    let faa = [1, 2].map(|seed| {
        let summary = read(folder.join(format!("out/{cell}/seed-{seed}/summary.json")));
        let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
        summary["accuracy"]["faa"].as_f64().unwrap()
    });
    format!("{:.2}", 100.0 * (faa[0] + faa[1]) / 2.0)
}

#[test]
fn a_papers_table_has_published_and_measured_numbers() {
    let folder = folder(STUDY);
    let folder = folder.path();
    let plan = study(folder, &["--plan"]);
    assert_eq!(plan.code, 0, "{}", plan.err);
    assert!(plan.out.contains("\n6 runs: "), "a cell without a scenario is left out: {}", plan.out);

    // Before its last cell runs, a dash stands there.
    let set = ["--set", "devices.evaluation_batch=32"];
    let first = study(
        folder,
        &[&["-q", "--only", "method=short", "--only", "setting=two, clients"], &set[..]].concat(),
    );
    assert_eq!(first.code, 0, "{}", first.err);
    let rows = grid(&read(folder.join("out/table.md")));
    assert_eq!(rows[0], ["method", "two, clients", "three, clients"]);
    let (short, long) = ("method=short,setting=two,clients", "method=long,setting=two,clients");
    assert!(
        rows[2][1].starts_with(&format!("76.54 ± 1.14 / {} ± ", mean(folder, short))),
        "{rows:?}"
    );
    assert_eq!(rows[2][2], "");
    assert!(rows[3][1].starts_with(&format!("80.00 / {} ± ", mean(folder, long))), "{rows:?}");
    assert_eq!(rows[3][2], "71.25 ± 0.85 / -");

    let all = study(folder, &[&["-q"], &set[..]].concat());
    assert_eq!(all.code, 0, "{}", all.err);
    assert!(all.out.contains("76.54 ± 1.14"), "{}", all.out);
    let markdown = read(folder.join("out/table.md"));
    let three = mean(folder, "method=long,setting=three,clients");
    assert!(grid(&markdown)[3][2].starts_with(&format!("71.25 ± 0.85 / {three} ± ")), "{markdown}");
    // Seeds, and what the entry of a number changes, are part of it; `--set` is not.
    let note = "All cells differ from the files of the published numbers as they stand: --set \
                devices.evaluation_batch=32\n";
    assert!(markdown.contains(note), "{markdown}");
    assert!(!markdown.contains("seed.") && !markdown.contains("federation.clients"), "{markdown}");
    let csv = read(folder.join("out/table.csv"));
    assert!(csv.lines().next().unwrap().contains(",faa_published,faa_published_sd,"), "{csv}");
    assert!(csv.contains(",0.7654,0.0114,Table 1,devices.evaluation_batch=32"), "{csv}");
    let of_run = read(folder.join("out").join(short).join("seed-2/summary.json"));
    let of_run: serde_json::Value = serde_json::from_str(&of_run).unwrap();
    let published = &of_run["published"];
    assert_eq!(published["numbers"][0]["deviation"], 1.14);
    assert_eq!(published["overrides"], serde_json::json!(["devices.evaluation_batch=32"]));
    assert_eq!(published["accuracy_by_stage"]["here"][0], {
        let seen = of_run["accuracy"]["seen"][1].as_f64().unwrap();
        serde_json::json!(100.0 * seen)
    });

    // The directory needs none of the files that it was made from.
    fs::remove_dir_all(folder.join("files")).unwrap();
    fs::remove_dir_all(folder.join("tables")).unwrap();
    let report = run_fedcast(folder, &["report", "out", "-o", "page.html"]);
    assert_eq!(report.code, 0, "{}", report.err);
    let page = read(folder.join("page.html"));
    let entry = |published: &str, cell: &str| format!("{published} / {} ± ", mean(folder, cell));
    assert!(page.contains(&entry("76.54 ± 1.14", short)), "the grid has the file's number");
    assert!(page.contains(&entry("80.00", long)), "the grid has the number of its cell");
    assert!(page.contains(&format!("71.25 ± 0.85 / {three} ± ")), "the grid has the cell's number");
    assert!(page.contains("All cells differ from the files of the published numbers"));
    assert!(page.contains("Marks without a line are accuracies published"), "stages are drawn");
}

#[test]
fn mistakes_in_cells_are_shown_before_anything_runs() {
    for (from, to, code, place, hint) in [
        ("long.toml", "lung.toml", 3, "table.study.toml:20:12", "cannot read the scenario"),
        (
            "method = \"long\"\nsetting",
            "method = \"lnog\"\nsetting",
            3,
            "table.study.toml:23:10",
            "`long`",
        ),
        ("rows = \"method\"", "rows = \"methods\"", 3, "table.study.toml:32:17", "\"method\""),
    ] {
        assert!(STUDY.contains(from), "{from}");
        let folder = folder(&STUDY.replacen(from, to, 1));
        let output = study(folder.path(), &[]);
        assert_eq!(output.code, code, "{}", output.err);
        assert!(output.err.contains(place) && output.err.contains(hint), "{to}: {}", output.err);
        assert!(!folder.path().join("out").exists(), "{to}");
    }
    let folder = folder(STUDY);
    let output = study(folder.path(), &["--plan", "--set", "federation.clients=4"]);
    assert!(output.err.contains("a [[cell]] sets `federation.clients`"), "{}", output.err);
    let output = run_fedcast(folder.path(), &["check", "tables/table.study.toml"]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(output.out.starts_with("tables/table.study.toml: valid, "), "{}", output.out);
}
