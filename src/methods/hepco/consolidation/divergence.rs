//! Outputs of heads on pseudo-queries: the classification loss of the teachers and their divergence from the server.

use std::ops::AddAssign;

use candle_core::{Result, Tensor};

use super::models::{ConsolidationTeacher, Model};
use crate::learning::losses::closed_form;
use crate::methods::hepco::consolidation::KlForm;
use crate::model::ops;

/// Heads of a server and of its teachers, concatenated in this order.
pub struct Heads {
    /// `((1 + teachers) seen, d)`.
    weight: Tensor,
    /// `((1 + teachers) seen)`.
    bias: Tensor,
    seen: usize,
}

/// Classification and divergence before `lambda`, and the sums from which accuracy follows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DivergenceTerms {
    /// `sum_b sum_i w_i(b) CE(head_i(z_b), y_b)`.
    pub classification: f64,
    /// `sum_b sum_i w_i(b) KL`.
    pub divergence: f64,
    /// `sum_b sum_i w_i(b)` over the queries whose label teacher `i` predicts.
    pub answered: f64,
    /// `sum_b sum_i w_i(b)`.
    pub weight: f64,
}

impl DivergenceTerms {
    /// Returns the weighted accuracy of the teachers on pseudo-queries; `None` if no teacher has weight.
    pub fn accuracy(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.answered / self.weight)
    }
}

impl AddAssign for DivergenceTerms {
    fn add_assign(&mut self, other: DivergenceTerms) {
        self.classification += other.classification;
        self.divergence += other.divergence;
        self.answered += other.answered;
        self.weight += other.weight;
    }
}

impl Heads {
    /// Creates the heads of a server and its teachers.
    ///
    /// # Errors
    /// When heads differ in shape.
    pub fn new(server: &Model, teachers: &[ConsolidationTeacher]) -> Result<Heads> {
        let all = || [server].into_iter().chain(teachers.iter().map(|teacher| &teacher.model));
        let of = |part: fn(&Model) -> &Tensor| Tensor::cat(&all().map(part).collect::<Vec<_>>(), 0);
        let (weight, bias) = (of(|model| &model.weight)?, of(|model| &model.bias)?);
        Ok(Heads { weight, bias, seen: server.weight.dim(0)? })
    }

    /// Returns `classification - lambda divergence` of queries `(b, d)`, a scalar, and its terms.
    ///
    /// # Errors
    /// When queries have another width.
    pub fn loss(
        &self,
        queries: &Tensor,
        labels: &[u32],
        weights: &[Vec<f32>],
        (lambda, form): (f64, KlForm),
    ) -> Result<(Tensor, DivergenceTerms)> {
        let logits = ops::linear(queries, &self.weight, Some(&self.bias))?;
        let mut terms = DivergenceTerms::default();
        let loss = closed_form(&logits, |logits| {
            let mut gradient = vec![0f32; logits.len()];
            let width = self.weight.dims()[0];
            let rows = logits.chunks_exact(width).zip(gradient.chunks_exact_mut(width));
            for (b, ((logits, gradient), label)) in rows.zip(labels).enumerate() {
                let weights = weights.iter().map(|of| f64::from(of[b]));
                terms +=
                    row(logits, gradient, (*label as usize, self.seen), weights, (lambda, form));
            }
            (terms.classification - lambda * terms.divergence, gradient)
        })?;
        Ok((loss, terms))
    }
}

/// Returns the terms of one pseudo-query, and adds their gradient to `gradient`.
///
/// Logits and gradient have the rows seen of the server, then those of every teacher.
fn row(
    logits: &[f32],
    gradient: &mut [f32],
    (label, seen): (usize, usize),
    weights: impl Iterator<Item = f64>,
    (lambda, form): (f64, KlForm),
) -> DivergenceTerms {
    let (server, teachers) = logits.split_at(seen);
    let (by_server, by_teachers) = gradient.split_at_mut(seen);
    let log_w = log_softmax(server);
    let mut terms = DivergenceTerms::default();
    let each = teachers.chunks_exact(seen).zip(by_teachers.chunks_exact_mut(seen)).zip(weights);
    for ((teacher, by_teacher), weight) in each {
        let log_i = log_softmax(teacher);
        let (from, to) = match form {
            KlForm::ClientServer => (&log_i, &log_w),
            KlForm::ServerClient => (&log_w, &log_i),
        };
        let kl: f64 = from.iter().zip(to).map(|(p, q)| libm::exp(*p) * (p - q)).sum();
        let answers = log_i.iter().all(|other| *other <= log_i[label]);
        terms += DivergenceTerms {
            classification: -weight * log_i[label],
            divergence: weight * kl,
            answered: if answers { weight } else { 0.0 },
            weight,
        };
        for c in 0..seen {
            let (p_w, p_i) = (libm::exp(log_w[c]), libm::exp(log_i[c]));
            let hit = f64::from(u8::from(c == label));
            // The gradient in the logits of the KL's first argument is p (ln p - ln q - KL), of its second q - p.
            let (kl_w, kl_i) = match form {
                KlForm::ClientServer => (p_w - p_i, p_i * (log_i[c] - log_w[c] - kl)),
                KlForm::ServerClient => (p_w * (log_w[c] - log_i[c] - kl), p_i - p_w),
            };
            by_server[c] += (-lambda * weight * kl_w) as f32;
            by_teacher[c] += (weight * (p_i - hit - lambda * kl_i)) as f32;
        }
    }
    terms
}

fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let shifted: Vec<f64> = logits.iter().map(|z| f64::from(*z) - f64::from(top)).collect();
    let sum = libm::log(shifted.iter().map(|z| libm::exp(*z)).sum());
    shifted.into_iter().map(|z| z - sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_beyond_the_range_of_exponentials_have_logarithms() {
        let found = log_softmax(&[2000.0, 2000.0, -2000.0]);
        assert!((found[0] + 2_f64.ln()).abs() < 1e-12 && found[0] == found[1]);
        assert_eq!(found[2], found[0] - 4000.0);
    }
}
