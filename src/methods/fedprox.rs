//! **FedProx** (Li et al., MLSys 2020): FedAvg whose clients are pulled towards what they received.
//!
//! ```text
//! client   theta <- down;  minimise  CE + mu/2 |theta - down|^2
//! server   as FedAvg
//! ```
//! It has no means against forgetting. The term is over all that trains; running statistics are not in it. At the
//! first step of a round it is zero, so a round of one step is FedAvg's. With SGD it is stable for `lr mu < 2`; Adam
//! divides it by the same moments as the rest of the gradient.

use std::sync::Arc;

use candle_core::{Tensor, Var};
use clap::ValueEnum;

use crate::learning::losses::{closed_form, proximal};
use crate::learning::{Classifier, LearningError, train_with};
use crate::methods::fedavg::{self, FedAvg, FedAvgBy, FedAvgConfig, LocalRule, Up};
use crate::model::Parameter;
use crate::policy::{Lab, Member, ModelFacts, Outcome, PolicyError};
use crate::scenario::reader::{Choice, Param, TableReader, defaults};
use crate::scenario::{Complaint, Scenario};

/// What pulls a client back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Prox {
    /// mu/2 times the sum of squares.
    Squared,
    /// mu/2 times the sum over tensors of their distance (MFCL's code).
    ///
    /// There is no pull at distance zero.
    Norm,
}

impl Choice for Prox {}

/// The `[method]` table of FedProx.
#[derive(Clone, Debug, PartialEq)]
pub struct FedProxConfig {
    /// What trains and how.
    pub fedavg: FedAvgConfig,
    /// Strength of the pull.
    pub mu: f64,
    /// Its form.
    pub prox: Prox,
}

impl Default for FedProxConfig {
    fn default() -> Self {
        defaults(FedProxConfig::read)
    }
}

impl FedProxConfig {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> FedProxConfig {
        let mu = Param::new("mu", 0.01, "strength of the pull towards what was received")
            .source("public code of HePCo and MFCL")
            .at_least(0.0);
        let prox = Param::new("prox", Prox::Squared, "form of the pull");
        FedProxConfig {
            fedavg: FedAvgConfig::read(table),
            mu: table.get(&mu),
            prox: table.get(&prox.source("Li et al. 2020")),
        }
    }
}

/// The method.
pub type FedProx = FedAvgBy<Proximal>;

/// Training with a pull towards what was received.
#[derive(Clone, Debug)]
pub struct Proximal {
    mu: f64,
    prox: Prox,
}

impl FedProx {
    /// The method for a model of these dimensions.
    pub fn new(config: FedProxConfig, facts: &ModelFacts) -> FedProx {
        let FedProxConfig { fedavg, mu, prox } = config;
        FedAvgBy { fedavg: FedAvg::new(fedavg, facts), rule: Proximal { mu, prox } }
    }
}

impl Proximal {
    /// The pull of all variables towards `anchors`.
    fn pull(
        &self,
        variables: &[(Arc<str>, Var)],
        anchors: &[Parameter],
    ) -> Result<Tensor, LearningError> {
        let mut all: Option<Tensor> = None;
        for ((_, variable), anchor) in variables.iter().zip(anchors) {
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

/// `mu/2 |w - anchor|`, with gradient zero where both are equal.
fn distance(w: &Tensor, anchor: &[f32], mu: f64) -> candle_core::Result<Tensor> {
    closed_form(w, |w| {
        let gaps = || w.iter().zip(anchor).map(|(w, a)| f64::from(*w) - f64::from(*a));
        let norm = gaps().map(|gap| gap * gap).sum::<f64>().sqrt();
        let scale = if norm > 0.0 { 0.5 * mu / norm } else { 0.0 };
        (0.5 * mu * norm, gaps().map(|gap| (scale * gap) as f32).collect())
    })
}

impl LocalRule for Proximal {
    type State = ();

    fn learn(
        &self,
        fedavg: &FedAvg,
        member: &mut Member<'_, FedProx>,
        lab: &Lab,
    ) -> Result<Outcome<Up>, PolicyError> {
        let view = &member.seat.view;
        let rows = fedavg.config.old_logits.rows(view);
        let model = Classifier::trainable(&lab.backbone, &member.down.parameters, rows)?;
        let variables = model.variables();
        let anchors: Vec<Parameter> =
            variables.iter().map(|(_, var)| Parameter::of(var)).collect::<Result<_, _>>()?;
        let mut optimiser = fedavg.optimiser(&model, &lab.training);
        let loader = lab.frozen(lab.train_loader(&member.shard), model.frozen_part())?;
        let (plan, key) = (&lab.training, member.key);
        let report = train_with(plan, &mut optimiser, &loader, variables, key, |batch| {
            let loss = model.batch_loss(batch, &lab.device)?;
            match self.mu > 0.0 {
                true => Ok((loss + self.pull(variables, &anchors)?)?),
                false => Ok(loss),
            }
        })?;
        let up = Up::cut(&model.parameters()?, fedavg.up_rows(view), member.shard.len())?;
        Ok(Outcome { up, metrics: report.metrics() })
    }
}

/// As FedAvg.
pub(super) fn check(scenario: &Scenario) -> Vec<Complaint> {
    fedavg::check(scenario)
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    fn method(mu: f64, prox: Prox) -> FedProx {
        let facts = ModelFacts {
            backbone: crate::model::VitConfig::default().into(),
            classes: 2,
            tasks: 1,
            form: crate::policy::WireForm::Full,
        };
        FedProx::new(FedProxConfig { mu, prox, ..FedProxConfig::default() }, &facts)
    }

    fn variables(values: &[&[f32]]) -> Vec<(Arc<str>, Var)> {
        let var = |values: &&[f32]| Var::new(*values, &Device::Cpu).unwrap();
        values.iter().map(|values| (Arc::from("w"), var(values))).collect()
    }

    fn anchors(values: &[&[f32]]) -> Vec<Parameter> {
        let anchor = |v: &&[f32]| Parameter { shape: vec![v.len()], values: (*v).into() };
        values.iter().map(anchor).collect()
    }

    /// FedProx card, invariant 3, and the other form of section 5.
    #[test]
    fn the_pull_points_back_to_what_was_received() {
        let here = [&[1.0f32, 2.0][..], &[5.0], &[2.0]];
        let there = [&[1.0f32, -1.0][..], &[5.0], &[6.0]];
        for (prox, value, gradient, other) in [
            (Prox::Squared, 0.5 * 0.1 * (9.0 + 16.0), [0.0, 0.3], -0.4),
            // Tensor by tensor: of all entries together the distance would be 5.
            (Prox::Norm, 0.5 * 0.1 * (3.0 + 4.0), [0.0, 0.05], -0.05),
        ] {
            let vars = variables(&here);
            let pull = method(0.1, prox).rule.pull(&vars, &anchors(&there)).unwrap();
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

    /// Invariant 4: with the loss `|w - a|^2 / 2` the end is `(a + mu w_g) / (1 + mu)`; invariant 5: the farther
    /// from `w_g` the smaller mu.
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
                let pull =
                    method(mu, Prox::Squared).rule.pull(&vars, &anchors(&[&[received]])).unwrap();
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
