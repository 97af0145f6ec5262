//! `[availability]`: times at which clients can be reached.
//!
//! | `kind` | keys | a client is |
//! |---|---|---|
//! | `always` | | always on |
//! | `markov` | `on_s`, `off_s` | on and off for exponentially distributed times with these means |
//! | `diurnal` | `period_s`, `mean`, `depth`, `step_s`, `spread` | on by the time of day |
//! | `by-data` | `min_fraction`, `exponent`, `step_s` | on more often if it holds more data |
//! | `trace` | `file`, `repeat_s` | on and off as in a CSV file |
//!
//! A trace has the columns `client` (a number from 0), `time_s` and `state` (`on` or `off`), one line per transition,
//! in any order:
//!
//! ```csv
//! client,time_s,state
//! 0,0,on
//! 0,3600,off
//! ```
//!
//! Before its first transition a client is in the other state. Clients that are not in the file are always on. After
//! its last transition a client keeps its state, unless `repeat_s` repeats the recording. `check` and `run` report such
//! gaps of a trace. Two states of a client at one time are an error. With every kind, clients may join late (`join_s`)
//! and leave for good `stay_s` seconds later; both are distributions.
//!
//! Only clients that can be reached are sampled; if there are none, the server waits for the first. A client that
//! leaves before its work is done sends nothing. Once it has begun to send, it stays until it is done.

mod open_ends;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use super::csv::{self, CsvFault};
use super::distribution::{Bound, DistributionSection};
use super::reader::Keys;

/// Times at which clients can be reached.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
pub struct AvailabilitySection {
    /// Pattern in which clients come and go.
    #[key(flatten)]
    #[serde(flatten)]
    pub pattern: AvailabilityPattern,
    /// Seconds until a client joins, drawn once per client.
    #[key(read = DistributionSection::read(table, "join_s", &DistributionSection::constant(0.0), Bound::AtLeastZero, doc))]
    pub join_s: DistributionSection,
    /// Seconds from joining until a client leaves for good; default: it never leaves.
    #[key(read = DistributionSection::read(table, "stay_s", &DistributionSection::constant(f64::INFINITY), Bound::Positive, doc))]
    pub stay_s: DistributionSection,
}

/// Transition of a trace: client, seconds, and true if the client is on from then.
pub type Transition = (u32, f64, bool);

/// Pattern by which clients are on or off.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[keys(tag = "kind", default = Always)]
pub enum AvailabilityPattern {
    /// Always on.
    Always,
    /// On and off for exponentially distributed times.
    Markov {
        /// Mean time on, in seconds.
        #[key(example = 7200.0, at_least = 1e-6, at_most = 1e9)]
        on_s: f64,
        /// Mean time off, in seconds.
        #[key(example = 21600.0, at_least = 1e-6, at_most = 1e9)]
        off_s: f64,
    },
    /// By the time of day.
    Diurnal {
        /// Length of a day, in seconds.
        #[key(default = 86400.0, at_least = 1e-6, at_most = 1e9)]
        period_s: f64,
        /// Mean fraction of clients that are on, over a day.
        #[key(default = 0.5, above = 0.0, at_most = 1.0, source = "FLGo")]
        mean: f64,
        /// Amplitude of the fraction of clients that are on, by day and night.
        #[key(default = 0.4, at_least = 0.0, at_most = 1.0, source = "FLGo")]
        depth: f64,
        /// Seconds for which a client stays on or off.
        #[key(default = 3600.0, at_least = 1e-6, at_most = 1e9)]
        step_s: f64,
        /// Fraction of a day over which the starts of clients' days are spread.
        #[key(default = 1.0, at_least = 0.0, at_most = 1.0)]
        spread: f64,
    },
    /// By the amount of data: clients with more data are on more often.
    ByData {
        /// Fraction of time on for a client without data.
        #[key(default = 0.1, at_least = 0.0, at_most = 1.0)]
        min_fraction: f64,
        /// Exponent of a client's relative amount of data.
        #[key(default = 1.0, at_least = 0.0, at_most = 100.0)]
        exponent: f64,
        /// Seconds for which a client stays on or off.
        #[key(default = 3600.0, at_least = 1e-6, at_most = 1e9)]
        step_s: f64,
    },
    /// As recorded in a CSV `file`.
    Trace {
        /// CSV file with the columns client, time_s and state.
        #[key(example = PathBuf::from("trace.csv"))]
        file: PathBuf,
        /// Seconds after which the recording repeats; 0: never.
        #[key(default = 0.0, at_least = 0.0, at_most = 1e9)]
        repeat_s: f64,
        /// Content of the file; read when the scenario is loaded.
        #[key(value = Arc::new([]))]
        #[serde(skip)]
        transitions: Arc<[Transition]>,
    },
}

/// Reads the transitions of a trace file.
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
                let message = format!("`{other}` is not a state: expected `on` or `off`");
                return Err(CsvFault::at(word, message, "neither on nor off", "write on or off"));
            }
        };
        if states.insert((id as u32, (at + 0.0).to_bits()), on).is_some_and(|before| before != on) {
            let other = if on { "off" } else { "on" };
            let message = format!(
                "client {id} is {} here and {other} in an earlier line, both at {at} s",
                word.text
            );
            let help = "keep one of the two lines: a client has one state at a time";
            return Err(CsvFault::at(word, message, "contradicts the earlier line", help));
        }
        lines.push((id as u32, at, on));
    }
    if lines.is_empty() { Err(csv::nothing(text, "transitions")) } else { Ok(lines) }
}
