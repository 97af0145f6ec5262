//! The server: prepares the rows of a task, and takes weighted means.

use std::sync::Arc;

use super::{Cut, Down, PromptKind, Prompted, PromptedPart};
use crate::learning::Classifier;
use crate::model::ParameterSet;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Lab, Next, Period, PolicyError, Predictor, RoundContext, Seat, ServerPolicy,
    parameter_sections, parameters_of,
};
use crate::wire::{Body, MetaReader, MetaWriter, WireError};

/// Prompts and head, and how far tasks are.
pub struct PromptedServer<K> {
    pub(super) method: Arc<Prompted<K>>,
    /// Everything, with all rows.
    pub(super) parameters: ParameterSet,
    pub(super) init: StreamKey,
    /// The task at hand, from 0.
    pub(super) task: Option<usize>,
}

impl<K: PromptKind> PromptedServer<K> {
    fn has_rows(&self) -> impl Fn(&str) -> bool + '_ {
        |name| self.method.kind.has_rows(name)
    }
}

impl<K: PromptKind> ServerPolicy<Prompted<K>> for PromptedServer<K> {
    fn begin_period(&mut self, period: &Period, _lab: &Lab) -> Result<(), PolicyError> {
        let task = period.task.index();
        // A server that was loaded within a task has begun it before.
        if self.task != Some(task) {
            let parameters = std::mem::take(&mut self.parameters);
            self.parameters = self.method.kind.begin_task(task, parameters, self.init);
            self.task = Some(task);
        }
        Ok(())
    }

    fn broadcast(
        &mut self,
        _round: &RoundContext,
        seats: &[Seat],
        _lab: &Lab,
    ) -> Result<Vec<Arc<Down>>, PolicyError> {
        // Seats may be at different tasks; those that get the same rows share a Down.
        let mut sent: Vec<(Cut, Arc<Down>)> = Vec::new();
        let mut downs = Vec::with_capacity(seats.len());
        for Seat { view, .. } in seats {
            let cut = self.method.down_cut(view);
            let down = match sent.iter().find(|(known, _)| *known == cut) {
                Some((_, down)) => Arc::clone(down),
                None => {
                    let parameters = cut.of(&self.parameters, self.has_rows())?;
                    let down = Arc::new(Down::from(parameters));
                    sent.push((cut, Arc::clone(&down)));
                    down
                }
            };
            downs.push(down);
        }
        Ok(downs)
    }

    fn end_round(
        &mut self,
        _round: &RoundContext,
        folded: Option<PromptedPart>,
        _lab: &Lab,
    ) -> Result<Next, PolicyError> {
        if let Some(part) = folded {
            self.parameters = part.apply(&self.parameters);
        }
        Ok(Next::Continue)
    }

    fn predictor(&self, lab: &Lab) -> Result<Arc<dyn Predictor>, PolicyError> {
        let Prompted { kind, classes, .. } = &*self.method;
        let task = self.task.unwrap_or(0);
        let cut = Cut { head: 0..*classes, pool: kind.inference_rows(task) };
        let parameters = cut.of(&self.parameters, self.has_rows())?;
        let prompting = Some(kind.inference(task));
        Ok(Arc::new(Classifier::frozen_with(&lab.backbone, &parameters, prompting)?))
    }

    fn save(&self) -> Body {
        let mut meta = MetaWriter::new();
        meta.u64(self.task.map_or(0, |task| task as u64 + 1));
        Body::new(meta.finish(), parameter_sections(&self.parameters))
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        let mut meta = MetaReader::new(&saved.meta);
        let begun = meta.u64()?;
        meta.finish()?;
        self.task = begun.checked_sub(1).map(|task| task as usize);
        self.parameters = parameters_of(saved)?;
        Ok(())
    }
}
