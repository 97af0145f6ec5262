//! FedAvg's server: the weighted mean.

use std::sync::Arc;

use super::Down;
use super::previous::{load, previous, save};
use crate::learning::{Classifier, Prompting, head_rows};
use crate::methods::HeadForm;
use crate::model::ParameterSet;
use crate::policy::{
    Asset, Lab, Method, Next, ParameterAverage, Period, PolicyError, Predictor, RoundContext, Seat,
    ServerPolicy, parameter_sections, parameters_of, shared,
};
use crate::wire::{Body, WireError};

/// The server of every method that takes the mean of parameters.
pub struct FedAvgServer {
    /// Which head rows messages carry.
    pub(in crate::methods) head: HeadForm,
    /// Rows of the whole head.
    pub(in crate::methods) classes: usize,
    /// Theta, with all head rows.
    pub(in crate::methods) parameters: ParameterSet,
    /// What prompts among them do with a query.
    pub(in crate::methods) prompting: Option<Arc<dyn Prompting>>,
    /// Whether clients are sent what the previous task left.
    pub(in crate::methods) teaches: bool,
    /// It, where they are.
    pub(in crate::methods) previous: Option<Arc<Asset>>,
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
        let rows = self.head.down_rows(&round.period.view, self.classes);
        let previous = self.previous.clone();
        Ok(shared(Down { previous, ..Down::cut(&self.parameters, rows)? }, seats))
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
        if self.teaches {
            let rows = self.head.down_rows(&period.view, self.classes);
            self.previous = Some(previous(period.task, &head_rows(&self.parameters, rows)?));
        }
        Ok(())
    }

    fn predictor(&self, lab: &Lab) -> Result<Arc<dyn Predictor>, PolicyError> {
        let prompting = self.prompting.clone();
        Ok(Arc::new(Classifier::frozen_with(&lab.backbone, &self.parameters, prompting)?))
    }

    fn save(&self) -> Body {
        if self.teaches {
            return save(&self.parameters, self.previous.as_ref());
        }
        Body::new(Vec::new(), parameter_sections(&self.parameters))
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        match self.teaches {
            true => (self.parameters, self.previous) = load(saved)?,
            false => self.parameters = parameters_of(saved)?,
        }
        Ok(())
    }
}
