//! The actors and the physics: who exchanges what with whom, when on the simulated clock, over
//! which links, computed by which worker.

pub mod event;
mod figure;
mod interrupt;
pub mod journal;
mod sink;

pub use event::{
    ClassScore, Direction, EndReason, Entry, EvaluationPoint, Event, FrameBytes, FrameOutcome,
    JOURNAL_FORMAT, Numbers, TaskScore,
};
pub use figure::{Digest, Figure};
pub use interrupt::Interrupt;
pub use journal::{Digests, Journal};
pub use sink::{EventSink, JobKind, Memory, ProfileSink, SinkError, Span};
