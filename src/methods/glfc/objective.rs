//! Loss of GLFC and LGA: compensated sigmoid cross-entropy, and relation distillation of the old model.
//!
//! ```text
//! GLFC   1/2 mean w BCE(z, y) + 1/2 mean   BCE(z, tau)     tau = y, its first K_old entries replaced by sigmoid(old z)
//! LGA    lambda mean w BCE(z, y) + lambda mean w BCE(z, tau)
//! ```
//! Without an old model it is the mean of `w BCE(z, y)`. Means are over samples and all outputs seen.
//!
//! Over a client's own outputs (`outputs = "own"`) the sums are over learned classes and those of the client's task,
//! and `tau` has the old model's output for learned classes only. Means count all outputs of the head: others add zero,
//! as if their logits were minus infinity. Powder's port is this with `w = 1` and both terms at weight 1.

use candle_core::Tensor;

use super::compensation::LearnedRows;
use super::outputs::Own;
use super::terms::Terms;
use crate::learning::losses::{sigmoid, weighted_sigmoid_cross_entropy};
use crate::learning::{LearningError, Teacher};
use crate::methods::averaging::{Objective, TrainingStep};

/// Loss of a client in a task.
pub(super) struct GlfcObjective {
    pub terms: Terms,
    pub learned: LearnedRows,
    /// Current task, from 0.
    pub task: usize,
    /// Outputs in the loss, if they are not all that train.
    pub own: Option<Own>,
    pub old: Option<Teacher>,
}

impl GlfcObjective {
    /// Returns the loss of logits `(b, rows)`, a scalar.
    ///
    /// `old` are the old model's outputs `(b, columns)`, flat, with their number of columns.
    pub fn of(
        &self,
        logits: &Tensor,
        labels: &[u32],
        old: Option<(&[f32], usize)>,
    ) -> candle_core::Result<Tensor> {
        let terms = self.terms;
        let values = logits.detach().to_vec2::<f32>()?;
        let own = values.iter().zip(labels).map(|(row, label)| row[*label as usize]);
        let weights = terms.balance.weights(own, labels, &self.learned, self.task);
        let Some(own) = &self.own else {
            return self.over(logits, (labels, &weights), old, Some);
        };
        // Maps a column to the old model's output that is distilled, if its class is learned.
        let held = |column: usize| {
            let row = own.rows().get(column)?;
            self.learned.contains_key(row).then_some(*row as usize)
        };
        let places = own.places(labels)?;
        self.over(&own.of(logits)?, (&places, &weights), old, held)? * own.share()
    }

    /// Returns the loss over these columns; samples have labels among them, and weights.
    ///
    /// `held` gives the old model's output that is distilled in a column; it is used if the old model has that output.
    fn over(
        &self,
        logits: &Tensor,
        (labels, weights): (&[u32], &[f64]),
        old: Option<(&[f32], usize)>,
        held: impl Fn(usize) -> Option<usize>,
    ) -> candle_core::Result<Tensor> {
        let (terms, columns) = (self.terms, logits.dim(1)?);
        let mut targets = vec![0.0; labels.len() * columns];
        for (target, label) in targets.chunks_exact_mut(columns).zip(labels) {
            target[*label as usize] = 1.0;
        }
        let labeled = weighted_sigmoid_cross_entropy(logits, &targets, weights)?;
        let Some((old, width)) = old.filter(|(_, width)| *width > 0) else { return Ok(labeled) };
        for (target, old) in targets.chunks_exact_mut(columns).zip(old.chunks_exact(width)) {
            for (column, target) in target.iter_mut().enumerate() {
                let Some(z) = held(column).and_then(|row| old.get(row)) else { continue };
                *target = sigmoid(*z);
            }
        }
        let alike = vec![1.0; labels.len()];
        let weights = if terms.weighs_relation { weights } else { &alike };
        let relation = weighted_sigmoid_cross_entropy(logits, &targets, weights)?;
        (labeled * terms.labels)? + (relation * terms.relation)?
    }
}

