//! Errors of ranks that cannot compute together.

use thiserror::Error;

use crate::exit::{CommandError, Exit};
use crate::federation::remote::Rank;

/// Reason why ranks cannot compute together.
#[derive(Debug, Error)]
pub enum RanksError {
    /// Ranks that would compute something else, or to other bits.
    #[error(
        "the ranks do not agree\n{table}\n  \
         help: give all ranks the same version of fedcast, the same data and weights; their machines may differ"
    )]
    Differ {
        /// A row per rank, a column for everything in which they differ.
        table: String,
    },
    /// A rank could not put the run together.
    #[error("{rank} cannot take part: {why}")]
    Unable {
        /// Rank that could not, from 1.
        rank: Rank,
        /// Reason, in the rank's words.
        why: String,
    },
    /// A rank was lost before it began.
    #[error("{rank} was lost before the run began: {why}")]
    Lost {
        /// Rank that was lost; 0 where another rank reports it.
        rank: Rank,
        /// Reason, as the transport reports it.
        why: String,
    },
    /// Message that no rank sends.
    #[error(
        "{rank} sent an unexpected message ({why})\n  help: start the same version of fedcast on all ranks"
    )]
    Garbled {
        /// Sender of the message.
        rank: Rank,
        /// Description of the fault.
        why: String,
    },
    /// Ranks work for one run.
    #[error("the other ranks already work for another run")]
    Busy,
    /// MPI cannot be used.
    #[error("MPI: {0}")]
    Mpi(String),
    /// Failure to start threads that are needed in addition to the workers.
    #[error("cannot start a thread: {0}")]
    Threads(#[from] std::io::Error),
}

impl CommandError for RanksError {
    fn exit_code(&self) -> Exit {
        Exit::Device
    }
}
