//! State that a run needs to go on from a point between two rounds.
//!
//! A run is a function of its rules and of its computed results. The journal holds the results as far as events depend
//! on them (sizes, failures, digests), so cohorts, clocks, queues, lines and accounts need no snapshot: they follow
//! again when the journal is [replayed](super::RecordedRun) to the actors. The journal does not hold tensors: the
//! server's state, those of clients, and the downloads of participants that are still to answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::frames::SentDownload;
use crate::policy::{Asset, Message};
use crate::quantity::{ClientId, ParticipantId, Round, TaskId};
pub use crate::scenario::Cadence;
use crate::wire::Body;

impl Cadence {
    /// Returns true if a snapshot is due at `place`.
    pub fn is_due(self, place: SnapshotPlace) -> bool {
        match (self, place) {
            (Cadence::Rounds(n), SnapshotPlace::Round(round)) => {
                (round.0 + 1).is_multiple_of(n.max(1))
            }
            (Cadence::Tasks, SnapshotPlace::Task(_)) => true,
            _ => false,
        }
    }
}

/// A point of a run at which no round is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotPlace {
    /// This round has closed and its model was tested.
    Round(Round),
    /// This task is over.
    Task(TaskId),
}

impl std::fmt::Display for SnapshotPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SnapshotPlace::Round(round) => write!(f, "round {}", round.0 + 1),
            SnapshotPlace::Task(task) => write!(f, "task {}", task.0 + 1),
        }
    }
}

/// State that cannot be replayed from the journal.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Point at which it was taken.
    pub place: SnapshotPlace,
    /// The last round that had been opened.
    pub round: Round,
    /// Entries of the journal before it.
    pub entries: u64,
    /// State of the server's policy.
    pub server: Body,
    /// Digests of the assets each client holds.
    pub caches: Vec<(ClientId, Vec<u64>)>,
    /// States of clients that keep one.
    ///
    /// Each is as it was before the first of the client's participants in `out`, or else the current one.
    pub clients: Vec<(ClientId, Body)>,
    /// Downloads of the participants in `out`.
    pub downs: Vec<SavedDownload>,
    /// Uploads so far that could not be aggregated.
    pub untransformed: Vec<(Round, ParticipantId)>,
    /// Participants that are computed again.
    pub out: Vec<PendingParticipant>,
}

/// Participant whose answer is still to come or to be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingParticipant {
    /// Round of its download, from 0.
    pub round: Round,
    /// Participant of that round.
    pub participant: ParticipantId,
    /// Index of its download in [`Snapshot::downs`].
    pub down: usize,
    /// Frames that were sent to it, in order, of which the journal has those that arrived. Empty if all did.
    pub frames: Vec<SentFrame>,
}

/// Frame of a download that has left the server.
///
/// The journal records a frame when it arrives, without its content. So it cannot say of frames in transit whether they
/// are copies, or which assets the receiver held already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentFrame {
    /// Label of the asset; `None` for the message.
    pub asset: Option<String>,
    /// True if an equal frame had been sent earlier in the round.
    pub copy: bool,
}

/// A download as its receivers got it.
#[derive(Clone, Debug)]
pub struct SavedDownload {
    /// Body without the assets that it names.
    pub body: Body,
    /// Assets that it names.
    pub assets: Vec<Arc<Asset>>,
}

/// Returns the downloads of these participants, shared ones once, and the pending participants.
pub(super) fn keep_downs(
    out: &BTreeMap<(Round, ParticipantId), Arc<SentDownload>>,
    mut frames: BTreeMap<(Round, ParticipantId), Vec<SentFrame>>,
) -> (Vec<SavedDownload>, Vec<PendingParticipant>) {
    let (mut downloads, mut participants) = (Vec::new(), Vec::with_capacity(out.len()));
    let mut known: BTreeMap<*const Message, usize> = BTreeMap::new();
    for (place, sent) in out {
        let down = *known.entry(Arc::as_ptr(&sent.message)).or_insert_with(|| {
            let (body, assets) = (sent.message.body(), sent.message.assets.clone());
            downloads.push(SavedDownload { body, assets });
            downloads.len() - 1
        });
        let frames = frames.remove(place).unwrap_or_default();
        let (round, participant) = *place;
        participants.push(PendingParticipant { round, participant, down, frames });
    }
    (downloads, participants)
}
