//! Measures of an asynchronous benchmark, in which every client has its own tasks. Source: Powder's script;
//! `protocol-others.md`, section 3.
//!
//! `E[p][g]` is the accuracy of client task `g` at evaluation point `p`, for the client tasks that any client has
//! begun by then; a client task finishes at the point after which its client leaves it.
//!
//! | | |
//! |---|---|
//! | `ACC_p` | mean over begun client tasks; Avg is that of the last point, AIA the mean over points |
//! | `FM_p` | mean over begun client tasks of (best at an *earlier* point - now), 0 at a client task's first; may be negative |
//! | `FT_p` | mean over the client tasks that finish now of `E[p][g]` - that of the same client tasks after one round alone |
//! | `BT_p` | mean over the client tasks that finished *before* of (now - when they finished), 0 for none |
//! | `TT_p` | `FT_p + BT_p`, at the last point `FT_p` alone |
//!
//! Client tasks without test images are in no mean. A point at which no client task begun has test images has no value,
//! and is left out of means over points. FM, FT, BT and TT are means over points. Avg is the accuracy at the last
//! point; its meaning in the C²Prompt paper is unclear.
//!
//! ```
//! use fedcast::learning::ClientTaskAccuracies;
//! let mut client_tasks = ClientTaskAccuracies::default();
//! client_tasks.push(&[Some(80.0), Some(60.0), None], &[0]); // the client of client task 0 leaves it
//! client_tasks.push(&[Some(70.0), Some(66.0), Some(50.0)], &[1, 2]);
//! assert_eq!((client_tasks.average(), client_tasks.incremental()), (Some(62.0), Some(66.0)));
//! assert_eq!(client_tasks.backward().mean, Some(-5.0)); // (0 + (70 - 80)) / 2
//! assert!((client_tasks.forgetting().mean.unwrap() - (10.0 - 6.0) / 6.0).abs() < 1e-12);
//! ```

use super::accuracy::mean;

/// Accuracies `E[p][g]`, and the point at which each client task finishes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientTaskAccuracies {
    /// Accuracies by point, then client task. `None` before any client has begun it, and without test images.
    points: Vec<Vec<Option<f64>>>,
    /// Client tasks by the point at which they finish.
    finished: Vec<Vec<usize>>,
}

/// Measure at every evaluation point, and its mean over points.
#[derive(Clone, Debug, PartialEq)]
pub struct PerPoint {
    /// Value at every point; `None` if no client task begun has test images.
    pub points: Vec<Option<f64>>,
    /// Mean over points.
    pub mean: Option<f64>,
}

impl PerPoint {
    fn of(points: impl Iterator<Item = Option<f64>>) -> PerPoint {
        let points: Vec<Option<f64>> = points.collect();
        PerPoint { mean: mean(points.iter().copied().flatten()), points }
    }
}

/// Accuracies of client tasks trained alone that forward transfer subtracts at the last point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direct {
    /// Accuracies of the client tasks that finish there, as at every other point.
    #[default]
    Own,
    /// Accuracies of the client tasks that finish at the *first* point.
    ///
    /// This is an oddity of the published script, which takes entry 0 of its list.
    Script,
}

impl ClientTaskAccuracies {
    /// Adds a point: accuracies by client task, and the client tasks that finish now.
    pub fn push(&mut self, accuracies: &[Option<f64>], finished: &[usize]) {
        self.points.push(accuracies.to_vec());
        self.finished.push(finished.to_vec());
    }

    /// Returns the number of evaluation points so far.
    pub fn points(&self) -> usize {
        self.points.len()
    }

    /// Returns the accuracy of a client task at a point, if it has begun and has test images.
    pub fn at(&self, point: usize, client_task: usize) -> Option<f64> {
        self.points.get(point)?.get(client_task).copied().flatten()
    }

    /// Returns `ACC_p`, the mean accuracy of the client tasks begun.
    pub fn accuracy(&self) -> PerPoint {
        PerPoint::of(
            self.points.iter().map(|client_tasks| mean(client_tasks.iter().copied().flatten())),
        )
    }

