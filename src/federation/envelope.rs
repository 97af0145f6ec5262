//! Messages between actors, and the envelopes in which they wait for their virtual time.

use std::future::Future;
use std::pin::Pin;

use super::client::ToClient;
use super::event::Event;
use super::queue::{ActorId, EventClass};
use super::server::ToServer;
use crate::quantity::{ClientId, VirtualTime};

/// Message to an actor.
pub(super) enum ActorMessage {
    Server(ToServer),
    Client(ClientId, ToClient),
}

/// A message that comes out of computation; awaited when its event is popped, never earlier.
pub(super) type Pending = Pin<Box<dyn Future<Output = ActorMessage> + Send>>;

/// A message, and when its actor gets it.
pub(super) struct Envelope {
    pub at: VirtualTime,
    /// Order among events of one time.
    pub class: EventClass,
    pub to: ActorId,
    pub message: ActorMessage,
}

impl Envelope {
    /// Addresses a message to the server.
    pub fn for_server(at: VirtualTime, class: EventClass, message: ToServer) -> Envelope {
        Envelope { at, class, to: ActorId::Server, message: ActorMessage::Server(message) }
    }

    /// Addresses a message to a client.
    pub fn for_client(
        at: VirtualTime,
        class: EventClass,
        client: ClientId,
        message: ToClient,
    ) -> Envelope {
        let to = ActorId::Client(client);
        Envelope { at, class, to, message: ActorMessage::Client(client, message) }
    }

    /// Addresses a frame that arrives.
    pub fn delivery(at: VirtualTime, message: ActorMessage) -> Envelope {
        Envelope { at, class: EventClass::Delivery, to: message.receiver(), message }
    }
}

impl ActorMessage {
    /// Returns its receiver.
    pub fn receiver(&self) -> ActorId {
        match self {
            ActorMessage::Server(_) => ActorId::Server,
            ActorMessage::Client(client, _) => ActorId::Client(*client),
        }
    }

    /// Returns the charge that is recorded when the message arrives, if it has one.
    pub fn charge_mut(&mut self) -> Option<&mut Event> {
        match self {
            ActorMessage::Server(message) => message.charge_mut(),
            ActorMessage::Client(_, message) => message.charge_mut(),
        }
    }
}
