//! Promise: what scenario files say was published is what the papers print. `expected.csv` beside this file is a copy of
//! the papers' tables, number by number; a file that says otherwise, or says more or less, fails here.

use std::collections::BTreeMap;

use super::FILES;

/// A number in percent or points, and the table that it stands in.
type Printed = (f64, String);

/// Numbers of the copy, by file and metric.
fn copied() -> BTreeMap<(String, String), Printed> {
    let mut reader = csv::Reader::from_reader(include_str!("expected.csv").as_bytes());
    let rows = reader.deserialize::<(String, String, String, f64)>().map(|row| row.expect("a row"));
    rows.map(|(table, file, metric, value)| ((file, metric), (value, table))).collect()
}

/// What the files say.
fn told() -> BTreeMap<(String, String), Printed> {
    let mut told = BTreeMap::new();
    for file in FILES.iter() {
        let of = |key: &str| file.effective.get(&format!("expected.{key}"));
        let source = of("source").and_then(|source| source.as_str()).unwrap_or_default();
        let metrics = file.effective.iter().filter_map(|(key, value)| {
            Some((
                key.strip_prefix("expected.")?,
                value.as_float().or(value.as_integer().map(|n| n as f64))?,
            ))
        });
        for (metric, value) in metrics {
            told.insert((file.name.clone(), metric.to_owned()), (value, source.to_owned()));
        }
    }
    told
}

#[test]
fn published_numbers_are_those_of_the_papers() {
    let (copied, told) = (copied(), told());
    let mut wrong: Vec<String> = Vec::new();
    for (of @ (file, metric), (value, table)) in &told {
        match copied.get(of) {
            Some((printed, from)) if printed == value && from == table => {}
            Some((printed, from)) => {
                wrong
                    .push(format!("{file}: {metric} is {value} ({table}), not {printed} ({from})"));
            }
            None => wrong.push(format!("{file}: {metric} {value} is not in the copy")),
        }
    }
    let gone = copied.keys().filter(|of| !told.contains_key(of));
    wrong.extend(gone.map(|(file, metric)| format!("{file} no longer says {metric}")));
    assert!(wrong.is_empty(), "{} numbers are not as printed:\n{}", wrong.len(), wrong.join("\n"));
    assert!(copied.len() >= 400, "{} numbers", copied.len());
}
