//! `[participation]`: sampling of clients.

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Keys, TableReader};
use crate::numerics::share::{least_share_of, share_of};

/// Sampling of clients.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
#[keys(given(over_selection: f64), default_given(1.0))]
pub struct ParticipationSection {
    /// Cohort size. Default `all`; with `fraction` or `count` given, that.
    #[key(flatten)]
    #[serde(flatten)]
    pub participants: CohortSize,
    /// Number of clients sampled per client wanted, if rounds close after the first updates.
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
    /// Interval after which a new cohort is drawn.
    #[key(default = DrawInterval::Round)]
    pub draw_every: DrawInterval,
    /// Clients from which cohorts are drawn.
    #[key(default = Population::Fixed)]
    pub population: Population,
}

/// Rule for the cohort size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Keys)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[keys(tag = "kind", default = CohortSizeWord::implied(table), others("over_selection"))]
pub enum CohortSize {
    /// Every client.
    All,
    /// Fraction of clients, by `fraction`.
    ///
    /// Rounded down, at least one.
    Fraction {
        /// Fraction of clients in a cohort, rounded down, at least one client.
        #[key(example = 0.1, above = 0.0, at_most = 1.0)]
        fraction: f64,
    },
    /// Number of clients, by `count`.
    ///
    /// At most every client.
    Count {
        /// Number of clients in a cohort.
        #[key(example = 10, at_least = 1.0)]
        count: u32,
    },
}

impl CohortSizeWord {
    /// Returns the word that a number implies if no word is written.
    fn implied(table: &TableReader<'_>) -> CohortSizeWord {
        match (table.given("fraction"), table.given("count")) {
            (true, _) => CohortSizeWord::Fraction,
            (false, true) => CohortSizeWord::Count,
            (false, false) => CohortSizeWord::All,
        }
    }
}

impl CohortSize {
    /// Returns the cohort size for `clients` clients.
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

/// Interval after which a new cohort is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum DrawInterval {
    /// One round.
    #[default]
    Round,
    /// One task, as in HGP's public code: other clients never train on the task.
    Task,
}

/// Clients from which cohorts are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Population {
    /// Same clients in all rounds; a client can be sampled again.
    #[default]
    Fixed,
    /// New clients in every round; their shards are created when they are sampled.
    Fresh,
}

impl ParticipationSection {
    /// Returns the number of clients sampled per client wanted; at least 1.
    pub fn over_selection(&self) -> f64 {
        self.over_selection.unwrap_or(1.0).max(1.0)
    }

    /// Returns the number of `clients` that are sampled.
    pub fn sampled_count(&self, clients: u32) -> u32 {
        let sampled_count = least_share_of(self.count(clients) as usize, self.over_selection());
        (sampled_count as u32).min(clients)
    }

    /// Returns the number of `clients` that are wanted.
    pub fn count(&self, clients: u32) -> u32 {
        self.participants.of(clients)
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
