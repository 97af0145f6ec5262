//! Who answers in place of workers and of the server's policy.
//!
//! A run is walked in one way only. What its machines ask for, to open a round, to train a seat, to fold, to close a
//! round, is computed by workers, unless somebody knows the answer: the recorded [past](super::Past) of a run that is
//! resumed, replayed or asked what if, or [layouts](super::sized) alone where a run is only to be sized. Everything
//! else (cohorts, clocks, links, faults, closing rules) is the same whoever answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::bias::Comparison;
use super::error::FederationError;
use super::figure::{Digest, Figure};
use super::fold::Refusal;
use super::frames::{SentDown, SentUp};
use super::privacy::Masking;
use super::snapshot::{Snapshot, SnapshotPlace};
use super::world::World;
use crate::learning::Tally;
use crate::policy::{Failure, RoundContext, Seat};
use crate::quantity::{ClientId, Round, SeatId, TaskId};
use crate::wire::Body;

/// What a seat's training comes to without being computed.
pub(super) struct Training {
    pub samples: usize,
    pub result: Result<Learnt, Failure>,
}

/// What a seat learnt and sent.
pub(super) struct Learnt {
    pub up: SentUp,
    /// What a malicious client made of its update.
    pub forged: Option<String>,
    pub metrics: BTreeMap<String, Figure>,
    /// Bytes the client keeps from then on.
    pub kept: u64,
}

/// What closing a round comes to.
#[derive(Default)]
pub(super) struct Closing {
    pub digest: u64,
    pub figures: BTreeMap<String, Figure>,
}

/// The round and the seat that something is asked of.
pub(super) struct AtSeat<'a> {
    pub world: &'a World,
    pub context: &'a RoundContext,
    pub seat: &'a Seat,
}

impl AtSeat<'_> {
    /// The round's number and the seat's.
    pub fn place(&self) -> (Round, SeatId) {
        (self.context.round, self.seat.id)
    }
}

/// The answers to what the machines of a run ask for.
pub(super) trait Answers: Send + Sync {
    /// The snapshot from which on everything is computed, where it was taken here.
    fn ends_at(&self, place: SnapshotPlace) -> Option<&Snapshot> {
        let _ = place;
        None
    }

    /// Whether a seat's training is answered; otherwise it is computed.
    fn answers(&self, round: Round, seat: SeatId) -> bool {
        let _ = (round, seat);
        true
    }

    /// The Downs of a round, one per seat.
    fn downs(
        &self,
        world: &World,
        context: &RoundContext,
        seats: &[Seat],
    ) -> Result<Vec<Arc<SentDown>>, FederationError>;

    /// What a seat's training comes to, and the Up that follows, masked or not.
    fn training(
        &self,
        at: &AtSeat<'_>,
        masking: Option<&Masking>,
    ) -> Result<Training, FederationError>;

    /// What a client finds wrong with a Down that was damaged on its way.
    fn damage(&self, at: &AtSeat<'_>) -> Option<String>;

    /// Uploads of a round that cannot be lifted.
    fn refused(&self, round: Round) -> Vec<Refusal> {
        let _ = round;
        Vec::new()
    }

    /// How a round is closed.
    fn closing(&self, round: Round) -> Result<Closing, FederationError> {
        let _ = round;
        Ok(Closing::default())
    }

    /// The server's digest when a task is over.
    fn ending(&self, task: TaskId) -> Result<Digest, FederationError> {
        let _ = task;
        Ok(Digest(0))
    }

    /// What a test after a round finds.
    fn tested_round(&self, round: Round) -> Result<Tally, FederationError> {
        Err(FederationError::Unrecorded(format!("nothing is tested after {round}")))
    }

    /// What the test after a task finds.
    fn tested_task(&self, task: TaskId) -> Result<Tally, FederationError> {
        Err(FederationError::Unrecorded(format!("nothing is tested after {task}")))
    }

    /// How far client models of a round are apart.
    fn bias(&self, round: Round) -> Result<Comparison, FederationError> {
        Err(FederationError::Unrecorded(format!("client models of {round} are not compared")))
    }

    /// A client's state as the snapshot has it.
    fn saved_state(&self, client: ClientId) -> Option<&Body> {
        let _ = client;
        None
    }
}
