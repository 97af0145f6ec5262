//! Learning curves of arms: mean accuracy over rounds, bytes and virtual time.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Arm, RunRecord, Spread};
use crate::experiment::names;

/// Round after which a run was tested.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tested {
    round: u64,
    task: u64,
    bytes: f64,
    closed_s: f64,
    accuracy: f64,
}

/// Point of an arm's learning curve: one round, or the last tested one of a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// Number of the round, from 1; of a task's point, the latest of its runs.
    pub round: u64,
    /// Task of the round, from 1.
    pub task: u64,
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
    let task = column("task");
    let mut spent = 0.0;
    let mut points = Vec::new();
    for row in 0..rounds.rows.len() {
        spent += down[row].unwrap_or(0.0) + up[row].unwrap_or(0.0);
        if let (Some(round), Some(accuracy)) = (number[row], accuracy[row]) {
            let closed_s = closed[row].unwrap_or(0.0);
            let task = task[row].unwrap_or(0.0) as u64;
            points.push(Tested { round: round as u64, task, bytes: spent, closed_s, accuracy });
        }
    }
    points
}

impl Arm {
    /// Returns the learning curve of the arm.
    pub fn curve(&self) -> Vec<CurvePoint> {
        grouped(self.done().flat_map(tested), |point| point.round)
    }

    /// Returns the accuracy on all classes seen after each task, at its last tested round.
    pub fn curve_by_task(&self) -> Vec<CurvePoint> {
        let ends = |run: &RunRecord| {
            let points = tested(run).into_iter().map(|point| (point.task, point));
            points.collect::<BTreeMap<u64, Tested>>().into_values()
        };
        grouped(self.done().flat_map(ends), |point| point.task)
    }

    /// Returns the published accuracies by stage as points of the arm's learning curve.
    ///
    /// Each is at the last tested round of its stage, as read from the first complete run that has published numbers.
    /// Stages that this run did not reach are left out, and published numbers have no standard deviation.
    pub fn published_curve(&self) -> Vec<CurvePoint> {
        let Some((run, first, published)) = self.done().find_map(published_stages) else {
            return Vec::new();
        };
        let ends = ends_of_tasks(run);
        let curve = self.curve();
        let point = |(at, percent): (usize, f64)| {
            let round = ends.get(&(first + at as u64))?;
            let measured = curve.iter().find(|point| point.round == *round)?;
            let accuracy = Spread { n: 1, mean: percent / 100.0, deviation: None };
            Some(CurvePoint { accuracy, ..*measured })
        };
        published.into_iter().enumerate().filter_map(point).collect()
    }
}

/// Returns one point per group of tested rounds, in order.
fn grouped(all: impl Iterator<Item = Tested>, group: fn(&Tested) -> u64) -> Vec<CurvePoint> {
    let mut groups: BTreeMap<u64, Vec<Tested>> = BTreeMap::new();
    for point in all {
        groups.entry(group(&point)).or_default().push(point);
    }
    let point = |points: Vec<Tested>| {
        let mean =
            |of: fn(&Tested) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
        let accuracies: Vec<f64> = points.iter().map(|point| point.accuracy).collect();
        Some(CurvePoint {
            round: points.iter().map(|point| point.round).max()?,
            task: points.first()?.task,
            bytes: mean(|point| point.bytes),
            closed_s: mean(|point| point.closed_s),
            accuracy: Spread::of(&accuracies)?,
        })
    };
    groups.into_values().filter_map(point).collect()
}

/// Returns the published accuracies by stage of a run, with the first stage.
fn published_stages(run: &RunRecord) -> Option<(&RunRecord, u64, Vec<f64>)> {
    let stages = run.summary.as_ref()?.pointer("/published/accuracy_by_stage")?;
    let published = stages["published"].as_array()?.iter().filter_map(Value::as_f64).collect();
    Some((run, stages["first_stage"].as_u64()?, published))
}

/// Returns the last tested round of every task, both from 1.
fn ends_of_tasks(run: &RunRecord) -> BTreeMap<u64, u64> {
    let Ok(Some(rounds)) = run.sheet(names::ROUNDS) else { return BTreeMap::new() };
    let column = |name| rounds.numbers(name).unwrap_or_default().into_iter();
    let tested = column("accuracy_seen").map(|accuracy| accuracy.is_some());
    let rows = column("task").zip(column("round")).zip(tested).filter(|(_, tested)| *tested);
    rows.filter_map(|((task, round), _)| Some((task? as u64, round? as u64))).collect()
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
    use std::fs;

    use serde_json::json;

    use super::*;
    use crate::experiment::Machine;

    /// Stage 2 ends with round 3, after which nothing is tested in it; no run has a fourth stage.
    #[test]
    fn published_accuracies_lie_at_the_ends_of_their_stages() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = json!({
            "format": 2, "fedcast": "0.1.0", "status": "done",
            "scenario": { "name": "hand", "hash": "00" }, "method": "hgp",
            "seeds": { "run": 1, "partition": 2, "class_order": 3 },
            "data": null, "backbone": null, "level": "N", "workers": 1, "machine": Machine::here(),
        });
        let stages = json!({ "first_stage": 2, "published": [79.0, 59.0, 9.0], "here": [] });
        let summary = json!({ "published": { "numbers": [], "accuracy_by_stage": stages } });
        let rounds = "round,task,bytes_down,bytes_up,accuracy_seen\n1,1,1,0,0.5\n2,1,1,0,0.6\n\
                      3,2,1,0,0.4\n4,2,1,0,\n5,3,1,0,0.3\n";
        for (name, text) in [
            (names::MANIFEST, manifest.to_string()),
            (names::SCENARIO, "schema = 2\n".to_owned()),
            (names::SUMMARY, summary.to_string()),
            (names::ROUNDS, rounds.to_owned()),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let arms = Arm::sort(vec![RunRecord::read(folder.path()).unwrap()]);
        let curve = arms[0].published_curve();
        let points: Vec<_> = curve.iter().map(|p| (p.round, p.bytes, p.accuracy.mean)).collect();
        assert_eq!(points, [(3, 3.0, 0.79), (5, 5.0, 0.59)]);
        let by_task = arms[0].curve_by_task();
        let points: Vec<_> = by_task.iter().map(|p| (p.task, p.round, p.accuracy.mean)).collect();
        assert_eq!(points, [(1, 2, 0.6), (2, 3, 0.4), (3, 5, 0.3)]);
    }

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
