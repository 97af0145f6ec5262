//! What a run did before, told again instead of computed.
//!
//! A [`RecordedRun`] is read from a journal. Handed to a [`Setup`](super::Setup), it answers in place of
//! workers and of the server's policy for as long as it reaches: how large a download was, what a participant's
//! training came to, which uploads were refused, what a test found. Everything else (cohorts, clocks,
//! links, faults, closing rules) happens as ever, so that the same journal comes about again, or, under
//! other clocks and links, another one with the same learning.
//!
//! With a [`Snapshot`] it reaches to the point where that was taken; from there on the run is computed.
//! Participants that were out at that point are computed from their downloads, wherever they were begun.

mod answering;
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
use crate::quantity::{ClientId, Round, SeatId, TaskId};

/// The recorded past of a run.
#[derive(Default)]
pub struct RecordedRun {
    participants: BTreeMap<(Round, SeatId), RecordedParticipant>,
    rounds: BTreeMap<Round, RecordedRound>,
    /// Digests of the server when tasks were over.
    tasks: BTreeMap<TaskId, Digest>,
    tested_tasks: BTreeMap<TaskId, Tally>,
    tested_rounds: BTreeMap<Round, Tally>,
    snapshot: Option<Snapshot>,
    /// The snapshot's participants and states, to be found quickly.
    out: BTreeMap<(Round, SeatId), usize>,
    unlifted: BTreeSet<(Round, SeatId)>,
    states: BTreeMap<ClientId, usize>,
    /// The snapshot's downloads as messages, once somebody needs them.
    downs: Vec<OnceLock<Arc<Message>>>,
    /// While it is read.
    reading: reading::Reading,
}

/// What is known of a participant.
#[derive(Default)]
struct RecordedParticipant {
    trained: Option<RecordedTraining>,
    /// What a malicious client made of its update.
    forged: Option<String>,
    /// Reason and detail, as in the journal.
    failed: Option<(String, String)>,
    /// Why its upload was refused, and whether just after it had arrived.
    rejected: Option<(String, bool)>,
    download: Option<Frame>,
    assets: Vec<(String, Frame)>,
    upload: Option<Arc<FrameBytes>>,
}

struct RecordedTraining {
    samples: u64,
    digest: u64,
    metrics: BTreeMap<String, MetricValue>,
    kept: u64,
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
    /// Uploads refused until it closed.
    rejected: Vec<RejectedUpload>,
    bias: Option<BiasMeasurement>,
}

impl RecordedRun {
    /// Lets it reach to where the snapshot was taken; from there on the run is computed.
    pub fn until(mut self, snapshot: Snapshot) -> RecordedRun {
        self.out = snapshot.out.iter().map(|out| ((out.round, out.seat), out.down)).collect();
        self.unlifted = snapshot.unlifted.iter().copied().collect();
        let states = snapshot.clients.iter().enumerate();
        self.states = states.map(|(place, (client, _))| (*client, place)).collect();
        self.downs = snapshot.downs.iter().map(|_| OnceLock::new()).collect();
        self.snapshot = Some(snapshot);
        self
    }
}
