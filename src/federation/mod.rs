//! The actors and the physics: who exchanges what with whom, when on the simulated clock, over
//! which links, computed by which worker.

pub mod clock;
pub mod event;
mod figure;
pub mod histograms;
mod interrupt;
pub mod journal;
pub mod ledger;
pub mod links;
pub mod participation;
mod permutation;
pub mod queue;
mod rules;
mod sink;

pub use event::{
    ClassScore, Direction, EndReason, Entry, EvaluationPoint, Event, FrameBytes, FrameOutcome,
    JOURNAL_FORMAT, Numbers, TaskScore,
};
pub use figure::{Digest, Figure};
pub use interrupt::Interrupt;
pub use journal::{Digests, Journal};
pub use rules::{
    AssetCache, ComputeRules, Curve, FaultRules, LinkRules, OnBadUpdate, Participation, Population,
    Rules, Share, Unit,
};
pub use sink::{EventSink, JobKind, Memory, ProfileSink, SinkError, Span};