impl Objective for GlfcObjective {
    fn losses(&mut self, pass: &TrainingStep<'_>) -> Result<Tensor, LearningError> {
        let (logits, batch) = (pass.logits()?, &pass.step.batch);
        let targets = match &self.old {
            Some(old) => Some((old.answers(batch, pass.device)?, old.rows().len())),
            None => None,
        };
        let old = targets.as_ref().map(|(targets, width)| (targets.as_slice(), *width));
        Ok(self.of(&logits, batch.labels(), old)?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::compensation::{Balance, Groups};
    use super::*;
    use crate::golden::Golden;
    use candle_core::{Device, Var};

    const GLFC: Terms =
        Terms { balance: Balance::Learned, labels: 0.5, relation: 0.5, weighs_relation: false };

    fn lga(groups: Groups, lambda: f64) -> Terms {
        let balance = Balance::Tasks(groups);
        Terms { balance, labels: lambda, relation: lambda, weighs_relation: true }
    }

    fn of(terms: Terms, learned: &[(u32, usize)], task: usize) -> GlfcObjective {
        GlfcObjective {
            terms,
            learned: learned.iter().copied().collect(),
            task,
            own: None,
            old: None,
        }
    }

    fn narrow(values: Vec<f64>) -> Vec<f32> {
        values.into_iter().map(|value| value as f32).collect()
    }

    /// Returns the first columns of a stored matrix.
    fn columns(golden: &Golden, name: &str, count: usize) -> Vec<f32> {
        let width = golden.shape(name)[1];
        let rows = golden.f64(name);
        narrow(rows.chunks(width).flat_map(|row| row[..count].to_vec()).collect())
    }

    fn value(loss: &Tensor) -> f32 {
        loss.to_scalar().unwrap()
    }

    fn slope(loss: &Tensor, z: &Var) -> Vec<f32> {
        let gradients = loss.backward().unwrap();
        gradients.get(z).unwrap().flatten_all().unwrap().to_vec1().unwrap()
    }

    #[test]
    fn golden_losses_of_glfc() {
        let Some(golden) = Golden::open("losses") else { return };
        let z = Var::from_slice(&narrow(golden.f64("z")), (6, 10), &Device::Cpu).unwrap();
        let seen = z.narrow(1, 0, 8).unwrap().contiguous().unwrap();
        let old = columns(&golden, "t", 4);
        let learned = [(0, 0), (1, 0), (2, 0), (3, 0)];
        let loss = of(GLFC, &learned, 1).of(&seen, &golden.labels("glfc.y"), Some((&old, 4)));
        let loss = loss.unwrap();
        golden.assert_close_f32("glfc", &[value(&loss)]);
        golden.assert_close_f32("glfc.grad_z", &slope(&loss, &z));
    }

    const LEARNED: [(u32, usize); 6] = [(0, 0), (1, 0), (3, 1), (5, 1), (6, 2), (8, 2)];

    #[test]
    fn golden_lga_weights_and_losses() {
        let Some(golden) = Golden::open("lga") else { return };
        let learned: Vec<u32> = LEARNED.iter().map(|(row, _)| *row).collect();
        assert_eq!(golden.labels("learned"), learned);
        let wide = narrow(golden.f64("z"));
        let z = Var::from_slice(&wide, (16, 12), &Device::Cpu).unwrap();
        let old = narrow(golden.f64("zo"));
        for (name, groups) in [("task", Groups::Task), ("cumulative", Groups::Cumulative)] {
            let named = |what: &str| format!("{name}.{what}");
            let labels = golden.labels("labels");
            let (terms, map) = (lga(groups, 1.0), LEARNED.into_iter().collect());
            let own = |labels: &[u32]| -> Vec<f32> {
                wide.chunks(12).zip(labels).map(|(row, label)| row[*label as usize]).collect()
            };
            let weights = |labels: &[u32]| -> Vec<f32> {
                let found = terms.balance.weights(own(labels).into_iter(), labels, &map, 3);
                narrow(found)
            };
            let surprise = terms.balance.surprise(own(&labels).into_iter(), 3);
            golden.assert_close_f32("g", &narrow(surprise.clone()));
            let shares = terms.balance.shares(&surprise, &labels, &map, 3);
            golden.assert_close_f32(&named("v"), &narrow(shares));
            golden.assert_close_f32(&named("w"), &weights(&labels));
            for (what, terms) in [
                ("cur", Terms { relation: 0.0, ..terms }),
                ("old", Terms { labels: 0.0, ..terms }),
                ("total", terms),
            ] {
                let loss = of(terms, &LEARNED, 3).of(&z, &labels, Some((&old, 9))).unwrap();
                golden.assert_close_f32(&named(what), &[value(&loss)]);
                golden.assert_close_f32(&named(&format!("{what}.grad_z")), &slope(&loss, &z));
            }
            let gap = golden.labels("gap.labels");
            golden.assert_close_f32(&format!("gap.{name}.w"), &weights(&gap));
            let loss = of(terms, &LEARNED, 3).of(&z, &gap, Some((&old, 9))).unwrap();
            golden.assert_close_f32(&format!("gap.{name}.total"), &[value(&loss)]);

            let two = golden.labels("two.labels");
            let learned = [(0, 0), (2, 0)];
            let short = columns(&golden, "z", 6);
            let own = short.chunks(6).zip(&two).map(|(row, label)| row[*label as usize]);
            let found = terms.balance.weights(own, &two, &learned.into_iter().collect(), 1);
            golden.assert_close_f32("two.w", &narrow(found));
            let short = Tensor::from_vec(short, (16, 6), &Device::Cpu).unwrap();
            let older = columns(&golden, "zo", 3);
            let loss = of(terms, &learned, 1).of(&short, &two, Some((&older, 3))).unwrap();
            golden.assert_close_f32("two.total", &[value(&loss)]);

            let first = Tensor::from_vec(columns(&golden, "z", 3), (16, 3), &Device::Cpu).unwrap();
            let loss = of(terms, &[], 0).of(&first, &golden.labels("first.labels"), None).unwrap();
            golden.assert_close_f32("first", &[value(&loss)]);
            let late = of(terms, &[], 3).of(&z, &labels, None).unwrap();
            golden.assert_close_f32("late", &[value(&late)]);
        }
        let half = of(lga(Groups::Task, 0.5), &LEARNED, 3);
        let half = half.of(&z, &golden.labels("labels"), Some((&old, 9))).unwrap();
        golden.assert_close_f32("half", &[value(&half)]);
    }

    fn logits(rows: usize, columns: usize) -> Var {
        let values: Vec<f32> = (0..rows * columns).map(|i| 3.0 * (i as f32).sin()).collect();
        Var::from_slice(&values, (rows, columns), &Device::Cpu).unwrap()
    }

    /// GLFC card, invariants 2 and 3; LGA card, invariants 1 and 6: without an old model all methods have the plain
    /// loss, and outputs that equal those of the old model get no gradient from the distillation.
    #[test]
    fn an_old_model_asks_nothing_of_its_equal() {
        let (z, labels) = (logits(4, 6), [0, 5, 4, 1]);
        let (values, mut plain) = (z.to_vec2::<f32>().unwrap(), vec![0.0; 24]);
        labels.iter().enumerate().for_each(|(at, label)| plain[6 * at + *label as usize] = 1.0);
        let plain = weighted_sigmoid_cross_entropy(&z, &plain, &[1.0; 4]).unwrap();
        for terms in [GLFC, lga(Groups::Task, 1.0), lga(Groups::Cumulative, 2.0)] {
            let alone = of(terms, &[], 0).of(&z, &labels, None).unwrap();
            assert_eq!(value(&alone), value(&plain));
            let old: Vec<f32> = values.iter().flat_map(|row| row[..4].to_vec()).collect();
            let learned = [(0, 0), (1, 0), (2, 0)];
            let second = of(Terms { labels: 0.0, ..terms }, &learned, 1);
            let loss = second.of(&z, &labels, Some((&old, 4))).unwrap();
            for row in slope(&loss, &z).chunks(6) {
                assert!(row[..4].iter().all(|slope| *slope == 0.0) && row[4] != 0.0, "{row:?}");
            }
        }
    }

    /// LGA card, invariant 5: with half of each term, one old group and no exponent it is GLFC.
    #[test]
    fn lga_without_what_is_new_is_glfc() {
        let (z, old) = (logits(5, 6), logits(5, 4).flatten_all().unwrap().to_vec1().unwrap());
        let loss = |terms, task| {
            let loss = of(terms, &[(0, 0), (1, 0)], task).of(&z, &[0, 5, 4, 1, 4], Some((&old, 4)));
            loss.unwrap()
        };
        let reduced = Terms { weighs_relation: false, ..lga(Groups::Task, 0.5) };
        let glfc = loss(GLFC, 1);
        let far = |other: &Tensor| (value(other) - value(&glfc)).abs();
        assert!(far(&loss(reduced, 1)) > 1e-3, "the exponent");
        let exact = Terms { balance: Balance::Learned, ..reduced };
        assert_eq!(far(&loss(exact, 1)), 0.0);
        assert!(far(&loss(Terms { weighs_relation: true, ..exact }, 1)) > 1e-3);
    }
}
