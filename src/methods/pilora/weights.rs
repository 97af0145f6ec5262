//! Weights of clients in the mean of a class's prototype: the larger, the closer it is to the reported mean features.

/// Number added to a sum of distances, so that it can be a divisor.
const LEAST: f64 = 1e-10;

/// Returns the weights of clients in the mean of their `prototypes` of a class; they sum to 1.
///
/// `features` are the mean features that clients report of the class:
///
/// ```text
/// delta_m = sum_j |p_m - g_j|     rho_m = 1 / (delta_m + 1e-10)     w = softmax(sharpness (rho - min) / (max - min))
/// ```
/// Clients at equal distances have equal weights. Otherwise the largest weight is `e^sharpness` times the smallest,
/// whatever the distances.
pub fn heuristic_weights(
    prototypes: &[Vec<f64>],
    features: &[Vec<f64>],
    sharpness: f64,
) -> Vec<f64> {
    let distance =
        |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt();
    let near = |prototype: &Vec<f64>| {
        1.0 / (features.iter().map(|mean| distance(prototype, mean)).sum::<f64>() + LEAST)
    };
    let near: Vec<f64> = prototypes.iter().map(near).collect();
    let least = near.iter().copied().fold(f64::INFINITY, f64::min);
    let range = near.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least;
    let score = |near: &f64| match range > 0.0 {
        // Relative to the largest score, whose exponent is 0.
        true => libm::exp(sharpness * ((near - least) / range - 1.0)),
        false => 1.0,
    };
    let scores: Vec<f64> = near.iter().map(score).collect();
    let sum: f64 = scores.iter().sum();
    scores.into_iter().map(|score| score / sum).collect()
}

/// Returns the weighted sum of vectors of one length.
pub fn weighted(vectors: &[Vec<f64>], weights: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; vectors.first().map_or(0, Vec::len)];
    for (vector, weight) in vectors.iter().zip(weights) {
        sum.iter_mut().zip(vector).for_each(|(sum, value)| *sum += weight * value);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;

    /// The card's invariants: weights sum to 1, follow their clients, do not know a scale, and are e^5 apart.
    #[test]
    fn the_closer_counts_more_whatever_the_scale() {
        let of = |x: f64| vec![x, 2.0 - x, 0.5 * x];
        let prototypes = [of(0.1), of(0.7), of(-0.4)];
        let features = [of(0.2), of(0.3)];
        let weights = heuristic_weights(&prototypes, &features, 5.0);
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(weights[0] > weights[1] && weights[1] > weights[2], "{weights:?}");
        assert!((weights[0] / weights[2] / 5f64.exp() - 1.0).abs() < 1e-9);
        let turned = [2, 0, 1].map(|at: usize| prototypes[at].clone());
        let moved = heuristic_weights(&turned, &features, 5.0);
        assert!((moved[0] - weights[2]).abs() < 1e-12 && (moved[1] - weights[0]).abs() < 1e-12);
        let by = |vectors: &[Vec<f64>]| -> Vec<Vec<f64>> {
            vectors.iter().map(|v| v.iter().map(|v| 30.0 * v).collect()).collect()
        };
        let scaled = heuristic_weights(&by(&prototypes), &by(&features), 5.0);
        assert!(scaled.iter().zip(&weights).all(|(a, b)| (a - b).abs() < 1e-6));
        // Alike, or alone.
        assert_eq!(heuristic_weights(&[of(1.0), of(1.0)], &features, 5.0), [0.5, 0.5]);
        let alone = heuristic_weights(&[of(1.0)], &features, 5.0);
        assert_eq!((alone.clone(), weighted(&[of(1.0)], &alone)), (vec![1.0], of(1.0)));
        assert_eq!(heuristic_weights(&prototypes, &[], 5.0), [1.0 / 3.0; 3]);
    }

    #[test]
    fn golden_weights_and_merged_prototypes() {
        let Some(golden) = Golden::open("statistics") else { return };
        let [clients, classes, dim] = golden.shape("pilora.prototypes")[..] else {
            panic!("3 axes")
        };
        let rows = |name: &str, of: usize, class: usize| {
            let all = golden.f64(name);
            let at = (of * classes + class) * dim;
            all[at..at + dim].to_vec()
        };
        let sent = golden.i64("pilora.sent");
        let (mut weights, mut merged) = (vec![0.0; clients * classes], Vec::new());
        for class in 0..classes {
            let prototypes: Vec<_> =
                (0..clients).map(|m| rows("pilora.prototypes", m, class)).collect();
            let who = (0..clients).filter(|m| sent[m * classes + class] == 1);
            let features: Vec<_> = who.map(|m| rows("hgp.mean", m, class)).collect();
            let own = heuristic_weights(&prototypes, &features, 5.0);
            own.iter().enumerate().for_each(|(m, w)| weights[m * classes + class] = *w);
            merged.extend(weighted(&prototypes, &own));
        }
        golden.assert_close("pilora.weights", &weights);
        golden.assert_close("pilora.merged", &merged);
    }
}
