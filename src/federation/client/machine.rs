//! State machine of a client: a function from events to effects.
//!
//! A download arrives; the cost model gives the end of the work; a worker does it meanwhile; at the virtual end of the
//! work the state is committed and the upload sent. A client works on one participant after the other. Participants of
//! a stateless client are computed at once, those of a stateful one when the participant before them has ended, because
//! they start from the state that it left.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::arrival;
use super::memory::{ClientMemory, ClientSnapshot};
use super::messages::{
    AssetArrived, Broadcast, Stop, ToClient, TrainingFinished, Uncomputed, WorkStopped,
};
use super::orders;
use super::uncomputed;
use super::upload;
use crate::federation::compute::{ParticipantRef, Supplier};
use crate::federation::effect::Effect;
use crate::federation::envelope::Envelope;
use crate::federation::event::{Direction, Event, FrameOutcome, Numbers};
use crate::federation::faults::CrashTime;
use crate::federation::metric_value::Digest;
use crate::federation::packs::Ticket;
use crate::federation::queue::EventClass;
use crate::federation::server::{Arrival, ToServer};
use crate::federation::simulation_context::SimulationContext;
use crate::numerics::distributions::unit;
use crate::policy::{Failure, ParticipantKind, RoundContext};
use crate::quantity::{ClientId, ParticipantId, Round, VirtualTime};
use crate::wire::Body;

/// State machine of one client.
pub(crate) struct ClientMachine {
    id: ClientId,
    simulation: Arc<SimulationContext>,
    supplier: Supplier,
    memory: ClientMemory,
    /// Downloads that wait to be computed, with the duration and the end of their work.
    waiting: VecDeque<(Broadcast, (VirtualTime, VirtualTime))>,
    busy_until: VirtualTime,
    /// Number of participants whose work has begun, or waits to begin.
    open: usize,
}

impl ClientMachine {
    /// Creates a client with nothing to do, and with this memory.
    pub fn new(
        id: ClientId,
        (simulation, supplier): (Arc<SimulationContext>, Supplier),
        memory: ClientMemory,
    ) -> ClientMachine {
        let (waiting, busy_until) = (VecDeque::new(), VirtualTime::ZERO);
        ClientMachine { id, simulation, supplier, memory, waiting, busy_until, open: 0 }
    }

    pub fn id(&self) -> ClientId {
        self.id
    }

    /// Returns true if no participant of the client is open: it holds nothing but its memory.
    pub fn is_idle(&self) -> bool {
        self.open == 0
    }

    /// Takes the client's memory when its actor retires; `None` if the client never trained.
    pub fn retire(&mut self) -> Option<ClientMemory> {
        let memory = std::mem::take(&mut self.memory);
        (!memory.is_blank()).then_some(memory)
    }

    /// Takes any message, without an actor.
    #[cfg(test)]
    pub fn step(&mut self, now: VirtualTime, message: ToClient) -> Vec<Effect> {
        let mut effects = Vec::new();
        match message {
            ToClient::Asset(asset) => self.take_asset(asset, &mut effects),
            ToClient::Broadcast(broadcast) => self.receive(now, *broadcast, &mut effects),
            ToClient::Trained(trained) => self.finish(now, *trained, &mut effects),
            ToClient::Idles(uncomputed) => self.send_blank(now, *uncomputed, &mut effects),
            ToClient::Stops(stopped) => self.stop(now, stopped, &mut effects),
        }
        effects
    }

    /// Records an asset that arrives.
    pub fn take_asset(&self, AssetArrived { charge }: AssetArrived, effects: &mut Vec<Effect>) {
        effects.push(Effect::Record(charge, None));
    }

    /// Ends a participant whose work yields nothing.
    pub fn stop(&mut self, now: VirtualTime, stopped: WorkStopped, effects: &mut Vec<Effect>) {
        let WorkStopped { context, participant, failure } = stopped;
        self.close_participant();
        self.fail(now, &context, participant, failure, effects);
    }

