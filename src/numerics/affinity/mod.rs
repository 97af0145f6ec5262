//! Mixing by affinity: `W = softmax_rows(H Hᵀ / tau)`, `P* = W P` (C²Prompt's class-aware prompt aggregation, CPA).
//!
//! A row of `H` has the scores of a prompt component on every class ([`ClassHistogram`]); components with similar
//! scores are mixed with each other. Rows of `W` are positive and sum to one, but `W` is not symmetric. With `tau` to
//! infinity every row becomes the plain mean of all components; with `tau` to 0 and distinct unit rows nothing is
//! mixed.
//!
//! A component without a positive score on any class is not mixed: its row of `W` is that of the identity. After
//! clipping its row of `H` is zero, so that the softmax would weigh all components alike, whatever `tau` is; two such
//! components would become one, and equal components have equal gradients from then on.
//!
//! Between unit rows without negative entries products lie in `[0, 1]`, so that weights of a row differ by a factor of
//! at most `exp(1 / tau)`: at `tau = 1` that is 2.7, and `W` is nearly the plain mean.
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
    /// Negative entries become 0, and each row is divided by its length. So the number of a client's samples does not
    /// count.
    #[default]
    Unit,
    /// Unchanged rows, so that those of many samples dominate.
    Raw,
}

/// Lower bound of the lengths by which rows are divided.
const SHORTEST: f64 = 1e-12;

impl RowScale {
    /// Returns a row as it is compared.
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

/// Number of values per component that are mixed at once, which bounds the memory of copies in f64.
const COLUMNS: usize = 512;

/// Weights of all components in each mixed component.
#[derive(Clone, Debug, PartialEq)]
pub struct Affinity {
    size: usize,
    /// Weights `(size, size)`, row-major.
    weights: Vec<f64>,
    /// Components without a positive score on any class, ascending.
    unmatched: Vec<usize>,
}

impl Affinity {
    /// Computes the affinity from histograms, one row of `classes` entries per component. A component whose row is zero
    /// after scaling is not mixed.
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

    /// Returns the identity, with which mixing does not change a bit.
    pub fn identity(size: usize) -> Affinity {
        let weights = (0..size).flat_map(|component| alone(component, size));
        Affinity { size, weights: weights.collect(), unmatched: Vec::new() }
    }

    /// Returns the components without a positive score on any class, ascending. They are not mixed.
    pub fn unmatched(&self) -> &[usize] {
        &self.unmatched
    }

    /// Returns the mean weight of components on themselves, over those that are mixed.
    ///
    /// It is `1 / size` for plain averaging, and 1 without mixing or if no component is mixed.
    pub fn own_weight(&self) -> f64 {
        let mixed = self.size - self.unmatched.len();
        let diagonal: f64 =
            (0..self.size).map(|component| self.weights(component)[component]).sum();
        if mixed == 0 { 1.0 } else { (diagonal - self.unmatched.len() as f64) / mixed as f64 }
    }

    /// Returns the number of components.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the weights of all components in a mixed one. They sum to one.
    pub fn weights(&self, component: usize) -> &[f64] {
        &self.weights[component * self.size..(component + 1) * self.size]
    }

    /// Returns `W P` for concatenated components of `width` values.
    ///
    /// Sums are in f64. A component that is not mixed keeps every bit.
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

/// Returns a row of the identity.
fn alone(component: usize, size: usize) -> impl Iterator<Item = f64> {
    (0..size).map(move |of| f64::from(u8::from(of == component)))
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = scores.iter().map(|score| libm::exp(score - most)).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}
