//! Symmetric matrices stored as their lower triangle, and sums of outer products.
//!
//! ```
//! use fedcast::numerics::symmetric::{Gram, Symmetric};
//! let mut gram = Gram::new(2);
//! gram.add(&[1.0, 2.0, 3.0, 4.0]); // two rows
//! let gram: Symmetric = gram.finish();
//! assert_eq!(gram.packed(), [10.0, 14.0, 20.0]);
//! assert_eq!(gram.full(), [10.0, 14.0, 14.0, 20.0]);
//! assert_eq!(gram.trace(), 30.0);
//! ```

use super::products::{Matrix, Target};

/// Symmetric matrix in f64.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Symmetric {
    order: usize,
    /// Lower triangle, row by row.
    packed: Vec<f64>,
}

impl Symmetric {
    /// Creates a matrix of zeros with `order` rows and columns.
    pub fn zeros(order: usize) -> Symmetric {
        Symmetric { order, packed: vec![0.0; packed_len(order)] }
    }

    /// Creates a matrix from its lower triangle, row by row; `None` if the length does not fit.
    pub fn from_packed(order: usize, packed: Vec<f64>) -> Option<Symmetric> {
        (packed.len() == packed_len(order)).then_some(Symmetric { order, packed })
    }

    /// Creates a matrix from all entries, row-major; `None` if the length does not fit.
    ///
    /// It is the mean of both triangles, which is exact if they agree.
    pub fn from_full(order: usize, full: &[f64]) -> Option<Symmetric> {
        if full.len() != order * order {
            return None;
        }
        let mean = |i: usize, j: usize| 0.5 * (full[i * order + j] + full[j * order + i]);
        let mut packed = Vec::with_capacity(packed_len(order));
        for i in 0..order {
            packed.extend((0..=i).map(|j| mean(i, j)));
        }
        Some(Symmetric { order, packed })
    }

    /// Returns the number of rows, which equals the number of columns.
    pub fn order(&self) -> usize {
        self.order
    }

    /// Returns the entry of a row and a column.
    pub fn at(&self, row: usize, column: usize) -> f64 {
        let (i, j) = (row.max(column), row.min(column));
        self.packed[i * (i + 1) / 2 + j]
    }

    /// Returns the lower triangle row by row, `order (order + 1) / 2` numbers.
    pub fn packed(&self) -> &[f64] {
        &self.packed
    }

    /// Returns all entries, row-major.
    pub fn full(&self) -> Vec<f64> {
        let mut full = vec![0.0; self.order * self.order];
        let mut packed = self.packed.iter();
        for i in 0..self.order {
            for (j, value) in packed.by_ref().take(i + 1).enumerate() {
                full[i * self.order + j] = *value;
                full[j * self.order + i] = *value;
            }
        }
        full
    }

    /// Returns the sum of the diagonal.
    pub fn trace(&self) -> f64 {
        (0..self.order).map(|i| self.at(i, i)).sum()
    }

    /// Returns the square root of the sum of the squares of all entries (Frobenius norm).
    pub fn norm(&self) -> f64 {
        let square = |value: &f64| value * value;
        let all: f64 = self.packed.iter().map(square).sum();
        let diagonal: f64 = (0..self.order).map(|i| square(&self.at(i, i))).sum();
        (2.0 * all - diagonal).sqrt()
    }

    /// Adds another matrix of the same order.
    ///
    /// # Panics
    /// Panics if the order differs.
    pub fn add(&mut self, other: &Symmetric) {
        self.add_scaled(1.0, other);
    }

    /// Adds another matrix of the same order times `scale`.
    ///
    /// # Panics
    /// Panics if the order differs.
    pub fn add_scaled(&mut self, scale: f64, other: &Symmetric) {
        assert_eq!(self.order, other.order, "matrices of one order are added");
        self.packed.iter_mut().zip(&other.packed).for_each(|(a, b)| *a += scale * b);
    }

    /// Adds a number to every entry of the diagonal.
    pub fn add_to_diagonal(&mut self, value: f64) {
        (0..self.order).for_each(|i| self.packed[i * (i + 1) / 2 + i] += value);
    }

    /// Returns the lower triangle in a square matrix, row-major, with zeros above it.
    pub fn lower(&self) -> Vec<f64> {
        let mut lower = vec![0.0; self.order * self.order];
        let mut packed = self.packed.as_slice();
        for i in 0..self.order {
            let (row, rest) = packed.split_at(i + 1);
            lower[i * self.order..][..=i].copy_from_slice(row);
            packed = rest;
        }
        lower
    }
}

/// Returns the number of entries of a lower triangle.
pub fn packed_len(order: usize) -> usize {
    order * (order + 1) / 2
}

