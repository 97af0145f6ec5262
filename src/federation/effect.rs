//! Effects that a transition of an actor asks for.
//!
//! The state machines of server and client are functions from an event to a list of
//! [`Effect`]s: they start no thread, read no clock and send nothing themselves. The event loop
//! carries effects out, in order.

use std::sync::Arc;

use super::client::{TrainingAnswer, TrainingJob};
use super::envelope::{Envelope, Pending};
use super::error::FederationError;
use super::evaluation::SampleAnswer;
use super::event::{Event, Numbers};
use super::network::Transmission;
use super::packs::Ticket;
use super::queue::{ActorId, EventClass};
use super::server::{ServerSnapshot, ToServer};
use super::simulation_context::SimulationContext;
use super::sink::JobKind;
use super::worker_pool::Work;
use crate::quantity::{ClientId, ParticipantId, Round, TaskId, VirtualTime};
use crate::wire::Body;

/// Request of a state machine to the event loop.
pub(super) enum Effect {
    /// Record an event that happens now.
    Record(Event, Option<Numbers>),
    /// Deliver a message at its virtual time.
    Deliver(Envelope),
    /// Deliver the result of a computation to an actor at a virtual time, as soon as it is ready.
    DeliverResult { at: VirtualTime, class: EventClass, to: ActorId, pending: Pending },
    /// Send frames.
    Send(Transmission),
    /// Let a worker run a job.
    Submit(JobKind, Work),
    /// Train these participants of a round together.
    GroupPacks(Round, Vec<Vec<ParticipantId>>),
    /// Let a worker train a participant, with its pack; notify its client at `at`, when its work is over.
    Train { at: VirtualTime, to: ClientId, ticket: Ticket, job: Box<TrainingJob>, pending: Pending },
    /// Let a worker train a participant before its download arrives. [`Effect::Train`] follows and takes the answer.
    TrainAhead { ticket: Ticket, job: Box<TrainingJob>, answer: TrainingAnswer },
    /// A participant will not ask to be trained.
    LeavePack(Ticket),
    /// Hand out the answers of the test after a task.
    RecordAnswers(TaskId, Vec<SampleAnswer>),
    /// Hand out the server's state after a task.
    RecordModel(TaskId, Body),
    /// Take a snapshot.
    TakeSnapshot(Box<ServerSnapshot>),
    /// Switch the context of the simulation for every actor.
    SwitchContext(Arc<SimulationContext>),
    /// The run is over.
    End(Result<(), FederationError>),
}

impl Effect {
    /// Returns the effect that delivers a message to the server.
    pub fn deliver_to_server(at: VirtualTime, class: EventClass, message: ToServer) -> Effect {
        Effect::Deliver(Envelope::for_server(at, class, message))
    }
}
