//! Promise: what scenario files say was published is what the papers print. `expected.csv` next to this file is a
//! copy of the papers' tables, number by number and with their deviations; a file that says otherwise, or says more
//! or less, fails here. `points.csv` is a copy of rows and columns that one file has several of, by what is changed
//! for them: the numbers of the file as it is, which must be those of its `[expected]`, and of the lines in its
//! header.

use std::collections::{BTreeMap, BTreeSet};

use fedcast::methods::Registry;
use fedcast::scenario::{Override, Scenario};

use toml::Value;

use super::{FILES, File, scenarios};

/// A number in percent or points.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Printed {
    pub(super) value: f64,
    /// Its deviation over runs, where one is printed.
    pub(super) deviation: Option<f64>,
    /// The table that it stands in.
    pub(super) table: String,
}

/// A line of the copy: table, file, metric, number, deviation.
type Row = (String, String, String, f64, Option<f64>);

/// Numbers of the copy, by file and metric.
pub(super) fn copied() -> BTreeMap<(String, String), Printed> {
    let mut reader = csv::Reader::from_reader(include_str!("expected.csv").as_bytes());
    let rows = reader.deserialize::<Row>();
    let number = |row: csv::Result<Row>| {
        let (table, file, metric, value, deviation) = row.expect("a row");
        ((file, metric), Printed { value, deviation, table })
    };
    rows.map(number).collect()
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or(value.as_integer().map(|n| n as f64))
}

/// Published numbers of a file, by metric.
pub(super) fn numbers_in_header(file: &File) -> impl Iterator<Item = (&str, f64)> {
    file.effective.iter().filter_map(|(key, value)| {
        let metric = key.strip_prefix("expected.")?;
        let is_metric = metric != "first_stage" && !metric.contains('.');
        Some((metric, number(value).filter(|_| is_metric)?))
    })
}

/// The deviation of a number of a file.
fn deviation_of(file: &File, metric: &str) -> Option<f64> {
    number(file.effective.get(&format!("expected.deviation.{metric}"))?)
}

/// Published accuracies of a file by stage, as metrics such as `accuracy_by_stage.2`.
fn stages_of(file: &File) -> Vec<(String, f64)> {
    let get = |key: &str| file.effective.get(&format!("expected.{key}"));
    let first = get("first_stage").and_then(Value::as_integer).unwrap_or_default();
    let stages = get("accuracy_by_stage").and_then(Value::as_array);
    let stages = stages.into_iter().flatten().filter_map(number);
    (first..).zip(stages).map(|(stage, n)| (format!("accuracy_by_stage.{stage}"), n)).collect()
}

/// A text of a file's `[expected]`.
fn text<'a>(file: &'a File, key: &str) -> &'a str {
    file.effective.get(key).and_then(|text| text.as_str()).unwrap_or_default()
}

/// The table that a file says its numbers stand in.
fn source(file: &File) -> &str {
    text(file, "expected.source")
}

/// Published numbers of all files.
fn all_header_numbers() -> BTreeMap<(String, String), Printed> {
    let mut header_numbers = BTreeMap::new();
    for file in FILES.iter() {
        let numbers = numbers_in_header(file).map(|(metric, value)| (metric.to_owned(), value));
        for (metric, value) in numbers.chain(stages_of(file)) {
            let deviation = deviation_of(file, &metric);
            let printed = Printed { value, deviation, table: source(file).to_owned() };
            header_numbers.insert((file.name.clone(), metric), printed);
        }
    }
    header_numbers
}

#[test]
fn published_numbers_are_those_of_the_papers() {
    let (copied, header_numbers) = (copied(), all_header_numbers());
    let mut wrong: Vec<String> = Vec::new();
    for (of @ (file, metric), said) in &header_numbers {
        match copied.get(of) {
            Some(printed) if printed == said => {}
            Some(printed) => wrong.push(format!("{file}: {metric} is {said:?}, not {printed:?}")),
            None => wrong.push(format!("{file}: {metric} {said:?} is not in the copy")),
        }
    }
    let gone = copied.keys().filter(|of| !header_numbers.contains_key(of));
    wrong.extend(gone.map(|(file, metric)| format!("{file} no longer says {metric}")));
    assert!(wrong.is_empty(), "{} numbers are not as printed:\n{}", wrong.len(), wrong.join("\n"));
    assert!(copied.len() >= 400, "{} numbers", copied.len());
    let deviations = copied.values().filter(|printed| printed.deviation.is_some()).count();
    assert!(deviations >= 277, "{deviations} deviations");
}

