//! How far client models are apart before synchronisation, as the HGP benchmark measures it
//! (protocol section 7).
//!
//! * **Responses**: every client's model answers all test samples of the classes seen; the entropy
//!   (nats) of the histogram of its answers; mean over clients. Low means biased. Also divided by
//!   the entropy of a uniform responder.
//! * **Features**: every client's class means of features on its own training samples; per class
//!   the mean Euclidean distance over pairs of clients that both hold it; mean over classes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::evaluation::{Block, score};
use super::figure::Figure;
use super::world::World;
use crate::data::Shard;
use crate::policy::{Lab, Payload, PolicyError, Predictor, Seat};

/// What one client's model looks like from outside.
pub(super) struct Portrait {
    /// How often each row was answered.
    pub responses: Vec<u64>,
    /// Class means of features of the client's own samples, by head row.
    pub prototypes: BTreeMap<u32, Vec<f64>>,
}

/// The model before synchronisation of one seat; `None` where the method has none to show.
pub(super) fn portrait(
    world: &World,
    lab: &Lab,
    (seat, down, up): (&Seat, &Payload, &Payload),
    blocks: &[Block],
    seen: usize,
) -> Result<Option<Portrait>, PolicyError> {
    let Some(predictor) = world.method.client_predictor(down, up, lab)? else { return Ok(None) };
    let mut responses = vec![0; seen];
    for block in blocks {
        let predicted = score(world, lab, &*predictor, block, seen)?.predicted;
        responses.iter_mut().zip(predicted).for_each(|(sum, n)| *sum += n);
    }
    let shard = world.shard(&seat.view, seat.client);
    let prototypes = prototypes(lab, &*predictor, &shard)?;
    Ok(Some(Portrait { responses, prototypes }))
}

fn prototypes(
    lab: &Lab,
    predictor: &dyn Predictor,
    shard: &Shard,
) -> Result<BTreeMap<u32, Vec<f64>>, PolicyError> {
    let mut sums: BTreeMap<u32, (u64, Vec<f64>)> = BTreeMap::new();
    for batch in lab.statistics_loader(shard).in_order(lab.evaluation_batch.max(1)) {
        let batch = batch?;
        let features = predictor.features(&lab.pixels(&batch)?)?;
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

/// The measures over all portraits, in seat order.
pub(super) fn measure(portraits: &[Portrait]) -> BTreeMap<String, Figure> {
    let mut figures = BTreeMap::new();
    if portraits.is_empty() {
        return figures;
    }
    let entropies: Vec<f64> = portraits.iter().map(|p| entropy(&p.responses)).collect();
    let entropy = mean(&entropies).unwrap_or(0.0);
    let rows = portraits[0].responses.len();
    figures.insert("response_entropy".to_string(), Figure(entropy));
    if rows > 1 {
        let relative = entropy / libm::log(rows as f64);
        figures.insert("response_entropy_relative".to_string(), Figure(relative));
    }
    let all: Vec<&BTreeMap<u32, Vec<f64>>> = portraits.iter().map(|p| &p.prototypes).collect();
    if let Some(distance) = prototype_distance(&all) {
        figures.insert("prototype_distance".to_string(), Figure(distance));
    }
    figures
}

/// Entropy in nats of a histogram.
fn entropy(counts: &[u64]) -> f64 {
    let total: u64 = counts.iter().sum();
    let share = |count: &u64| *count as f64 / total.max(1) as f64;
    -counts.iter().filter(|c| **c > 0).map(share).map(|q| q * libm::log(q)).sum::<f64>() + 0.0
}

/// Mean over classes of the mean distance over pairs; `None` where no class is held twice.
fn prototype_distance(clients: &[&BTreeMap<u32, Vec<f64>>]) -> Option<f64> {
    let mut by_class: BTreeMap<u32, Vec<&[f64]>> = BTreeMap::new();
    for prototypes in clients {
        for (row, prototype) in *prototypes {
            by_class.entry(*row).or_default().push(prototype);
        }
    }
    let classes: Vec<f64> = by_class
        .values()
        .filter_map(|held| {
            let pairs = held
                .iter()
                .enumerate()
                .flat_map(|(i, a)| held[i + 1..].iter().map(move |b| distance(a, b)));
            mean(&pairs.collect::<Vec<f64>>())
        })
        .collect();
    mean(&classes)
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum::<f64>().sqrt()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The blocks shared by all portraits of a round.
pub(super) type Blocks = Arc<Vec<Block>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_is_zero_for_a_constant_responder_and_log_c_for_a_uniform_one() {
        assert_eq!(entropy(&[0, 9, 0]), 0.0);
        assert!((entropy(&[5, 5, 5, 5]) - 4f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn distance_is_zero_for_equal_clients_and_ignores_their_order() {
        let client = |x: f64| BTreeMap::from([(0, vec![x, 0.0]), (1, vec![1.0, x])]);
        let (a, b, c) = (client(0.0), client(3.0), client(4.0));
        assert_eq!(prototype_distance(&[&a, &a]), Some(0.0));
        let forth = prototype_distance(&[&a, &b, &c]).expect("held twice");
        let back = prototype_distance(&[&c, &b, &a]).expect("held twice");
        assert!((forth - back).abs() < 1e-12);
        assert!((forth - (3.0 + 4.0 + 1.0) / 3.0).abs() < 1e-12);
        assert_eq!(prototype_distance(&[&a]), None);
    }
}
