//! The committed table `digests.csv`: the outcome of every case when it was recorded.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use fedcast::experiment::ARITHMETIC;

use super::cases::{self, Case};
use super::outcome::{Figures, Outcome};

const COLUMNS: &str = "case,E,N,down,up";
const REFUSED: &str = "refused";
const HEAD: &str = "# N holds for arithmetic: ";

/// Outcomes by case, and the arithmetic for which their numbers hold.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Name of the arithmetic by which numbers were recorded.
    pub arithmetic: String,
    /// Outcomes by the name of the case.
    pub rows: BTreeMap<String, Outcome>,
}

fn path() -> PathBuf {
    cases::folder().join("digests.csv")
}

impl Table {
    /// Reads the file; an empty table where there is none.
    pub fn read() -> Table {
        let mut table = Table::default();
        for line in fs::read_to_string(path()).unwrap_or_default().lines() {
            if let Some(arithmetic) = line.strip_prefix(HEAD) {
                table.arithmetic = arithmetic.to_string();
            } else if !line.is_empty() && !line.starts_with('#') && line != COLUMNS {
                let cells: Vec<&str> = line.split(',').collect();
                let outcome = match cells[1..] {
                    [REFUSED, "", "", ""] => Outcome::Refused,
                    [events, numbers, down, up] => Outcome::Ran(Figures {
                        events: events.to_string(),
                        numbers: numbers.to_string(),
                        down: down.to_string(),
                        up: up.to_string(),
                    }),
                    _ => panic!("digests.csv: a row has five cells: {line}"),
                };
                table.rows.insert(cells[0].to_string(), outcome);
            }
        }
        table
    }

    /// Returns true if its numbers are those that this program computes, on whatever machine.
    pub fn holds_here(&self) -> bool {
        self.arithmetic == ARITHMETIC
    }

    /// Writes the rows of the cases there are, in their order.
    pub fn write(&self) {
        let mut text = format!(
            "# Written by `FEDCAST_FROZEN=record cargo test --test library frozen`, never by hand.\n\
             {HEAD}{}\n{COLUMNS}\n",
            self.arithmetic
        );
        for name in cases::all().iter().map(Case::name) {
            let row = match self.rows.get(&name) {
                None => continue,
                Some(Outcome::Refused) => format!("{name},{REFUSED},,,"),
                Some(Outcome::Ran(of)) => {
                    format!("{name},{},{},{},{}", of.events, of.numbers, of.down, of.up)
                }
            };
            text += &(row + "\n");
        }
        fs::write(path(), text).unwrap_or_else(|error| panic!("{}: {error}", path().display()));
    }
}

/// Mark of numbers that no program of the table's arithmetic has recorded yet.
const OPEN: &str = "-";

impl Outcome {
    /// Returns the outcome as the table records it: numbers of another arithmetic stay open.
    pub fn recorded(self, same_arithmetic: bool) -> Outcome {
        match self {
            Outcome::Ran(figures) if !same_arithmetic => {
                Outcome::Ran(Figures { numbers: OPEN.to_string(), ..figures })
            }
            outcome => outcome,
        }
    }
}

/// Returns true if the numbers of a recorded case are open.
pub fn lacks_numbers(recorded: &Outcome) -> bool {
    matches!(recorded, Outcome::Ran(figures) if figures.numbers == OPEN)
}

/// Columns in which a case differs from what was recorded, with both values. Numbers are compared
/// where they can be the same.
pub fn differences(recorded: &Outcome, found: &Outcome, same_arithmetic: bool) -> Vec<String> {
    let (was, is) = match (recorded, found) {
        (Outcome::Refused, Outcome::Refused) => return Vec::new(),
        (Outcome::Refused, Outcome::Ran(_)) => return vec!["was refused, and runs".into()],
        (Outcome::Ran(_), Outcome::Refused) => return vec!["ran, and is refused".into()],
        (Outcome::Ran(was), Outcome::Ran(is)) => (was, is),
    };
    let columns = [
        ("E", &was.events, &is.events, true),
        ("N", &was.numbers, &is.numbers, same_arithmetic && was.numbers != OPEN),
        ("down", &was.down, &is.down, true),
        ("up", &was.up, &is.up, true),
    ];
    let differ = columns.into_iter().filter(|(_, was, is, compared)| *compared && was != is);
    differ.map(|(column, was, is, _)| format!("{column} was {was}, is {is}")).collect()
}
