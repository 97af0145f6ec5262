//! Rows of `rounds.csv` from the journal's entries.
//!
//! A row is final once its round has closed and every participant was aggregated, failed, was lost or arrived late.
//! Final rows are given out when a round opens or a task ends, all others when the run ends, always in the order of
//! rounds.

use std::collections::{BTreeSet, VecDeque};

use serde::Serialize;

use super::phases::Phases;
use crate::federation::ledger::Sums;
use crate::federation::{
    ClosingPolicy, Direction, Entry, EvaluationPoint, Event, FrameOutcome, Numbers,
    PROTOTYPE_DISTANCE, RESPONSE_ENTROPY, SinkError,
};
use crate::learning::evaluation::accuracy;
use crate::quantity::{ParticipantId, Round, VirtualTime};
use crate::report::column::{Columns, PHASE, ROUND, TASK};
use crate::report::csv::Number;
use crate::report::time_parts::{Stopwatch, TimeParts};
use crate::report::words::Traffic;
use crate::wire::Kind;

#[derive(Columns, Serialize)]
pub(in crate::report) struct RoundRow {
    #[column(as_in = ROUND)]
    pub(in crate::report) round: u64,
    #[column(as_in = TASK)]
    task: u32,
    #[column(as_in = PHASE)]
    phase: String,
    /// Virtual time at which the round opened.
    pub(in crate::report) opened_s: Number,
    /// Virtual time at which the round closed; empty if it never did.
    pub(in crate::report) closed_s: Option<Number>,
    /// Virtual time from opening to closing, the sum of the four columns that follow.
    duration_s: Option<Number>,
    /// Part of the duration: local work of the client whose update was aggregated last.
    work_s: Option<Number>,
    /// Part of the duration: transfer of frames to and from that client.
    links_s: Option<Number>,
    /// Part of the duration: waiting for a deadline, or for clients that send nothing or are away.
    waiting_s: Option<Number>,
    /// Part of the duration: the server's own work after the last awaited update.
    server_s: Option<Number>,
    /// Clients sampled in the round.
    sampled: usize,
    /// Participants of the round: one per client, or several if a client's shard is split; load clients, too.
    participants: u32,
    /// Uploads aggregated when the round closed, stale ones of earlier rounds included.
    pub(in crate::report) aggregated: u32,
    /// Participants that sent nothing (crashed, lost, without data, ...).
    pub(in crate::report) failed: u32,
    /// Uploads that were rejected for their content.
    rejected: u32,
    /// Frames of the round that arrived after it had closed and were discarded.
    late: u64,
    /// Bytes of whole frames to clients, lost ones included.
    pub(in crate::report) bytes_down: u64,
    /// Bytes of whole frames from clients, lost ones included.
    pub(in crate::report) bytes_up: u64,
    /// Bytes to clients that crossed links; less than bytes_down only if frames were lost.
    bytes_sent_down: u64,
    /// Bytes from clients that crossed links; less than bytes_up only if frames were lost.
    bytes_sent_up: u64,
    /// Bytes of headers, typed fields and tensor tables, both directions.
    bytes_control: u64,
    /// Payload, both directions: parameters of the backbone or of its adapters.
    bytes_weights: u64,
    /// Payload, both directions: prompts, prefixes, pools and their keys.
    bytes_prompt: u64,
    /// Payload, both directions: classifiers.
    bytes_head: u64,
    /// Payload, both directions: class means and Gaussians.
    bytes_prototypes: u64,
    /// Payload, both directions: Gram matrices, Fisher information, moments.
    bytes_statistics: u64,
    /// Payload, both directions: generators of images or features.
    bytes_generator: u64,
    /// Payload, both directions: generated images or features.
    bytes_synthetic_data: u64,
    /// Payload, both directions: stored real samples.
    bytes_exemplars: u64,
    /// Payload, both directions: counts, seeds and flags sent as tensors.
    bytes_settings: u64,
    /// Payload, both directions: keys, shares and member lists.
    bytes_secure_aggregation: u64,
    /// Payload, both directions: data that serves only to compare client tasks.
    bytes_similarity: u64,
    /// Tensor bytes before the codec divided by those after it, both directions.
    compression_ratio: Option<Number>,
    /// Loss at the end of local training as the method defines it, mean over participants.
    pub(in crate::report) loss: Option<Number>,
    /// Fraction of correct predictions over all test samples of the tasks so far (micro).
    #[column(unit = "share")]
    pub(in crate::report) accuracy_seen: Option<Number>,
    /// Mean entropy of client models' predictions before aggregation. Only with record.metrics = ["federated-bias"].
    #[column(unit = "nats")]
    response_entropy: Option<Number>,
    /// Distance of clients' prototypes before aggregation. Only with record.metrics = ["federated-bias"].
    prototype_distance: Option<Number>,
}

