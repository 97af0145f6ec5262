//! Traces of runs by round, from their journals: cohorts, bytes and scores. Finds the first difference of two runs.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::document::Document;
use crate::experiment::replay;
use crate::federation::ledger::Charge;
use crate::federation::{Direction, Entry, Event, EventSink, SinkError};
use crate::quantity::{ClientId, Round};

/// Facts about a round that are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Traced {
    cohort: Vec<ClientId>,
    down: u64,
    up: u64,
    /// Numbers of correct predictions and of test samples, by task.
    scores: Vec<(u64, u64)>,
}

/// Rounds of a run, for comparison.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    rounds: BTreeMap<Round, Traced>,
}

impl Trace {
    /// Reads the run at `path`, an incomplete one up to the end of its journal.
    pub fn of(path: &Path) -> Trace {
        let mut trace = Trace::default();
        // The part before a cut or a damaged line is compared; `replay` and `verify` report the rest.
        let _ = replay(path, &mut [&mut trace]);
        trace
    }

    /// Returns the first rounds in which two runs differ.
    pub fn first_differences(&self, other: &Trace) -> FirstDifferences {
        let first = |differ: &dyn Fn(&Traced, &Traced) -> bool| {
            let both =
                self.rounds.iter().filter_map(|(n, one)| Some((n, one, other.rounds.get(n)?)));
            both.into_iter().find(|(_, one, two)| differ(one, two)).map(|(n, _, _)| number(n))
        };
        FirstDifferences {
            rounds: [self.rounds.len(), other.rounds.len()],
            cohort: first(&|one, two| one.cohort != two.cohort),
            bytes: first(&|one, two| (one.down, one.up) != (two.down, two.up)),
            accuracy: first(&|one, two| one.scores != two.scores),
        }
    }
}

/// Returns the number of a round, from 1.
fn number(round: &Round) -> u64 {
    u64::from(round.0) + 1
}

/// First rounds in which two runs differ, from 1; `None` if they agree in all rounds that both have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Document)]
pub struct FirstDifferences {
    /// Number of rounds of each run.
    pub rounds: [usize; 2],
    /// First round in which different clients were sampled.
    pub cohort: Option<u64>,
    /// First round in which different numbers of bytes were sent.
    pub bytes: Option<u64>,
    /// First round in which test scores differ.
    pub accuracy: Option<u64>,
}

impl EventSink for Trace {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        match &entry.event {
            Event::RoundOpened { round, cohort, .. } => {
                self.rounds.entry(*round).or_default().cohort.clone_from(cohort);
            }
            Event::FrameCharged { round, direction, .. } => {
                if let Some(charge) = Charge::from_event(&entry.event)? {
                    let traced = self.rounds.entry(*round).or_default();
                    match direction {
                        Direction::Down => traced.down += charge.frame().0,
                        Direction::Up => traced.up += charge.frame().0,
                    }
                }
            }
            Event::Evaluated { round, .. } => {
                let scores = entry.numbers.iter().flat_map(|numbers| &numbers.tasks);
                let scores = scores.map(|score| (score.correct, score.total));
                self.rounds.entry(*round).or_default().scores.extend(scores);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(rounds: &[(u32, u64, u64)]) -> Trace {
        let traced = |(round, &(client, up, right)): (usize, &(u32, u64, u64))| {
            let cohort = vec![ClientId(client)];
            (Round(round as u32), Traced { cohort, down: 1, up, scores: vec![(right, 10)] })
        };
        Trace { rounds: rounds.iter().enumerate().map(traced).collect() }
    }

    #[test]
    fn the_first_round_of_each_difference_counts_from_one() {
        let one = trace(&[(1, 5, 9), (2, 5, 9), (3, 6, 8), (4, 7, 7)]);
        let other = trace(&[(1, 5, 9), (2, 5, 8), (3, 7, 8), (5, 7, 7), (6, 0, 0)]);
        let expected =
            FirstDifferences { rounds: [4, 5], cohort: Some(4), bytes: Some(3), accuracy: Some(2) };
        assert_eq!(one.first_differences(&other), expected);
        let same = one.first_differences(&one);
        assert_eq!((same.cohort, same.bytes, same.accuracy), (None, None, None));
    }
}
