//! Cross-entropy with FedProx's proximal term.
//!
//! The term covers all trained parameters, without running statistics. At the first step of a round it is zero, so a
//! round of one step is FedAvg's. With SGD it is stable for `lr mu < 2`; Adam divides it by the same moments as the
//! rest of the gradient. It is no means against forgetting.

use std::sync::Arc;

use candle_core::{Tensor, Var};
use clap::ValueEnum;

use super::FedProx;
use crate::learning::losses::{closed_form, proximal};
use crate::learning::{Classifier, LearningError};
use crate::methods::averaging::{Objective, PackClient, TrainingStep};
use crate::methods::parts::{ClientContext, LocalUpdate};
use crate::model::Parameter;
use crate::policy::PolicyError;
use crate::scenario::reader::Choice;

/// Form of the proximal term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Prox {
    /// Squared: mu/2 times the sum of squares.
    Squared,
    /// Norm: mu/2 times the sum over tensors of their distance (MFCL's code).
    ///
    /// The gradient at distance zero is zero.
    Norm,
}

impl LocalUpdate<()> for FedProx {
    fn objective(
        &self,
        _context: &ClientContext<'_>,
        _pack: &[PackClient<'_, ()>],
        network: &Classifier,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        let anchors = network.variables().iter().map(|(_, variable)| Parameter::of(variable));
        let anchors = anchors.collect::<Result<_, _>>()?;
        Ok(Box::new(FedProxObjective { mu: self.mu, prox: self.prox, anchors }))
    }

    fn max_pack(&self, _usual: usize) -> usize {
        1
    }
}

/// Cross-entropy plus the proximal term around the received parameters.
struct FedProxObjective {
    mu: f64,
    prox: Prox,
    /// Received value of every variable.
    anchors: Vec<Parameter>,
}

impl Objective for FedProxObjective {
    fn losses(&mut self, pass: &TrainingStep<'_>) -> Result<Tensor, LearningError> {
        let losses = pass.outputs()?.losses;
        match self.mu > 0.0 {
            true => Ok(losses.broadcast_add(&self.pull(pass.model.variables())?)?),
            false => Ok(losses),
        }
    }
}

impl FedProxObjective {
    /// Returns the proximal term of all variables, a scalar.
    fn pull(&self, variables: &[(Arc<str>, Var)]) -> Result<Tensor, LearningError> {
        let mut all: Option<Tensor> = None;
        for ((_, variable), anchor) in variables.iter().zip(&self.anchors) {
            let one = match self.prox {
                Prox::Squared => proximal(variable, &anchor.values, self.mu)?,
                Prox::Norm => distance(variable, &anchor.values, self.mu)?,
            };
            all = Some(match all {
                Some(sum) => (sum + one)?,
                None => one,
            });
        }
        all.ok_or_else(|| LearningError::Shape("nothing trains here".to_owned()))
    }
}

/// Returns `mu/2 |w - anchor|`, a scalar, with gradient zero where both are equal.
fn distance(w: &Tensor, anchor: &[f32], mu: f64) -> candle_core::Result<Tensor> {
    closed_form(w, |w| {
        let gaps = || w.iter().zip(anchor).map(|(w, a)| f64::from(*w) - f64::from(*a));
        let norm = gaps().map(|gap| gap * gap).sum::<f64>().sqrt();
        let scale = if norm > 0.0 { 0.5 * mu / norm } else { 0.0 };
        (0.5 * mu * norm, gaps().map(|gap| (scale * gap) as f32).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    fn variables(values: &[&[f32]]) -> Vec<(Arc<str>, Var)> {
        let var = |values: &&[f32]| Var::new(*values, &Device::Cpu).unwrap();
        values.iter().map(|values| (Arc::from("w"), var(values))).collect()
    }

    fn anchors(values: &[&[f32]]) -> Vec<Parameter> {
        let anchor = |v: &&[f32]| Parameter { shape: vec![v.len()], values: (*v).into() };
        values.iter().map(anchor).collect()
    }

    /// FedProx card, invariant 3, and the other form in section 5.
    #[test]
    fn the_pull_points_back_to_what_was_received() {
        let here = [&[1.0f32, 2.0][..], &[5.0], &[2.0]];
        let there = [&[1.0f32, -1.0][..], &[5.0], &[6.0]];
        for (prox, value, gradient, other) in [
            (Prox::Squared, 0.5 * 0.1 * (9.0 + 16.0), [0.0, 0.3], -0.4),
            // The norm is taken for each tensor; over all elements together it would be 5.
            (Prox::Norm, 0.5 * 0.1 * (3.0 + 4.0), [0.0, 0.05], -0.05),
        ] {
            let vars = variables(&here);
            let pulled = FedProxObjective { mu: 0.1, prox, anchors: anchors(&there) };
            let pull = pulled.pull(&vars).unwrap();
            assert!((pull.to_scalar::<f32>().unwrap() - value).abs() < 1e-6);
            let gradients = pull.backward().unwrap();
            let of = |at: usize| gradients.get(&vars[at].1).unwrap().to_vec1::<f32>().unwrap();
            for (got, want) in of(0).iter().zip(gradient) {
                assert!((got - want).abs() < 1e-6, "{prox:?}: {got} {want}");
            }
            assert_eq!(of(1), [0.0], "no pull where nothing moved");
            assert!((of(2)[0] - other).abs() < 1e-6, "{prox:?}: {:?}", of(2));
        }
    }

    /// Invariant 4: with the loss `|w - a|^2 / 2` training ends at `(a + mu w_g) / (1 + mu)`. Invariant 5: this is
    /// farther from `w_g` the smaller `mu` is.
    #[test]
    fn a_quadratic_ends_between_its_minimum_and_the_anchor() {
        let (minimum, received) = (3.0f32, 1.0f32);
        let mut before = f32::INFINITY;
        for mu in [0.1, 0.5, 2.0] {
            let vars = variables(&[&[received]]);
            for _ in 0..400 {
                let own = ((vars[0].1.as_tensor() - f64::from(minimum)).unwrap().sqr().unwrap()
                    * 0.5)
                    .unwrap()
                    .sum_all()
                    .unwrap();
                let anchors = anchors(&[&[received]]);
                let pull =
                    FedProxObjective { mu, prox: Prox::Squared, anchors }.pull(&vars).unwrap();
                let gradients = (own + pull).unwrap().backward().unwrap();
                let step = (gradients.get(&vars[0].1).unwrap() * 0.1).unwrap();
                vars[0].1.set(&(vars[0].1.as_tensor() - step).unwrap()).unwrap();
            }
            let end = vars[0].1.to_vec1::<f32>().unwrap()[0];
            let expected = (minimum + mu as f32 * received) / (1.0 + mu as f32);
            assert!((end - expected).abs() < 1e-4, "{end} {expected}");
            assert!((end - received).abs() < before);
            before = (end - received).abs();
        }
    }
}
