//! Server of all averaging methods: applies means, then the server update of the method.

use std::sync::Arc;

use super::averager::is_closing;
use super::previous::{self, previous};
use super::row_selection::RowSelection;
use super::{Averager, ClosedRound, RowPurpose, ServerState};
use crate::methods::parts::{AveragingMethod, Parts, TaskEnd, TaskStart};
use crate::model::ParameterSet;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Aggregate, Asset, Message, Participant, PolicyError, Predictor, Role, RoundContext, RunContext,
    Server, Stage, parameter_sections, parameters_of,
};
use crate::wire::{Body, Saved, WireError};

/// Server of an averaging method: global parameters, and the method's own state.
pub(super) struct AveragingServer<C: AveragingMethod> {
    base: Averager<C>,
    init: StreamKey,
    /// Global parameters, with all rows.
    theta: ParameterSet,
    memory: C::Memory,
    /// Model at the end of the previous task, if clients are sent it.
    previous: Option<Arc<Asset>>,
    metrics: Vec<(&'static str, f64)>,
}

impl<C: AveragingMethod> AveragingServer<C> {
    pub fn new(
        base: Averager<C>,
        ctx: &RunContext,
        init: StreamKey,
    ) -> Result<AveragingServer<C>, PolicyError> {
        let theta = base.parts().adaptation.initial(&base.model, ctx, init)?;
        let (memory, metrics) = (C::Memory::default(), Vec::new());
        Ok(AveragingServer { base, init, theta, memory, previous: None, metrics })
    }

    /// Returns true if the parameters are still those at the end of the previous task.
    ///
    /// A server that is loaded within a task has trained since, and must not be reinitialized again.
    fn is_as_left(&self) -> bool {
        let Some(left) = &self.previous else { return false };
        parameters_of(&left.body).is_ok_and(|left| {
            left.iter().all(|(name, left)| {
                let now = self.theta.get(name);
                now.is_some_and(|now| now.values.starts_with(&left.values))
            })
        })
    }

    fn down(
        &self,
        cut: &RowSelection,
        (round, participant): (&RoundContext, &Participant),
        ctx: &RunContext,
    ) -> Result<Message, PolicyError> {
        let (parts, model) = (self.base.parts(), &*self.base.model);
        let Parts { download, previous_model, .. } = parts;
        let down = (&*participant.view, RowPurpose::Down, 0);
        let parameters = self.base.messages().take(cut, down, &self.theta)?;
        let closes = is_closing(round.phase);
        let taught =
            !closes && previous_model.is_some_and(|model| model.is_sent_to(participant.role));
        let previous = self.previous.iter().filter(|_| taught).cloned();
        let own = match !closes || parts.final_exchange_sends_assets() {
            true => download.assets(&self.memory, participant, ctx)?,
            false => Vec::new(),
        };
        let assets: Vec<Arc<Asset>> = previous.chain(own).collect();
        let named = assets.iter().flat_map(|asset| asset.digest().to_le_bytes());
        let mut control: Vec<u8> = named.collect();
        if closes {
            return Ok(Message { control, assets, ..Message::of(parameters) });
        }
        control.extend(download.fields(&self.memory, round));
        let mut extra = download.sections(&self.memory, round)?;
        extra.extend(download.personal_sections(model, &self.memory, participant)?);
        Ok(Message { control, parameters, extra, assets })
    }
}

impl<C: AveragingMethod> Server for AveragingServer<C> {
    fn begin_stage(&mut self, stage: &Stage, ctx: &RunContext) -> Result<(), PolicyError> {
        let (parts, model, init) = (self.base.parts(), &*self.base.model, self.init);
        let task = stage.task.index();
        let reinitializes = parts.previous_model.is_some_and(|previous| previous.reinitializes);
        if reinitializes && self.is_as_left() {
            let init = init.task(u32::from(stage.task.0));
            self.theta = parts.adaptation.initial(model, ctx, init)?;
        }
        if self.memory.is_new_task(task) {
            let theta = std::mem::take(&mut self.theta);
            self.theta = parts.adaptation.begin_task(model, task, theta, init);
            let start = TaskStart { model, task, init };
            parts.server.begin_task(start, &mut self.memory, &mut self.theta);
        }
        Ok(())
    }

