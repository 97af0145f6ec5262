//! `[participation]`: who is asked.

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Keys, TableReader, defaults};
use crate::numerics::share::{least_share_of, share_of};

/// Who is asked in a round.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
#[keys(given(over_selection: f64))]
pub struct ParticipationSection {
    /// How many. Default `all`; with `fraction` or `count` given, that.
    #[key(flatten)]
    #[serde(flatten)]
    pub participants: CohortSize,
    /// Clients sampled for each that is wanted, in rounds that close with the first.
    ///
    /// Default 1; 1.3 with the preset `production`.
    #[key(
        when = participants != CohortSize::All,
        default = over_selection,
        at_least = 1.0,
        at_most = 1e6,
        source = "FedScale"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_selection: Option<f64>,
    /// Time for which a cohort is drawn.
    #[key(default = Unit::Round)]
    pub unit: Unit,
    /// Rule for clients that were sampled before.
    #[key(default = Population::Fixed)]
    pub population: Population,
}

/// Clients sampled in a round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Keys)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[keys(tag = "kind", default = CohortSizeWord::implied(table), others("over_selection"))]
pub enum CohortSize {
    /// Every client.
    All,
    /// A share of them, by `fraction`.
    ///
    /// Rounded down, at least one.
    Fraction {
        /// Share of clients, for `fraction`.
        #[key(example = 0.1, above = 0.0, at_most = 1.0)]
        fraction: f64,
    },
    /// So many, by `count`.
    ///
    /// At most every client.
    Count {
        /// Clients, for `count`.
        #[key(example = 10, at_least = 1.0)]
        count: u32,
    },
}

impl CohortSizeWord {
    /// Word that a number implies where none is written.
    fn implied(table: &TableReader<'_>) -> CohortSizeWord {
        match (table.given("fraction"), table.given("count")) {
            (true, _) => CohortSizeWord::Fraction,
            (false, true) => CohortSizeWord::Count,
            (false, false) => CohortSizeWord::All,
        }
    }
}

impl CohortSize {
    /// How many of so many clients.
    pub fn of(&self, clients: u32) -> u32 {
        match *self {
            CohortSize::All => clients,
            CohortSize::Count { count } => count.min(clients),
            CohortSize::Fraction { fraction } => {
                (share_of(clients as usize, fraction) as u32).max(1).min(clients)
            }
        }
    }
}

/// How often a cohort is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Drawn every round.
    #[default]
    Round,
    /// Drawn once per task; others' data of the task is never seen (HGP's public code).
    Task,
}

/// Whether clients come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Population {
    /// The same clients all along.
    #[default]
    Fixed,
    /// New clients of a large population every round; their shards are made when they are asked.
    Fresh,
}

impl ParticipationSection {
    /// Returns how many times more clients are asked than are wanted; at least 1.
    pub fn over_selection(&self) -> f64 {
        self.over_selection.unwrap_or(1.0).max(1.0)
    }

    /// Returns how many of `clients` are asked.
    pub fn asked(&self, clients: u32) -> u32 {
        let asked = least_share_of(self.count(clients) as usize, self.over_selection());
        (asked as u32).min(clients)
    }

    /// Returns how many of `clients` are wanted.
    pub fn count(&self, clients: u32) -> u32 {
        self.participants.of(clients)
    }
}

impl Default for ParticipationSection {
    fn default() -> Self {
        defaults(|table| ParticipationSection::read(table, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_rounded_down_and_never_empty() {
        let cohort = |fraction, clients| CohortSize::Fraction { fraction }.of(clients);
        assert_eq!(cohort(0.29, 100), 29); // 28.999999999999996 in binary
        assert_eq!(cohort(0.1, 15), 1);
        assert_eq!(cohort(0.001, 10), 1);
        assert_eq!(cohort(1.0, 10), 10);
        assert_eq!(cohort(0.1, 100_000), 10_000);
    }
}
