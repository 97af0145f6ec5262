//! The recorder: numbers entries and hands them to the sink. Its error stops the run.

use actix::{Actor, Context, Handler};

use super::error::SinkError;
use super::event::{Entry, Event, Numbers};
use super::sink::EventSink;
use super::snapshot::Snapshot;
use crate::learning::Confusion;
use crate::quantity::{TaskId, VirtualTime};
use crate::wire::Body;

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

/// Something that happened.
pub(super) struct Happening {
    pub at: VirtualTime,
    pub event: Event,
    pub numbers: Option<Numbers>,
}

/// What happened since the recorder was last told, in order.
pub(super) struct Happened(pub Vec<Happening>);

impl actix::Message for Happened {
    /// How many entries there are now.
    type Result = Result<u64, SinkError>;
}

impl Handler<Happened> for Recorder {
    type Result = Result<u64, SinkError>;

    fn handle(&mut self, Happened(all): Happened, _: &mut Context<Self>) -> Self::Result {
        for Happening { at, event, numbers } in all {
            let entry = Entry { seq: self.next, at, event, numbers };
            self.sink.record(&entry)?;
            self.next += 1;
        }
        Ok(self.next)
    }
}

/// There is time to put what was recorded where it survives the process.
pub(super) struct Settle;

impl actix::Message for Settle {
    type Result = Result<(), SinkError>;
}

impl Handler<Settle> for Recorder {
    type Result = Result<(), SinkError>;

    fn handle(&mut self, _: Settle, _: &mut Context<Self>) -> Self::Result {
        self.sink.settle()
    }
}

/// What was taken for what after a task.
pub(super) struct Confused(pub TaskId, pub Confusion);

impl actix::Message for Confused {
    type Result = Result<(), SinkError>;
}

impl Handler<Confused> for Recorder {
    type Result = Result<(), SinkError>;

    fn handle(&mut self, Confused(task, counts): Confused, _: &mut Context<Self>) -> Self::Result {
        self.sink.confused(task, &counts)
    }
}

/// The server's state after a task.
pub(super) struct Learnt(pub TaskId, pub Body);

impl actix::Message for Learnt {
    type Result = Result<(), SinkError>;
}

impl Handler<Learnt> for Recorder {
    type Result = Result<(), SinkError>;

    fn handle(&mut self, Learnt(task, state): Learnt, _: &mut Context<Self>) -> Self::Result {
        self.sink.learnt(task, &state)
    }
}

/// Would a snapshot be kept now?
pub(super) struct WantsSnapshot;

impl actix::Message for WantsSnapshot {
    type Result = bool;
}

impl Handler<WantsSnapshot> for Recorder {
    type Result = bool;

    fn handle(&mut self, _: WantsSnapshot, _: &mut Context<Self>) -> Self::Result {
        self.sink.wants_snapshot()
    }
}

/// A snapshot of the run after everything that was recorded.
pub(super) struct Taken(pub Snapshot);

impl actix::Message for Taken {
    type Result = Result<(), SinkError>;
}

impl Handler<Taken> for Recorder {
    type Result = Result<(), SinkError>;

    fn handle(&mut self, Taken(snapshot): Taken, _: &mut Context<Self>) -> Self::Result {
        self.sink.keep(&snapshot)
    }
}
