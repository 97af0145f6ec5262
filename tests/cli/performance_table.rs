//! Promise: the table of the page on performance is what `tools/performance.py` prints.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::command::read;
use crate::readme::markdown::root;
use crate::trackers::python;

const SCRIPT: &str = "tools/performance.py";
const BEGIN: &str = "<!-- figures: tools/performance.py -->\n";
const END: &str = "\n<!-- end of figures -->";
const HEAD: &str = "| figure | asked | measured | command |\n|---|---|---|---|\n";

/// Lines of the page between its marks.
fn table() -> String {
    let page = read(root().join("src/guide/performance.md"));
    let (_, rest) = page.split_once(BEGIN).expect("the page has its marks");
    rest.split_once(END).expect("the page has its marks").0.to_owned()
}

/// A number as the script writes it, and its unit.
fn number(cell: &str) -> Option<(f64, &str)> {
    let (number, unit) = cell.split_once(' ')?;
    let digits: String = number.chars().filter(|letter| *letter != ',').collect();
    let whole = digits.split('.').next()?;
    let grouped =
        number.split(',').skip(1).all(|group| group.split('.').next().map_or(0, str::len) == 3);
    let commas = number.matches(',').count();
    (grouped && commas == whole.len().saturating_sub(1) / 3).then_some(())?;
    Some((digits.parse().ok()?, unit))
}

/// Text of a bench's own sources.
fn sources(bench: &str) -> String {
    let folder = root().join("benches").join(bench);
    let files: Vec<PathBuf> = match fs::read_dir(&folder) {
        Ok(entries) => entries.map(|entry| entry.expect("a file").path()).collect(),
        Err(_) => vec![folder.with_extension("rs")],
    };
    files.into_iter().map(read).collect()
}

#[test]
fn page_of_performance_has_the_form_of_the_script() {
    let table = table();
    let (rows, origins) = table.split_once("\n\n").expect("origins stand below the table");
    let rows = rows.strip_prefix(HEAD).expect("the head is the script's");
    let script = read(root().join(SCRIPT));
    assert!(script.contains(HEAD.lines().next().expect("a line")));
    let mut units: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut names = BTreeSet::new();
    for row in rows.lines() {
        let cells: Vec<&str> = row.trim_matches(['|', ' ']).split(" | ").collect();
        let [name, asked, measured, command] = cells[..] else { panic!("four cells: {row}") };
        let bench = command.strip_prefix("`cargo bench --bench ").and_then(|b| b.strip_suffix('`'));
        let bench = bench.unwrap_or_else(|| panic!("a command of a bench: {row}"));
        let (_, unit) = number(measured).unwrap_or_else(|| panic!("a number: {row}"));
        let limit = asked.strip_prefix("at least ").or_else(|| asked.strip_prefix("at most "));
        match limit {
            Some(limit) => assert_eq!(number(limit).map(|(_, unit)| unit), Some(unit), "{row}"),
            None => assert_eq!(asked, "–", "{row}"),
        }
        assert!(names.insert((bench, name)), "twice: {row}");
        units.entry(bench).or_default().insert(unit);
    }
    let of: Vec<&str> = origins.lines().filter_map(|line| line.split('`').nth(1)).collect();
    assert_eq!(of.iter().copied().collect::<BTreeSet<_>>(), units.keys().copied().collect());
    for (bench, units) in units {
        let sources = sources(bench);
        for unit in units {
            let is_printed = sources.contains(&format!("\"{unit}\""))
                || (unit == "MB" && sources.contains("print_peak"));
            assert!(is_printed, "{bench} prints no {unit}");
        }
        assert!(script.contains(&format!("\"{bench}\"")), "{bench} is run by default");
    }
}

/// Puts a program into a folder that prints what a bench would.
fn bench(folder: &Path, name: &str, lines: &str) {
    fs::create_dir_all(folder).expect("a folder");
    let file = folder.join(format!("{name}-0123456789abcdef"));
    fs::write(&file, format!("#!/bin/sh\ncat <<'END'\n{lines}\nEND\n")).expect("a file");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("may be run");
    }
}

/// Runs the script on built benches in `now`, and in `before` where that is named.
fn run(python: &str, folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(python);
    command.arg(root().join(SCRIPT)).args(words).current_dir(folder);
    command.output().expect("starts")
}

#[cfg(unix)]
#[test]
fn table_of_performance_compares_two_sides() {
    let Some(python) = python() else {
        println!("there is no Python 3.11, so the script is not run");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let figures = "engine/32kB  time: [1 ms 2 ms 3 ms]\n\
                   figure  rounds: of two: 1234.5 rounds/s (best 1300.0), asked at least 1000: reached\n\
                   figure  an upload: 12.50 ms";
    bench(&folder.join("now"), "engine", figures);
    let slower =
        "figure  rounds: of two: 2469.0 rounds/s (best 2500.0), asked at least 1000: reached";
    bench(&folder.join("before"), "engine", slower);
    let words = ["--now", "now", "engine", "--repeats", "2"];
    let alone = run(python, folder, &words);
    let said = String::from_utf8(alone.stdout).expect("text");
    let command = "`cargo bench --bench engine`";
    let rows = format!(
        "{HEAD}| rounds: of two | at least 1,000 rounds/s | 1,234 rounds/s | {command} |\n\
         | an upload | – | 12.5 ms | {command} |\n\n* `engine`: medians of 2 runs, 20"
    );
    assert!(said.starts_with(&rows), "{said}{}", String::from_utf8_lossy(&alone.stderr));
    let compared = run(python, folder, &[&words[..], &["--before", "before"]].concat());
    let said = String::from_utf8(compared.stdout).expect("text");
    let rows = format!(
        "| figure | asked | before | now | ratio | command |\n|---|---|---|---|---|---|\n\
         | rounds: of two | at least 1,000 rounds/s | 2,469 rounds/s | 1,234 rounds/s | 0.50 | {command} |\n\
         | an upload | – | – | 12.5 ms | – | {command} |\n\n"
    );
    assert!(said.starts_with(&rows), "{said}{}", String::from_utf8_lossy(&compared.stderr));
    let absent = run(python, folder, &["--now", "now", "engine", "heads"]);
    assert!(!absent.status.success(), "a bench that is nowhere");
    assert!(String::from_utf8_lossy(&absent.stderr).contains("heads"));
}
