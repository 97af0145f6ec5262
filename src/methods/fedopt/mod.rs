//! **FedAdagrad**, **FedAdam** and **FedYogi**: FedAvg whose server has an adaptive optimizer.
//!
//! Reddi et al., Adaptive Federated Optimization, ICLR 2021, algorithm 2.
//!
//! ```text
//! client   as FedAvg
//! server   d = sum_m n_m (theta_m - theta) / sum_m n_m
//!          m <- beta_1 m + (1 - beta_1) d
//!          v <- v + d^2                                      fedadagrad
//!               beta_2 v + (1 - beta_2) d^2                  fedadam
//!               v - (1 - beta_2) d^2 sign(v - d^2)           fedyogi
//!          theta <- theta + eta c m / (sqrt(v) + tau)        c = sqrt(1 - beta_2^t) / (1 - beta_1^t), or 1
//! ```
//! Where paper and release (`optimization` in google-research/federated, on Keras) differ there is a key. The release
//! starts with `v = 0` and corrects rates of FedAdam and FedYogi, with `t = 2` in the first round; algorithm 2 has
//! `v >= tau^2` and `c = 1` (`initial_v = "tau-squared"`, `bias_correction = false`), and weighs clients alike
//! (`client_weighting = "uniform"`). Flower starts with zero and corrects FedAdam alone, by the same `t`; TensorFlow
//! Federated's `build_yogi` starts with 1e-6 and corrects. Everywhere `tau` stands outside the root.
//!
//! Rates and `tau` are tuned by data set: the best of the release are `eta` from 10^-2.5 to 10 and `tau` from 1e-5 to
//! 1e-1. With `tau` far below the differences every element moves by about `eta`, however far clients moved. Nothing in
//! the methods prevents forgetting.

mod second_moment;

pub use self::second_moment::{InitialMoment, MomentDecay, SecondMoment, ServerOptimizer};

use super::averaging::{ClosedRound, Reset};
use super::entry::MethodEntry;
use super::fedavg::FedAvg;
use super::parts::{AveragingMethod, ModelAdaptation, Parts, ServerUpdate, TaskStart};
use super::server_moments::{MomentStep, ServerMoments, holdings};
use crate::model::ParameterSet;
use crate::policy::{MemoryFootprint, Metrics, ModelFacts, PolicyError, RoundContext};
use crate::scenario::reader::{Keys, defaults};

/// Keys of the `[method]` table of FedAdagrad, FedAdam and FedYogi.
#[derive(Clone, Debug, PartialEq, Keys)]
#[keys(given(optimizer: ServerOptimizer))]
pub struct FedOpt {
    /// Trained parameters and their aggregation.
    #[key(flatten)]
    pub fedavg: FedAvg,
    /// Server learning rate (`eta`).
    #[key(default = optimizer.server_lr(), above = 0.0, source = "the release, which tunes it by data set: a \
                                                                  frequent best value")]
    pub server_lr: f64,
    /// Decay rate of the first moment.
    #[key(default = optimizer.beta_1(), at_least = 0.0, below = 1.0, source = "Reddi et al.")]
    pub beta_1: f64,
    /// Rule of the second moment.
    #[key(read = optimizer.read_second(table))]
    pub second: SecondMoment,
    /// Degree of adaptivity: number added to the root of the second moment.
    #[key(default = 1e-3, above = 0.0, source = "the release: to begin with")]
    pub tau: f64,
    /// Second moment before the first round.
    #[key(default = InitialMoment::Zero, source = "the release; algorithm 2 has at least tau-squared")]
    pub initial_v: InitialMoment,
    /// Moments at the start of a task.
    #[key(default = Reset::Task, source = Reset::SOURCE)]
    pub reset: Reset,
}

impl ServerOptimizer {
    fn server_lr(self) -> f64 {
        match self {
            ServerOptimizer::Adagrad => 0.1,
            ServerOptimizer::Adam | ServerOptimizer::Yogi => 0.01,
        }
    }

    fn beta_1(self) -> f64 {
        match self {
            ServerOptimizer::Adagrad => 0.0,
            ServerOptimizer::Adam | ServerOptimizer::Yogi => 0.9,
        }
    }
}

impl FedOpt {
    /// Returns the method with this optimizer and its default settings.
    pub fn with(optimizer: ServerOptimizer) -> FedOpt {
        defaults(|table| FedOpt::read(table, optimizer))
    }
}

impl AveragingMethod for FedOpt {
    type State = ();
    type Memory = ServerMoments<2>;

    fn parts(&self) -> Parts<'_, (), ServerMoments<2>> {
        Parts { server: self, ..self.fedavg.base() }
    }
}

impl ServerUpdate<ServerMoments<2>> for FedOpt {
    fn begin_task(&self, _: TaskStart<'_>, memory: &mut ServerMoments<2>, _: &mut ParameterSet) {
        if self.reset == Reset::Task {
            memory.clear();
        }
    }

    fn server_update(
        &self,
        memory: &mut ServerMoments<2>,
        closing: ClosedRound<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Metrics, PolicyError> {
        let FedOpt { beta_1, second, tau, .. } = *self;
        let rate = self.server_lr * second.correction(beta_1, memory.rounds() + 1);
        let initial = [0.0, self.initial_v.value(tau)];
        memory.step(&closing, theta, initial, |d, [m, v]| {
            let m = beta_1 * m + (1.0 - beta_1) * d;
            let v = second.after(v, d);
            MomentStep { moments: [m, v], length: rate * m / (v.sqrt() + tau) }
        });
        Ok(vec![("momentum_norm", memory.of_order(0).norm())])
    }

    fn work(&self, model: &ModelFacts, _: &RoundContext, _: usize) -> f64 {
        let numbers = self.fedavg.parameters(model).numbers();
        model.passes((self.second.multiplications() * numbers) as f64)
    }

    fn memory_footprint(&self, model: &ModelFacts) -> Option<MemoryFootprint> {
        Some(holdings(&self.parts().shared(), model, 2))
    }
}

/// Returns the registry entry of the method with this optimizer.
pub(super) fn entry(optimizer: ServerOptimizer) -> MethodEntry {
    let (name, idea) = match optimizer {
        ServerOptimizer::Adagrad => (
            "fedadagrad",
            "FedAvg whose server uses Adagrad: parameters that moved far in earlier rounds move less.",
        ),
        ServerOptimizer::Adam => (
            "fedadam",
            "FedAvg whose server uses Adam: mean differences are smoothed and divided by the root of their recent \
             mean square.",
        ),
        ServerOptimizer::Yogi => (
            "fedyogi",
            "FedAvg whose server uses Yogi: as FedAdam, but the second moment decreases more slowly.",
        ),
    };
    MethodEntry {
        idea,
        source: "Reddi et al., Adaptive Federated Optimization, ICLR 2021, algorithm 2",
        state: "server: the parameters and two moments, each as large; client: nothing",
        ..MethodEntry::averaging(name, move |table| FedOpt::read(table, optimizer))
    }
}

#[cfg(test)]
mod tests;
