//! Recorded past of a run, replayed instead of computed.
//!
//! A [`RecordedRun`] is read from a journal. In a [`Setup`](super::Setup), it answers in place of workers and of the
//! server's policy as far as it reaches: the size of a download, the result of a participant's training, the refused
//! uploads, the results of a test. Everything else (cohorts, clocks, links, faults, closing rules) happens as usual, so
//! that the result is the same journal, or, under other clocks and links, another one with the same training.
//!
//! With a [`Snapshot`] it reaches to the point where that was taken; from there on the run is computed.
//! Participants that were out at that point are computed from their downloads, wherever they were begun.

mod answering;
mod downloads;
mod reading;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use super::aggregation::RejectedUpload;
use super::bias::BiasMeasurement;
use super::event::FrameBytes;
use super::metric_value::{Digest, MetricValue};
use super::snapshot::Snapshot;
use crate::learning::Tally;
use crate::policy::Message;
use crate::quantity::{ClientId, ParticipantId, Round, TaskId};
use crate::wire::Body;

/// The recorded past of a run.
#[derive(Default)]
pub struct RecordedRun {
    participants: BTreeMap<(Round, ParticipantId), RecordedParticipant>,
    rounds: BTreeMap<Round, RecordedRound>,
    /// Digests of the server's state at the end of each task.
    tasks: BTreeMap<TaskId, Digest>,
    tested_tasks: BTreeMap<TaskId, Tally>,
    tested_rounds: BTreeMap<Round, Tally>,
    snapshot: Option<Snapshot>,
    /// Indices of the snapshot's pending participants.
    out: BTreeMap<(Round, ParticipantId), usize>,
    untransformed: BTreeSet<(Round, ParticipantId)>,
    states: BTreeMap<ClientId, usize>,
    /// Downloads of the snapshot as messages, made on first use.
    downs: Vec<OnceLock<Arc<Message>>>,
    /// State of the reader while entries are read.
    reading: reading::Reading,
}

/// Recorded facts of a participant.
#[derive(Default)]
struct RecordedParticipant {
    trained: Option<RecordedTraining>,
    /// Name of the attack, if the client is malicious.
    forged: Option<String>,
    /// Reason and detail, as in the journal.
    failed: Option<(String, String)>,
    /// Reason why its upload was refused, and true if that was on arrival.
    rejected: Option<(String, bool)>,
    download: Option<Frame>,
    assets: Vec<(String, Frame)>,
    upload: Option<Arc<FrameBytes>>,
}

struct RecordedTraining {
    samples: u64,
    digest: u64,
    metrics: BTreeMap<String, MetricValue>,
    state_bytes: u64,
}

#[derive(Clone)]
struct Frame {
    bytes: Arc<FrameBytes>,
    copy: bool,
}

#[derive(Default)]
struct RecordedRound {
    digest: u64,
    metrics: BTreeMap<String, MetricValue>,
    /// Uploads refused between the closing of the round before and that of this one.
    rejected: Vec<RejectedUpload>,
    bias: Option<BiasMeasurement>,
}

impl RecordedRun {
    /// Limits the record to the point of the snapshot; from there on the run is computed.
    pub fn until(mut self, snapshot: Snapshot) -> RecordedRun {
        self.out = (snapshot.out.iter().zip(0..))
            .map(|(out, place)| ((out.round, out.participant), place))
            .collect();
        self.untransformed = snapshot.untransformed.iter().copied().collect();
        let states = snapshot.clients.iter().enumerate();
        self.states = states.map(|(place, (client, _))| (*client, place)).collect();
        self.downs = snapshot.downs.iter().map(|_| OnceLock::new()).collect();
        self.snapshot = Some(snapshot);
        self
    }

    /// Returns the state of the server's policy at the snapshot.
    pub(super) fn saved_server(&self) -> Option<&Body> {
        self.snapshot.as_ref().map(|snapshot| &snapshot.server)
    }
}
