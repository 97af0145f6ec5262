//! Transitions of the server, as a function from events to effects.
//!
//! ```text
//! Start -> BeginStage -> OpenRound -> (participants come back) -> Aggregated -> Closed -> Tested
//!              ^              ^                                                    |
//!              |              +-------------------- next round or phase -----------+
//!              +------ TaskEnded <- Tested <- StageEnded <- last phase over -------+
//! ```
//! Every arrow is an event of the event loop. The [`RoundClosing`](crate::federation::RoundClosing) decides when a
//! round closes; participants that come back later are stragglers.
//!
//! The server owns three parts, each with its own state: the [`RunSchedule`] knows the position in the run, the
//! [`RoundBook`] the open round and participants that are out, the [`PolicyDesk`] the policy. Transitions connect them.

mod arrivals;
mod closing;
mod opening;
mod restart;
mod snapshots;
mod tasks;

use std::sync::Arc;

use super::known_clients::KnownClients;
use super::messages::ToServer;
use super::policy_desk::PolicyDesk;
use super::round::OpenRound;
use super::round_book::RoundBook;
use super::schedule::RunSchedule;
use crate::data::TaskView;
use crate::federation::assets::AssetCaches;
use crate::federation::compute::{Computation, Supplier};
use crate::federation::effect::Effect;
use crate::federation::envelope::ActorMessage;
use crate::federation::error::FederationError;
use crate::federation::event::{Event, JOURNAL_FORMAT};
use crate::federation::queue::{ActorId, EventClass};
use crate::federation::simulation_context::SimulationContext;
use crate::learning::Tally;
use crate::policy::Server;
use crate::quantity::VirtualTime;

/// State machine of the server.
pub(crate) struct ServerMachine {
    simulation: Arc<SimulationContext>,
    schedule: RunSchedule,
    book: RoundBook,
    desk: PolicyDesk,
    caches: AssetCaches,
    met: KnownClients,
    /// True while the server is lost and not back yet.
    down: bool,
    /// Description of its state, for the report of a deadlock.
    doing: &'static str,
}

impl ServerMachine {
    /// Creates the server of a run; `policy` is `None` if all results are supplied.
    pub fn new(
        simulation: Arc<SimulationContext>,
        supplier: Supplier,
        policy: Option<Box<dyn Server>>,
    ) -> ServerMachine {
        ServerMachine {
            schedule: RunSchedule::new(),
            book: RoundBook::default(),
            desk: PolicyDesk::new(supplier, policy),
            caches: AssetCaches::new(simulation.rules.cache),
            simulation,
            met: KnownClients::default(),
            down: false,
            doing: "has not begun",
        }
    }

    /// Reacts to an event.
    pub fn step(&mut self, now: VirtualTime, event: ToServer) -> Vec<Effect> {
        let mut effects = Vec::new();
        if let Err(error) = self.react(now, event, &mut effects) {
            effects.push(Effect::End(Err(error)));
        }
        effects
    }

    /// Returns the waiting actors and what each waits for, for the report of a deadlock.
    pub fn waiting(&self) -> Vec<String> {
        let server = format!("the server {}", self.doing);
        [vec![server], self.book.waiting()].concat()
    }

