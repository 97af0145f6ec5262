//! `[availability]`: when clients can be reached.
//!
//! | `kind` | keys | clients are |
//! |---|---|---|
//! | `always` | | always there |
//! | `markov` | `on_s`, `off_s` | on and off for times without memory, with these means |
//! | `diurnal` | `period_s`, `mean`, `depth`, `slot_s`, `spread` | on by the time of day |
//! | `by-data` | `least`, `power`, `slot_s` | on the more, the more data they hold |
//! | `trace` | `file`, `repeat_s` | on as a CSV file says |
//!
//! A trace has the columns `client` (a number from 0), `time_s` and `state` (`on` or `off`), one line
//! per transition, in any order:
//!
//! ```csv
//! client,time_s,state
//! 0,0,on
//! 0,3600,off
//! ```
//!
//! Before its first transition a client is in the other state; clients that are not in the file are
//! always on, and after its last transition a client stays as it is, unless `repeat_s` begins the recording again. What a
//! trace leaves open in this way is said by `check` and `run`. Two states of a client at one time are an error. With every kind, clients may join late (`join_s`) and leave for good (`stay_s`
//! later); both are distributions.
//!
//! Only clients that can be reached are asked; where there are none, the server waits for the first.
//! A client that goes away before its work is done sends nothing; once it has begun to send, it stays until it
//! is done.

mod open_ends;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use serde::Serialize;

use super::csv::{self, CsvFault};
use super::law::{Bound, LawSection};
use super::reader::{Choice, Param, TableReader, defaults};

/// When clients can be reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AvailabilitySection {
    /// How they come and go for a while. Default `always`.
    #[serde(flatten)]
    pub pattern: AvailabilityPattern,
    /// Seconds until a client joins; drawn once per client. Default 0.
    pub join_s: LawSection,
    /// Seconds from then until it leaves for good. Default: never.
    pub stay_s: LawSection,
}

/// A transition of a trace: client, seconds, whether it is on from then.
pub type Transition = (u32, f64, bool);

/// How clients come and go for a while.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum AvailabilityPattern {
    /// Always there.
    Always,
    /// On and off for times without memory.
    Markov {
        /// Mean seconds on.
        on_s: f64,
        /// Mean seconds off.
        off_s: f64,
    },
    /// By the time of day.
    Diurnal {
        /// Seconds of a day.
        period_s: f64,
        /// Share of time on, over a day.
        mean: f64,
        /// How far day and night are from it.
        depth: f64,
        /// Seconds a client stays on or off at least.
        slot_s: f64,
        /// Part of a day over which clients' days begin.
        spread: f64,
    },
    /// By the data they hold.
    ByData {
        /// Share of time on without data.
        least: f64,
        /// How much data matters.
        power: f64,
        /// Seconds a client stays on or off at least.
        slot_s: f64,
    },
    /// As recorded.
    Trace {
        /// The CSV file.
        file: PathBuf,
        /// Seconds after which the recording starts again; 0 is never.
        repeat_s: f64,
        /// What is in the file; read when the scenario is loaded.
        #[serde(skip)]
        transitions: Arc<[Transition]>,
    },
}

/// [`AvailabilityPattern`] without its numbers.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Kind {
    /// Always there.
    Always,
    /// On and off for times without memory.
    Markov,
    /// By the time of day.
    Diurnal,
    /// The more, the more data a client holds.
    ByData,
    /// As recorded in a CSV `file`.
    Trace,
}

impl Choice for Kind {}

const KEYS: [&str; 11] = [
    "on_s", "off_s", "period_s", "mean", "depth", "slot_s", "spread", "least", "power", "file",
    "repeat_s",
];

