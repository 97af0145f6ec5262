//! Testing models: the global one after rounds and tasks, those of clients before synchronisation.

use std::sync::Arc;

use super::machine::{ServerMachine, ToServer, here, reply};
use super::round::OwnModel;
use crate::federation::bias::{self, Comparison, Subject};
use crate::federation::devices::Work;
use crate::federation::effect::{Effect, Message, answered};
use crate::federation::error::FederationError;
use crate::federation::evaluation;
use crate::federation::event::{EvaluationPoint, Event, Numbers};
use crate::federation::fleet::{Test, TestErrand};
use crate::federation::gather::Gather;
use crate::federation::sink::JobKind;
use crate::policy::{Lab, Predictor};
use crate::quantity::VirtualTime;

impl ServerMachine {
    /// Tests the model on all classes seen, block by block.
    pub(super) fn test(
        &mut self,
        now: VirtualTime,
        point: EvaluationPoint,
        predictor: Option<Arc<dyn Predictor>>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        let seen = self.seen();
        if let Some(answers) = self.answers() {
            let tally = match point {
                EvaluationPoint::Round => answers.tested_round(self.last_round()),
                EvaluationPoint::Task => {
                    answers.tested_task(self.world.curriculum.tasks[self.task].task)
                }
            };
            effects.push(reply(now, ToServer::Tested(point, Ok(vec![tally?]))));
            return Ok(());
        }
        let Some(predictor) = predictor else {
            let what = "a model that is to be tested is not there".to_owned();
            return Err(FederationError::Impossible(what));
        };
        let blocks = evaluation::blocks(&self.world, seen);
        let (tallies, result) = Gather::new(blocks.len());
        let (world, server, digest) = (Arc::clone(&self.world), self.saved.clone(), self.digest);
        let test = Arc::new(Test { world, predictor, blocks, seen, server, digest, tallies });
        for number in 0..test.blocks.len() {
            let errand = TestErrand { test: Arc::clone(&test), number };
            effects.push(Effect::Post(JobKind::Evaluate, Work::Anywhere(Box::new(errand))));
        }
        self.doing = "waits for the evaluation";
        let (at, class, to) = here(now);
        let pending = answered(result, FederationError::Evaluation, move |t| {
            Message::Server(ToServer::Tested(point, t))
        });
        effects.push(Effect::Await { at, class, to, pending });
        Ok(())
    }

    /// Measures client models before synchronisation, one job per client.
    pub(super) fn compare(&mut self, now: VirtualTime, effects: &mut Vec<Effect>) {
        let classes = self.world.facts.classes;
        let Some(round) = &mut self.round else { return };
        if let Some(answers) = &round.answers {
            let comparison = answers.bias(round.context.round);
            return effects.push(reply(now, ToServer::Compared(comparison)));
        }
        let mut models = std::mem::take(&mut round.models);
        models.sort_by_key(|model| model.seat.id);
        let (seen, phase) = (round.context.period.view.seen(), round.context.phase_name);
        let blocks: bias::Blocks = Arc::new(evaluation::blocks(&self.world, seen));
        let (gather, result) = Gather::new(models.len());
        for (place, model) in models.into_iter().enumerate() {
            let (world, blocks) = (Arc::clone(&self.world), Arc::clone(&blocks));
            let gather = Arc::clone(&gather);
            let job = move |lab: &Lab| {
                let shard = world.seat_shard(phase, &model.seat);
                gather.put(place, || {
                    let OwnModel { exchange, sent, own, .. } = &model;
                    let facts = exchange.facts();
                    let predictor = world.method.own_model(&facts, sent, own, lab)?;
                    let of = |predictor| {
                        let subject = Subject { client: model.seat.client, shard: &shard };
                        bias::portrait(&world, lab, predictor, subject, &blocks, seen)
                    };
                    predictor.map(of).transpose()
                });
            };
            effects.push(Effect::Post(JobKind::Bias, Work::Here(Box::new(job))));
        }
        self.doing = "waits for client models to be compared";
        let (at, class, to) = here(now);
        let pending = answered(result, FederationError::Evaluation, move |portraits| {
            let comparison = portraits.map(|all| Comparison::of(all, classes));
            Message::Server(ToServer::Compared(comparison))
        });
        effects.push(Effect::Await { at, class, to, pending });
    }

    pub(super) fn compared(&mut self, comparison: Comparison, effects: &mut Vec<Effect>) {
        let Some(round) = &self.round else { return };
        let Comparison { clients, figures, responses } = comparison;
        let (round, task) = (round.context.round, round.context.period.task);
        let event = Event::Bias { round, task, clients };
        let numbers = Numbers { metrics: figures, responses, ..Numbers::default() };
        effects.push(Effect::Record(event, Some(numbers)));
    }
}
