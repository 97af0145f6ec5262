//! Means of exemplars by class, and the model that predicts the class with the nearest mean.

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::{Device, Tensor};
use clap::ValueEnum;

use crate::data::{Batch, Shard};
use crate::learning::Classifier;
use crate::methods::averaging::ServerState;
use crate::model::FrozenPart;
use crate::policy::{PolicyError, Predictor, RunContext, Scope};
use crate::scenario::reader::Choice;
use crate::wire::{Body, Kind, NamedTensor, Saved, Section, WireError};

/// Tensors of an upload at the end of a task: sums of unit features by class, and their counts.
pub(super) const SUMS: &str = "exemplar_sums";
pub(super) const COUNTS: &str = "exemplar_counts";

/// Classifier for a class without exemplars at any client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Absent {
    /// Head: samples that it assigns to such a class are of that class.
    Head,
    /// None: the class is lost.
    Lost,
}

/// Adds the feature of a sample, divided by its length, to the sum of its class.
fn add_unit(sums: &mut [f64], counts: &mut [u32], (row, feature): (usize, &[f32])) {
    let norm = norm(feature.iter().map(|v| f64::from(*v)));
    let own = &mut sums[row * feature.len()..(row + 1) * feature.len()];
    own.iter_mut().zip(feature).for_each(|(sum, v)| *sum += f64::from(*v) / norm);
    counts[row] += 1;
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|v| v * v).sum::<f64>().sqrt().max(1e-12)
}

/// Returns the sums of unit features of samples, `(rows, dim)` flat, and their counts `(rows)`.
///
/// With `flips` the samples' mirror images are added.
pub(super) fn sums_of(
    samples: &Shard,
    model: &Classifier,
    (rows, dim): (usize, usize),
    flips: bool,
    ctx: &RunContext,
) -> Result<(Vec<f64>, Vec<u32>), PolicyError> {
    let (mut sums, mut counts) = (vec![0.0; rows * dim], vec![0; rows]);
    let mirrored = flips.then(|| ctx.mirror_loader(samples)).flatten();
    for loader in [ctx.statistics_loader(samples)].into_iter().chain(mirrored) {
        let loader = ctx.with_frozen_features(loader, model.frozen_part())?;
        for batch in loader.in_order(ctx.evaluation_batch) {
            let batch = batch?;
            let features = model.batch_features(&batch, &ctx.device)?.to_vec2::<f32>()?;
            for (feature, label) in features.iter().zip(batch.labels()) {
                add_unit(&mut sums, &mut counts, (*label as usize, feature));
            }
        }
    }
    Ok((sums, counts))
}

/// Unit-length means of exemplars by head row, without the rows of classes that have no exemplars.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Means {
    rows: BTreeMap<u32, Vec<f32>>,
}

impl Means {
    /// Computes means from sums `(rows, dim)` and counts `(rows)`.
    pub fn of(sums: &[f64], counts: &[f64]) -> Means {
        let dim = sums.len() / counts.len().max(1);
        let held = (0..).zip(sums.chunks_exact(dim.max(1))).zip(counts);
        let held = held.filter(|(_, count)| **count > 0.0);
        let unit = |((row, sum), count): ((u32, &[f64]), &f64)| {
            let length = norm(sum.iter().map(|v| v / count));
            (row, sum.iter().map(|v| (v / count / length) as f32).collect())
        };
        Means { rows: held.map(unit).collect() }
    }

    /// Returns the number of classes that have a mean.
    pub fn classes(&self) -> usize {
        self.rows.len()
    }

    /// Returns the cosines of a feature with the means of `rows`; -1 for a row without a mean.
    pub fn cosines(&self, feature: &[f32], rows: std::ops::Range<usize>) -> Vec<f32> {
        let length = norm(feature.iter().map(|v| f64::from(*v)));
        let cosine = |row: usize| {
            let Some(mean) = self.rows.get(&(row as u32)) else { return -1.0 };
            let products = mean.iter().zip(feature).map(|(m, v)| f64::from(*m) * f64::from(*v));
            (products.sum::<f64>() / length) as f32
        };
        rows.map(cosine).collect()
    }
}

