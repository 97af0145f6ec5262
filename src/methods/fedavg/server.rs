//! FedAvg's server: the weighted mean.

use std::sync::Arc;

use super::{Down, FedAvg};
use crate::learning::Classifier;
use crate::model::ParameterSet;
use crate::policy::{
    Lab, Method, Next, ParameterAverage, PolicyError, Predictor, RoundContext, Seat, ServerPolicy,
    parameter_sections, parameters_of, shared,
};
use crate::wire::{Body, WireError};

/// What the server knows: theta, with all head rows.
pub struct FedAvgServer {
    pub(super) method: Arc<FedAvg>,
    pub(super) parameters: ParameterSet,
}

impl<M> ServerPolicy<M> for FedAvgServer
where
    M: Method<Down = Down, Part = ParameterAverage>,
{
    fn broadcast(
        &mut self,
        round: &RoundContext,
        seats: &[Seat],
        _lab: &Lab,
    ) -> Result<Vec<Arc<Down>>, PolicyError> {
        let rows = self.method.config.head.down_rows(&round.period.view, self.method.classes);
        Ok(shared(Down::cut(&self.parameters, rows)?, seats))
    }

    fn end_round(
        &mut self,
        _round: &RoundContext,
        folded: Option<ParameterAverage>,
        _lab: &Lab,
    ) -> Result<Next, PolicyError> {
        if let Some(average) = folded {
            self.parameters = average.apply(&self.parameters);
        }
        Ok(Next::Continue)
    }

    fn predictor(&self, lab: &Lab) -> Result<Arc<dyn Predictor>, PolicyError> {
        Ok(Arc::new(Classifier::frozen(&lab.backbone, &self.parameters)?))
    }

    fn save(&self) -> Body {
        Body::new(Vec::new(), parameter_sections(&self.parameters))
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        self.parameters = parameters_of(saved)?;
        Ok(())
    }
}
