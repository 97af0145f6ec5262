//! `[participation]`: who is asked.

use serde::Serialize;

/// Who is asked in a round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParticipationSection {
    /// How many. Default `all`; with `fraction` or `count` given, that.
    #[serde(flatten)]
    pub participants: Participants,
    /// How often they are drawn. Default `round`.
    pub unit: Unit,
    /// Whether clients come back. Default `fixed`.
    pub population: Population,
}

/// How many clients are asked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Participants {
    /// Every client.
    All,
    /// A share of them, rounded down, at least one.
    Fraction {
        /// In `(0, 1]`.
        fraction: f64,
    },
    /// So many.
    Count {
        /// At least 1.
        count: u32,
    },
}

/// How often a cohort is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Every round.
    Round,
    /// Once per task; others' data of the task is never seen (HGP's public code).
    Task,
}

/// Whether clients come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Population {
    /// The same clients all along.
    Fixed,
    /// New clients of a large population every round; their shards are made when they are asked.
    Fresh,
}

impl ParticipationSection {
    /// Clients of a cohort, of so many.
    pub fn cohort(&self, clients: u32) -> u32 {
        match self.participants {
            Participants::All => clients,
            // 0.29 of 100 is 28.999999999999996 in binary; meant is 29.
            Participants::Fraction { fraction } => {
                ((f64::from(clients) * fraction + 1e-9) as u32).clamp(1, clients)
            }
            Participants::Count { count } => count.min(clients),
        }
    }
}