    /// Returns Avg, which is `ACC_p` at the last point.
    pub fn average(&self) -> Option<f64> {
        self.accuracy().points.last().copied().flatten()
    }

    /// Returns AIA, the mean of `ACC_p` over points.
    pub fn incremental(&self) -> Option<f64> {
        self.accuracy().mean
    }

    /// Returns FM, the forgetting since the best earlier point.
    pub fn forgetting(&self) -> PerPoint {
        PerPoint::of((0..self.points()).map(|point| {
            let drop = |(client_task, now): (usize, &Option<f64>)| {
                let earlier = (0..point).filter_map(|point| self.at(point, client_task));
                let best = earlier.reduce(f64::max);
                now.map(|now| best.map_or(0.0, |best| best - now))
            };
            mean(self.points[point].iter().enumerate().filter_map(drop))
        }))
    }

    /// Returns BT, the backward transfer to client tasks that finished before.
    pub fn backward(&self) -> PerPoint {
        PerPoint::of((0..self.points()).map(|point| {
            let before = (0..point).flat_map(|then| {
                self.finished[then].iter().filter_map(move |client_task| {
                    Some(self.at(point, *client_task)? - self.at(then, *client_task)?)
                })
            });
            self.zero_of_none(point, mean(before))
        }))
    }

    /// Returns 0, as the script does, if no client task counts yet at a point where some are tested.
    fn zero_of_none(&self, point: usize, measured: Option<f64>) -> Option<f64> {
        let tested = self.points[point].iter().any(Option::is_some);
        measured.or(tested.then_some(0.0))
    }

    /// Returns FT, the forward transfer, against the accuracies of client tasks trained alone.
    ///
    /// `None` if the latter are missing for a client task that finishes and has test images.
    pub fn forward(&self, alone: &[Option<f64>], direct: Direct) -> Option<PerPoint> {
        let tested = |point: usize| {
            self.finished[point]
                .iter()
                .filter(move |client_task| self.at(point, **client_task).is_some())
        };
        let alone = |client_task: &usize| alone.get(*client_task).copied().flatten();
        let last = self.points().checked_sub(1);
        let at = |point: usize| {
            let against = match direct {
                Direct::Script if Some(point) == last => 0,
                _ => point,
            };
            let against: Option<Vec<f64>> = tested(against).map(alone).collect();
            let here = mean(tested(point).filter_map(|client_task| self.at(point, *client_task)));
            let transfer = here.zip(mean(against?)).map(|(here, alone)| here - alone);
            Some(self.zero_of_none(point, transfer))
        };
        let points = (0..self.points()).map(at).collect::<Option<Vec<Option<f64>>>>()?;
        Some(PerPoint::of(points.into_iter()))
    }

