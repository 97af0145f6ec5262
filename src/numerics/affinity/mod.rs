//! Mixing by affinity: `W = softmax_rows(H Hᵀ / tau)`, `P* = W P` (C²Prompt's class-aware prompt aggregation, CPA).
//!
//! A row of `H` says of a prompt component how it goes with every class ([`ClassHistogram`]); components that go with
//! the same classes are mixed with each other. Rows of `W` are positive and sum to one, but `W` is not symmetric.
//! With `tau` to infinity every row becomes the plain mean of all components; with `tau` to 0 and distinct unit rows
//! nothing is mixed.
//!
//! A component that goes with no class keeps itself: its row of `W` is that of the identity. After clipping its row of
//! `H` is zero, so that the softmax would weigh all components alike, whatever `tau` is; two such components would
//! become one, and equal components have equal gradients from then on.
//!
//! Between unit rows without negative entries products lie in `[0, 1]`, so that weights of a row differ by a factor of
//! at most `exp(1 / tau)`: at `tau = 1` that is 2.7, and `W` is the plain mean but for little.
//!
//! ```
//! use fedcast::numerics::affinity::{Affinity, RowScale};
//! let h = [1.0, 0.0, 0.0, 2.0]; // two components, two classes
//! let apart = Affinity::of(&h, 2, RowScale::Unit, 1e-3);
//! assert!(apart.weights(0)[0] > 0.999);
//! let mean = Affinity::of(&h, 2, RowScale::Unit, 1e9);
//! assert!((mean.mix(&[0.0, 10.0, 4.0, 20.0], 2)[1] - 15.0).abs() < 1e-6);
//! ```

mod cosines;
mod histogram;
#[cfg(test)]
mod tests;

pub use cosines::{MeanCosines, mean_cosines};
pub use histogram::{ClassHistogram, Counting};

use super::products::{Matrix, Target};

/// Scale of the rows of `H` before they are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowScale {
    /// Negative entries become 0, then each row is divided by its length: how many samples a client has does not
    /// count.
    #[default]
    Unit,
    /// As they are: rows of many samples dominate.
    Raw,
}

/// The smallest length a row is divided by.
const SHORTEST: f64 = 1e-12;

impl RowScale {
    /// A row as it is compared.
    pub fn apply(self, row: &[f64]) -> Vec<f64> {
        match self {
            RowScale::Raw => row.to_vec(),
            RowScale::Unit => {
                let clipped = row.iter().map(|value| value.max(0.0));
                let length = clipped.clone().map(|v| v * v).sum::<f64>().sqrt().max(SHORTEST);
                clipped.map(|value| value / length).collect()
            }
        }
    }
}

/// Values of a component that are mixed at once, to bound the memory of copies in f64.
const COLUMNS: usize = 512;

/// Share of every component in every mixed one.
#[derive(Clone, Debug, PartialEq)]
pub struct Affinity {
    size: usize,
    /// Row-major, `(size, size)`.
    weights: Vec<f64>,
    /// Components that go with no class, rising.
    unmatched: Vec<usize>,
}

impl Affinity {
    /// Computes the affinity from histograms, one row of `classes` entries per component. A row of nothing (of unit
    /// rows, one without a positive entry) keeps itself.
    pub fn of(histograms: &[f64], classes: usize, scale: RowScale, tau: f64) -> Affinity {
        let rows: Vec<Vec<f64>> =
            histograms.chunks_exact(classes.max(1)).map(|row| scale.apply(row)).collect();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let (mut weights, mut unmatched) = (Vec::with_capacity(rows.len().pow(2)), Vec::new());
        for (component, row) in rows.iter().enumerate() {
            if row.iter().all(|entry| *entry == 0.0) {
                unmatched.push(component);
                weights.extend(alone(component, rows.len()));
                continue;
            }
            let scores: Vec<f64> = rows.iter().map(|other| dot(row, other) / tau).collect();
            weights.extend(softmax(&scores));
        }
        Affinity { size: rows.len(), weights, unmatched }
    }

    /// Every component alone: mixing changes nothing, to the bit.
    pub fn identity(size: usize) -> Affinity {
        let weights = (0..size).flat_map(|component| alone(component, size));
        Affinity { size, weights: weights.collect(), unmatched: Vec::new() }
    }

    /// Components that go with no class and keep themselves, rising.
    pub fn unmatched(&self) -> &[usize] {
        &self.unmatched
    }

    /// Returns the mean weight of components on themselves, over those that go with a class.
    ///
    /// It is 1 if none does.
    ///
    /// `1 / size` is plain averaging, 1 no mixing at all.
    pub fn own_weight(&self) -> f64 {
        let mixed = self.size - self.unmatched.len();
        let diagonal: f64 =
            (0..self.size).map(|component| self.weights(component)[component]).sum();
        if mixed == 0 { 1.0 } else { (diagonal - self.unmatched.len() as f64) / mixed as f64 }
    }

    /// Components.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the weights of all components in a mixed one; they sum to one.
    pub fn weights(&self, component: usize) -> &[f64] {
        &self.weights[component * self.size..(component + 1) * self.size]
    }

    /// `W P` for components of `width` values, one behind the other. Sums in f64; a component that stays alone keeps
    /// every bit.
    pub fn mix(&self, components: &[f32], width: usize) -> Vec<f32> {
        let weights = Matrix::dense(&self.weights, self.size, self.size);
        let (mut part, mut product) = (Vec::new(), vec![0.0; self.size * COLUMNS.min(width)]);
        let mut mixed = vec![0f32; components.len()];
        for first in (0..width).step_by(COLUMNS) {
            let columns = COLUMNS.min(width - first);
            part.clear();
            for row in components.chunks_exact(width) {
                part.extend(row[first..][..columns].iter().map(|value| f64::from(*value)));
            }
            let product = &mut product[..self.size * columns];
            let part = Matrix::dense(&part, self.size, columns);
            Target::dense(product, self.size, columns).set(1.0, weights, part);
            for (row, sums) in mixed.chunks_exact_mut(width).zip(product.chunks_exact(columns)) {
                let into = &mut row[first..][..columns];
                into.iter_mut().zip(sums).for_each(|(mixed, sum)| *mixed = *sum as f32);
            }
        }
        for alone in (0..self.size).filter(|component| self.is_alone(*component)) {
            let place = alone * width..(alone + 1) * width;
            mixed[place.clone()].copy_from_slice(&components[place]);
        }
        mixed
    }

    fn is_alone(&self, component: usize) -> bool {
        alone(component, self.size).eq(self.weights(component).iter().copied())
    }
}

/// The row of the identity.
fn alone(component: usize, size: usize) -> impl Iterator<Item = f64> {
    (0..size).map(move |of| f64::from(u8::from(of == component)))
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = scores.iter().map(|score| libm::exp(score - most)).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}
