//! Promise: no refactoring moves a digest or a byte. Every method, alone and with everything that may be done to its
//! messages, runs on a few digits and gives what `digests.csv` lists: its events (E), its numbers (N) and its bytes
//! down and up by kind; combinations that are refused stay refused.
//!
//! ```sh
//! cargo test --test library frozen                                # a selection: every method, every service
//! FEDCAST_FROZEN=all cargo test --test library frozen             # every case
//! FEDCAST_FROZEN=all cargo test --test library frozen::prompts     # every case of one family of methods
//! FEDCAST_FROZEN=record cargo test --test library frozen          # runs every case and rewrites the table
//! FEDCAST_FROZEN='record corrupt' cargo test --test library frozen   # the rows of cases whose name contains this word
//! FEDCAST_FROZEN='l2p lean' cargo test --test library frozen      # cases whose name contains these words
//! FEDCAST_FROZEN_WORKERS=3 cargo test --test library frozen       # with another number of workers
//! FEDCAST_ARITHMETIC=portable cargo test --test library frozen    # with other kernels
//! ```
//!
//! A case is a line of `methods.txt` with a line of `services.txt`, put as overrides over `base.toml`; both files say
//! which of them run by default. All columns are the same on every machine, so the table is recorded and compared on
//! any. Its head names the arithmetic of its numbers; a program of another one says `not checked`, and who raises
//! the name records the table again.
//!
//! A right correction is never held back by this table. To change a result, record the rows that moved, on whatever
//! machine is there, and say in the commit which rows moved and why. A program of another arithmetic records events and
//! bytes and leaves `-` for numbers, which says `not checked` until the table's own arithmetic records the row again.

pub mod cases;
pub mod outcome;
pub mod table;

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Mutex;

use cases::Case;
use fedcast::experiment::ARITHMETIC;
use fedcast::methods::Registry;
use outcome::Outcome;
use table::{Table, differences, lacks_numbers};

/// Request of the variable `FEDCAST_FROZEN`.
enum Mode {
    /// The selection.
    Default,
    /// Everything.
    All,
    /// Cases by name, or everything, written down.
    Record(String),
    /// Cases by name.
    Named(String),
}

impl Mode {
    fn asked() -> Mode {
        match std::env::var("FEDCAST_FROZEN").as_deref() {
            Err(_) | Ok("") => Mode::Default,
            Ok("all") => Mode::All,
            Ok(asked) => match asked.strip_prefix("record") {
                Some(words) => Mode::Record(words.trim().to_string()),
                None => Mode::Named(asked.to_string()),
            },
        }
    }

    fn runs(&self, case: &Case) -> bool {
        match self {
            Mode::Default => case.by_default,
            Mode::All => true,
            Mode::Record(words) | Mode::Named(words) => case.name().contains(words),
        }
    }
}

/// Prompts that are averaged with Gaussians, or distilled.
#[test]
fn gaussians() {
    frozen("gaussians");
}

/// Means of parameters.
#[test]
fn averages() {
    frozen("averages");
}

/// Means of parameters that were learned with earlier models as teachers.
#[test]
fn teachers() {
    frozen("teachers");
}

/// Prompts that an image chooses or weighs.
#[test]
fn prompts() {
    frozen("prompts");
}

/// Sums of statistics, on features as they are and on those of another method.
#[test]
fn statistics() {
    frozen("statistics");
}

/// Tasks side by side.
#[test]
fn slots() {
    frozen("slots");
}

fn frozen(family: &str) {
    let mode = Mode::asked();
    let cases = cases::all().into_iter().filter(|case| case.family == family && mode.runs(case));
    let found = cases.map(|case| (outcome::of(&case), case));
    match &mode {
        Mode::Record(words) => record(family, words, found.collect()),
        _ => compare(found.collect()),
    }
}

/// One family after the other writes the file.
static WRITING: Mutex<()> = Mutex::new(());

fn record(family: &str, words: &str, found: Vec<(Result<Outcome, String>, Case)>) {
    let _writing = WRITING.lock().expect("nobody panics while writing");
    let mut table = Table::read();
    // The whole table may change its arithmetic; single rows never stand among numbers of another one.
    if !table.holds_here() && words.is_empty() {
        table = Table { arithmetic: ARITHMETIC.to_owned(), ..Table::default() };
    }
    let same_arithmetic = table.holds_here();
    let again = |case: &&Case| case.family == family && case.name().contains(words);
    for case in cases::all().iter().filter(again) {
        table.rows.remove(&case.name());
    }
    let mut failed = Vec::new();
    for (outcome, case) in found {
        match outcome {
            Ok(outcome) => drop(table.rows.insert(case.name(), outcome.recorded(same_arithmetic))),
            Err(error) => failed.push(format!("{}: {error}", case.name())),
        }
    }
    table.write();
    assert!(failed.is_empty(), "not recorded:\n{}", failed.join("\n"));
}