    fn react(
        &mut self,
        now: VirtualTime,
        event: ToServer,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        match event {
            ToServer::Start => {
                self.start(effects);
                self.begin_task(now, effects)
            }
            ToServer::Started(answer) => {
                self.desk.take_back(answer)?;
                self.begin_phase(now, effects)
            }
            ToServer::TaskDue => self.begin_task(now, effects),
            ToServer::Reopen => self.open_round(now, effects),
            ToServer::Opened(answer) => {
                let opening = self.desk.take_back(answer)?;
                self.send_round(now, opening, effects);
                self.aggregate_held(effects)?;
                self.close_when_complete(now, effects);
                Ok(())
            }
            ToServer::Arrived(arrival) => {
                self.arrived(*arrival, effects)?;
                self.close_when_complete(now, effects);
                Ok(())
            }
            ToServer::Loaded { round, participant, charge } => {
                if self.book.waits_for(round) {
                    effects.extend(charge.map(|charge| Effect::Record(charge, None)));
                    self.book.skip(participant);
                } else {
                    self.take_late_frame((round, participant), charge, effects);
                }
                self.close_when_complete(now, effects);
                Ok(())
            }
            ToServer::Untrained { round, participant, charge } => {
                self.untrained((round, participant), charge, effects)
            }
            ToServer::Lost { round, participant, charge } => {
                self.lost(round, participant, charge, effects);
                self.close_when_complete(now, effects);
                Ok(())
            }
            ToServer::Failed { round, participant } => {
                match self.book.waits_for(round) {
                    true => self.book.skip(participant),
                    false => {
                        self.book.take_underway((round, participant));
                        self.straggler_is_back((round, participant), effects);
                    }
                }
                self.close_when_complete(now, effects);
                Ok(())
            }
            ToServer::Charged(charge) => {
                effects.push(Effect::Record(charge, None));
                Ok(())
            }
            ToServer::KeysArrived { round, charge } => {
                effects.push(Effect::Record(self.keys_arrived(round, charge), None));
                Ok(())
            }
            ToServer::Introduced(round, introduction) => {
                self.introduced(round, introduction, effects);
                self.close_when_complete(now, effects);
                Ok(())
            }
            ToServer::Deadline(round) => {
                if self.book.waits_for(round) {
                    self.book.current_mut().into_iter().for_each(OpenRound::expire);
                    self.close_when_complete(now, effects);
                }
                Ok(())
            }
            ToServer::Lose(loss) => {
                self.lose(now, *loss, effects);
                Ok(())
            }
            ToServer::Restarted(answer) => {
                self.desk.take_back(answer)?;
                self.restarted(now, effects);
                Ok(())
            }
            ToServer::Aggregated(aggregate) => self.aggregate(now, aggregate, effects),
            ToServer::Compared(comparison) => {
                self.compared(comparison?, effects);
                self.close(now, effects);
                Ok(())
            }
            ToServer::Closed(answer) => {
                let state = self.desk.take_back(answer)?;
                self.closed(now, state, effects)
            }
            ToServer::StageEnded(answer) => {
                let state = self.desk.take_back(answer)?;
                self.phases_ended(now, state, effects)
            }
            ToServer::Tested(point, tallies) => {
                let mut sum = Tally::new(self.task().seen());
                tallies?.iter().for_each(|tally| sum.merge(tally));
                self.tested(now, point, sum, effects)
            }
        }
    }

    fn start(&mut self, effects: &mut Vec<Effect>) {
        let rules = &self.simulation.rules;
        let event = Event::RunStarted {
            format: JOURNAL_FORMAT,
            seed: rules.seed,
            method: self.simulation.name.clone(),
            clients: rules.clients,
            tasks: self.simulation.task_sequence.tasks.len() as u32,
        };
        effects.push(Effect::Record(event, None));
    }

    /// Returns the current task.
    fn task(&self) -> &TaskView {
        &self.simulation.task_sequence.tasks[self.schedule.task()]
    }
}

/// Returns the effects that deliver a result to the server at `at`, as soon as it is ready.
pub(super) fn deliver_result<T: Send + 'static>(
    at: VirtualTime,
    computation: Computation<T>,
    message: impl FnOnce(T) -> ToServer + Send + 'static,
) -> Vec<Effect> {
    match computation {
        Computation::Known(result) => {
            vec![Effect::deliver_to_server(at, EventClass::Timer, message(result))]
        }
        Computation::Posted { jobs, result } => {
            let pending = Box::pin(async move { ActorMessage::Server(message(result.await)) });
            let jobs = jobs.into_iter().map(|(kind, work)| Effect::Submit(kind, work));
            let (class, to) = (EventClass::Timer, ActorId::Server);
            jobs.chain([Effect::DeliverResult { at, class, to, pending }]).collect()
        }
    }
}
