//! What the past answers in place of workers and of the server's policy.

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::Tensor;

use super::{Frame, Past};
use crate::federation::error::FederationError;
use crate::federation::event::FrameBytes;
use crate::federation::figure::{Digest, Figure};
use crate::federation::fold::Refusal;
use crate::federation::frames::{SentAsset, SentDown, SentUp};
use crate::learning::Tally;
use crate::policy::{Failure, Message, PolicyError, Predictor, Scope};
use crate::quantity::{ClientId, Round, SeatId, TaskId};
use crate::wire::{Body, WireError};

/// A training that is told.
pub(in crate::federation) struct ToldTraining {
    pub samples: usize,
    pub result: Result<ToldUpload, Failure>,
}

/// What a seat learnt and sent.
pub(in crate::federation) struct ToldUpload {
    pub up: SentUp,
    pub forged: Option<String>,
    pub metrics: BTreeMap<String, Figure>,
    pub kept: u64,
}

/// What closing a round came to.
pub(in crate::federation) struct ToldClosing {
    pub digest: u64,
    pub figures: BTreeMap<String, Figure>,
}

/// What stands for tensors that nobody needs any more.
struct Untold;

impl Predictor for Untold {
    fn features(&self, _: &Tensor) -> Result<Tensor, PolicyError> {
        Err(untold())
    }
    fn scores(&self, _: &Tensor, _: &Scope) -> Result<Tensor, PolicyError> {
        Err(untold())
    }
}

fn untold() -> PolicyError {
    PolicyError::Unsupported("a model of the recorded past has no weights".into())
}

fn missing(what: String) -> FederationError {
    FederationError::Unrecorded(what)
}

fn unreadable(what: &str, error: &WireError) -> FederationError {
    missing(format!("{what} in the checkpoint cannot be read back ({error})"))
}

impl Past {
    /// Stands for a model whose answers are told.
    pub(in crate::federation) fn predictor() -> Arc<dyn Predictor> {
        Arc::new(Untold)
    }

    /// Whether the seat's training is told; otherwise it is computed.
    pub(in crate::federation) fn tells(&self, round: Round, seat: SeatId) -> bool {
        let known = || self.seats.get(&(round, seat));
        let told = || known().is_some_and(|past| past.trained.is_some() || past.failed.is_some());
        // A whole past tells of everything, or of nothing at all.
        !self.out.contains_key(&(round, seat)) && (self.snapshot.is_none() || told())
    }

    /// What the seat's training came to.
    pub(in crate::federation) fn training(
        &self,
        round: Round,
        seat: SeatId,
    ) -> Result<ToldTraining, FederationError> {
        let nothing = || missing(format!("{seat} of {round} was not trained in the recorded run"));
        let past = self.seats.get(&(round, seat)).ok_or_else(nothing)?;
        let Some(learnt) = &past.trained else {
            let (reason, detail) = past.failed.clone().ok_or_else(nothing)?;
            let failure = failure(&reason, detail).ok_or_else(nothing)?;
            return Ok(ToldTraining { samples: 0, result: Err(failure) });
        };
        let up = SentUp {
            body: Body::default(),
            own: None,
            exchange: None,
            bytes: past.up.clone().unwrap_or_default(),
            digest: learnt.digest,
            fault: past
                .rejected
                .as_ref()
                .filter(|_| !self.was_lifted(round, seat))
                .map(|r| r.0.clone()),
        };
        let (forged, metrics) = (past.forged.clone(), learnt.metrics.clone());
        let result = Ok(ToldUpload { up, forged, metrics, kept: learnt.kept });
        Ok(ToldTraining { samples: learnt.samples as usize, result })
    }

    /// What a client found wrong with its Down.
    pub(in crate::federation) fn corrupt_down(&self, round: Round, seat: SeatId) -> Option<String> {
        let (reason, detail) = self.seats.get(&(round, seat))?.failed.clone()?;
        (reason == "corrupt").then_some(detail)
    }

    /// A client's state as the snapshot has it.
    pub(in crate::federation) fn state(&self, client: ClientId) -> Result<Body, FederationError> {
        let nothing = || missing(format!("the state of {client} is not in the checkpoint"));
        self.saved_state(client).cloned().ok_or_else(nothing)
    }

    /// The same, if it is there.
    pub(in crate::federation) fn saved_state(&self, client: ClientId) -> Option<&Body> {
        let snapshot = self.snapshot.as_ref()?;
        self.states.get(&client).map(|place| &snapshot.clients[*place].1)
    }