impl Saved for Means {
    fn save(&self) -> Body {
        if self.rows.is_empty() {
            return Body::default();
        }
        let rows: Vec<u32> = self.rows.keys().copied().collect();
        let values: Vec<f32> = self.rows.values().flatten().copied().collect();
        let shape = [rows.len(), values.len() / rows.len()];
        let tensors = vec![
            NamedTensor::u32("rows", [rows.len()], rows).expect("a list fills its length"),
            NamedTensor::f32("means", shape, values).expect("means fill their shape"),
        ];
        Body::new(Vec::new(), vec![Section::new(Kind::Prototypes, tensors)])
    }

    fn load(saved: &Body) -> Result<Means, WireError> {
        let mut means = Means::default();
        if saved.of_kind(Kind::Prototypes).next().is_some() {
            let rows = saved.tensor(Kind::Prototypes, "rows")?.as_u32()?;
            let values = saved.tensor(Kind::Prototypes, "means")?.as_f32()?;
            let each = values.chunks((values.len() / rows.len().max(1)).max(1));
            means.rows = rows.iter().copied().zip(each.map(<[f32]>::to_vec)).collect();
        }
        Ok(means)
    }
}

impl ServerState for Means {}

/// Predictor of the class with the nearest mean of exemplars; scores are cosines.
pub(super) struct NearestMean {
    model: Arc<Classifier>,
    means: Means,
    absent: Absent,
}

impl NearestMean {
    pub fn new(model: Arc<Classifier>, means: Means, absent: Absent) -> NearestMean {
        NearestMean { model, means, absent }
    }

    fn scores_of(&self, features: &Tensor, scope: &Scope) -> Result<Tensor, PolicyError> {
        let rows = scope.rows();
        let wide = features.to_vec2::<f32>()?;
        let mut scores: Vec<f32> =
            wide.iter().flat_map(|feature| self.means.cosines(feature, rows.clone())).collect();
        let is_lost = |row: usize| !self.means.rows.contains_key(&(row as u32));
        if self.absent == Absent::Head && rows.clone().any(is_lost) {
            let logits = self.model.logits(features)?.narrow(1, rows.start, rows.len())?;
            let logits = logits.contiguous()?.to_vec2::<f32>()?;
            for (scores, logits) in scores.chunks_mut(rows.len()).zip(logits) {
                let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
                if let Some((at, _)) = best.filter(|(at, _)| is_lost(rows.start + at)) {
                    // A score that no cosine reaches, so that the head's class wins.
                    scores[at] = 2.0;
                }
            }
        }
        let shape = (wide.len(), rows.len());
        Ok(Tensor::from_vec(scores, shape, features.device())?)
    }
}

impl Predictor for NearestMean {
    fn features(&self, pixels: &Tensor) -> Result<Tensor, PolicyError> {
        Ok(self.model.features(pixels)?)
    }

    fn scores(&self, pixels: &Tensor, scope: &Scope) -> Result<Tensor, PolicyError> {
        self.scores_of(&self.model.features(pixels)?, scope)
    }

