//! Distance between client models before aggregation.
//!
//! This is federated bias as HGP measures it (arXiv 2406.02447, section 2 and figures 1 and 3), once after the first
//! local training of a task or in every round.
//!
//! * **Responses**: every client's model answers all test samples of the classes seen; the entropy
//!   (nats) of the histogram of its answers; mean over clients. Low means biased. Also divided by
//!   the entropy of a uniform responder.
//! * **Features**: every client's class means of features on its own training samples; per class
//!   the mean Euclidean distance over pairs of clients that both hold it; mean over classes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::evaluation::{Block, score};
use super::event::Responses;
use super::metric_value::MetricValue;
use super::simulation_context::SimulationContext;
use crate::data::Shard;
use crate::learning::metrics::{prototype_distance, response_entropy};
use crate::policy::{PolicyError, Predictor, RunContext};
use crate::quantity::ClientId;

/// Name of the mean entropy of clients' answers, in nats.
pub const RESPONSE_ENTROPY: &str = "response_entropy";
/// Name of the same relative to a uniform responder over all classes.
pub const RESPONSE_ENTROPY_RELATIVE: &str = "response_entropy_relative";
/// Name of the mean distance of clients' prototypes.
pub const PROTOTYPE_DISTANCE: &str = "prototype_distance";

/// Client whose model is measured, with the samples it was trained on.
pub(super) struct Subject<'a> {
    pub client: ClientId,
    pub shard: &'a Shard,
}

/// Responses and prototypes of one client's model.
pub(super) struct ModelResponses {
    /// Number of answers and of own samples by head row.
    pub responses: Responses,
    /// Class means of features of the client's own samples, by head row.
    pub prototypes: BTreeMap<u32, Vec<f64>>,
}

/// Measures a client's model before aggregation, over its own samples.
pub(super) fn portrait(
    simulation: &SimulationContext,
    ctx: &RunContext,
    predictor: Arc<dyn Predictor>,
    Subject { client, shard }: Subject<'_>,
    blocks: &[Block],
    seen: usize,
) -> Result<ModelResponses, PolicyError> {
    let mut predicted = vec![0; seen];
    for block in blocks {
        let found = score(simulation, ctx, &*predictor, block, seen)?.predicted;
        predicted.iter_mut().zip(found).for_each(|(sum, n)| *sum += n);
    }
    let prototypes = prototypes(ctx, &*predictor, shard)?;
    let mut train_samples = vec![0; seen];
    for (row, count) in ctx.shard_label_counts(shard) {
        train_samples.get_mut(row as usize).into_iter().for_each(|sum| *sum += u64::from(count));
    }
    Ok(ModelResponses { responses: Responses { client, train_samples, predicted }, prototypes })
}

fn prototypes(
    ctx: &RunContext,
    predictor: &dyn Predictor,
    shard: &Shard,
) -> Result<BTreeMap<u32, Vec<f64>>, PolicyError> {
    let mut sums: BTreeMap<u32, (u64, Vec<f64>)> = BTreeMap::new();
    let loader = ctx.with_features_for(ctx.statistics_loader(shard), predictor)?;
    for batch in loader.in_order(ctx.evaluation_batch.max(1)) {
        let batch = batch?;
        let features = predictor.batch_features(&batch, &ctx.device)?;
        let features = features.to_dtype(candle_core::DType::F32)?.to_vec2::<f32>()?;
        for (label, feature) in batch.labels().iter().zip(features) {
            let (count, sum) = sums.entry(*label).or_insert_with(|| (0, vec![0.0; feature.len()]));
            *count += 1;
            sum.iter_mut().zip(feature).for_each(|(s, f)| *s += f64::from(f));
        }
    }
    let mean = |(count, sum): (u64, Vec<f64>)| sum.into_iter().map(|s| s / count as f64).collect();
    Ok(sums.into_iter().map(|(row, sum)| (row, mean(sum))).collect())
}