    /// Begins the work of a participant, or fails.
    pub fn receive(
        &mut self,
        now: VirtualTime,
        mut broadcast: Broadcast,
        effects: &mut Vec<Effect>,
    ) {
        let (context, participant) = (&broadcast.context, &broadcast.participant);
        let victim = self.simulation.victim(context.round, participant);
        let (faults, seed) = (&self.simulation.rules.faults, self.simulation.rules.seed);
        if let Some(charge) = broadcast.charge.take() {
            let again = faults.duplicates(seed, victim, Direction::Down);
            let again = again.then(|| charge.clone().with_outcome(FrameOutcome::Duplicate));
            effects.push(Effect::Record(charge, None));
            effects.extend(again.map(|again| Effect::Record(again, None)));
        }
        // Otherwise its pack would wait for a participant that is not computed.
        let out =
            || Effect::LeavePack(Ticket { round: context.round, participant: participant.id });
        // Load clients are always there.
        let off = (participant.kind != ParticipantKind::LoadClient)
            .then(|| self.simulation.availability.next_off(self.id, now))
            .flatten();
        let crash = faults.crash(seed, victim);
        let failure = match &crash {
            _ if off == Some(now) => Some(Failure::Away),
            Some((CrashTime::Before, _)) => Some(Failure::Crashed),
            _ => upload::damaged_down(&self.simulation, &self.supplier, &broadcast)
                .map(Failure::Corrupt),
        };
        if let Some(failure) = failure {
            effects.push(out());
            self.fail(now, context, participant.id, failure, effects);
            return;
        }
        let passes = self.simulation.passes(context, participant);
        let work = self.simulation.clock.work(self.id, context.round, victim.unit, passes);
        let begin = self.busy_until.max(now);
        let end = begin + work;
        self.open += 1;
        let crash = crash.filter(|(when, _)| *when == CrashTime::While).map(|(_, mut rng)| {
            let done = (work.0 as f64 * unit(&mut rng)) as u64;
            (begin + VirtualTime(done), Failure::Crashed)
        });
        let left = off.filter(|off| *off < end).map(|off| (off, Failure::Left));
        if let Some((at, failure)) = crash.into_iter().chain(left).min_by_key(|(at, _)| *at) {
            // Results until then are lost, so they are not computed.
            self.busy_until = at;
            effects.push(out());
            let (context, participant) = (Arc::clone(context), participant.id);
            let message = ToClient::Stops(WorkStopped { context, participant, failure });
            effects.push(self.remind(at, message));
            return;
        }
        self.busy_until = end;
        if let Some(uncomputed) =
            uncomputed::who_need_not_compute(&self.simulation, &broadcast, (work, end))
        {
            effects.push(out());
            effects.push(self.remind(end, ToClient::Idles(Box::new(uncomputed))));
            return;
        }
        self.waiting.push_back((broadcast, (work, end)));
        self.compute(effects);
    }

    /// Has waiting participants trained; those of a stateful client wait until the state is back.
    fn compute(&mut self, effects: &mut Vec<Effect>) {
        let stateless = self.simulation.stateless;
        while let Some((broadcast, time)) = self.waiting.pop_front() {
            if !stateless && self.memory.is_lent() {
                self.waiting.push_front((broadcast, time));
                return;
            }
            let at = ParticipantRef {
                simulation: &self.simulation,
                context: &broadcast.context,
                participant: &broadcast.participant,
            };
            let place = at.place();
            let known = self.supplier.known_training(&at, broadcast.masking.as_deref());
            if let Some(training) = known {
                self.memory.lend_without_worker();
                effects.extend(orders::supply(broadcast, training, time));
                continue;
            }
            let state = match stateless {
                true => Ok(Body::default()),
                false => self.memory.lend(
                    (&self.simulation, &self.supplier),
                    self.id,
                    (place, &broadcast.download),
                ),
            };
            let state = match state {
                Ok(state) => state,
                Err(error) => return effects.push(Effect::End(Err(error))),
            };
            let task = broadcast.participant.view.task;
            let missed = match stateless {
                true => Vec::new(),
                false => self.simulation.missed(self.id, self.memory.last_task, task),
            };
            effects.push(orders::ask(broadcast, state, missed, time));
        }
    }

