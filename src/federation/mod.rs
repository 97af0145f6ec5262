//! Actors and timing of a federation: exchanges between server and clients on the simulated clock.
//!
//! Links carry the frames and workers compute.
//!
//! ```text
//!  virtual time, one thread                                real time, many threads
//!  event loop: queue -> event -> server / client actor     workers: jobs in, results out
//!                 ^-------------- effects <---'     ------>  (run context, method, shards)
//!  sink  <--- entries; recorder: snapshots, flushing
//! ```
//! The server, clients and the recorder are actors with mailboxes and typed messages; inside the server and a client is
//! a state machine that maps a message to effects. The event loop sends one message at a time, awaits the answer, and
//! carries the effects out in order. A client's actor starts when the client is first addressed and ends when it has
//! long been idle. Only [workers](self) compute, and no result of a worker is seen before the event that needs it is
//! popped. So neither the number of workers nor their speed can change anything but waiting.
//!
//! [`simulate`] runs a [`Setup`]; everything that happens comes out as [`Entry`]s.

mod aggregation;
pub mod arrivals;
pub(crate) mod assets;
pub mod availability;
pub mod bandwidth;
mod bias;
mod client;
mod client_data;
pub mod clock;
mod closing;
mod compute;
mod dry_run;
mod effect;
mod envelope;
mod error;
mod evaluation;
pub mod event;
mod event_loop;
mod exchange;
mod faults;
mod foresight;
mod frames;
mod gather;
mod guard;
pub mod histograms;
mod interrupt;
mod job_queue;
pub mod journal;
pub mod ledger;
pub mod links;
mod memory_semaphore;
mod metric_value;
mod network;
mod packs;
mod participants;
pub mod participation;
mod permutation;
pub mod privacy;
pub(crate) mod queue;
mod recorded_run;
mod recorder;
pub mod remote;
mod retry;
mod robust;
mod rules;
mod server;
mod setup;
mod simulate;
mod simulation_context;
mod sink;
mod snapshot;
mod specs;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod timesheet;
mod worker_pool;
mod workforce;

pub use bias::{PROTOTYPE_DISTANCE, RESPONSE_ENTROPY, RESPONSE_ENTROPY_RELATIVE};
pub use client_data::{LabelCountSource, ShardSource, by_row};
pub use closing::{ClosingGoal, ClosingPolicy, ClosingRules, LatePolicy, RoundClosing, Staleness};
pub use dry_run::{PlannedParticipant, dry_run};
pub use error::{FederationError, SinkError};
pub use evaluation::SampleAnswer;
pub use event::{
    ClassScore, ClientTaskScore, Direction, EndReason, Entry, EvaluationPoint, Event, FrameBytes,
    FrameOutcome, JOURNAL_FORMAT, Numbers, Responses, TaskScore,
};
pub use event_loop::RunEnd;
pub use faults::{
    CrashTime, Fault, FaultKind, FaultRules, Forgery, MOST_FAULTS, Restart, Spoilage, Victim,
};
pub use foresight::check_availability;
pub use frames::Coding;
pub use interrupt::Interrupt;
pub use journal::{Digests, Journal};
pub use metric_value::{Digest, MetricValue};
pub use recorded_run::RecordedRun;
pub use robust::AggregationRule;
pub use rules::{
    AssetCache, CohortSize, Compared, ComputeRules, Curve, DrawInterval, DummyClientSplit,
    DummyClientsSection, LinkRules, OnBadUpdate, ParticipationSection, Population, Rules,
    TaskIdentity,
};
pub use setup::{RunSegment, Setup};
pub use simulate::simulate;
pub use simulation_context::RunSpec;
pub use sink::{EventSink, JobKind, MemorySink, ProfileSink, Span};
pub use snapshot::{
    Cadence, PendingParticipant, SavedDownload, SentFrame, Snapshot, SnapshotPlace,
};
pub use workforce::Workforce;
