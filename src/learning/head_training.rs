//! Training of a linear head on given features, with gradients in closed form: two matrix products per step.
//!
//! This is the server step of HGP and CCVR ("rebalancing"): features are drawn from prototypes, and a range of the
//! head's rows is retrained on them by SGD with momentum. The loss is plain cross-entropy, or the cross-entropy of
//! normalized logits `z / (|z| tau)`, whose gradient includes the norm.
//!
//! ```
//! use fedcast::learning::{Head, HeadLoss, HeadTraining};
//! let mut head = Head::zeros(3, 2);
//! let training = HeadTraining { loss: HeadLoss::Plain, rate: 0.5, ..HeadTraining::default() };
//! // Two classes on either side of zero, eight samples per batch; row 2 is out of range.
//! training.run(&mut head, 0..2, 4, 8, |_epoch, _batch, features, labels| {
//!     for (i, (h, y)) in features.chunks_exact_mut(2).zip(labels.iter_mut()).enumerate() {
//!         *y = (i % 2) as u32;
//!         h.copy_from_slice(&[if i % 2 == 0 { -1.0 } else { 1.0 }, 0.5]);
//!     }
//! })?;
//! assert!(head.weight[0] < 0.0 && head.weight[2] > 0.0);
//! assert_eq!(head.weight[4..], [0.0, 0.0]);
//! # Ok::<(), fedcast::learning::LearningError>(())
//! ```

use std::ops::Range;

use super::{LearningError, OptimizerConfig, Schedule};
use crate::model::ops::matrix::{Matrix, MatrixMut};
use crate::numerics::wide::{WideWork, add_rows, exp, largest, sum_of, sum_of_pairs, wide};

/// Linear classifier.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// Weights `(rows, dim)`, row-major.
    pub weight: Vec<f32>,
    /// Biases `(rows)`.
    pub bias: Vec<f32>,
}

impl Head {
    /// Returns a head of zeros.
    pub fn zeros(rows: usize, dim: usize) -> Head {
        Head { weight: vec![0.0; rows * dim], bias: vec![0.0; rows] }
    }

    /// Returns the number of head rows.
    pub fn rows(&self) -> usize {
        self.bias.len()
    }

    /// Returns the width of a feature.
    pub fn dim(&self) -> usize {
        self.weight.len() / self.bias.len().max(1)
    }

    /// Returns logits `(n, rows.len())` of features `(n, dim)` for a range of rows.
    pub fn logits(&self, features: &[f32], rows: Range<usize>) -> Vec<f32> {
        let n = features.len() / self.dim().max(1);
        let mut logits = vec![0f32; n * rows.len()];
        self.logits_into(features, rows, &mut logits);
        logits
    }

    fn logits_into(&self, features: &[f32], rows: Range<usize>, logits: &mut [f32]) {
        let (dim, columns) = (self.dim(), rows.len());
        for row in logits.chunks_exact_mut(columns.max(1)) {
            row.copy_from_slice(&self.bias[rows.clone()]);
        }
        let n = logits.len() / columns.max(1);
        let weight = &self.weight[rows.start * dim..rows.end * dim];
        MatrixMut::dense(logits, n, columns).add(
            1.0,
            Matrix::dense(features, n, dim),
            Matrix::dense(weight, columns, dim).t(),
        );
    }
}

/// Loss per sample over the logits of the range. Batches take the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HeadLoss {
    /// Softmax cross-entropy of `z`.
    Plain,
    /// Softmax cross-entropy of `z / (|z|_2 tau)` (SLCA; HGP's code uses `tau = 0.1`). It is invariant under scaling of
    /// the head, so that it balances directions but not lengths.
    Normalized {
        /// Temperature.
        tau: f32,
    },
}

/// Settings of head-only training.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadTraining {
    /// Number of epochs; the schedule advances once per epoch.
    pub epochs: u32,
    /// Learning rate of the first epoch.
    pub rate: f64,
    /// Momentum of SGD. The buffer starts at zero in every run.
    pub momentum: f64,
    /// Weight decay (coupled).
    pub weight_decay: f64,
    /// Schedule of the learning rate from epoch to epoch.
    pub schedule: Schedule,
    /// Minimized loss.
    pub loss: HeadLoss,
}

impl Default for HeadTraining {
    /// Returns HGP's rebalancing: five epochs, SGD 0.01 with momentum 0.9, cosine, `tau = 0.1`.
    fn default() -> HeadTraining {
        HeadTraining {
            epochs: 5,
            rate: 0.01,
            momentum: 0.9,
            weight_decay: 0.0,
            schedule: Schedule::Cosine,
            loss: HeadLoss::Normalized { tau: 0.1 },
        }
    }
}