    fn to_device(&self, ctx: &RunContext) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        let Some(model) = self.model.copy_at(&ctx.backbone)? else { return Ok(None) };
        Ok(Some(Arc::new(NearestMean::new(model, self.means.clone(), self.absent))))
    }

    fn frozen_part(&self) -> FrozenPart {
        self.model.frozen_part()
    }

    fn batch_features(&self, batch: &Batch, device: &Device) -> Result<Tensor, PolicyError> {
        Ok(self.model.batch_features(batch, device)?)
    }

    fn batch_scores(
        &self,
        batch: &Batch,
        device: &Device,
        scope: &Scope,
    ) -> Result<Tensor, PolicyError> {
        self.scores_of(&self.model.batch_features(batch, device)?, scope)
    }

    fn feature_state(&self) -> Body {
        Predictor::feature_state(&*self.model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;

    type Sums = (Vec<f64>, Vec<u32>);

    fn sums(features: &[Vec<f32>], labels: &[u32], rows: usize) -> Sums {
        let dim = features[0].len();
        let (mut sums, mut counts) = (vec![0.0; rows * dim], vec![0; rows]);
        for (feature, label) in features.iter().zip(labels) {
            add_unit(&mut sums, &mut counts, (*label as usize, feature));
        }
        (sums, counts)
    }

    fn added(parts: &[Sums]) -> Means {
        let of = |part: &Sums| {
            (part.0.clone(), part.1.iter().map(|c| f64::from(*c)).collect::<Vec<_>>())
        };
        let all = parts.iter().map(of).reduce(|mut all, (sums, counts)| {
            all.0.iter_mut().zip(sums).for_each(|(a, b)| *a += b);
            all.1.iter_mut().zip(counts).for_each(|(a, b)| *a += b);
            all
        });
        let (sums, counts) = all.unwrap();
        Means::of(&sums, &counts)
    }

    fn rows_of(golden: &Golden, name: &str) -> Vec<Vec<f32>> {
        let narrow: Vec<f32> = golden.f64(name).into_iter().map(|v| v as f32).collect();
        narrow.chunks(golden.shape(name)[1]).map(<[f32]>::to_vec).collect()
    }

    /// Rehearsal card, invariant 7: sums of clients add, with and without mirror images.
    #[test]
    fn golden_rehearsal_nearest_means() {
        let Some(golden) = Golden::open("rehearsal") else { return };
        let (plain, mirrored) = (rows_of(&golden, "nme.features"), rows_of(&golden, "nme.flipped"));
        let (labels, clients) = (golden.labels("nme.label"), golden.labels("nme.client"));
        let of = |client: u32, sets: &[&Vec<Vec<f32>>]| {
            let own = || (0..labels.len()).filter(|at| clients[*at] == client);
            let features: Vec<Vec<f32>> =
                sets.iter().flat_map(|set| own().map(|at| set[at].clone())).collect();
            let labels: Vec<u32> = sets.iter().flat_map(|_| own().map(|at| labels[at])).collect();
            sums(&features, &labels, 5)
        };
        let query = rows_of(&golden, "nme.query");
        for (sets, sum, mean, predicted) in [
            (&[&plain][..], "nme.sum", "nme.mean", "nme.predicted_plain"),
            (&[&plain, &mirrored], "nme.sum_flip", "nme.mean_flip", "nme.predicted"),
        ] {
            let parts = [0, 1].map(|client| of(client, sets));
            let all = parts.iter().flat_map(|(sums, _)| sums.clone());
            golden.assert_close_f32(sum, &all.collect::<Vec<f64>>());
            if sets.len() == 1 {
                let counts = parts.iter().flat_map(|(_, counts)| counts.clone());
                let counts: Vec<i64> = counts.map(i64::from).collect();
                assert_eq!(counts, golden.i64("nme.count"));
            }
            let means = added(&parts);
            assert_eq!(means.classes(), 4);
            let flat = (0..5).flat_map(|row| means.rows.get(&row).cloned().unwrap_or(vec![0.0; 8]));
            golden.assert_close_f32(mean, &flat.collect::<Vec<f32>>());
            let cosines: Vec<Vec<f32>> = query.iter().map(|q| means.cosines(q, 0..5)).collect();
            if sets.len() == 2 {
                golden.assert_close_f32("nme.cosine", &cosines.concat());
            }
            let best = cosines.iter().map(|row| {
                (0..5).max_by(|a, b| row[*a as usize].total_cmp(&row[*b as usize])).unwrap()
            });
            assert_eq!(best.collect::<Vec<i64>>(), golden.i64(predicted));
        }
    }

    /// Invariants 7 and 8: blind to the length of features and to who holds what; with all data it is the nearest class
    /// mean of unit features.
    #[test]
    fn means_do_not_depend_on_lengths_or_holders() {
        let features: Vec<Vec<f32>> =
            (0..12).map(|i| (0..3).map(|j| ((i * i + j) as f32 * 0.37).sin()).collect()).collect();
        let labels: Vec<u32> = (0..12).map(|i| i % 3).collect();
        let whole = added(&[sums(&features, &labels, 4)]);
        let parts = [0..5, 5..6, 6..12].map(|part| sums(&features[part.clone()], &labels[part], 4));
        let longer: Vec<Vec<f32>> =
            features.iter().map(|f| f.iter().map(|v| 8.0 * v).collect()).collect();
        for other in [added(&parts), added(&[sums(&longer, &labels, 4)])] {
            assert_eq!(other.classes(), 3);
            for (row, mean) in &whole.rows {
                let gaps = mean.iter().zip(&other.rows[row]).map(|(a, b)| (a - b).abs());
                assert!(gaps.fold(0.0, f32::max) < 1e-6);
            }
        }
        let mean = |row: u32| -> Vec<f64> {
            let own = features.iter().zip(&labels).filter(|(_, label)| **label == row);
            let unit = own.map(|(f, _)| {
                let length = norm(f.iter().map(|v| f64::from(*v)));
                f.iter().map(|v| f64::from(*v) / length).collect::<Vec<f64>>()
            });
            let sum = unit.reduce(|a, b| a.iter().zip(b).map(|(a, b)| a + b).collect()).unwrap();
            let length = norm(sum.iter().copied());
            sum.iter().map(|v| v / length).collect()
        };
        for (row, found) in &whole.rows {
            assert!(found.iter().zip(mean(*row)).all(|(a, b)| (f64::from(*a) - b).abs() < 1e-6));
        }
        assert_eq!(Means::load(&whole.save()).unwrap(), whole);
    }

    /// Of rows 1 and 2 the second has no mean: where its output is the largest it answers, if the head may, and no mean
    /// does; elsewhere cosines count. Row 0 is not asked about.
    #[test]
    fn a_class_without_a_mean_is_answered_by_the_head() {
        use crate::model::{Backbone, LinearHead, Parameter, ParameterSet, PixelShape};
        let backbone = Arc::new(Backbone::Pixels(PixelShape { channels: 1, image: 2 }));
        let mut head = ParameterSet::new();
        let of = |shape: &[usize], values: &[f32]| Parameter {
            shape: shape.to_vec(),
            values: values.into(),
        };
        let weight = [9.0, 9.0, 9.0, 9.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0];
        head.insert(LinearHead::WEIGHT, of(&[3, 4], &weight));
        head.insert(LinearHead::BIAS, of(&[3], &[0.0; 3]));
        let model = Arc::new(Classifier::frozen(&backbone, &head).unwrap());
        let rows = [(0, vec![0.0, 0.0, 1.0, 0.0]), (1, vec![1.0, 0.0, 0.0, 0.0])];
        let means = Means { rows: rows.into_iter().collect() };
        let features = [[3.0f32, 4.0, 0.0, 0.0], [4.0, 3.0, 0.0, 0.0]];
        let features = candle_core::Tensor::new(&features, &candle_core::Device::Cpu).unwrap();
        let scores = |absent, rows: std::ops::Range<usize>| -> Vec<Vec<f32>> {
            let nearest = NearestMean::new(Arc::clone(&model), means.clone(), absent);
            let scores = nearest.scores_of(&features, &Scope::Task(rows)).unwrap();
            scores.to_vec2().unwrap()
        };
        assert_eq!(scores(Absent::Head, 1..3), [[0.6, 2.0], [0.8, -1.0]]);
        assert_eq!(scores(Absent::Lost, 1..3), [[0.6, -1.0], [0.8, -1.0]]);
        // Every requested class has a mean.
        assert_eq!(scores(Absent::Head, 0..2), [[0.0, 0.6], [0.0, 0.8]]);
    }
}
