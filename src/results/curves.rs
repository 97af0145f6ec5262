//! Learning curves of arms: mean accuracy over rounds, bytes and virtual time.

use std::collections::BTreeMap;

use super::{Arm, RunRecord, Spread};
use crate::experiment::names;

/// Round after which a run was tested.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tested {
    round: u64,
    bytes: f64,
    closed_s: f64,
    accuracy: f64,
}

/// Point of an arm's learning curve: one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// Number of the round, from 1.
    pub round: u64,
    /// Mean bytes of both directions until its end.
    pub bytes: f64,
    /// Mean virtual seconds until its end.
    pub closed_s: f64,
    /// Accuracy on all classes seen, over the runs that were tested after this round.
    pub accuracy: Spread,
}

/// Returns the rounds of a run with an accuracy; none if its table is missing or damaged.
fn tested(run: &RunRecord) -> Vec<Tested> {
    let Ok(Some(rounds)) = run.sheet(names::ROUNDS) else { return Vec::new() };
    let column = |name| rounds.numbers(name).unwrap_or_else(|| vec![None; rounds.rows.len()]);
    let (number, down, up) = (column("round"), column("bytes_down"), column("bytes_up"));
    let (closed, accuracy) = (column("closed_s"), column("accuracy_seen"));
    let mut spent = 0.0;
    let mut points = Vec::new();
    for row in 0..rounds.rows.len() {
        spent += down[row].unwrap_or(0.0) + up[row].unwrap_or(0.0);
        if let (Some(round), Some(accuracy)) = (number[row], accuracy[row]) {
            let closed_s = closed[row].unwrap_or(0.0);
            points.push(Tested { round: round as u64, bytes: spent, closed_s, accuracy });
        }
    }
    points
}

impl Arm {
    /// Returns the learning curve of the arm.
    pub fn curve(&self) -> Vec<CurvePoint> {
        let mut rounds: BTreeMap<u64, Vec<Tested>> = BTreeMap::new();
        for point in self.done().flat_map(tested) {
            rounds.entry(point.round).or_default().push(point);
        }
        let point = |(round, points): (u64, Vec<Tested>)| {
            let mean =
                |of: fn(&Tested) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
            let accuracies: Vec<f64> = points.iter().map(|point| point.accuracy).collect();
            Some(CurvePoint {
                round,
                bytes: mean(|point| point.bytes),
                closed_s: mean(|point| point.closed_s),
                accuracy: Spread::of(&accuracies)?,
            })
        };
        rounds.into_iter().filter_map(point).collect()
    }
}

/// Returns at most `most` of the points, evenly spaced, including the first and the last.
pub fn thinned<T: Clone>(points: &[T], most: usize) -> Vec<T> {
    if points.len() <= most || most < 2 {
        return points.to_vec();
    }
    let place = |n: usize| (n * (points.len() - 1) + (most - 1) / 2) / (most - 1);
    (0..most).map(|n| points[place(n)].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_both_ends_and_the_order() {
        let points: Vec<usize> = (0..1000).collect();
        let few = thinned(&points, 60);
        assert_eq!((few.len(), few[0], few[59]), (60, 0, 999));
        assert!(few.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(thinned(&points[..60], 60), points[..60]);
        assert_eq!(thinned(&points[..61], 60).len(), 60);
    }
}
