//! **FedAvgM** (Hsu, Qi and Brown, arXiv 1909.06335): FedAvg whose server has momentum.
//!
//! ```text
//! client   as FedAvg
//! server   d = sum_m n_m (theta_m - theta) / sum_m n_m
//!          v <- beta v + d;  theta <- theta + eta v          with `nesterov`  theta + eta (d + beta v)
//! ```
//! Without momentum and with `eta = 1` it is FedAvg, bit for bit. Nothing in it prevents forgetting.

use super::averaging::{ClosedRound, Reset};
use super::entry::MethodEntry;
use super::fedavg::FedAvg;
use super::parts::{AveragingMethod, ModelAdaptation, Parts, ServerUpdate, TaskStart};
use super::server_moments::{MomentStep, ServerMoments, holdings};
use crate::model::ParameterSet;
use crate::policy::{MemoryFootprint, Metrics, ModelFacts, PolicyError, RoundContext};
use crate::scenario::reader::Keys;

/// Keys of the `[method]` table of FedAvgM.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct FedAvgM {
    /// Trained parameters and their aggregation.
    #[key(flatten)]
    pub fedavg: FedAvg,
    /// Server learning rate along the velocity (`eta`).
    #[key(
        default = 1.0,
        above = 0.0,
        source = "Hsu et al.; Reddi et al. tune it by data set: most often 1"
    )]
    pub server_lr: f64,
    /// Factor on the velocity in every round (`beta`).
    #[key(
        default = 0.9,
        at_least = 0.0,
        below = 1.0,
        source = "Reddi et al.; Hsu et al. have 0 to 0.997, Flower 0"
    )]
    pub momentum: f64,
    /// Nesterov momentum: a step ahead along the new velocity.
    #[key(default = false, source = "the release of Reddi et al.")]
    pub nesterov: bool,
    /// Velocity at the start of a task.
    #[key(default = Reset::Task, source = Reset::SOURCE)]
    pub reset: Reset,
}

impl AveragingMethod for FedAvgM {
    type State = ();
    type Memory = ServerMoments<1>;

    fn parts(&self) -> Parts<'_, (), ServerMoments<1>> {
        Parts { server: self, ..self.fedavg.base() }
    }
}

impl ServerUpdate<ServerMoments<1>> for FedAvgM {
    fn begin_task(&self, _: TaskStart<'_>, memory: &mut ServerMoments<1>, _: &mut ParameterSet) {
        if self.reset == Reset::Task {
            memory.clear();
        }
    }

    fn server_update(
        &self,
        memory: &mut ServerMoments<1>,
        closing: ClosedRound<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Metrics, PolicyError> {
        let FedAvgM { server_lr, momentum, nesterov, .. } = *self;
        memory.step(&closing, theta, [0.0], |difference, [velocity]| {
            let velocity = momentum * velocity + difference;
            let ahead = if nesterov { difference + momentum * velocity } else { velocity };
            MomentStep { moments: [velocity], length: server_lr * ahead }
        });
        Ok(vec![("velocity_norm", memory.of_order(0).norm())])
    }

    fn work(&self, model: &ModelFacts, _: &RoundContext, _: usize) -> f64 {
        let each = if self.nesterov { 3 } else { 2 };
        model.passes((each * self.fedavg.parameters(model).numbers()) as f64)
    }

    fn memory_footprint(&self, model: &ModelFacts) -> Option<MemoryFootprint> {
        Some(holdings(&self.parts().shared(), model, 1))
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg whose server has momentum: a velocity accumulates the mean differences of earlier rounds.",
        source: "Hsu, Qi, Brown, Measuring the Effects of Non-Identical Data Distribution for \
                 Federated Visual Classification, arXiv 1909.06335, 2019",
        state: "server: the parameters and a velocity as large; client: nothing",
        ..MethodEntry::averaging("fedavgm", FedAvgM::read)
    }
}

#[cfg(test)]
mod tests;
