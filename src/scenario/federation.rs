//! `[federation]`: how many clients and rounds.

use serde::Serialize;

use super::UnitsSection;
use super::reader::{Choice, Param, TableReader, defaults};

/// How many clients and rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FederationSection {
    /// Clients that own data; with a fresh population, how many there are to draw from. Default 10.
    pub clients: u32,
    /// Rounds of every phase of a task that does not say otherwise. Default 5.
    pub rounds: u32,
    /// Clients that are registered and never asked. They change no digest. Default 0.
    pub idle_clients: u32,
    /// Clients that take part in every round with frames of real size, never train and are not
    /// folded. Default 0.
    #[serde(skip_serializing_if = "is_none")]
    pub load: u32,
    /// What happens after an update with NaN, infinity or a wrong shape. Default `drop`.
    pub on_bad_update: OnBadUpdate,
    /// Parts of shards that act as clients of their own.
    #[serde(skip_serializing_if = "UnitsSection::is_off")]
    pub units: UnitsSection,
}

fn is_none(count: &u32) -> bool {
    *count == 0
}

/// The rule for updates that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnBadUpdate {
    /// It is recorded, counted and left out.
    Drop,
    /// The run ends with an error.
    Abort,
}

impl Choice for OnBadUpdate {
    const CHOICES: &'static [(&'static str, Self, &'static str)] = &[
        ("drop", OnBadUpdate::Drop, "record it and go on without it"),
        ("abort", OnBadUpdate::Abort, "end the run"),
    ];
}

impl FederationSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> FederationSection {
        let clients = Param::new("clients", 10, "clients that own data").at_least(1.0);
        let rounds = Param::new("rounds", 5, "rounds of a phase of a task").at_least(1.0);
        let idle = Param::new("idle_clients", 0, "clients that are registered and never asked");
        let load =
            Param::new("load", 0, "clients with frames of real size that never train").at_most(1e6);
        let bad = Param::new("on_bad_update", OnBadUpdate::Drop, "after NaN or wrong shapes");
        FederationSection {
            clients: table.get(&clients.source("HGP")),
            rounds: table.get(&rounds.source("HGP")),
            idle_clients: table.get(&idle),
            load: table.get(&load),
            on_bad_update: table.get(&bad),
            units: table.table("units", UnitsSection::read),
        }
    }
}

impl Default for FederationSection {
    fn default() -> Self {
        defaults(Self::read)
    }
}
