//! The recorder: numbers entries and hands them to the sink. Its error stops the run.

use actix::{Actor, Context, Handler};

use super::event::{Entry, Event, Numbers};
use super::sink::{EventSink, SinkError};
use crate::quantity::VirtualTime;

pub(super) struct Recorder {
    sink: Box<dyn EventSink>,
    next: u64,
}

impl Recorder {
    pub fn new(sink: Box<dyn EventSink>) -> Recorder {
        Recorder { sink, next: 0 }
    }
}

impl Actor for Recorder {
    type Context = Context<Self>;
}

/// Events that happened at one moment, in order.
pub(super) struct Happened {
    pub at: VirtualTime,
    pub events: Vec<(Event, Option<Numbers>)>,
}

impl actix::Message for Happened {
    /// How many entries there are now.
    type Result = Result<u64, SinkError>;
}

impl Handler<Happened> for Recorder {
    type Result = Result<u64, SinkError>;

    fn handle(&mut self, happened: Happened, _: &mut Context<Self>) -> Self::Result {
        for (event, numbers) in happened.events {
            let entry = Entry { seq: self.next, at: happened.at, event, numbers };
            self.sink.record(&entry)?;
            self.next += 1;
        }
        Ok(self.next)
    }
}