    /// Creates the downloads of a round, whose participants may be at different tasks.
    ///
    /// Participants of one role that get the same rows share a download, unless downloads are personal.
    fn broadcast(
        &mut self,
        round: &RoundContext,
        participants: &[Participant],
        ctx: &RunContext,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        let mut sent: Vec<(RowSelection, Role, Arc<Message>)> = Vec::new();
        let mut downloads = Vec::with_capacity(participants.len());
        let is_personal = self.base.parts().download.is_personal();
        for participant in participants {
            let cut = self.base.messages().cut(&participant.view, RowPurpose::Down);
            let alike = |known: &RowSelection, role: Role| {
                !is_personal && *known == cut && role == participant.role
            };
            let known = sent.iter().find(|(known, role, _)| alike(known, *role));
            let download = match known {
                Some((_, _, download)) => Arc::clone(download),
                None => {
                    let download = Arc::new(self.down(&cut, (round, participant), ctx)?);
                    sent.push((cut, participant.role, Arc::clone(&download)));
                    download
                }
            };
            downloads.push(download);
        }
        Ok(downloads)
    }

    fn end_round(
        &mut self,
        round: &RoundContext,
        aggregate: Option<Aggregate>,
        ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        self.metrics.clear();
        let Some(aggregate) = aggregate else { return Ok(()) };
        let (parts, model) = (self.base.parts(), &*self.base.model);
        let shared = parts.shared();
        if is_closing(round.phase) {
            let closing = ClosedRound { model, shared, before: &self.theta, aggregate, round, ctx };
            if let Some(last) = parts.final_exchange {
                self.metrics = last.aggregate(&mut self.memory, closing)?;
            }
            return Ok(());
        }
        let moved = aggregate.apply(&self.theta);
        let before = std::mem::replace(&mut self.theta, moved);
        let closing = ClosedRound { model, shared, before: &before, aggregate, round, ctx };
        self.metrics = parts.server.server_update(&mut self.memory, closing, &mut self.theta)?;
        Ok(())
    }

    fn end_stage(&mut self, stage: &Stage, ctx: &RunContext) -> Result<(), PolicyError> {
        if self.base.parts().sends_previous_model() {
            let cut = self.base.messages().cut(&stage.view, RowPurpose::Down);
            let left = cut.take(&self.base.parameters, &self.theta, &|_| true)?;
            self.previous = Some(previous(stage.task, &left));
        }
        let end = TaskEnd { model: &self.base.model, stage, init: self.init };
        self.base.parts().server.end_task(&mut self.memory, &self.theta, end, ctx)
    }

    fn predictor(&self, ctx: &RunContext) -> Result<Arc<dyn Predictor>, PolicyError> {
        let (parts, model) = (self.base.parts(), &*self.base.model);
        let task = self.memory.task();
        let cut = self.base.messages().inference_cut(task);
        let theta = cut.take(&self.base.parameters, &self.theta, &|_| true)?;
        let own = match parts.answer {
            Some(answer) => answer.server_predictor(model, &self.memory, &theta, ctx)?,
            None => None,
        };
        match own {
            Some(own) => Ok(own),
            None => parts.adaptation.predictor(model, task, &theta, ctx),
        }
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        self.metrics.clone()
    }

    fn save(&self) -> Body {
        let mut body = match self.base.parts().sends_previous_model() {
            true => previous::save(&self.theta, self.previous.as_ref()),
            false => Body::new(Vec::new(), parameter_sections(&self.theta)),
        };
        let Body { meta, sections } = self.memory.save();
        body.meta.extend(meta);
        body.sections.extend(sections);
        body
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        self.memory = C::Memory::load(saved)?;
        match self.base.parts().sends_previous_model() {
            true => (self.theta, self.previous) = previous::load(saved)?,
            false => self.theta = C::Memory::server_parameters(saved)?,
        }
        self.metrics.clear();
        Ok(())
    }
}
