//! `[participation]`: who is asked.

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Param, TableReader, defaults};
use crate::numerics::share::{least_share_of, share_of};

/// Who is asked in a round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParticipationSection {
    /// How many. Default `all`; with `fraction` or `count` given, that.
    #[serde(flatten)]
    pub participants: Participants,
    /// So many times more clients are asked than `fraction` or `count` say, for rounds that close
    /// with the first. Default 1; 1.3 with the preset `production` (FedScale).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_selection: Option<f64>,
    /// How often they are drawn. Default `round`.
    pub unit: Unit,
    /// Whether clients come back. Default `fixed`.
    pub population: Population,
}

/// How many clients are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Participants {
    /// Every client.
    #[default]
    All,
    /// A share of them, rounded down, at least one.
    Fraction {
        /// In `(0, 1]`.
        fraction: f64,
    },
    /// So many, at most every client.
    Count {
        /// At least 1.
        count: u32,
    },
}

impl Participants {
    /// How many of so many clients.
    pub fn of(&self, clients: u32) -> u32 {
        match *self {
            Participants::All => clients,
            Participants::Count { count } => count.min(clients),
            Participants::Fraction { fraction } => {
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

/// [`Participants`] without its number.
#[derive(Clone, Copy, PartialEq, ValueEnum, Choice)]
enum Kind {
    /// Every client.
    All,
    /// A share of them, by `fraction`.
    Fraction,
    /// So many, by `count`.
    Count,
}

impl ParticipationSection {
    /// `over_selection` is its default.
    pub(super) fn read(table: &mut TableReader<'_>, over_selection: f64) -> ParticipationSection {
        let implied = match (table.given("fraction"), table.given("count")) {
            (true, _) => Kind::Fraction,
            (false, true) => Kind::Count,
            (false, false) => Kind::All,
        };
        let kind: Kind = table.get(&Param::new("kind", implied, "how many are sampled"));
        let fraction = || Param::required("fraction", 0.1, "share of clients, for `fraction`");
        let count = || Param::required("count", 10, "clients, for `count`");
        let participants = match kind {
            Kind::All => Participants::All,
            Kind::Fraction => {
                Participants::Fraction { fraction: table.get(&fraction().above(0.0).at_most(1.0)) }
            }
            Kind::Count => Participants::Count { count: table.get(&count().at_least(1.0)) },
        };
        let over = Param::new("over_selection", over_selection, "sampled for each that is wanted");
        let over = over.at_least(1.0).at_most(1e6).source("FedScale");
        let over_selection = (kind != Kind::All).then(|| table.get(&over));
        table.foreign(
            &["fraction", "count", "over_selection"],
            &format!("kind = \"{}\"", kind.word()),
        );
        ParticipationSection {
            participants,
            over_selection,
            unit: table.get(&Param::new("unit", Unit::Round, "how often they are drawn")),
            population: table.get(&Param::new(
                "population",
                Population::Fixed,
                "whether clients come back",
            )),
        }
    }

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
        let cohort = |fraction, clients| Participants::Fraction { fraction }.of(clients);
        assert_eq!(cohort(0.29, 100), 29); // 28.999999999999996 in binary
        assert_eq!(cohort(0.1, 15), 1);
        assert_eq!(cohort(0.001, 10), 1);
        assert_eq!(cohort(1.0, 10), 10);
        assert_eq!(cohort(0.1, 100_000), 10_000);
    }
}
