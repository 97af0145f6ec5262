//! Promise: studies that are tables of papers publish what the papers print, and leave out no point of a table of which
//! they have one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fedcast::methods::Registry;
use fedcast::scenario::{ExpectedMetric, ExpectedSection, Override, Scenario};
use fedcast::study::{Cell, Study};

use super::expected::{Copied, ORDER, points};
use super::{FILES, scenarios};

/// Numbers of a point in the order of papers, and their deviations.
#[derive(Clone, Debug, PartialEq)]
struct Numbers {
    table: String,
    printed: Vec<f64>,
    deviations: Vec<f64>,
}

/// Studies below `scenarios/papers`.
fn studies() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![scenarios().join("papers")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(".study.toml") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn seeds(cell: &Cell) -> Vec<Override> {
    let of = &cell.replicate;
    let seeds = [("run", of.run), ("partition", of.partition), ("class_order", of.class_order)];
    seeds.map(|(key, seed)| Override::new(format!("seed.{key}={seed}"))).into()
}

/// Hash of a scenario file with changes and the seeds of a cell.
fn hash(file: &str, changes: &BTreeSet<String>, seeds: &[Override]) -> String {
    let sets: Vec<Override> = changes.iter().map(Override::new).chain(seeds.to_vec()).collect();
    let loaded = Scenario::load(&scenarios().join(file), &sets, &Registry::builtin());
    loaded.unwrap_or_else(|error| panic!("{file}: {error}")).scenario.hash()
}

fn numbers(expected: &ExpectedSection) -> Numbers {
    let ordered = |of: &BTreeMap<ExpectedMetric, f64>| {
        let at = |word: &&str| of.iter().find(|(metric, _)| metric.word() == *word);
        let others = of.iter().filter(|(metric, _)| !ORDER.contains(&metric.word()));
        ORDER.iter().filter_map(at).chain(others).map(|(_, number)| *number).collect()
    };
    Numbers {
        table: expected.source.clone().unwrap_or_default(),
        printed: ordered(&expected.numbers),
        deviations: ordered(&expected.deviation),
    }
}

impl Numbers {
    /// Returns true if another cell shows some of these numbers; a table need not repeat what it does not print.
    fn have(&self, shown: &Numbers) -> bool {
        let all = |own: &[f64], shown: &[f64]| shown.iter().all(|number| own.contains(number));
        self.table == shown.table
            && all(&self.printed, &shown.printed)
            && all(&self.deviations, &shown.deviations)
    }
}

/// Numbers of the copy.
#[derive(Debug)]
struct Printed {
    name: String,
    /// False for those of a file as it stands, which may be shown in other tables, too.
    is_point: bool,
    numbers: Numbers,
}

/// Numbers of the copy by the hash of their scenario.
type Points = BTreeMap<String, Vec<Printed>>;

/// What the copy has for a cell: files as they stand, and their points.
fn copied(seeds: &[Override]) -> Points {
    let mut copied = Points::new();
    for file in FILES.iter() {
        let loaded = Scenario::load(&scenarios().join(&file.name), &[], &Registry::builtin());
        let expected = loaded.unwrap_or_else(|error| panic!("{error}")).scenario.expected;
        if !expected.numbers.is_empty() {
            let hash = hash(&file.name, &BTreeSet::new(), seeds);
            let (name, numbers) = (file.name.clone(), numbers(&expected));
            copied.entry(hash).or_default().push(Printed { name, is_point: false, numbers });
        }
    }
    for (file, points) in points() {
        for Copied { table, point, deviations } in points {
            let hash = hash(&file, &point.changes, seeds);
            let name = format!("{file} {:?}", point.changes);
            let numbers = Numbers { table, printed: point.printed, deviations };
            copied.entry(hash).or_default().push(Printed { name, is_point: true, numbers });
        }
    }
    copied
}

/// Cells of a study with published numbers, by the hashes of their scenarios; one seed of each.
fn published(path: &Path) -> (Vec<Override>, Vec<(String, String, Numbers)>) {
    let study = Study::load(path).unwrap_or_else(|error| panic!("{error}"));
    let first = study.replicates[0].label;
    let cells: Vec<Cell> = study.cells();
    let cells = cells.iter().filter(|cell| cell.replicate.label == first);
    let mut all = Vec::new();
    for cell in cells.clone() {
        let name = format!("{}: {}", path.display(), study.label(&cell.point));
        let loaded = study.scenario(cell, &[], &Registry::builtin());
        let scenario = loaded.unwrap_or_else(|error| panic!("{name}: {error}")).scenario;
        assert_eq!(scenario.expected.overrides, [""; 0], "{name}");
        if !scenario.expected.numbers.is_empty() {
            all.push((name, scenario.hash(), numbers(&scenario.expected)));
        }
    }
    (cells.clone().next().map(seeds).unwrap_or_default(), all)
}

#[test]
fn cells_of_tables_publish_what_papers_print() {
    let mut wrong = Vec::new();
    let mut tables: BTreeSet<String> = BTreeSet::new();
    let mut covered: BTreeSet<(String, Vec<String>, String)> = BTreeSet::new();
    let mut known: BTreeMap<Vec<String>, Points> = BTreeMap::new();
    for path in studies() {
        let (seeds, cells) = published(&path);
        let texts: Vec<String> = seeds.iter().map(|seed| seed.text().to_owned()).collect();
        let copy = known.entry(texts.clone()).or_insert_with(|| copied(&seeds));
        for (name, hash, numbers) in cells {
            let here = copy.get(&hash).map(Vec::as_slice).unwrap_or_default();
            if !here.iter().any(|printed| printed.numbers.have(&numbers)) {
                wrong.push(format!("{name}: {numbers:?} is not printed, but {here:?}"));
            }
            covered.insert((numbers.table.clone(), texts.clone(), hash));
            tables.insert(numbers.table);
        }
    }
    for (seeds, copy) in &known {
        let all = copy.iter().flat_map(|(hash, all)| all.iter().map(move |one| (hash, one)));
        for (hash, Printed { name, numbers: Numbers { table, .. }, .. }) in
            all.filter(|(_, one)| one.is_point && tables.contains(&one.numbers.table))
        {
            if !covered.contains(&(table.clone(), seeds.clone(), hash.clone())) {
                wrong.push(format!("{name} of {table} is in no study"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cells:\n{}", wrong.len(), wrong.join("\n"));
}
