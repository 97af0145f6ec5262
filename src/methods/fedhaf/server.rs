//! FedHAF's server: the mean of modules and heads, and the model that each task left.

use std::sync::Arc;

use super::features::Model;
use super::messages::{Down, previous};
use super::{FedHaf, rows_of};
use crate::learning::head_rows;
use crate::methods::fedavg;
use crate::model::ParameterSet;
use crate::policy::{
    Asset, Lab, Next, ParameterAverage, Period, PolicyError, Predictor, RoundContext, Seat,
    ServerPolicy, parameter_sections, parameters_of, shared,
};
use crate::quantity::TaskId;
use crate::wire::{Body, MetaReader, MetaWriter, WireError};

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
        let current = fedavg::Down::cut(&self.parameters, rows)?;
        Ok(shared(Down { current, previous: self.previous.clone() }, seats))
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

    /// The meta says how many sections are the current model's and which task left the others.
    fn save(&self) -> Body {
        let mut sections = parameter_sections(&self.parameters);
        let mut meta = MetaWriter::new();
        meta.u64(sections.len() as u64);
        meta.u64(self.previous.as_ref().map_or(0, |asset| u64::from(asset.version) + 1));
        if let Some(asset) = &self.previous {
            sections.extend(asset.body.sections.iter().cloned());
        }
        Body::new(meta.finish(), sections)
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        let mut meta = MetaReader::new(&saved.meta);
        let (own, task) = (meta.u64()? as usize, meta.u64()?);
        meta.finish()?;
        let cut = || WireError::Malformed("a saved server of FedHAF is cut short".to_owned());
        let (own, others) = saved.sections.split_at_checked(own).ok_or_else(cut)?;
        self.parameters = parameters_of(&Body::new(Vec::new(), own.to_vec()))?;
        self.previous = match task.checked_sub(1) {
            None => None,
            Some(task) => {
                let parameters = parameters_of(&Body::new(Vec::new(), others.to_vec()))?;
                Some(previous(TaskId(task as u16), &parameters))
            }
        };
        Ok(())
    }
}
