//! Outputs of the head in the loss of a client.

use std::ops::Range;

use candle_core::Tensor;
use clap::ValueEnum;

use super::compensation::LearnedRows;
use crate::scenario::reader::Choice;

/// Outputs in the loss of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum Outputs {
    /// Outputs of all classes seen.
    ///
    /// All outputs that the old model knows are distilled.
    #[default]
    Seen,
    /// Outputs of the client's task and of the classes it has learned.
    ///
    /// Of the old model, the learned classes of the client are distilled. Other outputs have no loss and no gradient;
    /// means count all outputs of the head, as in Powder's port.
    Own,
}

/// Own outputs of a client among those of a head: learned classes and those of its task.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Own {
    /// Head rows, ascending.
    rows: Vec<u32>,
    /// Number of outputs of the head.
    all: usize,
}

impl Own {
    /// Creates the outputs of learned classes and of the task's classes, in a head of `all` outputs.
    pub fn new(learned: &LearnedRows, task: Range<usize>, all: usize) -> Own {
        let mut rows: Vec<u32> = learned.keys().copied().collect();
        rows.extend(task.map(|row| row as u32));
        rows.sort_unstable();
        rows.dedup();
        Own { rows, all }
    }

    /// Returns the head rows of the own outputs, ascending.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Returns the fraction of own outputs among those over which means are taken.
    pub fn share(&self) -> f64 {
        self.rows.len() as f64 / self.all.max(1) as f64
    }

    /// Returns the own columns of logits, `(b, own outputs)`.
    ///
    /// # Errors
    /// When the logits have fewer columns than needed.
    pub fn of(&self, logits: &Tensor) -> candle_core::Result<Tensor> {
        let rows = Tensor::from_slice(&self.rows, self.rows.len(), logits.device())?;
        logits.index_select(&rows, 1)
    }

    /// Returns the indices of labels among the own outputs.
    ///
    /// # Errors
    /// When a label is not among them.
    pub fn places(&self, labels: &[u32]) -> candle_core::Result<Vec<u32>> {
        let place = |label: &u32| match self.rows.binary_search(label) {
            Ok(place) => Ok(place as u32),
            Err(_) => Err(candle_core::Error::Msg(format!(
                "a sample of head row {label}, which its client neither learns nor has learned"
            ))),
        };
        labels.iter().map(place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::compensation::Balance;
    use super::super::objective::GlfcObjective;
    use super::super::terms::Terms;
    use super::*;
    use candle_core::{Device, Var};

    #[test]
    fn own_outputs_are_what_was_learned_and_the_task() {
        let own = Own::new(&[(6, 1), (1, 0)].into(), 8..10, 20);
        assert_eq!(own.rows(), [1, 6, 8, 9]);
        assert_eq!(own.share(), 0.2);
        assert_eq!(own.places(&[9, 1, 8]).unwrap(), [3, 0, 2]);
        let error = own.places(&[7]).unwrap_err().to_string();
        assert!(error.contains("head row 7"), "{error}");
    }

    /// Columns that are not the client's own have a gradient of exactly zero.
    #[test]
    fn others_outputs_learn_nothing() {
        let values: Vec<f32> = (0..8).map(|i| i as f32).collect();
        let z = Var::from_slice(&values, (2, 4), &Device::Cpu).unwrap();
        let own = Own::new(&[(0, 0)].into(), 2..3, 4);
        let mine = own.of(&z).unwrap();
        assert_eq!(mine.to_vec2::<f32>().unwrap(), [[0.0, 2.0], [4.0, 6.0]]);
        let gradients = mine.sqr().unwrap().sum_all().unwrap().backward().unwrap();
        let slope = gradients.get(&z).unwrap().to_vec2::<f32>().unwrap();
        assert_eq!(slope, [[0.0, 0.0, 4.0, 0.0], [8.0, 0.0, 12.0, 0.0]]);
        // A head that is shorter than the learned rows is an error.
        assert!(Own::new(&[(4, 0)].into(), 0..1, 4).of(&z).is_err());
    }

    /// Powder's port by value: a client has learned row 0, its task has rows 3 and 4, and the head has ten rows.
    ///
    /// With `s = sigmoid`, the loss of a sample is `BCE(z, y) + BCE(z, tau)` over the rows 0, 3 and 4, divided by ten.
    /// `tau` has the old model's output in row 0 only, also for an exemplar of row 0; row 3 is not distilled, although
    /// the old model knows it.
    #[test]
    fn own_outputs_by_value() {
        let port =
            Terms { balance: Balance::None, labels: 1.0, relation: 1.0, weighs_relation: false };
        let learned: LearnedRows = [(0, 0)].into();
        let own = Some(Own::new(&learned, 3..5, 10));
        let loss = GlfcObjective { terms: port, learned, task: 1, own, old: None };
        let z = [[0.5f32, 9.0, -7.0, 1.0, -2.0], [-1.0, 3.0, 4.0, 0.25, 0.75]];
        let z = Var::from_slice(z.as_flattened(), (2, 5), &Device::Cpu).unwrap();
        // The old model has four rows, of which the first is distilled.
        let old = [2.0f32, 5.0, 5.0, -5.0, -0.5, 5.0, 5.0, -5.0];
        let value = |loss: &Tensor| loss.to_scalar::<f32>().unwrap();
        let s = |z: f64| 1.0 / (1.0 + libm::exp(-z));
        let bce = |z: f64, t: f64| -t * libm::log(s(z)) - (1.0 - t) * libm::log(1.0 - s(z));
        // The first sample is of row 4, the second is an exemplar of row 0.
        let labeled = bce(0.5, 0.0)
            + bce(1.0, 0.0)
            + bce(-2.0, 1.0)
            + bce(-1.0, 1.0)
            + bce(0.25, 0.0)
            + bce(0.75, 0.0);
        let held = bce(0.5, s(2.0))
            + bce(1.0, 0.0)
            + bce(-2.0, 1.0)
            + bce(-1.0, s(-0.5))
            + bce(0.25, 0.0)
            + bce(0.75, 0.0);
        let near = |found: f32, wanted: f64| {
            assert!((f64::from(found) - wanted).abs() < 1e-6, "{found} {wanted}")
        };
        let both = loss.of(&z, &[4, 0], Some((&old, 4))).unwrap();
        near(value(&both), (labeled + held) / 20.0);
        near(value(&loss.of(&z, &[4, 0], None).unwrap()), labeled / 20.0);
        // Gradients of rows 1 and 2 are exactly zero, that of row 0 is (2 s(z) - y - s(old)) / 20.
        let gradients = both.backward().unwrap();
        let slopes: Vec<f32> = gradients.get(&z).unwrap().flatten_all().unwrap().to_vec1().unwrap();
        for (row, (z, y, old)) in slopes.chunks(5).zip([(0.5, 0.0, 2.0), (-1.0, 1.0, -0.5)]) {
            assert_eq!(row[1..3], [0.0, 0.0]);
            near(row[0], (2.0 * s(z) - y - s(old)) / 20.0);
        }
        near(slopes[3], 2.0 * s(1.0) / 20.0);
        // Terms are proportional to their weights; here the old model's term alone.
        let half = GlfcObjective { terms: Terms { labels: 0.0, relation: 0.5, ..port }, ..loss };
        near(value(&half.of(&z, &[4, 0], Some((&old, 4))).unwrap()), held / 40.0);
        assert!(half.of(&z, &[4, 1], None).is_err(), "row 1 is another client's");
    }
}
