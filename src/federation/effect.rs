//! Effects that a transition of an actor asks for.
//!
//! The state machines of server and client are functions from an event to a list of
//! [`Effect`]s: they start no thread, read no clock and send nothing themselves. The conductor
//! carries effects out, in order.

use std::sync::Arc;

use super::client::TrainingJob;
use super::devices::Work;
use super::envelope::{Envelope, Pending};
use super::error::FederationError;
use super::event::{Event, Numbers};
use super::network::Journey;
use super::packs::Ticket;
use super::queue::{ActorId, EventClass};
use super::server::{ServerKept, ToServer};
use super::sink::JobKind;
use super::world::World;
use crate::learning::Confusion;
use crate::quantity::{ClientId, Round, SeatId, TaskId, VirtualTime};
use crate::wire::Body;

/// What a transition asks for.
pub(super) enum Effect {
    /// Write this down as having happened now.
    Record(Event, Option<Numbers>),
    /// Deliver a message at its virtual time.
    Tell(Envelope),
    /// Tell an actor the answer of a computation at a virtual time, whenever it is ready.
    Await { at: VirtualTime, class: EventClass, to: ActorId, pending: Pending },
    /// Send frames.
    Send(Journey),
    /// Let a worker do this.
    Post(JobKind, Work),
    /// Train these seats of a round together.
    Plan(Round, Vec<Vec<SeatId>>),
    /// Let a worker train a seat, with its pack; tell its client at `at`, when its work is over.
    Train { at: VirtualTime, to: ClientId, ticket: Ticket, job: Box<TrainingJob>, pending: Pending },
    /// A seat will not ask to be trained.
    DropOut(Ticket),
    /// Tell what was taken for what after a task.
    Confused(TaskId, Confusion),
    /// Hand out the server's state after a task.
    Learnt(TaskId, Body),
    /// Take a snapshot.
    Keep(Box<ServerKept>),
    /// Something else holds from here on, for everybody.
    Turn(Arc<World>),
    /// The run is over.
    End(Result<(), FederationError>),
}

impl Effect {
    /// Tells the server something.
    pub fn tell_server(at: VirtualTime, class: EventClass, message: ToServer) -> Effect {
        Effect::Tell(Envelope::for_server(at, class, message))
    }
}