    /// Returns TT, the total transfer, from a given FT.
    pub fn total(&self, forward: &PerPoint) -> PerPoint {
        let backward = self.backward().points;
        let last = self.points().saturating_sub(1);
        let sums = forward.points.iter().zip(backward).enumerate();
        PerPoint::of(sums.map(
            |(point, (ft, bt))| {
                if point == last { *ft } else { Some((*ft)? + bt?) }
            },
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;

    #[test]
    fn golden_metrics_of_client_tasks() {
        let Some(golden) = Golden::open("metrics") else { return };
        let width = golden.shape("async.E")[1];
        let (e, finished) = (golden.f64("async.E"), golden.i64("async.finished"));
        let mut client_tasks = ClientTaskAccuracies::default();
        for (e, finished) in e.chunks_exact(width).zip(finished.chunks_exact(width)) {
            let known: Vec<Option<f64>> = e.iter().map(|e| (*e >= 0.0).then_some(*e)).collect();
            let finished: Vec<usize> =
                (0..width).filter(|client_task| finished[*client_task] == 1).collect();
            client_tasks.push(&known, &finished);
        }
        let direct: Vec<Option<f64>> = golden.f64("async.direct").into_iter().map(Some).collect();
        let check = |name: &str, found: &PerPoint| {
            let points: Vec<f64> = found.points.iter().map(|point| point.unwrap()).collect();
            golden.assert_close(&format!("async.{name}_p"), &points);
            golden.assert_close(&format!("async.{name}"), &[found.mean.unwrap()]);
        };
        check("ACC", &client_tasks.accuracy());
        check("FM", &client_tasks.forgetting());
        check("BT", &client_tasks.backward());
        let forward = client_tasks.forward(&direct, Direct::Own).unwrap();
        check("FT", &forward);
        check("TT", &client_tasks.total(&forward));
        check("FT_script", &client_tasks.forward(&direct, Direct::Script).unwrap());
    }

    /// Checks 6 and 8 of the protocol.
    #[test]
    fn what_rises_is_not_forgotten_and_what_stays_is_neither() {
        let of = |rows: &[&[Option<f64>]]| {
            let mut client_tasks = ClientTaskAccuracies::default();
            rows.iter().enumerate().for_each(|(point, row)| client_tasks.push(row, &[point]));
            client_tasks
        };
        let rising = of(&[&[Some(1.0), None], &[Some(2.0), Some(5.0)]]);
        assert!(rising.forgetting().mean.unwrap() < 0.0 && rising.backward().mean.unwrap() > 0.0);
        let constant = of(&[&[Some(3.0), None], &[Some(3.0), Some(4.0)]]);
        assert_eq!((constant.forgetting().mean, constant.backward().mean), (Some(0.0), Some(0.0)));
        let one = of(&[&[Some(7.0)]]);
        assert_eq!((one.average(), one.incremental()), (Some(7.0), Some(7.0)));
        // A client task that no client trained alone has no forward transfer.
        assert_eq!(one.forward(&[None], Direct::Own), None);
        assert_eq!(one.forward(&[Some(5.0)], Direct::Own).unwrap().mean, Some(2.0));
        assert_eq!(ClientTaskAccuracies::default().average(), None);
    }

    /// Client task 1 has no test images: all measures are those of client tasks 0 and 2 alone.
    #[test]
    fn a_client_task_without_test_images_is_in_no_mean() {
        let mut client_tasks = ClientTaskAccuracies::default();
        client_tasks.push(&[Some(8.0), None, None], &[0, 1]);
        client_tasks.push(&[Some(6.0), None, Some(4.0)], &[2]);
        assert_eq!((client_tasks.average(), client_tasks.incremental()), (Some(5.0), Some(6.5)));
        assert_eq!(client_tasks.forgetting().points, [Some(0.0), Some(1.0)]);
        assert_eq!(client_tasks.backward().points, [Some(0.0), Some(-2.0)]);
        let forward = client_tasks.forward(&[Some(5.0), None, Some(3.0)], Direct::Own).unwrap();
        assert_eq!(forward.points, [Some(3.0), Some(1.0)]);
        assert_eq!(client_tasks.total(&forward).mean, Some(2.0));
        let script = client_tasks.forward(&[Some(5.0), None, Some(3.0)], Direct::Script).unwrap();
        assert_eq!(script.points, [Some(3.0), Some(-1.0)]);
    }

    #[test]
    fn a_point_without_test_images_is_in_no_mean() {
        let mut client_tasks = ClientTaskAccuracies::default();
        client_tasks.push(&[None, None], &[0]);
        client_tasks.push(&[None, Some(4.0)], &[1]);
        assert_eq!(client_tasks.accuracy().points, [None, Some(4.0)]);
        assert_eq!(
            (client_tasks.incremental(), client_tasks.forgetting().mean),
            (Some(4.0), Some(0.0))
        );
        assert_eq!(client_tasks.backward().points, [None, Some(0.0)]);
        let forward = client_tasks.forward(&[None, Some(1.0)], Direct::Own).unwrap();
        assert_eq!((&*forward.points, forward.mean), (&[None, Some(3.0)][..], Some(3.0)));
        assert_eq!(client_tasks.total(&forward).mean, Some(3.0));
    }
}
