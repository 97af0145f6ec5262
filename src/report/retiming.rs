//! Table of `fedcast what-if`: a recorded run next to the same run with other times.

use std::collections::BTreeMap;

use serde::Serialize;

use super::text_table::{TextTable, grouped};
use super::words::Traffic;
use crate::document::Document;
use crate::federation::{Entry, Event, EventSink, FrameOutcome, SinkError};
use crate::quantity::Round;

/// Most rounds that fit a terminal; all of them are in `rounds.csv`.
const MOST_ROUNDS: usize = 40;

/// Closing times of the rounds of a run, and the bytes of its frames.
#[derive(Clone, Debug, Default, Serialize, Document)]
pub struct Timing {
    /// Seconds of virtual time at which each round closed.
    #[serde(skip)]
    pub closed_s: BTreeMap<Round, f64>,
    /// Seconds of virtual time until the server was done.
    pub virtual_s: f64,
    /// Bytes that crossed links.
    pub sent: u64,
    /// Bytes of frames that arrived late, twice or never.
    pub wasted: u64,
    #[serde(skip)]
    traffic: Traffic,
}

impl EventSink for Timing {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        self.traffic.take(&entry.event)?;
        match &entry.event {
            Event::RoundClosed { round, .. } => {
                self.closed_s.insert(*round, entry.at.as_seconds());
            }
            Event::TaskEnded { .. } => self.virtual_s = entry.at.as_seconds(),
            Event::RunEnded { .. } => {
                let sums = self.traffic.0.iter();
                let sent = sums.map(|((_, outcome), sums)| (*outcome, sums.sent.0));
                let wasted = |outcome| outcome != FrameOutcome::Delivered;
                self.wasted = sent.clone().filter(|(o, _)| wasted(*o)).map(|(_, b)| b).sum();
                self.sent = sent.map(|(_, bytes)| bytes).sum();
            }
            _ => {}
        }
        Ok(())
    }
}

/// Renders both timings as a table.
pub fn retiming_table(recorded: &Timing, retimed: &Timing) -> String {
    let mut table = TextTable::new(["", "recorded", "what if", "ratio"]);
    let ratio = |then: f64, now: f64| match then > 0.0 {
        true => format!("{:.3}", now / then),
        false => String::new(),
    };
    let seconds = |s: f64| format!("{s:.3} s");
    let mut row = |name: String, then: f64, now: f64| {
        table.row([name, seconds(then), seconds(now), ratio(then, now)]);
    };
    if recorded.closed_s.len() <= MOST_ROUNDS {
        for (round, then) in &recorded.closed_s {
            let now = retimed.closed_s.get(round).copied().unwrap_or_default();
            row(format!("round {} closed", round.0 + 1), *then, now);
        }
    }
    row("virtual time".into(), recorded.virtual_s, retimed.virtual_s);
    for (name, then, now) in [
        ("bytes sent", recorded.sent, retimed.sent),
        ("bytes wasted", recorded.wasted, retimed.wasted),
    ] {
        table.row([name.to_string(), grouped(then), grouped(now), ratio(then as f64, now as f64)]);
    }
    table.render()
}
