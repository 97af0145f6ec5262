//! `[round]`: when a round closes.
//!
//! | `close` | keys | a round closes |
//! |---|---|---|
//! | `all` | | when every client it asked has answered or failed |
//! | `deadline` | `deadline_s`, `least`, `stragglers` | then, or so long after it opened |
//! | `quorum` | `quorum`, `deadline_s`, `least` | when this share of updates is there |
//! | `first` | `deadline_s`, `least` | when as many are there as are wanted; with `participation.over_selection` more are asked |
//! | `buffer` | `buffer`, `deadline_s`, `least` | asynchronous: when so many updates are there, of whichever round |
//!
//! With `stragglers = "skip"` a client of a stateless method is not trained when it is certain, as it
//! begins, that its update will come after a deadline without `least`: the run has the same rounds, bytes and
//! virtual times, computed sooner.
//!
//! A deadline waits until at least the share `least` of updates is there. An update that arrives after
//! its round has closed is late: its bytes are charged, and it is thrown away, or with `late = "fold"`
//! (semi-asynchronous; always with `buffer`) goes into the open round of its phase. There it is worth
//! `(1 + n)^-staleness_power` of a timely one after `n` aggregations, and nothing after more than
//! `max_staleness`. The method must allow it: its uploads are differences to what was sent.
//!
//! An asynchronous server (FedBuff) keeps as many clients at work as `[participation]` says: when the
//! buffer is full it asks a new one for each that came back.

use clap::ValueEnum;
use serde::Serialize;

use super::preset::Preset;
use super::reader::{Choice, Keys, Param, TableReader, defaults};

/// When a round closes.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
#[keys(given(preset: Preset), check = section.refuse_others(table))]
pub struct RoundSection {
    /// Event that closes a round.
    ///
    /// Default `all`; `first` with the preset `production`.
    #[key(first, default = if preset == Preset::Production { Close::First } else { Close::All })]
    pub close: Close,
    /// Share of updates that are enough.
    #[key(when = close == Close::Quorum, example = 0.8, above = 0.0, at_most = 1.0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quorum: Option<f64>,
    /// Seconds of virtual time after which a round waits no longer.
    ///
    /// Default: it does.
    #[key(first, read = close.read_deadline(table, doc))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_s: Option<f64>,
    /// Share of updates without which a round does not close at its deadline.
    #[key(when = deadline_s.is_some(), default = 0.0, at_least = 0.0, at_most = 1.0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least: Option<f64>,
    /// Rule for updates that certainly come too late.
    #[key(when = deadline_s.is_some() && staleness_power.is_none(), default = Stragglers::Skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stragglers: Option<Stragglers>,
    /// Updates that make a new model.
    #[key(first, when = close == Close::Buffer, example = 10, at_least = 1.0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<u32>,
    /// Rule for updates that come after their round.
    ///
    /// With `buffer` they are folded.
    #[key(first, when = !matches!(close, Close::All | Close::Buffer), default = LateUpdates::Drop)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<LateUpdates>,
    /// Exponent of the weight of late updates, (1 + staleness)^-power.
    #[key(
        first,
        when = close == Close::Buffer || late == Some(LateUpdates::Fold),
        default = 0.5,
        at_least = 0.0,
        at_most = 10.0,
        source = "FedBuff: Nguyen et al. 2022"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staleness_power: Option<f64>,
    /// Aggregations after which late updates are thrown away.
    ///
    /// Default: never.
    #[key(first, when = staleness_power.is_some())]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_staleness: Option<u32>,
}

/// What becomes of updates that arrive after their round has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum LateUpdates {
    /// They are thrown away.
    Drop,
    /// They go into the open round of their phase, with the weight staleness leaves.
    Fold,
}

/// What becomes of clients that certainly come too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Stragglers {
    /// They work and send on the simulated clock only.
    Skip,
    /// They train like everybody else.
    Train,
}

/// What a round waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Close {
    /// Every client that was asked.
    All,
    /// Every client, for `deadline_s` at most.
    Deadline,
    /// A share of clients, by `quorum`.
    Quorum,
    /// As many as wanted, of the more that were over-selected.
    First,
    /// `buffer` updates of whichever round: asynchronous.
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
    /// Whether late updates count.
    pub fn folds_late(&self) -> bool {
        self.staleness_power.is_some()
    }

    /// Says of keys that were not read beside which key they mean nothing.
    fn refuse_others(&self, table: &mut TableReader<'_>) {
        if let Some(late) = self.late {
            let late = format!("late = \"{}\"", late.word());
            table.foreign(&["staleness_power", "max_staleness"], &late);
            if self.folds_late() {
                table.foreign(&["stragglers"], &late);
            }
        }
        let beside = format!("close = \"{}\"", self.close.word());
        table.foreign(&["quorum", "deadline_s", "buffer", "late"], &beside);
        table.foreign(&["least", "stragglers", "staleness_power", "max_staleness"], &beside);
    }
}

impl Default for RoundSection {
    fn default() -> Self {
        defaults(|table| RoundSection::read(table, Preset::Ideal))
    }
}
