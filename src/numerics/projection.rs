//! Random features: `h = ReLU(f W)` with a fixed matrix of standard normals that is never sent.
//!
//! Server and clients draw the same bits from the same seed, row by row, each row from its own stream.
//! Features of a sample have the same bits whatever other samples are in the batch.
//!
//! ```
//! use fedcast::numerics::projection::Projection;
//! let (here, there) = (Projection::draw(7, 3, 5), Projection::draw(7, 3, 5));
//! assert_eq!(here.digest(), there.digest());
//! let h = here.apply(&[0.5, -1.0, 2.0]); // one row
//! assert!(h.len() == 5 && h.iter().all(|value| *value >= 0.0));
//! assert_eq!(Projection::draw(7, 3, 3).apply(&[0.5, -1.0, 2.0]), [0.5, -1.0, 2.0]); // switched off
//! ```

use super::distributions::fill_normal;
use super::products::{Matrix, Target};
use super::streams::{Domain, StreamKey};

/// Random ReLU layer from features of one width to features of another.
#[derive(Clone, Debug, PartialEq)]
pub struct Projection {
    inputs: usize,
    width: usize,
    /// Weights `(inputs, width)`, row-major; empty if the layer is switched off.
    weights: Vec<f64>,
}

impl Projection {
    /// Draws the layer of `seed`, with unscaled entries from N(0, 1) and without bias.
    ///
    /// `width = inputs` switches the layer off: features pass unchanged, without ReLU.
    pub fn draw(seed: u64, inputs: usize, width: usize) -> Projection {
        if inputs == width {
            return Projection { inputs, width, weights: Vec::new() };
        }
        let key = StreamKey::new(seed, Domain::Projection);
        let mut row = vec![0f32; width];
        let mut weights = Vec::with_capacity(inputs * width);
        for input in 0..inputs {
            fill_normal(&mut key.step(input as u64).rng(), &mut row);
            weights.extend(row.iter().map(|w| f64::from(*w)));
        }
        Projection { inputs, width, weights }
    }

    /// Returns a layer with these weights `(inputs, width)`, row-major; `None` if they do not fit.
    pub fn from_weights(inputs: usize, width: usize, weights: Vec<f64>) -> Option<Projection> {
        (weights.len() == inputs * width).then_some(Projection { inputs, width, weights })
    }

    /// Returns the width of its input features.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Returns the width of its output features.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the weights `(inputs, width)`, row-major; `None` if the layer is switched off.
    pub fn weights(&self) -> Option<&[f64]> {
        (!self.weights.is_empty()).then_some(&self.weights[..])
    }

    /// Maps rows of `inputs` values to rows of `width` values, row-major.
    ///
    /// # Panics
    /// Panics if the last row is incomplete.
    pub fn apply(&self, features: &[f64]) -> Vec<f64> {
        if self.weights.is_empty() {
            return features.to_vec();
        }
        let rows = features.len() / self.inputs.max(1);
        let mut out = vec![0.0; rows * self.width];
        assert_eq!(features.len(), rows * self.inputs, "rows of `inputs` values");
        let features = Matrix::dense(features, rows, self.inputs);
        let weights = Matrix::dense(&self.weights, self.inputs, self.width);
        Target::dense(&mut out, rows, self.width).set(1.0, features, weights);
        // Comparison instead of `max`, which would drop NaN.
        out.iter_mut().filter(|value| **value < 0.0).for_each(|value| *value = 0.0);
        out
    }

    /// Returns the digest of the weights, equal exactly if all bits are.
    pub fn digest(&self) -> u64 {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(self.inputs as u64).to_le_bytes());
        hasher.update(&(self.width as u64).to_le_bytes());
        for weight in &self.weights {
            hasher.update(&weight.to_le_bytes());
        }
        let first = hasher.finalize().as_bytes().first_chunk().copied();
        u64::from_le_bytes(first.expect("a digest of 32 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded once; a change breaks the replay of every recorded run.
    #[test]
    fn the_layer_of_a_seed_never_changes() {
        assert_eq!(Projection::draw(42, 8, 21).digest(), PINNED);
        assert_ne!(Projection::draw(43, 8, 21).digest(), PINNED);
    }

    const PINNED: u64 = 10_451_829_579_318_260_450;

    #[test]
    fn its_entries_are_standard_normal_and_rows_are_independent_of_each_other() {
        let layer = Projection::draw(3, 200, 101);
        let n = layer.weights.len() as f64;
        let mean = layer.weights.iter().sum::<f64>() / n;
        let square = layer.weights.iter().map(|w| w * w).sum::<f64>() / n;
        assert!(mean.abs() < 5.0 / n.sqrt() && (square - 1.0).abs() < 8.0 / n.sqrt());
        let fewer = Projection::draw(3, 50, 101);
        assert_eq!(fewer.weights, layer.weights[..50 * 101]);
    }

    #[test]
    fn features_of_a_row_do_not_depend_on_its_neighbors() {
        let layer = Projection::draw(5, 37, 70);
        let rows: Vec<f64> =
            (0..37 * 23).map(|k| ((k * 7_919) % 101) as f64 / 50.0 - 1.0).collect();
        let each: Vec<f64> = rows.chunks(37).flat_map(|row| layer.apply(row)).collect();
        assert!(layer.apply(&rows) == each);
    }

    #[test]
    fn negative_products_become_zero() {
        let layer = Projection::from_weights(2, 3, vec![1.0, -1.0, 0.5, 2.0, 1.0, -3.0]).unwrap();
        assert_eq!(layer.apply(&[1.0, 1.0, 0.0, -1.0]), [3.0, 0.0, 0.0, 0.0, 0.0, 3.0]);
        assert!(layer.apply(&[]).is_empty());
        assert!(layer.apply(&[f64::NAN, 1.0]).iter().all(|value| value.is_nan()));
    }
}