/// A deviation in a note would be one of no metric.
#[test]
fn no_note_has_a_deviation() {
    for file in FILES.iter() {
        let note = text(file, "expected.note");
        assert!(!note.contains("+-") && !note.contains('±'), "{}: {note}", file.name);
    }
}

/// In which order several numbers of one point are printed.
pub(super) const ORDER: [&str; 8] = [
    "average_incremental_micro",
    "average_from_second_stage_micro",
    "avg",
    "faa",
    "micro",
    "aia",
    "forgetting_from_best",
    "forgetting_from_best_of_all",
];

/// Changes of a file, each as `--set` has it, and the numbers published for them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    pub changes: BTreeSet<String>,
    pub printed: Vec<f64>,
}

/// A point of the copy.
pub(super) struct Copied {
    pub table: String,
    pub point: Point,
    /// Deviations of its numbers, if any are printed.
    pub deviations: Vec<f64>,
}

/// Numbers with a decimal point, in the order in which a text has them.
pub(super) fn decimals(text: &str) -> Vec<f64> {
    let words = text.split(|c: char| !c.is_ascii_digit() && c != '.');
    words.map(|word| word.trim_matches('.')).filter(|word| word.contains('.')).map(parsed).collect()
}

fn parsed(number: &str) -> f64 {
    number.parse().expect("a number")
}

/// The point of a line `#   --set KEY=VALUE --set KEY=VALUE   words, a / b / c` of a header. Numbers, but no words, may
/// stand before the changes. Lines without changes or without numbers have none.
fn point(line: &str) -> Option<Point> {
    let mut pieces = line.strip_prefix('#')?.split("--set ");
    let mut rest = pieces.next().filter(|before| !before.contains(char::is_alphabetic))?.to_owned();
    let mut changes = BTreeSet::new();
    for piece in pieces {
        let (change, after) = match piece.strip_prefix('\'') {
            Some(quoted) => quoted.split_once('\'')?,
            None => piece.split_once(' ').unwrap_or((piece, "")),
        };
        changes.insert(change.to_owned());
        rest.push_str(after);
    }
    let printed = decimals(&rest);
    (!changes.is_empty() && !printed.is_empty()).then_some(Point { changes, printed })
}

/// Points of the header of a scenario file.
fn header(file: &str) -> Vec<Point> {
    let text = std::fs::read_to_string(scenarios().join(file)).expect("readable");
    text.lines().filter_map(point).collect()
}

/// Points of the copy, by file.
pub(super) fn points() -> BTreeMap<String, Vec<Copied>> {
    let mut reader = csv::Reader::from_reader(include_str!("points.csv").as_bytes());
    let mut points: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for row in reader.deserialize::<(String, String, String, String, String)>() {
        let (table, file, changes, printed, deviations) = row.expect("a row");
        let changes = changes.split(' ').map(str::to_owned).collect();
        let point = Point { changes, printed: decimals(&printed) };
        let deviations = decimals(&deviations);
        assert!([0, point.printed.len()].contains(&deviations.len()), "{file}: {point:?}");
        points.entry(file).or_default().push(Copied { table, point, deviations });
    }
    points
}

