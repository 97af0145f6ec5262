//! `[[faults]]`: what goes wrong, one entry per kind of fault.
//!
//! | `kind` | key | what happens | what is seen |
//! |---|---|---|---|
//! | `crash` | `when = "before"` | the client crashes as its work arrives | it failed: `crashed` |
//! | | `"while"` | somewhere in its work | the same, later |
//! | | `"after"` | when it has learnt, before it sends | it trained, and failed |
//! | `lose` | `direction` | its messages are lost | frames `lost`, it failed: `lost` |
//! | `duplicate` | `direction` | its message arrives twice | a frame `duplicate`, thrown away |
//! | `corrupt` | `direction` | a bit of its message flips | down: it failed: `corrupt`; up: its update is rejected |
//! | `bad-update` | `how = "nan"`, `"infinite"`, `"wrong-shape"` | it sends what no method can use | its update is rejected |
//!
//! Every entry has a `rate`, the probability per client and round (default 1), and may name `clients` (from 0)
//! and `rounds` (from 1, as in `rounds.csv`) that it is for. A run goes on after any of them;
//! what a rejected update means is for `federation.on_bad_update` to say. Corrupt messages are found by
//! the checksum of the transport below a frame.

use serde::Serialize;

use super::preset::Preset;
use super::reader::{Choice, Param, TableReader};

/// A kind of fault and whom it strikes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FaultSection {
    /// What happens.
    #[serde(flatten)]
    pub kind: FaultChoice,
    /// Probability per client and round. Default 1.
    pub rate: f64,
    /// Only these clients; all where none are named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<u32>,
    /// Only these rounds, from 1; all where none are named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<u32>,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum FaultChoice {
    /// The client crashes.
    Crash {
        /// When.
        when: CrashMoment,
    },
    /// Its messages are lost.
    Lose {
        /// Which way.
        direction: Way,
    },
    /// Its message arrives twice.
    Duplicate {
        /// Which way.
        direction: Way,
    },
    /// A bit of its message flips.
    Corrupt {
        /// Which way.
        direction: Way,
    },
    /// It sends what no method can use.
    BadUpdate {
        /// What is wrong with it.
        how: BadUpdate,
    },
}

/// When a client crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CrashMoment {
    /// As its work arrives.
    Before,
    /// Somewhere in it.
    While,
    /// Before it sends.
    After,
}

impl Choice for CrashMoment {
    const CHOICES: &'static [(&'static str, Self, &'static str)] = &[
        ("before", CrashMoment::Before, "as its work arrives"),
        ("while", CrashMoment::While, "somewhere in its work, which is lost"),
        ("after", CrashMoment::After, "when it has learnt, before it sends"),
    ];
}

/// Direction of a message, seen from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// To the client.
    Down,
    /// To the server.
    Up,
}

impl Choice for Way {
    const CHOICES: &'static [(&'static str, Self, &'static str)] =
        &[("down", Way::Down, "to the client"), ("up", Way::Up, "to the server")];
}

/// What is wrong with an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BadUpdate {
    /// A number of it is not one.
    Nan,
    /// A number of it is infinite.
    Infinite,
    /// A tensor of it lacks an element.
    WrongShape,
}

impl Choice for BadUpdate {
    const CHOICES: &'static [(&'static str, Self, &'static str)] = &[
        ("nan", BadUpdate::Nan, "a number of it is not one"),
        ("infinite", BadUpdate::Infinite, "a number of it is infinite"),
        ("wrong-shape", BadUpdate::WrongShape, "its first tensor lacks an element"),
    ];
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Crash,
    Lose,
    Duplicate,
    Corrupt,
    BadUpdate,
}

impl Choice for Kind {
    const CHOICES: &'static [(&'static str, Self, &'static str)] = &[
        ("crash", Kind::Crash, "the client crashes"),
        ("lose", Kind::Lose, "its messages are lost"),
        ("duplicate", Kind::Duplicate, "its message arrives twice"),
        ("corrupt", Kind::Corrupt, "a bit of its message flips"),
        ("bad-update", Kind::BadUpdate, "it sends what no method can use"),
    ];
}

impl FaultSection {
    /// The entries of a preset.
    pub fn of(preset: Preset) -> Vec<FaultSection> {
        let crash = FaultSection {
            kind: FaultChoice::Crash { when: CrashMoment::Before },
            rate: 0.017,
            clients: Vec::new(),
            rounds: Vec::new(),
        };
        if preset == Preset::Production { vec![crash] } else { Vec::new() }
    }

    pub(super) fn read(table: &mut TableReader<'_>) -> FaultSection {
        let kind: Kind = table.get(&Param::required("kind", Kind::Crash, "what happens"));
        let direction = Param::new("direction", Way::Up, "of its message");
        let kind_read = match kind {
            Kind::Crash => {
                let when = Param::new("when", CrashMoment::Before, "when the client crashes");
                FaultChoice::Crash { when: table.get(&when) }
            }
            Kind::Lose => FaultChoice::Lose { direction: table.get(&direction) },
            Kind::Duplicate => FaultChoice::Duplicate { direction: table.get(&direction) },
            Kind::Corrupt => FaultChoice::Corrupt { direction: table.get(&direction) },
            Kind::BadUpdate => {
                let how = Param::required("how", BadUpdate::Nan, "what is wrong with it");
                FaultChoice::BadUpdate { how: table.get(&how) }
            }
        };
        table.foreign(&["when", "direction", "how"], &format!("kind = \"{}\"", kind.word()));
        let rate = Param::new("rate", 1.0, "probability per client and round");
        let clients: Param<Vec<u32>> = Param::new("clients", Vec::new(), "only these, from 0");
        let rounds: Param<Vec<u32>> = Param::new("rounds", Vec::new(), "only these, from 1");
        FaultSection {
            kind: kind_read,
            rate: table.get(&rate.above(0.0).at_most(1.0)),
            clients: table.get(&clients),
            rounds: table.get(&rounds.at_least(1.0)),
        }
    }
}