/// Says something past the capture of the output of tests that pass.
fn say(line: &str) {
    // A failure to write is ignored.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Compares what was found with the table.
pub fn compare(found: Vec<(Result<Outcome, String>, Case)>) {
    let table = Table::read();
    let same_arithmetic = table.holds_here();
    if !same_arithmetic {
        let recorded = &table.arithmetic;
        say(&format!(
            "not checked: frozen numbers (N): they hold for {recorded}, not {ARITHMETIC}"
        ));
    }
    let unrecorded = |case: &&Case| table.rows.get(&case.name()).is_some_and(lacks_numbers);
    let open: Vec<String> =
        found.iter().map(|(_, case)| case).filter(unrecorded).map(Case::name).collect();
    if same_arithmetic && !open.is_empty() {
        say(&how_to_record(&open));
    }
    let mut changed = Vec::new();
    for (outcome, case) in &found {
        let differ = match (table.rows.get(&case.name()), outcome) {
            (None, _) => vec!["is not in the table".to_string()],
            (_, Err(error)) => vec![format!("failed: {error}")],
            (Some(recorded), Ok(outcome)) => differences(recorded, outcome, same_arithmetic),
        };
        if !differ.is_empty() {
            changed.push(format!(
                "{}\n  {}\n  {}",
                case.name(),
                differ.join("\n  "),
                case.command()
            ));
        }
    }
    let count = changed.len();
    assert!(
        changed.is_empty(),
        "{count} of {} cases changed:\n{}",
        found.len(),
        changed.join("\n")
    );
}

/// Text that names cases without recorded numbers and the command that records them here.
fn how_to_record(cases: &[String]) -> String {
    format!(
        "not checked: frozen numbers (N) of {} cases, recorded under another arithmetic; here \
         `FEDCAST_FROZEN='record {}' cargo test --test library frozen` records the first",
        cases.len(),
        cases[0]
    )
}

/// A case that is not in the table is not held, and a row without a case says nothing.
#[test]
fn the_table_has_a_row_for_every_case() {
    if matches!(Mode::asked(), Mode::Record(_)) {
        return;
    }
    let cases: BTreeSet<String> = cases::all().iter().map(Case::name).collect();
    let rows: BTreeSet<String> = Table::read().rows.into_keys().collect();
    let difference: Vec<&String> = cases.symmetric_difference(&rows).collect();
    assert!(difference.is_empty(), "record the table anew: {difference:?}");
}

#[test]
fn every_method_and_every_service_runs_by_default() {
    if matches!(Mode::asked(), Mode::Record(_)) {
        return;
    }
    let registry = Registry::builtin();
    let named: BTreeSet<&str> = registry.all().iter().map(|entry| entry.name).collect();
    let main = cases::methods().into_iter().filter(|name| !name.contains('/'));
    assert_eq!(main.collect::<BTreeSet<&str>>(), named, "methods.txt against the registry");

    // What is refused for every method runs nowhere; its rows say so.
    let table = Table::read();
    let ran = |case: &Case| matches!(table.rows.get(&case.name()), Some(Outcome::Ran(_)));
    let running: Vec<Case> = cases::all().into_iter().filter(ran).collect();
    let by_default = || running.iter().filter(|case| case.by_default);
    for method in cases::methods() {
        assert!(by_default().any(|case| case.method == method), "{method} does not run");
    }
    for service in cases::services() {
        let anywhere = running.iter().any(|case| case.service == service);
        let found = by_default().any(|case| case.service == service);
        assert!(found || !anywhere, "{service} does not run");
    }
}

/// A difference in any column is reported; that of numbers only for the same arithmetic.
#[test]
fn differences_name_their_column() {
    let figures = |events: &str, numbers: &str| {
        let (down, up) = ("1 frames: control 9".to_string(), "0 frames: control 0".to_string());
        let (events, numbers) = (events.to_string(), numbers.to_string());
        Outcome::Ran(outcome::Figures { events, numbers, down, up })
    };
    let was = figures("a", "b");
    assert!(differences(&was, &was, true).is_empty());
    assert_eq!(differences(&was, &figures("a", "c"), true), ["N was b, is c"]);
    assert!(differences(&was, &figures("a", "c"), false).is_empty());
    assert_eq!(differences(&was, &figures("x", "c"), false), ["E was a, is x"]);
    assert_eq!(differences(&was, &Outcome::Refused, true), ["ran, and is refused"]);
    assert_eq!(differences(&Outcome::Refused, &was, true), ["was refused, and runs"]);
}

#[test]
fn numbers_recorded_elsewhere_are_open_and_hold_nothing_back() {
    let figures = |events: &str, numbers: &str| {
        let (down, up) = ("0 frames: control 0".to_string(), "0 frames: control 0".to_string());
        let (events, numbers) = (events.to_string(), numbers.to_string());
        Outcome::Ran(outcome::Figures { events, numbers, down, up })
    };
    let found = figures("a", "b");
    assert!(!lacks_numbers(&found.clone().recorded(true)));
    let elsewhere = found.clone().recorded(false);
    assert!(lacks_numbers(&elsewhere) && !lacks_numbers(&Outcome::Refused));
    assert!(differences(&elsewhere, &found, true).is_empty(), "open numbers agree with any");
    assert_eq!(differences(&elsewhere, &figures("x", "b"), true), ["E was a, is x"]);
    let text = how_to_record(&["hgp plain".to_string(), "hgp lean".to_string()]);
    assert!(text.starts_with("not checked: ") && text.contains("of 2 cases"), "{text}");
    assert!(text.contains("FEDCAST_FROZEN='record hgp plain' cargo test --test library frozen"));
}
