//! `[[faults]]`: injected faults, one entry per kind of fault.
//!
//! | `kind` | key | fault | record |
//! |---|---|---|---|
//! | `crash` | `when = "before"` | the client crashes when its work arrives | it failed: `crashed` |
//! | | `"while"` | during its work | as above, later |
//! | | `"after"` | after training, before it sends | it trained, and failed |
//! | `lose` | `direction` | its messages are lost | frames `lost`, it failed: `lost` |
//! | `duplicate` | `direction` | its message arrives twice | a frame `duplicate`, discarded |
//! | `corrupt` | `direction` | a bit of its message flips | down: it failed: `corrupt`; up: its update is rejected |
//! | `bad-update` | `how = "nan"`, `"infinite"`, `"wrong-shape"` | it sends an unusable update | its update is rejected |
//! | `malicious` | `how = "scaled"`, `factor` | it sends `factor` times its update | `update_poisoned`; aggregated |
//! | | `"sign-flipped"`, `factor` | it sends `-factor` times its update | as above |
//! | | `"noise"`, `deviation` | it adds Gaussian noise to its update | as above |
//! | `server-restart` | `after_s`, `downtime_s` | the server is lost in an open round | `server_restarted` |
//!
//! A server restarts `after_s` seconds after a round was opened (default 0; a round that closed before is not affected)
//! and is down for `downtime_s` (default 60). Everything of that round is lost, arrived or in transit, and so are late
//! updates it still waited for. The server restarts with the state that its policy had saved before. The round closes
//! without an update, and the next one opens. Its `rate` is per round, and it has no `clients`.
//!
//! An update is the difference between what a client learned and what it was sent. Malicious clients therefore need a
//! method whose uploads are averaged to parameters; `federation.aggregation` chooses the mean of the server.
//!
//! Every entry has a `rate`, the probability per client and round (default 1), and may be limited to `clients` (from 0)
//! and `rounds` (from 1, as in `rounds.csv`). `fraction = 0.3` instead of `clients` draws three tenths of them, once
//! for the run. A run continues after any fault; `federation.on_bad_update` is the rule for rejected updates. The
//! checksum of the transport below a frame detects corrupt messages.

use clap::ValueEnum;
use serde::Serialize;

use super::Direction;
use super::preset::Preset;
use super::reader::{Choice, Keys, Param, TableReader};

/// Kind of fault and the clients and rounds that it affects.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FaultSection {
    /// Kind of fault.
    #[serde(flatten)]
    pub kind: FaultKind,
    /// Probability per client and round; of a restart, per round. Default 1.
    pub rate: f64,
    /// Clients that can fail; empty for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<u32>,
    /// Fraction of clients that can fail, drawn once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
    /// Rounds with faults, from 1; empty for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<u32>,
}

/// Fault of a client or of the server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Keys)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[keys(tag = "kind", example = Crash, others("factor", "deviation", "clients", "fraction"))]
pub enum FaultKind {
    /// Crash of a client.
    Crash {
        /// Time at which the client crashes.
        #[key(default = CrashTime::Before)]
        when: CrashTime,
    },
    /// Loss of a client's messages.
    Lose {
        /// Direction of the message.
        #[key(default = Direction::Up)]
        direction: Direction,
    },
    /// Second arrival of a client's message.
    Duplicate {
        /// Direction of the message.
        #[key(default = Direction::Up)]
        direction: Direction,
    },
    /// Flipped bit in a client's message.
    Corrupt {
        /// Direction of the message.
        #[key(default = Direction::Up)]
        direction: Direction,
    },
    /// Update of a client that no method can use.
    BadUpdate {
        /// Flaw of the update.
        #[key(example = Spoilage::NotANumber)]
        how: Spoilage,
    },
    /// Forged update of a client that looks valid.
    Malicious {
        /// Forgery of the update.
        #[key(flatten)]
        #[serde(flatten)]
        how: Forgery,
    },
    /// Loss of the server during a round.
    ServerRestart {
        /// Seconds from the opening of the round to the loss.
        #[key(default = 0.0, at_least = 0.0, at_most = 1e9)]
        after_s: f64,
        /// Seconds from the loss until the server is back.
        #[key(default = 60.0, at_least = 0.0, at_most = 1e9)]
        downtime_s: f64,
    },
}

/// Forgery of a malicious client's update.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Keys)]
#[serde(tag = "how", rename_all = "kebab-case")]
#[keys(tag = "how", example = Scaled)]
pub enum Forgery {
    /// Update times `factor`.
    Scaled {
        /// Factor on the update.
        #[key(default = 10.0, above = 0.0, at_most = 1e9)]
        factor: f64,
    },
    /// Update times `-factor`.
    SignFlipped {
        /// Factor on the update.
        #[key(default = 1.0, above = 0.0, at_most = 1e9)]
        factor: f64,
    },
    /// Update plus Gaussian noise with standard deviation `deviation`.
    Noise {
        /// Standard deviation of the noise on every number.
        #[key(default = 1.0, above = 0.0, at_most = 1e9)]
        deviation: f64,
    },
}

/// Time at which a client crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum CrashTime {
    /// On arrival of its work.
    Before,
    /// During its work, which is lost.
    While,
    /// After training, before it sends.
    After,
}

/// Flaw of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Spoilage {
    /// NaN as one of the numbers.
    #[serde(rename = "nan")]
    #[value(name = "nan")]
    NotANumber,
    /// Infinity as one of the numbers.
    Infinite,
    /// First tensor with an element missing.
    WrongShape,
}

impl FaultSection {
    /// Returns the entries of a preset.
    pub fn of(preset: Preset) -> Vec<FaultSection> {
        let crash = FaultSection {
            kind: FaultKind::Crash { when: CrashTime::Before },
            rate: 0.017,
            clients: Vec::new(),
            fraction: None,
            rounds: Vec::new(),
        };
        if preset == Preset::Production { vec![crash] } else { Vec::new() }
    }

    pub(super) fn read(table: &mut TableReader<'_>) -> FaultSection {
        let kind = FaultKind::read(table);
        let (clients, fraction) = match kind {
            FaultKind::ServerRestart { .. } => (Vec::new(), None),
            _ => FaultSection::whom(table),
        };
        let rate = Param::new(
            "rate",
            1.0,
            "probability of the fault per client and round; of a server restart, per \
                                            round",
        );
        let rounds: Param<Vec<u32>> =
            Param::new("rounds", Vec::new(), "rounds with faults, from 1; empty: all");
        FaultSection {
            kind,
            fraction,
            rate: table.get(&rate.above(0.0).at_most(1.0)),
            clients,
            rounds: table.get(&rounds.at_least(1.0)),
        }
    }

    /// Reads named clients, or a fraction of all.
    fn whom(table: &mut TableReader<'_>) -> (Vec<u32>, Option<f64>) {
        let clients: Param<Vec<u32>> =
            Param::new("clients", Vec::new(), "clients that can fail, from 0; empty: all");
        let fraction =
            Param::unset("fraction", "fraction of clients that can fail, drawn once for the run");
        let fraction = table.optional(&fraction.above(0.0).at_most(1.0));
        if fraction.is_some() && table.given("clients") {
            let help = "remove `fraction` or `clients`";
            table.reject(
                "fraction",
                "`fraction` contradicts `clients`, which names the clients of this fault",
                "contradicts `clients`",
                help,
            );
        }
        (table.get(&clients), fraction)
    }
}