/// Running sum of outer products `sum_i h_i h_i^T`.
///
/// Only the lower triangle is computed, on one thread, at the speed of a matrix product if rows come in blocks of a few
/// hundred.
#[derive(Clone, Debug)]
pub struct Gram {
    order: usize,
    /// Sum `(order, order)`, row-major; entries above the diagonal are undefined.
    lower: Vec<f64>,
}

impl Gram {
    /// Returns an empty sum of products of vectors of `order` entries.
    pub fn new(order: usize) -> Gram {
        Gram { order, lower: vec![0.0; order * order] }
    }

    /// Adds the products of rows of `order` entries, row-major.
    ///
    /// # Panics
    /// Panics if the last row is incomplete.
    pub fn add(&mut self, rows: &[f64]) {
        let order = self.order;
        let count = rows.len() / order.max(1);
        assert_eq!(rows.len(), count * order, "rows of `order` entries");
        let rows = Matrix::dense(rows, count, order);
        Target::dense(&mut self.lower, order, order).add_lower(1.0, rows.t(), rows);
    }

    /// Returns the sum.
    pub fn finish(self) -> Symmetric {
        let order = self.order;
        let mut packed = Vec::with_capacity(packed_len(order));
        for i in 0..order {
            packed.extend_from_slice(&self.lower[i * order..][..=i]);
        }
        Symmetric { order, packed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;
    use crate::numerics::projection::Projection;

    #[test]
    fn matrices_are_added_number_by_number() {
        let of = |packed: &[f64]| Symmetric::from_packed(2, packed.to_vec()).unwrap();
        let mut sum = Symmetric::zeros(2);
        assert_eq!(sum, of(&[0.0; 3]));
        sum.add(&of(&[1.0, 2.0, 5.0]));
        sum.add_scaled(-3.0, &of(&[2.0, 0.5, -1.0]));
        assert_eq!(sum, of(&[-5.0, 0.5, 8.0]));
    }

    #[test]
    fn packed_and_full_are_the_same_matrix() {
        let full = [1.0, 2.0, 3.0, 2.0, 4.0, 5.0, 3.0, 5.0, 6.0];
        let matrix = Symmetric::from_full(3, &full).unwrap();
        assert_eq!(matrix.packed(), [1.0, 2.0, 4.0, 3.0, 5.0, 6.0]);
        assert_eq!(matrix.full(), full);
        assert_eq!(Symmetric::from_packed(3, matrix.packed().to_vec()), Some(matrix.clone()));
        assert_eq!((matrix.at(0, 2), matrix.at(2, 0)), (3.0, 3.0));
        let square: f64 = full.iter().map(|v| v * v).sum();
        assert!((matrix.norm() - square.sqrt()).abs() < 1e-12);
        // What is not a number is no small matrix.
        assert!(Symmetric::from_packed(1, vec![f64::NAN]).unwrap().norm().is_nan());
        assert_eq!(Symmetric::from_packed(3, vec![0.0; 5]), None);
        assert_eq!(Symmetric::from_full(3, &[0.0; 8]), None);
    }

    #[test]
    fn lower_triangle_is_square_and_its_diagonal_can_be_raised() {
        let mut matrix = Symmetric::from_packed(3, vec![1.0, 2.0, 4.0, 3.0, 5.0, 6.0]).unwrap();
        assert_eq!(matrix.lower(), [1.0, 0.0, 0.0, 2.0, 4.0, 0.0, 3.0, 5.0, 6.0]);
        matrix.add_to_diagonal(-0.5);
        assert_eq!(matrix.packed(), [0.5, 2.0, 3.5, 3.0, 5.0, 5.5]);
        assert!(Symmetric::zeros(0).lower().is_empty());
    }

    #[test]
    fn blocks_of_rows_add_up_to_all_rows() {
        let order = 37;
        let rows: Vec<f64> = (0..91 * order).map(|k| ((k * 7919) % 101) as f64 - 50.0).collect();
        let mut parts = Gram::new(order);
        for block in rows.chunks(10 * order) {
            parts.add(block);
        }
        parts.add(&[]);
        let sum = parts.finish();
        for (i, j) in [(0, 0), (3, 36), (36, 3), (20, 19)] {
            let wanted: f64 = rows.chunks(order).map(|h| h[i] * h[j]).sum();
            assert_eq!(sum.at(i, j), wanted, "whole numbers have no rounding");
        }
    }

    #[test]
    fn golden_gram_of_random_features() {
        let Some(golden) = Golden::open("stsa") else { return };
        let layer = Projection::from_weights(24, 64, golden.f64("R")).unwrap();
        let mut gram = Gram::new(64);
        gram.add(&layer.apply(&golden.f64("X")));
        golden.assert_close("gram", &gram.finish().full());
    }
}
