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
use super::reader::{Choice, Param, TableReader, defaults};

/// When a round closes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoundSection {
    /// What it waits for. Default `all`; `first` with the preset `production`.
    pub close: Close,
    /// Share of updates that are enough, for `quorum`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quorum: Option<f64>,
    /// Seconds on the simulated clock after which it waits no longer. Default: it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_s: Option<f64>,
    /// Share of updates without which it does not close at its deadline. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least: Option<f64>,
    /// Whether updates that certainly come too late are computed. Default `skip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stragglers: Option<Stragglers>,
    /// Updates that make a new model, for `buffer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<u32>,
    /// What becomes of late updates. Default `drop`; with `buffer` they are folded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<LateUpdates>,
    /// How fast folded updates lose their weight. Default 0.5 (FedBuff).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staleness_power: Option<f64>,
    /// Aggregations after which they are thrown away. Default: never.
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

impl RoundSection {
    /// Whether late updates count.
    pub fn folds_late(&self) -> bool {
        self.staleness_power.is_some()
    }

    pub(super) fn read(table: &mut TableReader<'_>, preset: Preset) -> RoundSection {
        let close = if preset == Preset::Production { Close::First } else { Close::All };
        let close: Close = table.get(&Param::new("close", close, "what a round waits for"));
        let deadline = |p: Param<f64>| p.above(0.0).at_most(1e9);
        let doc = "seconds after which it waits no longer";
        let deadline_s = match close {
            Close::All => None,
            Close::Deadline => Some(table.get(&deadline(Param::required("deadline_s", 90.0, doc)))),
            Close::Quorum | Close::First | Close::Buffer => {
                table.optional(&deadline(Param::unset("deadline_s", doc)))
            }
        };
        let quorum = Param::required("quorum", 0.8, "share of updates that are enough");
        let least = Param::new("least", 0.0, "share of updates a deadline waits for");
        let stragglers = Param::new("stragglers", Stragglers::Skip, "who certainly come too late");
        let buffer = Param::required("buffer", 10, "updates that make a new model");
        let late = Param::new("late", LateUpdates::Drop, "updates that come after their round");
        let late = match close {
            Close::All | Close::Buffer => None,
            _ => Some(table.get(&late)),
        };
        let folds = close == Close::Buffer || late == Some(LateUpdates::Fold);
        let power = Param::new("staleness_power", 0.5, "late updates weigh (1 + staleness)^-power")
            .source("FedBuff: Nguyen et al. 2022");
        let most = Param::unset("max_staleness", "aggregations after which they are thrown away");
        let section = RoundSection {
            close,
            buffer: (close == Close::Buffer).then(|| table.get(&buffer.at_least(1.0))),
            late,
            staleness_power: folds.then(|| table.get(&power.at_least(0.0).at_most(10.0))),
            max_staleness: if folds { table.optional(&most) } else { None },
            quorum: (close == Close::Quorum).then(|| table.get(&quorum.above(0.0).at_most(1.0))),
            deadline_s,
            least: deadline_s.map(|_| table.get(&least.at_least(0.0).at_most(1.0))),
            stragglers: deadline_s.filter(|_| !folds).map(|_| table.get(&stragglers)),
        };
        let beside = format!("close = \"{}\"", close.word());
        if late.is_some() {
            let late = if folds { "late = \"fold\"" } else { "late = \"drop\"" };
            table.foreign(&["staleness_power", "max_staleness"], late);
            if folds {
                table.foreign(&["stragglers"], late);
            }
        }
        table.foreign(&["quorum", "deadline_s", "buffer", "late"], &beside);
        table.foreign(&["least", "stragglers", "staleness_power", "max_staleness"], &beside);
        section
    }
}

impl Default for RoundSection {
    fn default() -> Self {
        defaults(|table| RoundSection::read(table, Preset::Ideal))
    }
}