impl AvailabilitySection {
    pub(super) fn read(table: &mut TableReader<'_>) -> AvailabilitySection {
        let kind: Kind = table.get(&Param::new("kind", Kind::Always, "how clients come and go"));
        let seconds =
            |name, default, doc| Param::new(name, default, doc).at_least(1e-6).at_most(1e9);
        let asked =
            |name, example, doc| Param::required(name, example, doc).at_least(1e-6).at_most(1e9);
        let share = |name, default, doc| Param::new(name, default, doc).at_least(0.0).at_most(1.0);
        let slot = seconds("slot_s", 3600.0, "a client stays on or off for so long");
        let pattern = match kind {
            Kind::Always => AvailabilityPattern::Always,
            Kind::Markov => AvailabilityPattern::Markov {
                on_s: table.get(&asked("on_s", 7200.0, "mean time on")),
                off_s: table.get(&asked("off_s", 21600.0, "mean time off")),
            },
            Kind::Diurnal => AvailabilityPattern::Diurnal {
                period_s: table.get(&seconds("period_s", 86400.0, "a day")),
                mean: table.get(&share("mean", 0.5, "share of time on").above(0.0).source("FLGo")),
                depth: table.get(&share("depth", 0.4, "of day and night").source("FLGo")),
                slot_s: table.get(&slot),
                spread: table.get(&share("spread", 1.0, "part of a day in which days begin")),
            },
            Kind::ByData => AvailabilityPattern::ByData {
                least: table.get(&share("least", 0.1, "share of time on without data")),
                power: table.get(
                    &Param::new("power", 1.0, "how much data matters").at_least(0.0).at_most(100.0),
                ),
                slot_s: table.get(&slot),
            },
            Kind::Trace => AvailabilityPattern::Trace {
                file: PathBuf::from(table.get(&Param::required(
                    "file",
                    "trace.csv".to_owned(),
                    "a CSV file with client, time_s and state",
                ))),
                repeat_s: table.get(
                    &Param::new("repeat_s", 0.0, "the recording starts again; 0 is never")
                        .at_least(0.0)
                        .at_most(1e9),
                ),
                transitions: Arc::new([]),
            },
        };
        table.foreign(&KEYS, &format!("kind = \"{}\"", kind.word()));
        let law = |table: &mut TableReader<'_>, key, default: f64, bound, doc| {
            LawSection::read(table, key, &LawSection::constant(default), bound, doc)
        };
        let (join, stay) = ("seconds until a client joins", "seconds until it leaves for good");
        AvailabilitySection {
            pattern,
            join_s: law(table, "join_s", 0.0, Bound::AtLeastZero, join),
            stay_s: law(table, "stay_s", f64::INFINITY, Bound::Positive, stay),
        }
    }
}

impl Default for AvailabilitySection {
    fn default() -> Self {
        defaults(Self::read)
    }
}

/// The transitions of a trace file.
pub(super) fn transitions(text: &str) -> Result<Vec<Transition>, CsvFault> {
    let mut rows = csv::rows(text);
    let Some(header) = rows.next() else { return Err(csv::nothing(text, "header")) };
    let [client, time, state] = csv::columns(&header, ["client", "time_s", "state"])?;
    let mut lines = Vec::new();
    // By client and bits of the time, which is never negative.
    let mut states: BTreeMap<(u32, u64), bool> = BTreeMap::new();
    for row in rows {
        let cell = |place| csv::cell(&row, place, header.len());
        let id = csv::number(
            cell(client)?,
            |id| id.fract() == 0.0 && (0.0..4e9).contains(&id),
            "a client's number",
        )?;
        let at = csv::number(cell(time)?, |at| (0.0..=1e9).contains(&at), "between 0 and 1e9")?;
        let word = cell(state)?;
        let on = match word.text {
            "on" => true,
            "off" => false,
            other => {
                let message = format!("`{other}` is not a state");
                return Err(CsvFault::at(word, message, "neither on nor off", "write on or off"));
            }
        };
        if states.insert((id as u32, (at + 0.0).to_bits()), on).is_some_and(|before| before != on) {
            let other = if on { "off" } else { "on" };
            let message = format!(
                "client {id} is {} here and {other} in a line above, both at {at} s",
                word.text
            );
            let help = "keep the line that is right: a client has one state at a time";
            return Err(CsvFault::at(word, message, "contradicts that line", help));
        }
        lines.push((id as u32, at, on));
    }
    if lines.is_empty() { Err(csv::nothing(text, "transitions")) } else { Ok(lines) }
}