/// Round whose row is not final.
struct Pending {
    round: Round,
    task: u16,
    phase: String,
    opened: VirtualTime,
    closed: Option<VirtualTime>,
    /// Parts of its duration, once it is closed.
    parts: Option<TimeParts>,
    sampled: usize,
    participants: u32,
    aggregated: u32,
    /// Participants whose upload has arrived, in time or late, or will not come.
    settled: BTreeSet<ParticipantId>,
    failed: u32,
    rejected: u32,
    traffic: Traffic,
    losses: Vec<f64>,
    accuracy: Option<f64>,
    /// Entropy of client models' predictions before aggregation, if they were compared.
    entropy: Option<f64>,
    /// Distance of clients' prototypes.
    distance: Option<f64>,
}

impl Pending {
    fn settle(&mut self, participant: ParticipantId) {
        self.settled.insert(participant);
    }

    /// Returns true if the round has closed and all of its participants are settled.
    fn is_final(&self) -> bool {
        self.closed.is_some() && self.settled.len() >= self.participants as usize
    }

    fn row(&self) -> RoundRow {
        let down = self.traffic.direction(Direction::Down);
        let up = self.traffic.direction(Direction::Up);
        let late = |way| self.traffic.0.get(&(way, FrameOutcome::Late)).map_or(0, |sum| sum.frames);
        let mut both: Sums = down;
        both += up;
        let kind = |kind: Kind| both.kinds.get(kind).0;
        let took = |at: VirtualTime| Number(VirtualTime(at.0 - self.opened.0).as_seconds());
        let losses = &self.losses;
        let mean = || losses.iter().sum::<f64>() / losses.len() as f64;
        RoundRow {
            round: u64::from(self.round.0) + 1,
            task: u32::from(self.task) + 1,
            phase: self.phase.clone(),
            opened_s: Number(self.opened.as_seconds()),
            closed_s: self.closed.map(|at| Number(at.as_seconds())),
            duration_s: self.closed.map(took),
            work_s: self.parts.map(|parts| Number(parts.work_s)),
            links_s: self.parts.map(|parts| Number(parts.links_s)),
            waiting_s: self.parts.map(|parts| Number(parts.waiting_s)),
            server_s: self.parts.map(|parts| Number(parts.server_s)),
            sampled: self.sampled,
            participants: self.participants,
            aggregated: self.aggregated,
            failed: self.failed,
            rejected: self.rejected,
            late: late(Direction::Up) + late(Direction::Down),
            bytes_down: down.bytes.0,
            bytes_up: up.bytes.0,
            bytes_sent_down: down.sent.0,
            bytes_sent_up: up.sent.0,
            bytes_control: both.control.0,
            bytes_weights: kind(Kind::Weights),
            bytes_prompt: kind(Kind::Prompt),
            bytes_head: kind(Kind::Head),
            bytes_prototypes: kind(Kind::Prototypes),
            bytes_statistics: kind(Kind::Statistics),
            bytes_generator: kind(Kind::Generator),
            bytes_synthetic_data: kind(Kind::SyntheticData),
            bytes_exemplars: kind(Kind::Exemplars),
            bytes_settings: kind(Kind::Settings),
            bytes_secure_aggregation: kind(Kind::SecureAggregation),
            bytes_similarity: kind(Kind::Similarity),
            compression_ratio: both.ratio().map(Number),
            loss: (!losses.is_empty()).then(|| Number(mean())),
            accuracy_seen: self.accuracy.map(Number),
            response_entropy: self.entropy.map(Number),
            prototype_distance: self.distance.map(Number),
        }
    }
}

/// Rows of all rounds that are not final yet.
pub(in crate::report) struct RoundRows {
    phases: Phases,
    watch: Stopwatch,
    open: VecDeque<Pending>,
}

impl RoundRows {
    /// Makes rows of rounds that close by this rule.
    pub(in crate::report) fn new(closing: ClosingPolicy) -> RoundRows {
        let (phases, watch) = (Phases::default(), Stopwatch::new(closing));
        RoundRows { phases, watch, open: VecDeque::new() }
    }

    fn row(&mut self, round: Round) -> Option<&mut Pending> {
        self.open.iter_mut().rev().find(|row| row.round == round)
    }

    fn take_final(&mut self) -> Vec<RoundRow> {
        let count = self.open.iter().take_while(|row| row.is_final()).count();
        self.open.drain(..count).map(|row| row.row()).collect()
    }

