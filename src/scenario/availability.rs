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

use serde::Serialize;

use super::csv::{self, CsvFault};
use super::distribution::{Bound, DistributionSection};
use super::reader::Keys;

/// When clients can be reached.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
pub struct AvailabilitySection {
    /// How they come and go for a while.
    #[key(flatten)]
    #[serde(flatten)]
    pub pattern: AvailabilityPattern,
    /// Seconds until a client joins.
    ///
    /// Drawn once per client.
    #[key(read = DistributionSection::read(table, "join_s", &DistributionSection::constant(0.0), Bound::AtLeastZero, doc))]
    pub join_s: DistributionSection,
    /// Seconds until it leaves for good.
    ///
    /// From when it joins; by default it never leaves.
    #[key(read = DistributionSection::read(table, "stay_s", &DistributionSection::constant(f64::INFINITY), Bound::Positive, doc))]
    pub stay_s: DistributionSection,
}

/// A transition of a trace: client, seconds, whether it is on from then.
pub type Transition = (u32, f64, bool);

/// How clients come and go.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[keys(tag = "kind", default = Always)]
pub enum AvailabilityPattern {
    /// Always there.
    Always,
    /// On and off for times without memory.
    Markov {
        /// Mean time on.
        #[key(example = 7200.0, at_least = 1e-6, at_most = 1e9)]
        on_s: f64,
        /// Mean time off.
        #[key(example = 21600.0, at_least = 1e-6, at_most = 1e9)]
        off_s: f64,
    },
    /// By the time of day.
    Diurnal {
        /// A day.
        #[key(default = 86400.0, at_least = 1e-6, at_most = 1e9)]
        period_s: f64,
        /// Share of time on.
        ///
        /// Over a day.
        #[key(default = 0.5, above = 0.0, at_most = 1.0, source = "FLGo")]
        mean: f64,
        /// Of day and night.
        ///
        /// How far they are from the mean.
        #[key(default = 0.4, at_least = 0.0, at_most = 1.0, source = "FLGo")]
        depth: f64,
        /// A client stays on or off for so long.
        #[key(default = 3600.0, at_least = 1e-6, at_most = 1e9)]
        slot_s: f64,
        /// Part of a day in which days begin.
        ///
        /// Those of clients.
        #[key(default = 1.0, at_least = 0.0, at_most = 1.0)]
        spread: f64,
    },
    /// The more, the more data a client holds.
    ByData {
        /// Share of time on without data.
        #[key(default = 0.1, at_least = 0.0, at_most = 1.0)]
        least: f64,
        /// How much data matters.
        #[key(default = 1.0, at_least = 0.0, at_most = 100.0)]
        power: f64,
        /// A client stays on or off for so long.
        #[key(default = 3600.0, at_least = 1e-6, at_most = 1e9)]
        slot_s: f64,
    },
    /// As recorded in a CSV `file`.
    Trace {
        /// A CSV file with client, time_s and state.
        #[key(example = PathBuf::from("trace.csv"))]
        file: PathBuf,
        /// The recording starts again; 0 is never.
        ///
        /// Seconds after its beginning.
        #[key(default = 0.0, at_least = 0.0, at_most = 1e9)]
        repeat_s: f64,
        /// Content of the file; read when the scenario is loaded.
        #[key(value = Arc::new([]))]
        #[serde(skip)]
        transitions: Arc<[Transition]>,
    },
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