#[test]
fn points_of_headers_are_those_of_the_papers() {
    let copied = points();
    let mut wrong: Vec<String> = Vec::new();
    let mut seen = 0;
    for file in FILES.iter() {
        let name = &file.name;
        let lines = header(name);
        let copy = copied.get(name).map(Vec::as_slice).unwrap_or_default();
        seen += lines.len();
        for line in &lines {
            if !copy.iter().any(|copied| copied.point == *line) {
                wrong.push(format!("{name}: the header has {line:?}, which is not in the copy"));
            }
        }
        if copy.is_empty() {
            continue;
        }
        let hash = |changes: &BTreeSet<String>| {
            let sets: Vec<Override> = changes.iter().map(Override::new).collect();
            let loaded = Scenario::load(&scenarios().join(name), &sets, &Registry::builtin());
            loaded.unwrap_or_else(|error| panic!("{name}: {error}")).scenario.hash()
        };
        let as_it_is = hash(&BTreeSet::new());
        let numbers: BTreeMap<&str, f64> = numbers_in_header(file).collect();
        let own: Vec<f64> =
            ORDER.iter().filter_map(|metric| numbers.get(metric).copied()).collect();
        let spread = |metric: &&str| deviation_of(file, metric);
        let own_deviations: Vec<f64> = ORDER.iter().filter_map(spread).collect();
        let mut own_points = 0;
        for Copied { table, point, deviations } in copy {
            if hash(&point.changes) != as_it_is {
                if !lines.contains(point) {
                    wrong.push(format!("{name}: the header has no {point:?}"));
                }
                continue;
            }
            own_points += 1;
            if point.printed != own || table != source(file) {
                wrong.push(format!("{name}: [expected] is {own:?}, not {point:?} ({table})"));
            }
            if *deviations != own_deviations {
                wrong.push(format!("{name}: {own_deviations:?} deviate, not {deviations:?}"));
            }
        }
        // A header that goes on with the table of the file's own numbers has them in the copy, too.
        let table = copy.iter().any(|copied| copied.table == source(file));
        if !own.is_empty() && table && own_points != 1 {
            wrong.push(format!("{name}: {own_points} points of the copy are the file itself"));
        }
    }
    let gone = copied.keys().filter(|file| FILES.iter().all(|there| there.name != **file));
    wrong.extend(gone.map(|file| format!("{file} is not there")));
    assert!(wrong.is_empty(), "{} points are not as printed:\n{}", wrong.len(), wrong.join("\n"));
    assert!(seen >= 100, "{seen} lines of headers");
}

/// A column that was copied twice, once as the file's own, shows here even if the copy has it so.
#[test]
fn no_line_of_a_header_repeats_what_its_file_expects() {
    let mut wrong: Vec<String> = Vec::new();
    for file in FILES.iter() {
        let numbers: BTreeMap<&str, f64> = numbers_in_header(file).collect();
        let own: Vec<f64> =
            ORDER.iter().filter_map(|metric| numbers.get(metric).copied()).collect();
        let lines = header(&file.name);
        let repeated = lines.iter().filter(|line| line.printed == own);
        wrong.extend(repeated.map(|line| format!("{}: {line:?}", file.name)));
        for (at, line) in lines.iter().enumerate() {
            let twice = lines[..at].iter().any(|other| other.changes == line.changes);
            wrong.extend(twice.then(|| format!("{}: {line:?} twice", file.name)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn lines_of_headers_are_read_as_they_are_written() {
    let of = |changes: &[&str], printed: &[f64]| {
        let changes = changes.iter().map(|change| (*change).to_owned()).collect();
        Some(Point { changes, printed: printed.to_vec() })
    };
    let read = [
        ("#   --set a.b=1.0   9.5 / 8.25 / 7.0", of(&["a.b=1.0"], &[9.5, 8.25, 7.0])),
        (
            "#   --set a=1 --set 'b=[\"x y\"]'   without b, 70.22; but",
            of(&["a=1", "b=[\"x y\"]"], &[70.22]),
        ),
        ("#  100 %: 90.08 %   --set a.b=1.0", of(&["a.b=1.0"], &[90.08])),
        ("#   --set a=5000   50.10 / 34.97, of Table 1", of(&["a=5000"], &[50.1, 34.97])),
        ("#   --set a.b=1.0", None),
        ("#   --set a.b=1.0   twice", None),
        ("# 1.494 MiB with --set a=b", None),
        ("# 90.08 %", None),
        ("a = 1.5", None),
    ];
    for (line, wanted) in read {
        assert_eq!(point(line), wanted, "{line}");
    }
}