/// Returns the measures over all portraits, in participant order.
///
/// The relative entropy is over `classes` in all.
fn measure(portraits: &[ModelResponses], classes: usize) -> BTreeMap<String, MetricValue> {
    let mut metrics = BTreeMap::new();
    if portraits.is_empty() {
        return metrics;
    }
    let padded = |responses: &[u64]| {
        let mut all = responses.to_vec();
        all.resize(classes.max(all.len()), 0);
        all
    };
    let histograms: Vec<Vec<u64>> =
        portraits.iter().map(|p| padded(&p.responses.predicted)).collect();
    let entropy = response_entropy(&histograms);
    let entropies =
        [(RESPONSE_ENTROPY, entropy.mean), (RESPONSE_ENTROPY_RELATIVE, entropy.mean_normalized)];
    for (name, measured) in entropies {
        metrics.extend(measured.map(|measured| (name.to_string(), MetricValue(measured))));
    }
    let held = |p: &ModelResponses| {
        (0..classes as u32).map(|row| p.prototypes.get(&row).cloned()).collect::<Vec<_>>()
    };
    let prototypes: Vec<_> = portraits.iter().map(held).collect();
    if let Some(distance) = prototype_distance(&prototypes) {
        metrics.insert(PROTOTYPE_DISTANCE.to_string(), MetricValue(distance));
    }
    metrics
}

/// Distance between the models of a round.
#[derive(Clone, Debug, Default)]
pub(super) struct BiasMeasurement {
    /// Number of compared clients.
    pub clients: u32,
    /// The measures.
    pub metrics: BTreeMap<String, MetricValue>,
    /// Responses of each client.
    pub responses: Vec<Responses>,
}

impl BiasMeasurement {
    /// Measures the portraits of all participants, in order, over `classes` classes.
    pub fn of(portraits: Vec<Option<ModelResponses>>, classes: usize) -> BiasMeasurement {
        let portraits: Vec<ModelResponses> = portraits.into_iter().flatten().collect();
        let metrics = measure(&portraits, classes);
        let responses: Vec<_> = portraits.into_iter().map(|portrait| portrait.responses).collect();
        BiasMeasurement { clients: responses.len() as u32, metrics, responses }
    }
}

/// The blocks shared by all portraits of a round.
pub(super) type Blocks = Arc<Vec<Block>>;

#[cfg(test)]
mod tests {
    use super::*;

    fn portrait(responses: &[u64], x: f64) -> ModelResponses {
        let prototypes = BTreeMap::from([(0, vec![x, 0.0]), (1, vec![1.0, x])]);
        let predicted = responses.to_vec();
        let responses = Responses { client: ClientId(0), train_samples: Vec::new(), predicted };
        ModelResponses { responses, prototypes }
    }

    fn figure(portraits: &[ModelResponses], name: &str) -> Option<f64> {
        measure(portraits, 4).get(name).map(|figure| figure.0)
    }

    #[test]
    fn the_relative_entropy_is_over_all_classes_also_those_not_seen_yet() {
        let constant = [portrait(&[0, 9], 0.0)];
        assert_eq!(figure(&constant, "response_entropy"), Some(0.0));
        let even = [portrait(&[5, 5], 0.0)];
        let relative = figure(&even, "response_entropy_relative").expect("two answers");
        assert!((relative - 0.5).abs() < 1e-12, "ln 2 of ln 4");
    }

    #[test]
    fn distance_is_zero_for_equal_clients_and_absent_for_one() {
        let of = |xs: &[f64]| xs.iter().map(|x| portrait(&[1, 1], *x)).collect::<Vec<_>>();
        assert_eq!(figure(&of(&[0.0, 0.0]), "prototype_distance"), Some(0.0));
        let three = figure(&of(&[0.0, 3.0, 4.0]), "prototype_distance").expect("held twice");
        assert!((three - (3.0 + 4.0 + 1.0) / 3.0).abs() < 1e-12);
        assert_eq!(figure(&of(&[0.0]), "prototype_distance"), None);
    }
}
