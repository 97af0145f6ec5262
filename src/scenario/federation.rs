//! `[federation]`: how many clients and rounds.

use serde::Serialize;

/// How many clients and rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FederationSection {
    /// Clients that own data; with a fresh population, how many there are to draw from. Default 10.
    pub clients: u32,
    /// Rounds of every phase of a task that does not say otherwise. Default 5.
    pub rounds: u32,
    /// Clients that are registered and never asked. They change no digest. Default 0.
    pub idle_clients: u32,
    /// What happens after an update with NaN, infinity or a wrong shape. Default `drop`.
    pub on_bad_update: OnBadUpdate,
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
