//! Prototypes: a Gaussian for every class of the task, merged from those of the clients that hold it.
//!
//! ```text
//! moments     mu = sum w_m mu_m,  var = sum w_m (var_m + mu_m^2) - mu^2       w_m over the clients that hold the class
//! benchmark   the same with var_m^2 in place of var_m, and without - mu^2 where a class is first reported
//! ```

use std::collections::BTreeMap;

use clap::ValueEnum;

use crate::data::TaskView;
use crate::methods::averaging::ServerState;
use crate::methods::class_statistics::{flagged, flags};
use crate::policy::Message;
use crate::quantity::{ClientId, TaskId};
use crate::scenario::reader::Choice;
use crate::wire::{Body, Kind, MetaReader, MetaWriter, NamedTensor, Saved, Section, WireError};

/// Names of the tensors of Gaussians, in downloads and uploads.
pub(super) const MEANS: &str = "means";
pub(super) const VARIANCES: &str = "variances";
pub(super) const COUNTS: &str = "counts";

/// Rule that combines the Gaussians of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Merge {
    /// Matched moments.
    Moments,
    /// Rule of the code of HGP's benchmark, which squares variances.
    Benchmark,
}

/// Weight of a client for a class that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Weighing {
    /// Number of its samples of the task (code of HGP's benchmark).
    Samples,
    /// Number of its samples of the class, which it then sends.
    Classes,
    /// Number of rounds of the task in which it took part (the release).
    Visits,
}

/// Mean and variance of the features of a class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gaussian {
    /// Mean of every feature, `(dim)`.
    pub mean: Vec<f64>,
    /// Variance of every feature, `(dim)`; [`Merge::Benchmark`] can make one negative.
    pub variance: Vec<f64>,
}

/// Returns the merge of the clients' weighted reports of a class; `None` if the weights sum to zero.
///
/// `is_new` is true if no client reported the class before.
pub(super) fn merged(reports: &[(f64, Gaussian)], merge: Merge, is_new: bool) -> Option<Gaussian> {
    let total: f64 = reports.iter().map(|(weight, _)| weight).sum();
    let dim = reports.first().filter(|_| total > 0.0)?.1.mean.len();
    let sum = |of: &dyn Fn(&Gaussian, usize) -> f64, at: usize| {
        reports.iter().map(|(weight, one)| weight / total * of(one, at)).sum::<f64>()
    };
    let mean: Vec<f64> = (0..dim).map(|at| sum(&|one, at| one.mean[at], at)).collect();
    let variance = (0..dim).map(|at| match merge {
        // The formula of the module, written so that no two large numbers are subtracted.
        Merge::Moments => sum(&|one, at| one.variance[at] + (one.mean[at] - mean[at]).powi(2), at),
        Merge::Benchmark => {
            let second = sum(&|one, at| one.variance[at].powi(2) + one.mean[at].powi(2), at);
            second - if is_new { 0.0 } else { mean[at].powi(2) }
        }
    });
    let variance = variance.collect();
    Some(Gaussian { mean, variance })
}

/// Prototypes of the current task's classes by head row, and each client's number of rounds in it.
#[derive(Debug, Default, PartialEq)]
pub struct PipPrototypes {
    task: Option<TaskId>,
    pub(super) known: BTreeMap<u32, Gaussian>,
    visits: BTreeMap<ClientId, u64>,
    /// Width of features.
    pub(super) dim: usize,
}

impl PipPrototypes {
    /// Replaces the prototypes of reported classes by the merge of a round's weighted reports.
    pub(super) fn update(&mut self, reports: &BTreeMap<u32, Vec<(f64, Gaussian)>>, merge: Merge) {
        for (row, reports) in reports {
            // A class is new in the round that first reports it, which need not be the task's first.
            if let Some(one) = merged(reports, merge, !self.known.contains_key(row)) {
                self.known.insert(*row, one);
            }
        }
    }

    /// Counts a round of the task in which a client took part, and returns their number so far.
    pub(super) fn visit(&mut self, client: ClientId) -> u64 {
        let visits = self.visits.entry(client).or_default();
        *visits += 1;
        *visits
    }

    /// Returns flags of the classes of a view that have a prototype.
    pub(super) fn flags(&self, view: &TaskView) -> Vec<u8> {
        flags(view, |row| self.known.contains_key(&row))
    }

    /// Returns means and variances of all prototypes, `(classes, dim)` each; `None` if there are none.
    pub(super) fn section(&self) -> Result<Option<Section>, WireError> {
        if self.known.is_empty() {
            return Ok(None);
        }
        let table = |name, of: fn(&Gaussian) -> &[f64]| {
            let narrow = self.known.values().flat_map(|one| of(one).iter().map(|v| *v as f32));
            NamedTensor::f32(name, [self.known.len(), self.dim], narrow.collect::<Vec<f32>>())
        };
        let means = table(MEANS, |known| &known.mean)?;
        let variances = table(VARIANCES, |known| &known.variance)?;
        Ok(Some(Section::new(Kind::Prototypes, vec![means, variances])))
    }
}

