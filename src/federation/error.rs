//! Errors that end a run.

use thiserror::Error;

use crate::exit::{CommandError, Exit};
use crate::policy::PolicyError;
use crate::quantity::{ClientId, ParticipantId, Round, VirtualTime};
use crate::wire::WireError;

/// Reason why an entry could not be taken; it stops the run cleanly.
#[derive(Debug, Error)]
pub enum SinkError {
    /// The medium refused (full, read-only).
    #[error("recording failed: {0}")]
    Io(#[from] std::io::Error),
    /// The receiver wants no more, for its own reason (a first divergence from a recorded run).
    #[error("{0}")]
    Stop(String),
}

/// Reason why a run could not go on.
#[derive(Debug, Error)]
pub enum FederationError {
    /// The server's policy failed.
    #[error("the server could not {step}: {source}")]
    Policy {
        /// Step that failed.
        step: &'static str,
        /// Cause.
        source: Box<PolicyError>,
    },
    /// The server's policy, or a merge of parts, panicked.
    #[error("the server panicked while it tried to {step}: {message}")]
    Panicked {
        /// Step that panicked.
        step: &'static str,
        /// Message of the panic.
        message: String,
    },
    /// Test data could not be evaluated.
    #[error("evaluation failed: {0}")]
    Evaluation(String),
    /// A sample could not be read, in training or in evaluation.
    #[error("{0}")]
    Data(String),
    /// The upload of a client does not survive its own encoding; a bug of the codecs or the method.
    #[error(
        "the upload of {client} in {round} ({participant}) changes when it is encoded and decoded: {source}"
    )]
    Upload {
        /// The sender.
        client: ClientId,
        /// Round of the upload, from 0.
        round: Round,
        /// Sender's place in the round.
        participant: ParticipantId,
        /// Cause.
        source: WireError,
    },
    /// A bad update under `on_bad_update = "abort"`.
    #[error(
        "{client} sent an update that must not be used in {round} ({participant}): {why}; \
         set federation.on_bad_update = \"drop\" to continue without such updates"
    )]
    BadUpdate {
        /// The sender.
        client: ClientId,
        /// Round of the sender's download, from 0; earlier than the open one for a late update.
        round: Round,
        /// Sender's place in that round.
        participant: ParticipantId,
        /// Description of the fault.
        why: String,
    },
    /// A download holds a value that the codec of its direction cannot carry.
    #[error("the server could not pack the broadcast of {round}: {source}")]
    Download {
        /// The round that it opens.
        round: Round,
        /// The tensor, its codec and the value.
        source: WireError,
    },
    /// The rules ask for something impossible.
    #[error("{0}")]
    Impossible(String),
    /// No client is left for a round that opens.
    #[error(
        "after {at} no client that can be sampled in {round} is ever available\n  help: {help}"
    )]
    NeverAvailable {
        /// Time of the opening.
        at: VirtualTime,
        /// The round, from 0.
        round: Round,
        /// Advice.
        help: &'static str,
    },
    /// The recorded past lacks a result that is needed.
    #[error("{0}")]
    Unrecorded(String),
    /// No event is left, but actors wait.
    #[error("deadlock: no event is left, but {}", waiting.join("; "))]
    Deadlock {
        /// Waiting actors, each with what it waits for.
        waiting: Vec<String>,
    },
    /// An entry could not be recorded.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// An actor is gone; a bug of the engine.
    #[error("{0} stopped answering; this is a bug of fedcast, please report it")]
    ActorGone(String),
    /// A device failed.
    #[error("a device failed: {0}")]
    Device(String),
    /// The memory of a device does not even hold one client, or one block of test samples.
    #[error(
        "the memory of the device is too small for a single client or test block: {0}\n  help: \
         lower client.batch_size, devices.evaluation_batch or devices.workers"
    )]
    Memory(String),
    /// Rank 0, which has the event loop, is lost; reported at the others.
    #[error("rank 0 is lost: {0}")]
    RankZero(String),
    /// Worker threads could not be started.
    #[error("cannot start worker threads: {0}\n  help: lower devices.workers")]
    Workers(#[from] std::io::Error),
}

impl CommandError for FederationError {
    fn exit_code(&self) -> Exit {
        match self {
            FederationError::Sink(SinkError::Io(_)) | FederationError::Unrecorded(_) => {
                Exit::Recording
            }
            FederationError::Deadlock { .. } => Exit::Deadlock,
            FederationError::Workers(_)
            | FederationError::RankZero(_)
            | FederationError::Device(_)
            | FederationError::Memory(_) => Exit::Device,
            FederationError::Data(_) => Exit::Inputs,
            FederationError::Impossible(_) | FederationError::NeverAvailable { .. } => {
                Exit::Scenario
            }
            FederationError::BadUpdate { .. } | FederationError::Download { .. } => Exit::Training,
            FederationError::Policy { source, .. } if source.is_not_finite() => Exit::Training,
            FederationError::Sink(SinkError::Stop(_))
            | FederationError::Policy { .. }
            | FederationError::Panicked { .. }
            | FederationError::Evaluation(_)
            | FederationError::Upload { .. }
            | FederationError::ActorGone(_) => Exit::Unexpected,
        }
    }
}
