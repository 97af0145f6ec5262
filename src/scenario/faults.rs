//! `[[faults]]`: what goes wrong, one entry per kind of fault.
//!
//! | `kind` | key | what happens | what is seen |
//! |---|---|---|---|
//! | `crash` | `when = "before"` | the client crashes as its work arrives | it failed: `crashed` |
//! | | `"while"` | somewhere in its work | the same, later |
//! | | `"after"` | when it has learned, before it sends | it trained, and failed |
//! | `lose` | `direction` | its messages are lost | frames `lost`, it failed: `lost` |
//! | `duplicate` | `direction` | its message arrives twice | a frame `duplicate`, thrown away |
//! | `corrupt` | `direction` | a bit of its message flips | down: it failed: `corrupt`; up: its update is rejected |
//! | `bad-update` | `how = "nan"`, `"infinite"`, `"wrong-shape"` | it sends what no method can use | its update is rejected |
//!
//! | `malicious` | `how = "scaled"`, `factor` | it sends so many times its update | its update is `forged`, and folded |
//! | | `"sign-flipped"`, `factor` | the same, the other way | the same |
//! | | `"noise"`, `deviation` | it adds Gaussian noise to its update | the same |
//! | `server-restart` | `after_s`, `downtime_s` | the server is lost in an open round | `server_restarted` |
//!
//! A server restarts `after_s` seconds after a round was opened (default 0; a round that closed before is
//! spared) and is away for `downtime_s` (default 60). Everything of that round is lost, arrived or under way, and
//! so are late updates it still waited for. It comes back with what its policy had saved before; the round closes
//! without an update, and the next one opens. Its `rate` is per round, and it has no `clients`.
//!
//! An update is the difference between what a client learned and what it was sent, so malicious clients need
//! a method whose uploads fold to a mean of parameters; `federation.fold` says which mean the server takes.
//!
//! Every entry has a `rate`, the probability per client and round (default 1), and may name `clients` (from 0)
//! and `rounds` (from 1, as in `rounds.csv`) that it is for. `share = 0.3` instead of `clients` is for three
//! tenths of them, drawn once for the run. A run goes on after any of them;
//! what a rejected update means is for `federation.on_bad_update` to say. Corrupt messages are found by
//! the checksum of the transport below a frame.

use clap::ValueEnum;
use serde::Serialize;

use super::Direction;
use super::preset::Preset;
use super::reader::{Choice, Keys, Param, TableReader};

/// A kind of fault and whom it strikes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FaultSection {
    /// What happens.
    #[serde(flatten)]
    pub kind: FaultKind,
    /// Probability per client and round; of a restart, per round. Default 1.
    pub rate: f64,
    /// Only these clients; all where none are named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<u32>,
    /// Only this share of clients, drawn once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Only these rounds, from 1; all where none are named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<u32>,
}

/// Fault of a client or of the server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Keys)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[keys(tag = "kind", example = Crash, others("factor", "deviation", "clients", "share"))]
pub enum FaultKind {
    /// The client crashes.
    Crash {
        /// Time at which the client crashes.
        #[key(default = CrashTime::Before)]
        when: CrashTime,
    },
    /// Its messages are lost.
    Lose {
        /// Direction of its message.
        #[key(default = Direction::Up)]
        direction: Direction,
    },
    /// Its message arrives twice.
    Duplicate {
        /// Direction of its message.
        #[key(default = Direction::Up)]
        direction: Direction,
    },
    /// A bit of its message flips.
    Corrupt {
        /// Direction of its message.
        #[key(default = Direction::Up)]
        direction: Direction,
    },
    /// It sends what no method can use.
    BadUpdate {
        /// Flaw of its update.
        #[key(example = Spoilage::NotANumber)]
        how: Spoilage,
    },
    /// It sends something else than it learned.
    ///
    /// That looks as good.
    Malicious {
        /// What it makes of its update.
        #[key(flatten)]
        #[serde(flatten)]
        how: Forgery,
    },
    /// The server is lost while a round is open.
    ServerRestart {
        /// Seconds from the opening of the round to the loss.
        #[key(default = 0.0, at_least = 0.0, at_most = 1e9)]
        after_s: f64,
        /// Seconds from the loss until the server is back.
        #[key(default = 60.0, at_least = 0.0, at_most = 1e9)]
        downtime_s: f64,
    },
}

/// Forgery of its update.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Keys)]
#[serde(tag = "how", rename_all = "kebab-case")]
#[keys(tag = "how", example = Scaled)]
pub enum Forgery {
    /// `factor` times its update.
    Scaled {
        /// Times its update.
        #[key(default = 10.0, above = 0.0, at_most = 1e9)]
        factor: f64,
    },
    /// `factor` times its update, the other way.
    SignFlipped {
        /// Times its update.
        #[key(default = 1.0, above = 0.0, at_most = 1e9)]
        factor: f64,
    },
    /// Its update with Gaussian noise of this `deviation`.
    Noise {
        /// Of the noise on every number.
        #[key(default = 1.0, above = 0.0, at_most = 1e9)]
        deviation: f64,
    },
}

/// When a client crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum CrashTime {
    /// As its work arrives.
    Before,
    /// Somewhere in its work, which is lost.
    While,
    /// When it has learned, before it sends.
    After,
}

/// What is wrong with an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Spoilage {
    /// A number of it is not one.
    #[serde(rename = "nan")]
    #[value(name = "nan")]
    NotANumber,
    /// A number of it is infinite.
    Infinite,
    /// Its first tensor lacks an element.
    WrongShape,
}

impl FaultSection {
    /// The entries of a preset.
    pub fn of(preset: Preset) -> Vec<FaultSection> {
        let crash = FaultSection {
            kind: FaultKind::Crash { when: CrashTime::Before },
            rate: 0.017,
            clients: Vec::new(),
            share: None,
            rounds: Vec::new(),
        };
        if preset == Preset::Production { vec![crash] } else { Vec::new() }
    }

    pub(super) fn read(table: &mut TableReader<'_>) -> FaultSection {
        let kind = FaultKind::read(table);
        let (clients, share) = match kind {
            FaultKind::ServerRestart { .. } => (Vec::new(), None),
            _ => FaultSection::whom(table),
        };
        let rate = Param::new("rate", 1.0, "probability per client and round, or per round");
        let rounds: Param<Vec<u32>> = Param::new("rounds", Vec::new(), "only these, from 1");
        FaultSection {
            kind,
            share,
            rate: table.get(&rate.above(0.0).at_most(1.0)),
            clients,
            rounds: table.get(&rounds.at_least(1.0)),
        }
    }

    /// Named clients, or a share of all.
    fn whom(table: &mut TableReader<'_>) -> (Vec<u32>, Option<f64>) {
        let clients: Param<Vec<u32>> = Param::new("clients", Vec::new(), "only these, from 0");
        let share = Param::unset("share", "only this share of clients, drawn once for the run");
        let share = table.optional(&share.above(0.0).at_most(1.0));
        if share.is_some() && table.given("clients") {
            let help = "remove `share` or `clients`";
            table.reject(
                "share",
                "`clients` names whom this fault is for",
                "drawn or named?",
                help,
            );
        }
        (table.get(&clients), share)
    }
}