/// Reads the Gaussians of these head rows from the tensors of a message.
///
/// # Errors
/// When a tensor is missing or has another shape.
pub(super) fn prototypes_of(
    message: &Message,
    rows: &[u32],
) -> Result<Vec<(u32, Gaussian)>, WireError> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let means = message.tensor(Kind::Prototypes, MEANS)?;
    let dim = means.shape().last().copied().unwrap_or(0);
    let means = means.shaped(&[rows.len(), dim])?.as_f32()?;
    let variances = message.tensor(Kind::Prototypes, VARIANCES)?;
    let variances = variances.shaped(&[rows.len(), dim])?.as_f32()?;
    let wide = |values: &[f32], at: usize| -> Vec<f64> {
        values[at * dim..(at + 1) * dim].iter().map(|value| f64::from(*value)).collect()
    };
    let one = |(at, row): (usize, &u32)| {
        (*row, Gaussian { mean: wide(means, at), variance: wide(variances, at) })
    };
    Ok(rows.iter().enumerate().map(one).collect())
}

/// Reads the prototypes of a download, for the flagged classes of a view; empty if it has none.
///
/// # Errors
/// When flags or tensors are missing or have another shape.
pub(super) fn received_prototypes(
    download: &Message,
    view: &TaskView,
) -> Result<Vec<(u32, Gaussian)>, WireError> {
    if download.find(Kind::Prototypes, MEANS).is_none() {
        return Ok(Vec::new());
    }
    let known = flagged(&download.control, view)?;
    let rows = known.into_iter().map(|at| (view.rows.start + at) as u32);
    prototypes_of(download, &rows.collect::<Vec<u32>>())
}

impl Saved for PipPrototypes {
    fn save(&self) -> Body {
        let mut meta = MetaWriter::new();
        let (clients, visits): (Vec<u32>, Vec<u32>) =
            self.visits.iter().map(|(client, visits)| (client.0, *visits as u32)).unzip();
        let rows: Vec<u32> = self.known.keys().copied().collect();
        meta.u64(self.task.map_or(0, |task| u64::from(task.0) + 1));
        meta.u32s(&clients).u32s(&visits).u32s(&rows);
        meta.u64(self.dim as u64);
        let table = |name, of: fn(&Gaussian) -> &Vec<f64>| {
            let values: Vec<f64> = self.known.values().flat_map(|one| of(one).clone()).collect();
            let table = NamedTensor::f64(name, [rows.len(), self.dim], values);
            table.expect("prototypes of one run are of one width")
        };
        let tensors = vec![table(MEANS, |known| &known.mean), table(VARIANCES, |k| &k.variance)];
        Body::new(meta.finish(), vec![Section::new(Kind::Prototypes, tensors)])
    }

    fn load(saved: &Body) -> Result<PipPrototypes, WireError> {
        let mut meta = MetaReader::new(&saved.meta);
        let task = meta.u64()?.checked_sub(1).map(|task| TaskId(task as u16));
        let (clients, visits, rows) = (meta.u32s()?, meta.u32s()?, meta.u32s()?);
        let dim = meta.u64()? as usize;
        meta.finish()?;
        let table = |name| saved.tensor(Kind::Prototypes, name)?.as_f64();
        let (means, variances) = (table(MEANS)?, table(VARIANCES)?);
        let one = |(at, row): (usize, u32)| {
            let of = |values: &[f64]| values[at * dim..(at + 1) * dim].to_vec();
            (row, Gaussian { mean: of(means), variance: of(variances) })
        };
        let known = rows.into_iter().enumerate().map(one).collect();
        let visits = clients.into_iter().map(ClientId).zip(visits.into_iter().map(u64::from));
        Ok(PipPrototypes { task, known, visits: visits.collect(), dim })
    }
}

impl ServerState for PipPrototypes {
    fn is_new_task(&mut self, task: usize) -> bool {
        let new = self.task.replace(TaskId(task as u16)) != Some(TaskId(task as u16));
        if new {
            self.known.clear();
            self.visits.clear();
        }
        new
    }

