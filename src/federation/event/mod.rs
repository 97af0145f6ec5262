//! Events of a federation, as one enum: the only output of the simulation.
//!
//! Journal, ledger, metrics, progress and reports all read the same stream of [`Entry`]s. An entry has two halves, for
//! the two levels of reproducibility:
//!
//! * [`Entry::event`] holds integers and strings only: cohorts, order, virtual times, outcomes,
//!   bytes. It is the same on every machine (level E).
//! * [`Entry::numbers`] holds everything that floats have touched: metrics, tensor digests,
//!   counts of right answers. It is the same on every machine, too (level N), but for GPUs.
//!
//! ```
//! use fedcast::federation::{Digest, Entry, Event, Numbers};
//! use fedcast::quantity::{Round, TaskId, VirtualTime};
//! let entry = Entry {
//!     seq: 7,
//!     at: VirtualTime(1_500),
//!     event: Event::RoundClosed { round: Round(0), task: TaskId(0), phase: 0, aggregated: 3, stale: 0, missing: vec![] },
//!     numbers: Some(Numbers { digest: Some(Digest(0xab)), ..Numbers::default() }),
//! };
//! let line = entry.to_line();
//! assert_eq!(Entry::from_line(&line).unwrap(), entry);
//! ```

mod frame;
mod numbers;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use frame::{Direction, FrameBytes, FrameOutcome};
pub use numbers::{ClassScore, ClientTaskScore, Numbers, Responses, TaskScore};

use crate::document::Document;
use crate::policy::ParticipantKind;
use crate::quantity::{ClientId, ParticipantId, Round, TaskId, VirtualTime};

/// Version of the journal's line format, written in [`Event::RunStarted`].
pub const JOURNAL_FORMAT: u32 = 2;

/// Line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Number of the entry, from 0.
    pub seq: u64,
    /// Time on the simulated clock.
    pub at: VirtualTime,
    /// Event (level E).
    pub event: Event,
    /// Measured numbers (level N).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers: Option<Numbers>,
}

/// Occasion of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvaluationPoint {
    /// After a round: a point of the learning curve.
    Round,
    /// After a task: a row of the accuracy matrix, the one that counts.
    Task,
}

/// Reason for the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Document)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// All tasks are over.
    Done,
    /// The user interrupted it (Ctrl-C).
    Interrupted,
    /// The scenario's rule for bad updates, or an error, stopped it.
    Aborted,
}

