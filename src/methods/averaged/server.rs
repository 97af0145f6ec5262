//! The one server of all methods that average: it takes means, and does what its method does after them.

use std::sync::Arc;

use super::base::is_closing;
use super::cut::Cut;
use super::previous::{self, previous};
use super::{Averaged, Base, Closing, Direction, Memory};
use crate::model::ParameterSet;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Asset, Folded, Lab, Message, Period, PolicyError, Predictor, Role, RoundContext, Seat, Server,
    parameter_sections, parameters_of,
};
use crate::wire::{Body, WireError};

/// Parameters and what the method remembers beside them.
pub(super) struct BaseServer<A: Averaged> {
    base: Base<A>,
    init: StreamKey,
    /// Theta, with all rows.
    theta: ParameterSet,
    memory: A::Memory,
    /// What the previous task left, where clients are sent it.
    previous: Option<Arc<Asset>>,
    figures: Vec<(&'static str, f64)>,
}

impl<A: Averaged> BaseServer<A> {
    pub fn new(base: Base<A>, lab: &Lab, init: StreamKey) -> Result<BaseServer<A>, PolicyError> {
        let theta = base.method.initial(&base.model, lab, init)?;
        let (memory, figures) = (A::Memory::default(), Vec::new());
        Ok(BaseServer { base, init, theta, memory, previous: None, figures })
    }

    /// Whether nothing has moved since the previous task: a server that was loaded within a task has begun it before.
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
        cut: &Cut,
        (round, seat): (&RoundContext, &Seat),
        lab: &Lab,
    ) -> Result<Message, PolicyError> {
        let Base { method, model, .. } = &self.base;
        let travels = |name: &str| method.travels(model, name, Direction::Down);
        let parameters = cut.take(&self.base.parameters, &self.theta, travels)?;
        let closes = is_closing(round.phase);
        let taught = !closes && method.is_taught(seat.role);
        let previous = self.previous.iter().filter(|_| taught).cloned();
        let own = match closes && !method.closing_names_assets() {
            true => Vec::new(),
            false => method.assets(&self.memory, seat, lab)?,
        };
        let assets: Vec<Arc<Asset>> = previous.chain(own).collect();
        let named = assets.iter().flat_map(|asset| asset.digest().to_le_bytes());
        if closes {
            return Ok(Message { control: named.collect(), assets, ..Message::of(parameters) });
        }
        let mut extra = method.tell(&self.memory, round)?;
        extra.extend(method.tell_seat(model, &self.memory, seat)?);
        Ok(Message {
            control: named.chain(method.tell_fields(&self.memory, round)).collect(),
            parameters,
            extra,
            assets,
        })
    }
}

impl<A: Averaged> Server for BaseServer<A> {
    fn begin_period(&mut self, period: &Period, lab: &Lab) -> Result<(), PolicyError> {
        let Base { method, model, .. } = &self.base;
        let task = period.task.index();
        if method.restarts() && self.is_as_left() {
            self.theta = method.initial(model, lab, self.init.task(u32::from(period.task.0)))?;
        }
        if self.memory.begins(task) {
            let theta = std::mem::take(&mut self.theta);
            self.theta = method.begin_task(model, &mut self.memory, task, theta, self.init);
        }
        Ok(())
    }

    /// Seats may be at different tasks; those of a role that get the same rows share a Down, unless every seat has its own.
    fn broadcast(
        &mut self,
        round: &RoundContext,
        seats: &[Seat],
        lab: &Lab,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        let mut sent: Vec<(Cut, Role, Arc<Message>)> = Vec::new();
        let mut downs = Vec::with_capacity(seats.len());
        let personal = self.base.method.personal();
        for seat in seats {
            let cut = self.base.cut(&seat.view, Direction::Down);
            let alike = |known: &Cut, role: Role| !personal && *known == cut && role == seat.role;
            let known = sent.iter().find(|(known, role, _)| alike(known, *role));
            let down = match known {
                Some((_, _, down)) => Arc::clone(down),
                None => {
                    let down = Arc::new(self.down(&cut, (round, seat), lab)?);
                    sent.push((cut, seat.role, Arc::clone(&down)));
                    down
                }
            };
            downs.push(down);
        }
        Ok(downs)
    }

    fn end_round(
        &mut self,
        round: &RoundContext,
        folded: Option<Folded>,
        lab: &Lab,
    ) -> Result<(), PolicyError> {
        self.figures.clear();
        let Some(folded) = folded else { return Ok(()) };
        let Base { method, model, .. } = &self.base;
        if is_closing(round.phase) {
            let closing = Closing { model, before: &self.theta, folded, round, lab };
            self.figures = method.after_reports(&mut self.memory, closing)?;
            return Ok(());
        }
        let moved = folded.apply(&self.theta);
        let before = std::mem::replace(&mut self.theta, moved);
        let closing = Closing { model, before: &before, folded, round, lab };
        self.figures = method.after_mean(&mut self.memory, closing, &mut self.theta)?;
        Ok(())
    }

    fn end_period(&mut self, period: &Period, lab: &Lab) -> Result<(), PolicyError> {
        let method = &self.base.method;
        if method.teaches() {
            let cut = self.base.cut(&period.view, Direction::Down);
            let left = cut.take(&self.base.parameters, &self.theta, |_| true)?;
            self.previous = Some(previous(period.task, &left));
        }
        method.end_task(&mut self.memory, &self.theta, period, lab)
    }

    fn predictor(&self, lab: &Lab) -> Result<Arc<dyn Predictor>, PolicyError> {
        let Base { method, model, .. } = &self.base;
        let task = self.memory.task();
        let pool = method.task_rows(model, task, Direction::Inference);
        let cut = Cut { head: 0..model.classes, pool };
        let theta = cut.take(&self.base.parameters, &self.theta, |_| true)?;
        method.answering(model, &self.memory, &theta, lab)
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        self.figures.clone()
    }

    fn save(&self) -> Body {
        let mut body = match self.base.method.teaches() {
            true => previous::save(&self.theta, self.previous.as_ref()),
            false => Body::new(Vec::new(), parameter_sections(&self.theta)),
        };
        self.memory.save_into(&mut body);
        body
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        match self.base.method.teaches() {
            true => {
                (self.theta, self.previous) = previous::load(saved)?;
                (self.memory, _) = A::Memory::load_from(saved)?;
            }
            false => (self.memory, self.theta) = A::Memory::load_from(saved)?,
        }
        self.figures.clear();
        Ok(())
    }
}