    /// The Downs of a round of so many seats, with their sizes; with their tensors those only that somebody
    /// will learn from.
    pub(in crate::federation) fn downs(
        &self,
        round: Round,
        seats: usize,
    ) -> Result<Vec<Arc<SentDown>>, FederationError> {
        let seats = || (0..seats as u32).map(SeatId);
        let past = |seat| self.seats.get(&(round, seat));
        // Copies are of the first Down of their size.
        let mut first: BTreeMap<u64, usize> = BTreeMap::new();
        for seat in seats() {
            if let Some(Frame { bytes, copy: false }) = past(seat).and_then(|p| p.down.as_ref()) {
                first.entry(bytes.frame()).or_insert(seat.index());
            }
        }
        let mut named: BTreeMap<&str, u64> = BTreeMap::new();
        let assets = seats().flat_map(|seat| {
            let assets = past(seat).into_iter().flat_map(|p| p.assets.iter().enumerate());
            assets.map(move |(place, asset)| (identity(round, seat, place), asset))
        });
        for (digest, (label, frame)) in assets {
            if !frame.copy {
                named.entry(label.as_str()).or_insert(digest);
            }
        }
        seats()
            .map(|seat| {
                let down = past(seat).and_then(|p| p.down.as_ref());
                let bytes = down.map_or_else(Arc::<FrameBytes>::default, |d| Arc::clone(&d.bytes));
                let original = first.get(&bytes.frame()).copied();
                let alike = original.filter(|_| down.is_some_and(|down| down.copy));
                let sent = past(seat).into_iter().flat_map(|p| p.assets.iter().enumerate());
                let sent = sent.map(|(place, (label, frame))| {
                    let own = identity(round, seat, place);
                    let shared = named.get(label.as_str()).copied().filter(|_| frame.copy);
                    SentAsset {
                        label: label.clone(),
                        digest: shared.unwrap_or(own),
                        bytes: Arc::clone(&frame.bytes),
                    }
                });
                let assets = sent.collect();
                let message = self.message(round, seat)?;
                let alike = alike.unwrap_or(seat.index());
                Ok(Arc::new(SentDown { message, bytes, assets, alike }))
            })
            .collect()
    }

    fn message(&self, round: Round, seat: SeatId) -> Result<Arc<Message>, FederationError> {
        let (Some(snapshot), Some(place)) = (&self.snapshot, self.out.get(&(round, seat))) else {
            return Ok(Arc::default());
        };
        let kept = &snapshot.downs[*place];
        if let Some(message) = self.downs[*place].get() {
            return Ok(Arc::clone(message));
        }
        let message = Message::from_body(&kept.body, &kept.assets)
            .map_err(|error| unreadable(&format!("the Down of {seat} of {round}"), &error))?;
        Ok(Arc::clone(self.downs[*place].get_or_init(|| Arc::new(message))))
    }

    /// Uploads of a round that could not be lifted.
    pub(in crate::federation) fn refused(&self, round: Round) -> Vec<Refusal> {
        let rejected = self.rounds.get(&round).into_iter().flat_map(|past| &past.rejected);
        rejected.filter(|refusal| self.was_lifted(refusal.round, refusal.seat)).cloned().collect()
    }

    /// Whether a refused upload was found to be bad only when it should be folded.
    fn was_lifted(&self, round: Round, seat: SeatId) -> bool {
        if self.snapshot.is_some() {
            return self.unlifted.contains(&(round, seat));
        }
        let past = self.seats.get(&(round, seat)).and_then(|past| past.rejected.as_ref());
        past.is_some_and(|(_, on_arrival)| !on_arrival)
    }

    /// How a round was closed.
    pub(in crate::federation) fn closing(
        &self,
        round: Round,
    ) -> Result<ToldClosing, FederationError> {
        let nothing = || missing(format!("{round} was not closed in the recorded run"));
        let past = self.rounds.get(&round).ok_or_else(nothing)?;
        Ok(ToldClosing { digest: past.digest, figures: past.figures.clone() })
    }

    /// The server's digest when a task was over.
    pub(in crate::federation) fn ending(&self, task: TaskId) -> Result<Digest, FederationError> {
        let nothing = || missing(format!("{task} was not over in the recorded run"));
        self.tasks.get(&task).copied().ok_or_else(nothing)
    }

    /// What a test after a round found.
    pub(in crate::federation) fn tested_round(
        &self,
        round: Round,
    ) -> Result<Tally, FederationError> {
        let nothing = || missing(format!("nothing was tested after {round} of the recorded run"));
        self.tested_rounds.get(&round).cloned().ok_or_else(nothing)
    }

    /// What the test after a task found.
    pub(in crate::federation) fn tested_task(
        &self,
        task: TaskId,
    ) -> Result<Tally, FederationError> {
        let nothing = || missing(format!("nothing was tested after {task} of the recorded run"));
        self.tested_tasks.get(&task).cloned().ok_or_else(nothing)
    }

    /// How far client models of a round were apart.
    pub(in crate::federation) fn bias(
        &self,
        round: Round,
    ) -> Result<(u32, BTreeMap<String, Figure>), FederationError> {
        let past = self.rounds.get(&round).and_then(|past| past.bias.clone());
        past.ok_or_else(|| missing(format!("client models of {round} were not compared")))
    }
}

/// Tells assets of a round apart; clients are never taken to hold one already.
fn identity(round: Round, seat: SeatId, place: usize) -> u64 {
    let mut hash = blake3::Hasher::new();
    hash.update(&round.0.to_le_bytes()).update(&seat.0.to_le_bytes());
    hash.update(&(place as u64).to_le_bytes());
    let hash = hash.finalize();
    let (first, _) = hash.as_bytes().split_first_chunk().expect("a hash has 32 bytes");
    u64::from_le_bytes(*first)
}

/// A failure of training as the journal names it; none for failures that come about by themselves.
fn failure(reason: &str, detail: String) -> Option<Failure> {
    Some(match reason {
        "no_data" => Failure::NoData,
        "non_finite" => Failure::NonFinite(detail),
        "out_of_range" => Failure::OutOfRange(detail),
        "policy" => Failure::Policy(detail),
        "panicked" => Failure::Panicked(detail),
        _ => return None,
    })
}