    fn task(&self) -> usize {
        self.task.map_or(0, TaskId::index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;

    /// The reports of a class, with a weight for each of three clients.
    fn reports(golden: &Golden, class: usize, weights: &[i64]) -> Vec<(f64, Gaussian)> {
        let (mean, variance) = (golden.f64("mean"), golden.f64("var"));
        let has = golden.i64("has");
        let holders = (0..3).filter(|client| has[client * 4 + class] == 1);
        let of = |values: &[f64], client: usize| values[(client * 4 + class) * 5..][..5].to_vec();
        let one = |client: usize| {
            let gaussian = Gaussian { mean: of(&mean, client), variance: of(&variance, client) };
            (weights[client] as f64, gaussian)
        };
        holders.map(one).collect()
    }

    #[test]
    fn golden_pip_merges() {
        let Some(golden) = Golden::open("pip") else { return };
        let (n, visits) = (golden.i64("n"), golden.i64("visits"));
        for (names, weights, merge, first) in [
            (["merged.mean", "merged.var"], &n, Merge::Moments, false),
            (["merged.mean", "compat.first"], &n, Merge::Benchmark, true),
            (["merged.mean", "compat.later"], &n, Merge::Benchmark, false),
            (["official.mean", "official.var"], &visits, Merge::Moments, false),
        ] {
            let all: Vec<Option<Gaussian>> = (0..4)
                .map(|class| merged(&reports(&golden, class, weights), merge, first))
                .collect();
            let known: Vec<i64> = all.iter().map(|one| i64::from(one.is_some())).collect();
            assert_eq!(known, golden.i64("known"));
            let flat = |of: fn(Gaussian) -> Vec<f64>| -> Vec<f64> {
                all.iter().cloned().flat_map(|one| one.map_or(vec![0.0; 5], of)).collect()
            };
            golden.assert_close(names[0], &flat(|one| one.mean));
            golden.assert_close(names[1], &flat(|one| one.variance));
        }
    }

    /// PIP card, invariants 2 and 3: of biased variances and class counts the merge is what pooled samples have,
    /// however they are dealt, and one client is repeated to the bit.
    #[test]
    fn merged_moments_are_those_of_all_samples() {
        let samples: Vec<Vec<f64>> =
            (0..9).map(|i| (0..3).map(|j| ((7 * i + j) as f64).sin() * 3.0).collect()).collect();
        let fit = |rows: &[Vec<f64>]| {
            let n = rows.len() as f64;
            let mean: Vec<f64> =
                (0..3).map(|j| rows.iter().map(|row| row[j]).sum::<f64>() / n).collect();
            let variance = (0..3)
                .map(|j| rows.iter().map(|row| (row[j] - mean[j]).powi(2)).sum::<f64>() / n)
                .collect();
            (n, Gaussian { mean, variance })
        };
        let whole = fit(&samples);
        for parts in [std::slice::from_ref(&(0..9)), &[0..1, 1..9], &[0..4, 4..6, 6..9]] {
            let reports: Vec<_> = parts.iter().map(|part| fit(&samples[part.clone()])).collect();
            let found = merged(&reports, Merge::Moments, true).unwrap();
            let wanted = whole.1.mean.iter().chain(&whole.1.variance);
            for (found, wanted) in found.mean.iter().chain(&found.variance).zip(wanted) {
                assert!((found - wanted).abs() < 1e-12, "{found} {wanted}");
            }
            assert!(found.variance.iter().all(|variance| *variance >= 0.0));
        }
        assert_eq!(merged(&[(5.0, whole.1.clone())], Merge::Moments, false), Some(whole.1));
        assert_eq!(merged(&[], Merge::Moments, false), None);
    }

    /// The benchmark does not subtract the squared mean when a class is first reported, late as it may be.
    #[test]
    fn a_class_is_new_when_it_is_first_reported() {
        let one = || Gaussian { mean: vec![3.0], variance: vec![2.0] };
        let mut all = PipPrototypes { dim: 1, ..PipPrototypes::default() };
        let reports = |rows: &[u32]| rows.iter().map(|row| (*row, vec![(1.0, one())])).collect();
        all.update(&reports(&[5]), Merge::Benchmark);
        all.update(&reports(&[4, 5]), Merge::Benchmark);
        // The square of the variance is the benchmark's, too.
        assert_eq!((all.known[&5].variance[0], all.known[&4].variance[0]), (4.0, 13.0));
    }

    #[test]
    fn prototypes_are_read_back_and_last_for_a_task() {
        let mut all = PipPrototypes { dim: 2, ..PipPrototypes::default() };
        assert!(all.is_new_task(1) && !all.is_new_task(1));
        assert_eq!((all.visit(ClientId(4)), all.visit(ClientId(4))), (1, 2));
        let one = Gaussian { mean: vec![0.1, -2.0], variance: vec![0.3, -0.5] };
        all.known.insert(5, one);
        assert_eq!(PipPrototypes::load(&all.save()).unwrap(), all);
        assert!(all.is_new_task(2) && all.known.is_empty());
        assert_eq!(all.visit(ClientId(4)), 1);
        assert_eq!(PipPrototypes::load(&all.save()).unwrap(), all);
    }
}
