//! Federated bias (HGP, section 2 and `protocol-hgp.md` section 7). It is measured on each client's model after local
//! training and before aggregation.
//!
//! *Responses*: a client that knows only its own classes predicts only these, so the entropy of its predictions over
//! the global test set is low. *Features*: prototypes of one class drift apart between clients.

use super::accuracy::mean;

/// Entropy of the predictions of several clients over the global test set.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseEntropy {
    /// Entropy per client, in nats; `None` for a client without predictions.
    pub nats: Vec<Option<f64>>,
    /// Mean over clients with predictions, in nats.
    pub mean: Option<f64>,
    /// Mean over these clients of `H / ln C`: 0 for constant predictions, 1 for uniform ones. `None` for a single
    /// class, where both are the same.
    pub mean_normalized: Option<f64>,
}

/// Returns the entropy of clients' histograms of predicted classes, all over the same `C` classes.
///
/// ```
/// use fedcast::learning::metrics::response_entropy;
/// let entropy = response_entropy(&[vec![9, 0, 0], vec![3, 3, 3]]);
/// assert_eq!(entropy.nats[0], Some(0.0));
/// assert!((entropy.mean_normalized.unwrap() - 0.5).abs() < 1e-12);
/// assert_eq!(response_entropy(&[vec![0, 0, 0]]).mean, None);
/// ```
pub fn response_entropy(histograms: &[Vec<u64>]) -> ResponseEntropy {
    let nats: Vec<Option<f64>> = histograms.iter().map(|h| entropy(h)).collect();
    let normalized = histograms.iter().zip(&nats).filter(|(h, _)| h.len() > 1);
    let normalized = normalized.filter_map(|(h, nats)| Some((*nats)? / libm::log(h.len() as f64)));
    let mean_normalized = mean(normalized);
    ResponseEntropy { mean: mean(nats.iter().copied().flatten()), mean_normalized, nats }
}

/// Returns the entropy of a histogram, in nats; `None` if it is empty.
fn entropy(histogram: &[u64]) -> Option<f64> {
    let total: u64 = histogram.iter().sum();
    let terms = histogram.iter().filter(|&&n| n > 0).map(|&n| {
        let share = n as f64 / total as f64;
        -share * libm::log(share)
    });
    // Adding 0.0 turns the -0 of constant predictions into 0.
    (total > 0).then(|| terms.sum::<f64>() + 0.0)
}

/// Returns the mean Euclidean distance between the prototypes of a class on different clients. The mean is over pairs
/// of clients that both hold the class, then over classes with at least one pair; `None` if there is none.
///
/// `prototypes[client][class]` is the class mean on that client, if it holds the class.
pub fn prototype_distance<P: AsRef<[f64]>>(prototypes: &[Vec<Option<P>>]) -> Option<f64> {
    let classes = prototypes.iter().map(Vec::len).max().unwrap_or(0);
    mean((0..classes).filter_map(|class| class_distance(prototypes, class)))
}

fn class_distance<P: AsRef<[f64]>>(prototypes: &[Vec<Option<P>>], class: usize) -> Option<f64> {
    let held: Vec<&[f64]> = prototypes
        .iter()
        .filter_map(|client| client.get(class)?.as_ref())
        .map(AsRef::as_ref)
        .collect();
    let mut distances = Vec::new();
    for (i, a) in held.iter().enumerate() {
        for b in &held[i + 1..] {
            let squares: f64 = a.iter().zip(*b).map(|(x, y)| (x - y) * (x - y)).sum();
            distances.push(squares.sqrt());
        }
    }
    mean(distances)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;

    #[test]
    fn who_always_answers_alike_has_no_entropy_of_either_sign() {
        let entropy = response_entropy(&[vec![0, 5, 0]]);
        assert_eq!(entropy.nats[0].unwrap().to_bits(), 0f64.to_bits());
    }

    #[test]
    fn clients_without_answers_have_no_entropy_and_are_in_no_mean() {
        let entropy = response_entropy(&[vec![0, 0], vec![3, 3]]);
        assert_eq!((entropy.nats[0], entropy.mean), (None, Some(std::f64::consts::LN_2)));
        assert!((entropy.mean_normalized.unwrap() - 1.0).abs() < 1e-12);
        // Of one class every answer is that class.
        let entropy = response_entropy(&[vec![5]]);
        assert_eq!((entropy.mean, entropy.mean_normalized), (Some(0.0), None));
    }

    #[test]
    fn golden_metrics_of_bias() {
        let Some(golden) = Golden::open("metrics") else { return };
        let classes = golden.shape("entropy.hist")[1];
        let counts = golden.i64("entropy.hist");
        let histograms: Vec<Vec<u64>> =
            counts.chunks_exact(classes).map(|h| h.iter().map(|&n| n as u64).collect()).collect();
        let entropy = response_entropy(&histograms);
        let nats: Vec<f64> = entropy.nats.iter().map(|nats| nats.unwrap()).collect();
        golden.assert_close("entropy.nats", &nats);
        golden.assert_close("entropy.mean", &[entropy.mean.unwrap()]);
        golden.assert_close("entropy.mean_normalised", &[entropy.mean_normalized.unwrap()]);

        let [_, classes, width] = golden.shape("proto.values")[..] else { panic!() };
        let (values, has) = (golden.f64("proto.values"), golden.i64("proto.has"));
        let prototypes: Vec<Vec<Option<Vec<f64>>>> = values
            .chunks_exact(classes * width)
            .zip(has.chunks_exact(classes))
            .map(|(client, has)| {
                let held = client.chunks_exact(width).zip(has);
                held.map(|(p, &has)| (has == 1).then(|| p.to_vec())).collect()
            })
            .collect();
        let per_class: Vec<f64> =
            (0..classes).map(|c| class_distance(&prototypes, c).unwrap_or(-1.0)).collect();
        golden.assert_close("proto.per_class", &per_class);
        golden.assert_close("proto.mean", &[prototype_distance(&prototypes).unwrap()]);
        // The order of clients does not matter.
        let reversed: Vec<_> = prototypes.into_iter().rev().collect();
        golden.assert_within("proto.mean", &[prototype_distance(&reversed).unwrap()], 1e-12);
    }

    #[test]
    fn identical_clients_have_no_bias_of_features() {
        let client = vec![Some(vec![1.0, 2.0]), None];
        assert_eq!(
            prototype_distance(&[client.clone(), client.clone(), client.clone()]),
            Some(0.0)
        );
        assert_eq!(prototype_distance(&[client]), None);
    }
}
