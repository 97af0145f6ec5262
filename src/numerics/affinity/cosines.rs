//! Similarity of components after mixing. Near 1 all are the same vector, and a client task has effectively one prompt.

/// Mean cosines between prompt components.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeanCosines {
    /// Mean cosine of two components of one client; `None` if no client has two.
    pub within: Option<f64>,
    /// Mean cosine of components of two clients; `None` if there is only one client.
    pub between: Option<f64>,
}

/// Returns the mean cosines of rows of `width` values; each client has `own` consecutive ones. A row of zeros has no
/// direction and counts as orthogonal to all others.
///
/// Sums of unit vectors give it without a loop over pairs: `sum_(i != j) u_i u_j = |sum u|^2 - sum |u|^2`.
///
/// ```
/// use fedcast::numerics::affinity::mean_cosines;
/// let rows = [1.0, 0.0, 0.0, 3.0, 2.0, 0.0, 0.0, -1.0]; // two of one client, two of another
/// let found = mean_cosines(&rows, 2, 2);
/// assert_eq!((found.within, found.between), (Some(0.0), Some(0.0))); // 1 and -1 among four pairs
/// ```
pub fn mean_cosines(rows: &[f32], width: usize, own: usize) -> MeanCosines {
    let (mut everything, mut squares) = (vec![0f64; width], 0.0);
    let (mut of_clients, mut pairs_within) = (0.0, 0);
    let count = rows.len() / width.max(1);
    for client in rows.chunks((own * width).max(1)) {
        let mut sum = vec![0f64; width];
        for row in client.chunks_exact(width) {
            let length = row.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
            if length > 0.0 {
                sum.iter_mut().zip(row).for_each(|(to, v)| *to += f64::from(*v) / length);
                squares += 1.0;
            }
        }
        of_clients += squared(&sum);
        everything.iter_mut().zip(&sum).for_each(|(to, v)| *to += v);
        let rows = client.len() / width;
        pairs_within += rows * rows - rows;
    }
    let pairs_between = (count * count).saturating_sub(count + pairs_within);
    let mean = |sum: f64, pairs: usize| (pairs > 0).then(|| sum / pairs as f64);
    MeanCosines {
        within: mean(of_clients - squares, pairs_within),
        between: mean(squared(&everything) - of_clients, pairs_between),
    }
}

fn squared(vector: &[f64]) -> f64 {
    vector.iter().map(|v| v * v).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::distributions::fill_normal;
    use crate::numerics::streams::{Domain, StreamKey};

    /// Against all pairs, one by one.
    #[test]
    fn sums_of_unit_vectors_are_sums_over_pairs() {
        let (width, own, clients) = (5, 3, 4);
        let mut rows = vec![0f32; width * own * clients];
        fill_normal(&mut StreamKey::new(4, Domain::Method).rng(), &mut rows);
        rows[..width].fill(0.0);
        let unit = |row: &[f32]| -> Vec<f64> {
            let length = row.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
            row.iter().map(|v| if length > 0.0 { f64::from(*v) / length } else { 0.0 }).collect()
        };
        let units: Vec<Vec<f64>> = rows.chunks(width).map(unit).collect();
        let (mut sums, mut pairs) = ([0.0; 2], [0.0; 2]);
        for (i, a) in units.iter().enumerate() {
            for (j, b) in units.iter().enumerate().filter(|(j, _)| *j != i) {
                let between = usize::from(i / own != j / own);
                sums[between] += a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                pairs[between] += 1.0;
            }
        }
        let found = mean_cosines(&rows, width, own);
        let (within, between) = (found.within.unwrap(), found.between.unwrap());
        assert!((within - sums[0] / pairs[0]).abs() < 1e-12, "{found:?}");
        assert!((between - sums[1] / pairs[1]).abs() < 1e-12, "{found:?}");
        assert!((within - between).abs() > 1e-3, "{found:?}");
    }

    #[test]
    fn without_other_labels_or_samples_there_is_no_similarity() {
        let one = mean_cosines(&[1.0, 2.0, 1.0, 2.0], 2, 2);
        assert!((one.within.unwrap() - 1.0).abs() < 1e-12 && one.between.is_none());
        let single = mean_cosines(&[1.0, 2.0, 1.0, 2.0], 2, 1);
        assert!((single.between.unwrap() - 1.0).abs() < 1e-12 && single.within.is_none());
        assert_eq!(mean_cosines(&[], 2, 2), MeanCosines::default());
        assert_eq!(mean_cosines(&[], 0, 0), MeanCosines::default());
    }
}
