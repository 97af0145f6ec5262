//! Promise: the studies in `scenarios/papers` are the tables of the papers: every cell names a scenario and its arms,
//! and the modules below hold its numbers, labels and commands to the papers.

mod commands;
mod labels;
mod numbers;
mod stages;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use fedcast::methods::Registry;
use fedcast::scenario::{Override, Scenario};
use toml::{Table, Value};

use super::expected::numbers_in_header;
use super::{FILES, flat, same, scenarios};

/// Keys and values that are changed.
type Changes = BTreeMap<String, Value>;

/// A study file of a paper.
struct Paper {
    /// Below `scenarios/papers`, without its ending, such as `hgp/table-1`.
    name: String,
    text: String,
    table: Table,
    cells: Vec<Cell>,
}

/// An entry `[[cell]]`, which is one cell of the grid in these files.
struct Cell {
    /// Its arm on every axis.
    arms: BTreeMap<String, String>,
    /// The scenario file, below `scenarios`.
    file: String,
    /// Changes of the file; none if they change nothing.
    changes: Changes,
    expected: Option<Table>,
}

static STUDIES: LazyLock<Vec<Paper>> = LazyLock::new(|| {
    let folder = scenarios().join("papers");
    let entries = |folder: &Path| -> Vec<_> {
        let all = std::fs::read_dir(folder).expect("a folder");
        let mut all: Vec<_> = all.map(|entry| entry.expect("an entry").path()).collect();
        all.sort();
        all
    };
    let files = entries(&folder).into_iter().flat_map(|paper| entries(&paper));
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("readable");
        let table: Table = text.parse().unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let name = path.strip_prefix(&folder).expect("below it").to_string_lossy();
        let name = name.strip_suffix(".study.toml").expect("a study").to_owned();
        let cells = table["cell"].as_array().expect("cells").iter();
        let cells = cells.map(|cell| Cell::read(cell.as_table().expect("a table"))).collect();
        Paper { name, text, table, cells }
    };
    files.map(read).collect()
});

impl Cell {
    fn read(table: &Table) -> Cell {
        let word = |value: &Value| value.as_str().expect("a word").to_owned();
        let inner = |key: &str| table.get(key).map(|value| value.as_table().expect("a table"));
        let keys = ["scenario", "set", "expected"];
        let arms = table.iter().filter(|(key, _)| !keys.contains(&key.as_str()));
        let file = word(&table["scenario"]);
        let file = file.strip_prefix("../../").expect("a file of `scenarios`").to_owned();
        Cell {
            arms: arms.map(|(axis, arm)| (axis.clone(), word(arm))).collect(),
            changes: effective(&file, inner("set").map(changes).unwrap_or_default()),
            expected: inner("expected").cloned(),
            file,
        }
    }

    /// Published numbers by metric: its own, otherwise those of its file.
    fn numbers(&self) -> BTreeMap<String, f64> {
        let Some(own) = &self.expected else {
            let file = FILES.iter().find(|file| file.name == self.file);
            let numbers = file.into_iter().flat_map(numbers_in_header);
            return numbers.map(|(metric, value)| (metric.to_owned(), value)).collect();
        };
        own.iter().filter_map(|(key, value)| Some((key.clone(), number(value)?))).collect()
    }

    fn deviations(&self) -> BTreeMap<String, f64> {
        let table = self.expected.as_ref().and_then(|own| own.get("deviation")?.as_table());
        let all = table.into_iter().flatten();
        all.map(|(metric, value)| (metric.clone(), number(value).expect("a number"))).collect()
    }

    fn stages(&self) -> Vec<f64> {
        let list = self.expected.as_ref().and_then(|own| own.get("accuracy_by_stage")?.as_array());
        list.into_iter().flatten().map(|value| number(value).expect("a number")).collect()
    }

    fn is_about(&self, file: &str, changes: &Changes) -> bool {
        let pairs = || self.changes.iter().zip(changes);
        let alike = self.changes.len() == changes.len();
        self.file == file && alike && pairs().all(|(a, b)| a.0 == b.0 && same(a.1, b.1))
    }
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or(value.as_integer().map(|n| n as f64))
}

/// Loads a scenario file with changes.
fn load(file: &str, changes: &Changes, more: &[Override]) -> Result<Scenario, String> {
    let sets = changes.iter().map(|(key, value)| Override::new(format!("{key}={value}")));
    let sets: Vec<Override> = sets.chain(more.iter().cloned()).collect();
    let loaded = Scenario::load(&scenarios().join(file), &sets, &Registry::builtin());
    loaded.map(|loaded| loaded.scenario).map_err(|error| error.to_string())
}

/// The changes of a table `set`. These files write a method with its keys as one table, which replaces that of the
/// scenario.
fn changes(set: &Table) -> Changes {
    let mut set = set.clone();
    let whole =
        |method: &Value| method.get("name").is_some() && method.as_table().unwrap().len() > 1;
    let method = set.get("method").is_some_and(whole).then(|| set.remove("method").unwrap());
    let mut all = flat(&set);
    all.extend(method.map(|method| ("method".to_owned(), method)));
    all
}

/// The changes of a file; none if all of them are as the file has it.
fn effective(file: &str, changes: Changes) -> Changes {
    let hash = |changes: &Changes| {
        load(file, changes, &[]).unwrap_or_else(|error| panic!("{file}: {error}")).hash()
    };
    let changed = !changes.is_empty() && hash(&changes) != hash(&Changes::new());
    if changed { changes } else { Changes::new() }
}

/// A change as `--set` has it.
fn change(text: &str) -> (String, Value) {
    let (key, word) = text.split_once('=').expect("KEY=VALUE");
    let read: Result<Table, _> = format!("value = {word}").parse();
    let value = read.map_or(Value::from(word), |mut table| table.remove("value").expect("it"));
    (key.to_owned(), value)
}

#[test]
fn cells_name_scenarios_and_arms_that_exist() {
    for Paper { name, table, cells, .. } in STUDIES.iter() {
        let axes = table["axes"].as_table().expect("axes");
        let mut seen = BTreeSet::new();
        for Cell { arms, file, .. } in cells {
            assert!(FILES.iter().any(|known| known.name == *file), "{name}: {file}");
            assert!(
                arms.keys().collect::<BTreeSet<_>>() == axes.keys().collect(),
                "{name}: {arms:?}"
            );
            assert!(
                arms.iter().all(|(axis, arm)| axes[axis].get(arm).is_some()),
                "{name}: {arms:?}"
            );
            assert!(seen.insert(arms), "{name}: {arms:?} twice");
        }
        for (axis, known) in axes {
            let used: BTreeSet<&String> = cells.iter().map(|cell| &cell.arms[axis]).collect();
            let known = known.as_table().expect("arms").keys().collect();
            assert_eq!(used, known, "{name}: {axis}");
        }
        let grid = ["rows", "columns"].map(|side| &table["report"]["grid"][side]);
        assert!(
            grid.iter().all(|side| axes.contains_key(side.as_str().unwrap())),
            "{name}: {grid:?}"
        );
        assert_eq!(table["study"].as_str(), Some(&*name.replace('/', "-")));
    }
}