/// Event of a run. Integers and strings only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The run begins.
    RunStarted {
        /// [`JOURNAL_FORMAT`].
        format: u32,
        /// The run's seed.
        seed: u64,
        /// Name of the method.
        method: String,
        /// Clients that own data.
        clients: u32,
        /// Number of tasks.
        tasks: u32,
    },
    /// A task arrives.
    TaskStarted {
        /// Task that begins, from 0.
        task: TaskId,
        /// Class ids of the data set, in the order of their head rows.
        ///
        /// With client tasks, those of every client's task one after the other, begun or not.
        classes: Vec<u32>,
        /// Clients that now begin a separate task, where client tasks exist.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        switching_clients: Vec<ClientId>,
    },
    /// The next task has reached no client yet.
    TaskDelayed {
        /// Task that is to begin, from 0.
        task: TaskId,
        /// Nanoseconds on the simulated clock when it reaches its first client.
        until: u64,
    },
    /// A phase of a task begins.
    PhaseStarted {
        /// Task of the phase, from 0.
        task: TaskId,
        /// Index of the phase within the task.
        phase: u32,
        /// Name of the phase, as the method has it.
        name: String,
        /// Largest number of rounds of the phase.
        rounds: u32,
    },
    /// No client that a round could sample can be reached.
    RoundDelayed {
        /// The round that is to open.
        round: Round,
        /// Current task, from 0.
        task: TaskId,
        /// Nanoseconds on the simulated clock when a client can be.
        until: u64,
    },
    /// The server drew a cohort and broadcast.
    RoundOpened {
        /// Round that opens, from 0 over the whole run.
        round: Round,
        /// Current task, from 0.
        task: TaskId,
        /// Index of the round's phase within the task, from 0.
        phase: u32,
        /// Sampled clients, sorted.
        cohort: Vec<ClientId>,
        /// Number of participants.
        participants: u32,
        /// Clients that still work on an earlier task, with that task.
        ///
        /// With client tasks it is that of their own task, and the others work on theirs of this task.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        behind: Vec<(ClientId, TaskId)>,
    },
    /// A client is sampled for the first time, and it differs from others in these values.
    ClientProfiled {
        /// Client that the values belong to.
        client: ClientId,
        /// Compute time of the client relative to a client of slowness 1, in millionths.
        slowness: u64,
        /// Nanoseconds before the first sample of a training.
        setup_ns: u64,
        /// Download bandwidth of the client in bytes per second; absent if it is unlimited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        down: Option<u64>,
        /// Upload bandwidth of the client in bytes per second; absent if it is unlimited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        up: Option<u64>,
        /// Round-trip time of the client in nanoseconds.
        round_trip: u64,
        /// Time at which the client leaves permanently, in nanoseconds on the simulated clock; absent if it stays.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        leaves_ns: Option<u64>,
    },
    /// The fate of a frame is known: it was delivered or lost at this moment, and is charged.
    /// Where the network delivered it twice it is charged twice.
    FrameCharged {
        /// Round of the frame, from 0.
        round: Round,
        /// Task in which that round opened, from 0.
        task: TaskId,
        /// Index of that round's phase within the task, from 0.
        phase: u32,
        /// Participant that the frame is from or for.
        participant: ParticipantId,
        /// The client at the other end of the server's link.
        client: ClientId,
        /// Direction of the frame, seen from the client.
        direction: Direction,
        /// Outcome of the frame.
        outcome: FrameOutcome,
        /// Bytes of the frame by part; frames of one broadcast share it.
        bytes: Arc<FrameBytes>,
        /// Bytes that crossed the link: all of them unless it was lost.
        sent: u64,
        /// Nanoseconds from sending to this moment.
        latency: u64,
        /// Kind of the participant: a client, a dummy client or a load client.
        #[serde(default, skip_serializing_if = "ParticipantKind::is_client")]
        kind: ParticipantKind,
        /// An equal frame was sent to another participant of this round.
        #[serde(default, skip_serializing_if = "is_false")]
        copy: bool,
        /// Name and version of the asset the frame carries, where it carries one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asset: Option<String>,
    },
    /// A client finished its local work. Numbers: metrics and the digest of its upload.
    ClientTrained {
        /// Round of the client's download, from 0.
        round: Round,
        /// Task in which that round opened, from 0; the client may still work on an earlier one.
        task: TaskId,
        /// Index of that round's phase within the task, from 0.
        phase: u32,
        /// Participant of that round that the client trained for.
        participant: ParticipantId,
        /// Client that trained.
        client: ClientId,
        /// Samples it holds for this participant.
        samples: u64,
        /// Nanoseconds of simulated work.
        work_ns: u64,
        /// Bytes the client keeps from now on; 0 and left out where it keeps nothing.
        #[serde(default, skip_serializing_if = "nothing")]
        state_bytes: u64,
    },
    /// A malicious client sends something else than what it just learned.
    UpdatePoisoned {
        /// Round of the update, from 0.
        round: Round,
        /// Task in which that round opened, from 0.
        task: TaskId,
        /// Participant of that round that the update belongs to.
        participant: ParticipantId,
        /// Client that is malicious.
        client: ClientId,
        /// Attack of the client.
        attack: String,
    },
    /// A client would have finished its local work now.
    ///
    /// It was certain to be late for its round and was not computed.
    ClientSkipped {
        /// Round of the client's download, from 0.
        round: Round,
        /// Task in which that round opened, from 0.
        task: TaskId,
        /// Index of that round's phase within the task, from 0.
        phase: u32,
        /// Participant of that round that was not computed.
        participant: ParticipantId,
        /// Client that would have trained.
        client: ClientId,
        /// Nanoseconds of simulated work.
        work_ns: u64,
    },
    /// A participant sends nothing.
    ClientFailed {
        /// Round of the participant, from 0.
        round: Round,
        /// Task in which that round opened, from 0.
        task: TaskId,
        /// Participant that sends nothing.
        participant: ParticipantId,
        /// Client of the participant.
        client: ClientId,
        /// Reason of the failure.
        ///
        /// One of `crashed`, `lost`, `corrupt`, `away`, `left`, `panicked`, `non_finite`, `no_data`, `out_of_range`,
        /// `excluded` (from secure aggregation, which had too few members) or `policy`.
        reason: String,
        /// Description of the failure.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        detail: String,
    },
    /// An upload arrived that must not be aggregated.
    UpdateRejected {
        /// Round of the sender's download, from 0; earlier than the open one for a late upload.
        round: Round,
        /// Task of the open round, from 0.
        task: TaskId,
        /// Participant of `round` that sent the upload.
        participant: ParticipantId,
        /// Client that sent the upload.
        client: ClientId,
        /// Description of the fault.
        reason: String,
    },
    /// An upload is aggregated into a later round than its own.
    UpdateStale {
        /// Round of its download.
        round: Round,
        /// Task of the later round, from 0.
        task: TaskId,
        /// Participant of that round that sent the upload.
        participant: ParticipantId,
        /// Client that sent the upload.
        client: ClientId,
        /// The round it is aggregated into.
        into: Round,
    },
    /// Masked uploads were added; with enough members, uploads and answers the sum was opened.
    SecureSumOpened {
        /// Round of the uploads, from 0.
        round: Round,
        /// Task in which that round opened, from 0.
        task: TaskId,
        /// Participants whose uploads were masked.
        members: u32,
        /// Members whose upload arrived.
        arrived: u32,
        /// Members whose shares arrived afterwards.
        answered: u32,
        /// Number that is needed of each.
        needed: u32,
        /// True if the sum was opened; otherwise the round aggregates nothing.
        opened: bool,
    },
    /// The server is lost while a round is open, and restarts.
    ///
    /// It comes back with the state that it had saved before that round, which then closes without an update.
    ServerRestarted {
        /// Round that was open, from 0.
        round: Round,
        /// Current task, from 0.
        task: TaskId,
        /// Participants of the round whose updates had arrived, and are lost.
        lost: Vec<ParticipantId>,
        /// Number of lost updates of earlier rounds.
        #[serde(default, skip_serializing_if = "is_zero")]
        stale: u32,
        /// Nanoseconds on the simulated clock when it is back.
        until: u64,
    },
    /// The server aggregated what arrived and learned. Numbers: digest of the server's state.
    RoundClosed {
        /// Round that closed, from 0.
        round: Round,
        /// Task of the round, from 0.
        task: TaskId,
        /// Index of the round's phase within the task, from 0.
        phase: u32,
        /// Number of uploads that were aggregated.
        aggregated: u32,
        /// Number of them from earlier rounds.
        #[serde(default, skip_serializing_if = "is_zero")]
        stale: u32,
        /// Participants of this round that were not.
        missing: Vec<ParticipantId>,
    },
    /// The global model was tested on all tasks seen. Numbers: scores per task and class.
    Evaluated {
        /// The last round before it.
        round: Round,
        /// The current task.
        task: TaskId,
        /// Occasion of the evaluation.
        point: EvaluationPoint,
    },
    /// Distance between client models before aggregation. Numbers: metrics `response_entropy`,
    /// `response_entropy_relative` and `prototype_distance`, and the responses of every client.
    FederatedBiasMeasured {
        /// Round of the compared models, from 0.
        round: Round,
        /// Task of the round, from 0.
        task: TaskId,
        /// Number of compared client models.
        clients: u32,
    },
    /// All phases of a task are over.
    TaskEnded {
        /// Task that is over, from 0.
        task: TaskId,
    },
    /// The last entry.
    RunEnded {
        /// Reason of the run's end.
        reason: EndReason,
    },
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn nothing(bytes: &u64) -> bool {
    *bytes == 0
}