    /// Commits what training left, and sends the upload.
    pub fn finish(
        &mut self,
        now: VirtualTime,
        trained: TrainingFinished,
        effects: &mut Vec<Effect>,
    ) {
        let TrainingFinished { context, participant, state, samples, worked, result } = trained;
        self.close_participant();
        if !self.simulation.stateless {
            self.memory.take_back(state);
        }
        match result {
            Err(Stop::Ends(error)) => effects.push(Effect::End(Err(error))),
            Err(Stop::Failed(failure)) => {
                self.fail(now, &context, participant.id, failure, effects)
            }
            Ok(done) => {
                self.memory.last_task = Some(participant.view.task);
                effects.push(Effect::Record(
                    Event::ClientTrained {
                        round: context.round,
                        task: context.stage.task,
                        phase: context.phase as u32,
                        participant: participant.id,
                        client: self.id,
                        samples: samples as u64,
                        work_ns: worked.0,
                        state_bytes: done.state_bytes,
                    },
                    Some(Numbers {
                        digest: Some(Digest(done.up.digest)),
                        metrics: done.metrics,
                        ..Numbers::default()
                    }),
                ));
                let (round, task) = (context.round, context.stage.task);
                let forged = done.forged.map(|how| Event::UpdatePoisoned {
                    round,
                    task,
                    participant: participant.id,
                    client: self.id,
                    attack: how,
                });
                effects.extend(forged.map(|event| Effect::Record(event, None)));
                if arrival::crashes_after(&self.simulation, &context, &participant) {
                    self.fail(now, &context, participant.id, Failure::Crashed, effects);
                } else {
                    let (round, id, upload) = (context.round, participant.id, done.up);
                    let twice = upload::arrives_twice(&self.simulation, &context, &participant);
                    let bytes = Arc::clone(&upload.bytes);
                    let arrived = move |charge| {
                        ToServer::Arrived(Box::new(Arrival {
                            round,
                            participant: id,
                            up: upload,
                            charge,
                            twice,
                        }))
                    };
                    effects.push(upload::send(
                        &self.simulation,
                        now,
                        (&context, &participant),
                        &bytes,
                        arrived,
                    ));
                }
            }
        }
        self.compute(effects);
    }

    /// Sends the upload of a participant that was not computed: a frame of its size without content.
    pub fn send_blank(
        &mut self,
        now: VirtualTime,
        uncomputed: Uncomputed,
        effects: &mut Vec<Effect>,
    ) {
        let Uncomputed { context, participant, worked, bytes } = uncomputed;
        self.close_participant();
        let (round, id) = (context.round, participant.id);
        let load = participant.kind == ParticipantKind::LoadClient;
        let skipped = Event::ClientSkipped {
            round,
            task: context.stage.task,
            phase: context.phase as u32,
            participant: participant.id,
            client: self.id,
            work_ns: worked.0,
        };
        effects.extend((!load).then_some(Effect::Record(skipped, None)));
        if arrival::crashes_after(&self.simulation, &context, &participant) {
            return self.fail(now, &context, participant.id, Failure::Crashed, effects);
        }
        let arrived = move |charge| match load {
            true => ToServer::Loaded { round, participant: id, charge },
            false => ToServer::Untrained { round, participant: id, charge },
        };
        effects.push(upload::send(
            &self.simulation,
            now,
            (&context, &participant),
            &bytes,
            arrived,
        ));
    }

    /// Switches the context from now on.
    pub fn turn(&mut self, simulation: Arc<SimulationContext>) {
        self.simulation = simulation;
    }

    /// Returns the state that a snapshot needs of a client that keeps state.
    pub fn keep(&mut self, out: &BTreeSet<(Round, ParticipantId)>) -> Option<ClientSnapshot> {
        self.memory.keep(&self.supplier, self.id, out)
    }

    /// Returns the effect that delivers a message to the client itself later.
    fn remind(&self, at: VirtualTime, message: ToClient) -> Effect {
        Effect::Deliver(Envelope::for_client(at, EventClass::Timer, self.id, message))
    }

    /// Ends the work of a participant.
    fn close_participant(&mut self) {
        self.open = self.open.checked_sub(1).expect("the work of a participant ends once");
    }

    fn fail(
        &self,
        now: VirtualTime,
        context: &RoundContext,
        participant: ParticipantId,
        failure: Failure,
        effects: &mut Vec<Effect>,
    ) {
        effects.push(Effect::Record(failed(context, participant, self.id, &failure), None));
        let message = ToServer::Failed { round: context.round, participant };
        effects.push(Effect::deliver_to_server(now, EventClass::Delivery, message));
    }
}

/// Returns the entry of a failure.
pub(crate) fn failed(
    context: &RoundContext,
    participant: ParticipantId,
    client: ClientId,
    failure: &Failure,
) -> Event {
    let (reason, detail) = match failure {
        Failure::Crashed => ("crashed", String::new()),
        Failure::Corrupt(why) => ("corrupt", why.clone()),
        Failure::Away => ("away", String::new()),
        Failure::Left => ("left", String::new()),
        Failure::NoData => ("no_data", String::new()),
        Failure::NonFinite(place) => ("non_finite", place.clone()),
        Failure::OutOfRange(why) => ("out_of_range", why.clone()),
        Failure::Policy(why) => ("policy", why.clone()),
        Failure::Data(why) => ("data", why.clone()),
        Failure::Memory(why) => ("memory", why.clone()),
        Failure::Panicked(why) => ("panicked", why.clone()),
    };
    Event::ClientFailed {
        round: context.round,
        task: context.stage.task,
        participant,
        client,
        reason: reason.to_string(),
        detail,
    }
}