impl HeadTraining {
    /// Trains the rows `rows` of `head`; all others keep their bits. Returns the loss of each batch, epoch by epoch.
    ///
    /// For each of `batches` batches per epoch, `draw(epoch, batch, features, labels)` fills `(batch_size, dim)`
    /// features and `(batch_size)` labels (head rows inside `rows`).
    ///
    /// # Errors
    /// Returns an error if the range or a label does not fit, or a loss is not finite.
    pub fn run(
        &self,
        head: &mut Head,
        rows: Range<usize>,
        batches: usize,
        batch_size: usize,
        mut draw: impl FnMut(u32, usize, &mut [f32], &mut [u32]),
    ) -> Result<Vec<f32>, LearningError> {
        if rows.is_empty() || rows.end > head.rows() {
            return Err(LearningError::Shape(format!(
                "head rows {rows:?} of {} cannot be trained",
                head.rows()
            )));
        }
        let (dim, columns) = (head.dim(), rows.len());
        let rule =
            OptimizerConfig::sgd(self.rate).momentum(self.momentum).weight_decay(self.weight_decay);
        let mut moments = (rule.moments(columns * dim), rule.moments(columns));
        let mut features = vec![0f32; batch_size * dim];
        let mut labels = vec![0u32; batch_size];
        let mut work = HeadGradient::new(batch_size, columns, dim);
        let mut losses = Vec::new();
        let mut step = 0;
        for epoch in 0..self.epochs {
            let rate = self.schedule.rate(self.rate, epoch, self.epochs);
            for batch in 0..batches {
                draw(epoch, batch, &mut features, &mut labels);
                if let Some(label) = labels.iter().find(|&&y| !rows.contains(&(y as usize))) {
                    return Err(LearningError::Shape(format!(
                        "label {label} lies outside the head rows {rows:?} to train"
                    )));
                }
                let loss = work.compute(head, rows.clone(), &features, &labels, self.loss);
                if !loss.is_finite() {
                    let what = "loss of the head training".to_owned();
                    return Err(LearningError::NonFinite { what, step });
                }
                step += 1;
                let weight = &mut head.weight[rows.start * dim..rows.end * dim];
                rule.update(weight, &work.weight, 1.0, &mut moments.0, rate, step);
                let bias = &mut head.bias[rows.clone()];
                rule.update(bias, &work.bias, 1.0, &mut moments.1, rate, step);
                losses.push(loss);
            }
        }
        Ok(losses)
    }
}

/// Gradient of a batch's mean loss with respect to the trained rows, in buffers that are reused.
#[derive(Debug)]
pub struct HeadGradient {
    logits: Vec<f32>,
    /// Gradient of the weights, `(columns, dim)`.
    pub weight: Vec<f32>,
    /// Gradient of the biases, `(columns)`.
    pub bias: Vec<f32>,
}

impl HeadGradient {
    /// Returns buffers for batches of `batch_size` over `columns` rows of width `dim`.
    pub fn new(batch_size: usize, columns: usize, dim: usize) -> HeadGradient {
        HeadGradient {
            logits: vec![0.0; batch_size * columns],
            weight: vec![0.0; columns * dim],
            bias: vec![0.0; columns],
        }
    }

    /// Computes the mean loss of `features` `(batch_size, dim)`, and its gradient in `weight` and `bias`.
    pub fn compute(
        &mut self,
        head: &Head,
        rows: Range<usize>,
        features: &[f32],
        labels: &[u32],
        loss: HeadLoss,
    ) -> f32 {
        let (n, dim, columns) = (labels.len(), head.dim(), rows.len());
        head.logits_into(features, rows.clone(), &mut self.logits);
        let mut total = 0f64;
        let scale = 1.0 / n as f32;
        for (z, &label) in self.logits.chunks_exact_mut(columns).zip(labels) {
            let label = label as usize - rows.start;
            total += match loss {
                HeadLoss::Plain => cross_entropy(z, label, scale),
                HeadLoss::Normalized { tau } => normalized_cross_entropy(z, label, scale, tau),
            };
        }
        let slopes = Matrix::dense(&self.logits, n, columns);
        MatrixMut::dense(&mut self.weight, columns, dim).set(
            1.0,
            slopes.t(),
            Matrix::dense(features, n, dim),
        );
        self.bias.fill(0.0);
        add_rows(&mut self.bias, &self.logits);
        (total / n as f64) as f32
    }
}

/// Returns the cross-entropy of one sample; `z` becomes `scale * gradient`.
fn cross_entropy(z: &mut [f32], label: usize, scale: f32) -> f64 {
    let at_label = z[label];
    let (top, sum) = wide(Softmax { z, scale });
    z[label] -= scale;
    libm::log(f64::from(sum)) + f64::from(top) - f64::from(at_label)
}

/// Turns logits into `scale * softmax`.
///
/// Its answer is the largest logit, and the sum of the exponentials of `z` minus that.
struct Softmax<'a> {
    z: &'a mut [f32],
    scale: f32,
}

impl WideWork for Softmax<'_> {
    type Answer = (f32, f32);

    #[inline(always)]
    fn run(self) -> (f32, f32) {
        let Softmax { z, scale } = self;
        let top = largest(z);
        for v in z.iter_mut() {
            *v = exp(*v - top);
        }
        let sum = sum_of(z, |v| v);
        let inverse = scale / sum;
        for v in z {
            *v *= inverse;
        }
        (top, sum)
    }
}

/// Returns the cross-entropy of one sample on `u / tau`, `u = z / |z|`; `z` becomes `scale * gradient`.
///
/// With `g` the gradient at `u / tau`: `dL/dz = (g - u (u . g)) / (|z| tau)`, orthogonal to `z` (Euler). At `z = 0` the
/// loss is `ln K` and no direction is better than another: the gradient is zero.
fn normalized_cross_entropy(z: &mut [f32], label: usize, scale: f32, tau: f32) -> f64 {
    let length = sum_of(z, |v| v * v).sqrt();
    if length == 0.0 {
        return libm::log(z.len() as f64);
    }
    let towards = 1.0 / (length * tau);
    let mut slope: Vec<f32> = z.iter().map(|v| v * towards).collect();
    let loss = cross_entropy(&mut slope, label, scale);
    let along = sum_of_pairs(z, &slope, |v, g| v * g) / (length * length);
    for (v, &g) in z.iter_mut().zip(&slope) {
        *v = (g - *v * along) * towards;
    }
    loss
}

#[cfg(test)]
mod tests;
