//! `[round]`: closing of rounds.
//!
//! | `close` | keys | a round closes |
//! |---|---|---|
//! | `all` | | when every sampled client has answered or failed |
//! | `deadline` | `deadline_s`, `min_fraction`, `stragglers` | as with `all`, or `deadline_s` seconds after it opened |
//! | `quorum` | `quorum`, `deadline_s`, `min_fraction` | when this fraction of updates has arrived |
//! | `first` | `deadline_s`, `min_fraction` | when as many have arrived as are wanted; `participation.over_selection` samples more clients |
//! | `buffer` | `buffer_size`, `deadline_s`, `min_fraction` | asynchronous: when `buffer_size` updates have arrived, of any round |
//!
//! With `stragglers = "skip"` a client of a stateless method is not trained if it is certain, when it begins, that its
//! update will arrive after a deadline without `min_fraction`. The run has the same rounds, bytes and virtual times,
//! and computes them faster.
//!
//! A deadline waits until at least the fraction `min_fraction` of updates has arrived. An update that arrives after its
//! round has closed is late. Its bytes are counted. It is discarded, or with `late = "aggregate"` (semi-asynchronous;
//! always with `buffer`) aggregated in the open round of its phase. Its weight there is `(1 + n)^-staleness_exponent`
//! of a timely one after `n` aggregations, and 0 after more than `max_staleness`. The method must allow it: its uploads
//! are differences to what was sent.
//!
//! An asynchronous server (FedBuff) keeps as many clients at work as `[participation]` gives: when the buffer is full,
//! it samples a new client for each that has returned.

use clap::ValueEnum;
use serde::Serialize;

use super::preset::Preset;
use super::reader::{Choice, Keys, Param, TableReader};

/// Closing of rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
#[keys(given(preset: Preset), default_given(Preset::Ideal), check = section.refuse_others(table))]
pub struct RoundSection {
    /// Event that closes a round.
    ///
    /// Default `all`; `first` with the preset `production`.
    #[key(first, default = if preset == Preset::Production { Close::First } else { Close::All })]
    pub close: Close,
    /// Fraction of updates that close a round.
    #[key(when = close == Close::Quorum, example = 0.8, above = 0.0, at_most = 1.0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quorum: Option<f64>,
    /// Seconds of virtual time after which a round closes; default: no limit.
    #[key(first, read = close.read_deadline(table, doc))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_s: Option<f64>,
    /// Fraction of updates that a round waits for even after its deadline.
    #[key(when = deadline_s.is_some(), default = 0.0, at_least = 0.0, at_most = 1.0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_fraction: Option<f64>,
    /// Rule for clients whose updates will certainly arrive after the deadline.
    #[key(when = deadline_s.is_some() && staleness_exponent.is_none(), default = Stragglers::Skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stragglers: Option<Stragglers>,
    /// Number of updates per aggregation.
    #[key(first, when = close == Close::Buffer, example = 10, at_least = 1.0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_size: Option<u32>,
    /// Rule for updates that arrive after their round has closed.
    ///
    /// With `buffer` they are aggregated.
    #[key(first, when = !matches!(close, Close::All | Close::Buffer), default = LateUpdates::Drop)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<LateUpdates>,
    /// Exponent of the weight of late updates, (1 + staleness)^-exponent.
    #[key(
        first,
        when = close == Close::Buffer || late == Some(LateUpdates::Aggregate),
        default = 0.5,
        at_least = 0.0,
        at_most = 10.0,
        source = "FedBuff: Nguyen et al. 2022"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staleness_exponent: Option<f64>,
    /// Number of aggregations after which late updates are discarded; default: never.
    #[key(first, when = staleness_exponent.is_some())]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_staleness: Option<u32>,
}

/// Rule for updates that arrive after their round has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum LateUpdates {
    /// Discarded.
    Drop,
    /// Aggregated in the open round of their phase, with a weight by staleness.
    Aggregate,
}

/// Rule for clients whose updates will certainly arrive after the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Stragglers {
    /// Work and messages in virtual time only, without training.
    Skip,
    /// Training as for all other clients.
    Train,
}

/// Event that closes a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Close {
    /// Answers of all sampled clients.
    All,
    /// Answers of all sampled clients, or `deadline_s`.
    Deadline,
    /// Answers of the fraction `quorum` of clients.
    Quorum,
    /// Answers of as many clients as wanted; more are sampled.
    First,
    /// Arrival of `buffer_size` updates of any round: asynchronous.
    Buffer,
}

impl Close {
    fn read_deadline(self, table: &mut TableReader<'_>, doc: &'static str) -> Option<f64> {
        let bounded = |deadline: Param<f64>| deadline.above(0.0).at_most(1e9);
        match self {
            Close::All => None,
            Close::Deadline => Some(table.get(&bounded(Param::required("deadline_s", 90.0, doc)))),
            Close::Quorum | Close::First | Close::Buffer => {
                table.optional(&bounded(Param::unset("deadline_s", doc)))
            }
        }
    }
}

impl RoundSection {
    /// Returns true if late updates are aggregated.
    pub fn aggregates_late(&self) -> bool {
        self.staleness_exponent.is_some()
    }

    /// Reports keys that were not read, with the key that makes them invalid.
    fn refuse_others(&self, table: &mut TableReader<'_>) {
        if let Some(late) = self.late {
            let late = format!("late = \"{}\"", late.word());
            table.foreign(&["staleness_exponent", "max_staleness"], &late);
            if self.aggregates_late() {
                table.foreign(&["stragglers"], &late);
            }
        }
        let condition = format!("close = \"{}\"", self.close.word());
        table.foreign(&["quorum", "deadline_s", "buffer_size", "late"], &condition);
        table.foreign(
            &["min_fraction", "stragglers", "staleness_exponent", "max_staleness"],
            &condition,
        );
    }
}