impl Event {
    /// Returns a charge with another outcome; any other event unchanged.
    pub(super) fn with_outcome(mut self, became: FrameOutcome) -> Event {
        if let Event::FrameCharged { outcome, .. } = &mut self {
            *outcome = became;
        }
        self
    }

    /// Returns the event's name, as in its `type` field.
    pub fn name(&self) -> &'static str {
        match self {
            Event::RunStarted { .. } => "run_started",
            Event::TaskStarted { .. } => "task_started",
            Event::TaskDelayed { .. } => "task_delayed",
            Event::PhaseStarted { .. } => "phase_started",
            Event::RoundDelayed { .. } => "round_delayed",
            Event::RoundOpened { .. } => "round_opened",
            Event::ClientProfiled { .. } => "client_profiled",
            Event::FrameCharged { .. } => "frame_charged",
            Event::ClientTrained { .. } => "client_trained",
            Event::UpdatePoisoned { .. } => "update_poisoned",
            Event::ClientSkipped { .. } => "client_skipped",
            Event::ClientFailed { .. } => "client_failed",
            Event::UpdateRejected { .. } => "update_rejected",
            Event::UpdateStale { .. } => "update_stale",
            Event::SecureSumOpened { .. } => "secure_sum_opened",
            Event::ServerRestarted { .. } => "server_restarted",
            Event::RoundClosed { .. } => "round_closed",
            Event::Evaluated { .. } => "evaluated",
            Event::FederatedBiasMeasured { .. } => "federated_bias_measured",
            Event::TaskEnded { .. } => "task_ended",
            Event::RunEnded { .. } => "run_ended",
        }
    }
}
