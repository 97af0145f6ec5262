//! FedHAF's server: the mean of modules and heads, and the model that each task left.

use std::sync::Arc;

use super::features::Model;
use super::{FedHaf, rows_of};
use crate::learning::head_rows;
use crate::methods::fedavg::Down;
use crate::methods::fedavg::previous::{load, previous, save};
use crate::model::ParameterSet;
use crate::policy::{
    Asset, Lab, Next, ParameterAverage, Period, PolicyError, Predictor, RoundContext, Seat,
    ServerPolicy, shared,
};
use crate::wire::{Body, WireError};

/// What the server knows.
pub struct FedHafServer {
    pub(super) method: Arc<FedHaf>,
    /// Module and head, with all rows.
    pub(super) parameters: ParameterSet,
    /// As the last finished task left them.
    pub(super) previous: Option<Arc<Asset>>,
}

impl ServerPolicy<FedHaf> for FedHafServer {
    fn broadcast(
        &mut self,
        round: &RoundContext,
        seats: &[Seat],
        _lab: &Lab,
    ) -> Result<Vec<Arc<Down>>, PolicyError> {
        let rows = self.method.config.head.down_rows(&round.period.view, self.method.shape.classes);
        let current = Down::cut(&self.parameters, rows)?;
        Ok(shared(Down { previous: self.previous.clone(), ..current }, seats))
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

    fn end_period(&mut self, period: &Period, _lab: &Lab) -> Result<(), PolicyError> {
        let rows = self.method.config.head.down_rows(&period.view, self.method.shape.classes);
        self.previous = Some(previous(period.task, &head_rows(&self.parameters, rows)?));
        Ok(())
    }

    fn predictor(&self, lab: &Lab) -> Result<Arc<dyn Predictor>, PolicyError> {
        let rows = rows_of(&self.parameters);
        Ok(Arc::new(Model::new(&lab.backbone, self.method.shape, &self.parameters, rows)?))
    }

    fn save(&self) -> Body {
        save(&self.parameters, self.previous.as_ref())
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        (self.parameters, self.previous) = load(saved)?;
        Ok(())
    }
}
