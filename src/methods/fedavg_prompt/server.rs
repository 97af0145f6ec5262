//! FedAvg-Prompt's server: the mean.

use std::sync::Arc;

use super::FedAvgPrompt;
use crate::methods::fedavg::Down;
use crate::model::ParameterSet;
use crate::policy::{
    Lab, Next, ParameterAverage, PolicyError, Predictor, RoundContext, Seat, ServerPolicy,
    parameter_sections, parameters_of, shared,
};
use crate::wire::{Body, WireError};

/// What the server knows.
pub struct FedAvgPromptServer {
    pub(super) method: Arc<FedAvgPrompt>,
    /// Pools and head.
    pub(super) parameters: ParameterSet,
}

impl ServerPolicy<FedAvgPrompt> for FedAvgPromptServer {
    fn broadcast(
        &mut self,
        round: &RoundContext,
        seats: &[Seat],
        _lab: &Lab,
    ) -> Result<Vec<Arc<Down>>, PolicyError> {
        let FedAvgPrompt { config, classes, .. } = &*self.method;
        let rows = config.head.down_rows(&round.period.view, *classes);
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
        self.method.shape.predictor(&self.parameters, lab)
    }

    fn save(&self) -> Body {
        Body::new(Vec::new(), parameter_sections(&self.parameters))
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        self.parameters = parameters_of(saved)?;
        Ok(())
    }
}
