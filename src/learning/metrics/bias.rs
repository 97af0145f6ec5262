//! Federated bias (HGP, section 2 and `protocol-hgp.md` section 7), measured on each client's
//! model after local training and before synchronisation.
//!
//! *Responses*: a client that only knows its own classes predicts only them, so the entropy of
//! its predictions over the global test set is low. *Features*: prototypes of one class drift apart between clients.

use super::accuracy::mean;

/// Entropy of the predictions of several clients.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseEntropy {
    /// Per client, in nats.
    pub nats: Vec<f64>,
    /// Mean over clients, in nats.
    pub mean: f64,
    /// Mean over clients of `H / ln C`: 0 for a constant answer, 1 for a uniform one.
    pub mean_normalised: f64,
}

/// Entropy of histograms of predicted classes, one per client, each over the same `C` classes.
///
/// ```
/// use fedcast::learning::metrics::response_entropy;
/// let entropy = response_entropy(&[vec![9, 0, 0], vec![3, 3, 3]]);
/// assert_eq!(entropy.nats[0], 0.0);
/// assert!((entropy.mean_normalised - 0.5).abs() < 1e-12);
/// ```
pub fn response_entropy(histograms: &[Vec<u64>]) -> ResponseEntropy {
    let nats: Vec<f64> = histograms.iter().map(|h| entropy(h)).collect();
    let shares = histograms
        .iter()
        .zip(&nats)
        .map(|(h, nats)| if h.len() < 2 { 0.0 } else { nats / libm::log(h.len() as f64) });
    let mean_normalised = mean(shares);
    ResponseEntropy { mean: mean(nats.iter().copied()), mean_normalised, nats }
}

fn entropy(histogram: &[u64]) -> f64 {
    let total: u64 = histogram.iter().sum();
    let terms = histogram.iter().filter(|&&n| n > 0).map(|&n| {
        let share = n as f64 / total as f64;
        -share * libm::log(share)
    });
    // `+ 0.0` turns the -0 of a constant answer into 0.
    terms.sum::<f64>() + 0.0
}

/// Mean Euclidean distance between the prototypes of one class on different clients: per class over pairs of clients
/// that both hold it, then over classes with at least one pair; `None` when there is none.
///
/// `prototypes[client][class]` is the class mean on that client, if it holds the class.
pub fn prototype_distance<P: AsRef<[f64]>>(prototypes: &[Vec<Option<P>>]) -> Option<f64> {
    let classes = prototypes.iter().map(Vec::len).max().unwrap_or(0);
    let per_class: Vec<f64> =
        (0..classes).filter_map(|class| class_distance(prototypes, class)).collect();
    (!per_class.is_empty()).then(|| mean(per_class))
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
    (!distances.is_empty()).then(|| mean(distances))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;

    #[test]
    fn who_always_answers_alike_has_no_entropy_of_either_sign() {
        let told = response_entropy(&[vec![0, 5, 0]]);
        assert_eq!(told.nats[0].to_bits(), 0f64.to_bits());
    }

    #[test]
    fn golden_metrics_of_bias() {
        let Some(golden) = Golden::open("metrics") else { return };
        let classes = golden.shape("entropy.hist")[1];
        let counts = golden.i64("entropy.hist");
        let histograms: Vec<Vec<u64>> =
            counts.chunks_exact(classes).map(|h| h.iter().map(|&n| n as u64).collect()).collect();
        let entropy = response_entropy(&histograms);
        golden.assert_close("entropy.nats", &entropy.nats);
        golden.assert_close("entropy.mean", &[entropy.mean]);
        golden.assert_close("entropy.mean_normalised", &[entropy.mean_normalised]);

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
