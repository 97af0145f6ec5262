//! Testing models: the global one after rounds and tasks, those of clients before synchronisation.

use std::sync::Arc;

use super::machine::{ServerMachine, ToServer, here};
use crate::federation::bias::{self, Portrait};
use crate::federation::effect::{Effect, Message, answered};
use crate::federation::error::FederationError;
use crate::federation::evaluation::{self, Gather};
use crate::federation::event::{EvaluationPoint, Event, Numbers};
use crate::federation::sink::JobKind;
use crate::policy::{Lab, Predictor};
use crate::quantity::VirtualTime;

impl ServerMachine {
    /// Tests the model on all classes seen, block by block.
    pub(super) fn test(
        &mut self,
        now: VirtualTime,
        point: EvaluationPoint,
        predictor: Arc<dyn Predictor>,
        effects: &mut Vec<Effect>,
    ) {
        let seen = self.seen();
        let blocks = evaluation::blocks(&self.world, seen);
        let (gather, result) = Gather::new(blocks.len());
        for (place, block) in blocks.into_iter().enumerate() {
            let (world, predictor) = (Arc::clone(&self.world), Arc::clone(&predictor));
            let gather = Arc::clone(&gather);
            let job = move |lab: &Lab| {
                gather.put(place, || evaluation::score(&world, lab, &*predictor, &block, seen));
            };
            effects.push(Effect::Post(JobKind::Evaluate, Box::new(job)));
        }
        self.doing = "waits for the evaluation";
        let (at, class, to) = here(now);
        let pending = answered(result, FederationError::Evaluation, move |t| {
            Message::Server(ToServer::Tested(point, t))
        });
        effects.push(Effect::Await { at, class, to, pending });
    }

    /// Measures client models before synchronisation, one job per client.
    pub(super) fn compare(&mut self, now: VirtualTime, effects: &mut Vec<Effect>) {
        let Some(round) = &mut self.round else { return };
        let mut models = std::mem::take(&mut round.models);
        models.sort_by_key(|(seat, _, _)| seat.id);
        let (seen, phase) = (round.context.period.view.seen(), round.context.phase_name);
        let blocks: bias::Blocks = Arc::new(evaluation::blocks(&self.world, seen));
        let (gather, result) = Gather::new(models.len());
        for (place, (seat, down, up)) in models.into_iter().enumerate() {
            let (world, blocks) = (Arc::clone(&self.world), Arc::clone(&blocks));
            let gather = Arc::clone(&gather);
            let job = move |lab: &Lab| {
                let shard = world.seat_shard(phase, &seat);
                let of = (&shard, &down, &up);
                gather.put(place, || bias::portrait(&world, lab, of, &blocks, seen));
            };
            effects.push(Effect::Post(JobKind::Bias, Box::new(job)));
        }
        self.doing = "waits for client models to be compared";
        let (at, class, to) = here(now);
        let pending = answered(result, FederationError::Evaluation, |p| {
            Message::Server(ToServer::Compared(p))
        });
        effects.push(Effect::Await { at, class, to, pending });
    }

    pub(super) fn compared(
        &mut self,
        portraits: Result<Vec<Option<Portrait>>, FederationError>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        let portraits = portraits?;
        let portraits: Vec<Portrait> = portraits.into_iter().flatten().collect();
        let Some(round) = &self.round else { return Ok(()) };
        let event = Event::Bias {
            round: round.context.round,
            task: round.context.period.task,
            clients: portraits.len() as u32,
        };
        let numbers = Numbers {
            metrics: bias::measure(&portraits, self.world.facts.classes),
            ..Numbers::default()
        };
        effects.push(Effect::Record(event, Some(numbers)));
        Ok(())
    }
}