    /// Takes an entry of the journal and returns the rows that are final with it.
    pub(in crate::report) fn take(&mut self, entry: &Entry) -> Result<Vec<RoundRow>, SinkError> {
        let rows = match &entry.event {
            // A frame of the task's rounds may still be in transit.
            Event::RoundOpened { .. } | Event::TaskEnded { .. } => self.take_final(),
            Event::RunEnded { .. } => self.open.drain(..).map(|row| row.row()).collect(),
            _ => Vec::new(),
        };
        self.count(entry)?;
        Ok(rows)
    }

    fn count(&mut self, entry: &Entry) -> Result<(), SinkError> {
        let parts = self.watch.take(entry);
        match &entry.event {
            Event::PhaseStarted { .. } => self.phases.take(&entry.event),
            Event::RoundOpened { round, task, phase, cohort, participants, .. } => {
                let phase = self.phases.name(*task, *phase);
                self.open.push_back(Pending {
                    round: *round,
                    task: task.0,
                    phase,
                    opened: entry.at,
                    closed: None,
                    parts: None,
                    sampled: cohort.len(),
                    participants: *participants,
                    aggregated: 0,
                    settled: BTreeSet::new(),
                    failed: 0,
                    rejected: 0,
                    traffic: Traffic::default(),
                    losses: Vec::new(),
                    accuracy: None,
                    entropy: None,
                    distance: None,
                });
            }
            Event::FrameCharged { round, participant, outcome, direction, bytes, .. } => {
                if let Some(row) = self.row(*round) {
                    row.traffic.take(&entry.event)?;
                    // After a late frame of secure aggregation others of its participant may come.
                    let is_last = match bytes.is_protocol() {
                        true => *outcome == FrameOutcome::Lost,
                        false => {
                            *direction == Direction::Up
                                || matches!(outcome, FrameOutcome::Late | FrameOutcome::Lost)
                        }
                    };
                    if is_last {
                        row.settle(*participant);
                    }
                }
            }
            Event::ClientTrained { round, .. } => {
                if let (Some(loss), Some(row)) = (loss(entry), self.row(*round)) {
                    row.losses.push(loss);
                }
            }
            Event::ClientFailed { round, participant, .. } => {
                if let Some(row) = self.row(*round) {
                    row.failed += 1;
                    row.settle(*participant);
                }
            }
            Event::UpdateRejected { round, .. } => {
                self.row(*round).into_iter().for_each(|row| row.rejected += 1);
            }
            Event::UpdateStale { round, participant, .. } => {
                self.row(*round).into_iter().for_each(|row| row.settle(*participant));
            }
            Event::ServerRestarted { round, lost, .. } => {
                self.row(*round)
                    .into_iter()
                    .for_each(|row| lost.iter().for_each(|s| row.settle(*s)));
            }
            Event::RoundClosed { round, aggregated, .. } => {
                if let Some(row) = self.row(*round) {
                    row.closed = Some(entry.at);
                    row.parts = parts;
                    row.aggregated = *aggregated;
                }
            }
            Event::FederatedBiasMeasured { round, .. } => {
                let measures = entry.numbers.as_ref().map(|numbers| &numbers.metrics);
                let figure = |name: &str| Some(measures?.get(name)?.0);
                if let Some(row) = self.row(*round) {
                    row.entropy = figure(RESPONSE_ENTROPY);
                    row.distance = figure(PROTOTYPE_DISTANCE);
                }
            }
            Event::Evaluated { round, point: EvaluationPoint::Round, .. } => {
                let accuracy = entry.numbers.as_ref().and_then(micro_accuracy);
                self.row(*round).into_iter().for_each(|row| row.accuracy = accuracy);
            }
            // The last round of a task may be evaluated only by the task's row of the matrix.
            Event::Evaluated { round, .. } => {
                let accuracy = entry.numbers.as_ref().and_then(micro_accuracy);
                self.row(*round)
                    .into_iter()
                    .for_each(|row| row.accuracy = row.accuracy.or(accuracy));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Returns the loss of the client's local training at its end, if its method reports one.
pub(crate) fn loss(entry: &Entry) -> Option<f64> {
    let metrics = &entry.numbers.as_ref()?.metrics;
    metrics.get("loss_last_epoch").or_else(|| metrics.get("loss")).map(|figure| figure.0)
}

/// Returns the fraction of correct predictions over all test samples of the tasks in an evaluation.
pub(crate) fn micro_accuracy(numbers: &Numbers) -> Option<f64> {
    let correct: u64 = numbers.tasks.iter().map(|score| score.correct).sum();
    let total: u64 = numbers.tasks.iter().map(|score| score.total).sum();
    accuracy(correct, total)
}
