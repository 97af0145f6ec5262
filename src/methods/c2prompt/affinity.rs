//! Class-aware aggregation: components are mixed with those that match the same classes.

use std::collections::BTreeSet;

/// How well the components of a slot match its classes.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// The slot's classes, as ids of the data set.
    pub classes: Vec<u32>,
    /// `(components, classes)`, row-major, not negative.
    pub scores: Vec<f32>,
}

/// Sums of scores while a slot is trained.
#[derive(Clone, Debug)]
pub struct HistogramSums {
    components: usize,
    /// `(components, classes)`.
    sums: Vec<f64>,
    counts: Vec<u64>,
}

impl HistogramSums {
    /// Of nothing.
    pub fn new(components: usize, classes: usize) -> HistogramSums {
        HistogramSums {
            components,
            sums: vec![0.0; components * classes],
            counts: vec![0; classes],
        }
    }

    /// Scores of samples of these classes, by block `(samples, components)`.
    pub fn add(&mut self, classes: &[u32], by_block: &[Vec<f32>]) {
        let width = self.counts.len();
        for (sample, class) in classes.iter().enumerate() {
            let class = *class as usize;
            self.counts[class] += 1;
            for component in 0..self.components {
                let at = sample * self.components + component;
                let sum: f64 = by_block.iter().map(|scores| f64::from(scores[at])).sum();
                self.sums[component * width + class] += sum / by_block.len().max(1) as f64;
            }
        }
    }

    /// `(components, classes)`: means over the samples of a class, 0 where they are negative.
    pub fn finish(&self) -> Vec<f32> {
        let width = self.counts.len().max(1);
        let mean = |(at, sum): (usize, &f64)| {
            (sum / self.counts[at % width].max(1) as f64).max(0.0) as f32
        };
        self.sums.iter().enumerate().map(mean).collect()
    }
}

/// `W = softmax(H H^T / tau)` by rows, over the components of all slots, `(n, n)`: `H` has a row per component, of unit
/// length, and a column for every class of any slot.
pub fn affinity(histograms: &[Histogram], temperature: f64) -> Vec<Vec<f64>> {
    let all: BTreeSet<u32> =
        histograms.iter().flat_map(|slot| slot.classes.iter().copied()).collect();
    let columns: Vec<u32> = all.into_iter().collect();
    let mut rows = Vec::new();
    for Histogram { classes, scores } in histograms {
        let places: Vec<usize> =
            classes.iter().filter_map(|class| columns.binary_search(class).ok()).collect();
        for scores in scores.chunks(classes.len().max(1)) {
            let mut row = vec![0f64; columns.len()];
            for (place, score) in places.iter().zip(scores) {
                // A class may come twice in a slot of a small data set.
                row[*place] += f64::from(*score);
            }
            let norm = row.iter().map(|v| v * v).sum::<f64>().sqrt();
            if norm > 0.0 {
                row.iter_mut().for_each(|v| *v /= norm);
            }
            rows.push(row);
        }
    }
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let softmax = |row: &Vec<f64>| {
        let like: Vec<f64> = rows.iter().map(|other| dot(row, other) / temperature).collect();
        let top = like.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = like.into_iter().map(|v| libm::exp(v - top)).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|v| v / sum).collect()
    };
    rows.iter().map(softmax).collect()
}

/// `W P`: rows `P` of `width` values, as many as `W` has.
pub fn mixed(weights: &[Vec<f64>], rows: &[f32], width: usize) -> Vec<f32> {
    let mut result = Vec::with_capacity(weights.len() * width);
    for weights in weights {
        let mut sum = vec![0f64; width];
        for (weight, row) in weights.iter().zip(rows.chunks_exact(width)) {
            sum.iter_mut().zip(row).for_each(|(to, v)| *to += weight * f64::from(*v));
        }
        result.extend(sum.into_iter().map(|v| v as f32));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(classes: &[u32], scores: &[f32]) -> Histogram {
        Histogram { classes: classes.into(), scores: scores.into() }
    }

    fn two() -> [Histogram; 2] {
        [slot(&[1, 5], &[0.9, 0.1, 0.2, 0.7]), slot(&[5, 8], &[0.3, 0.3, 0.0, 0.4])]
    }

    const ROWS: [f32; 8] = [1.0, 2.0, -3.0, 4.0, 0.5, 0.25, 7.0, -1.0];

    /// C2Prompt's card, invariant 3.
    #[test]
    fn weights_are_positive_and_sum_to_one_and_clients_may_change_places() {
        let weights = affinity(&two(), 0.3);
        for row in &weights {
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12 && row.iter().all(|w| *w > 0.0));
        }
        let mine = mixed(&weights, &ROWS, 2);
        let [a, b] = two();
        let swapped: Vec<f32> = [&ROWS[4..], &ROWS[..4]].concat();
        let theirs = mixed(&affinity(&[b, a], 0.3), &swapped, 2);
        for (mine, theirs) in mine.iter().zip(theirs[4..].iter().chain(&theirs[..4])) {
            assert!((mine - theirs).abs() < 1e-6);
        }
    }

    #[test]
    fn equal_rows_give_the_mean_of_all() {
        let same = [slot(&[1, 5], &[0.3, 0.6, 0.1, 0.2]), slot(&[1, 5], &[0.5, 1.0, 0.7, 1.4])];
        let found = mixed(&affinity(&same, 1.0), &ROWS, 2);
        let mean = |at: usize| ROWS.iter().skip(at).step_by(2).sum::<f32>() / 4.0;
        assert!(found.iter().enumerate().all(|(at, v)| (v - mean(at % 2)).abs() < 1e-6));
        // A high temperature does the same to any rows.
        let found = mixed(&affinity(&two(), 1e9), &ROWS, 2);
        assert!(found.iter().enumerate().all(|(at, v)| (v - mean(at % 2)).abs() < 1e-6));
    }

    /// C2Prompt's card, invariant 4.
    #[test]
    fn a_low_temperature_leaves_different_components_as_they_are() {
        assert_eq!(mixed(&affinity(&two(), 1e-4), &ROWS, 2), ROWS);
    }

    #[test]
    fn histograms_are_means_over_samples_and_blocks_without_what_is_negative() {
        let mut sums = HistogramSums::new(2, 2);
        sums.add(&[0, 1], &[vec![0.2, -0.4, 0.6, 0.0], vec![0.4, -0.2, 0.2, 0.2]]);
        sums.add(&[0], &[vec![0.9, -0.3], vec![0.3, -0.3]]);
        let expected = [0.45, 0.4, 0.0, 0.1];
        let found = sums.finish();
        assert!(
            found.iter().zip(expected).all(|(a, b): (&f32, f32)| (a - b).abs() < 1e-6),
            "{found:?}"
        );
    }
}
