//! `participation.csv`: outcome of every client in every round in which it was sampled.
//!
//! Rows are in the order of rounds and clients; those of a round are written once they are final: every participant
//! was aggregated, failed, or was rejected, lost or late. If a client has several participants in a round, its row
//! sums them, and `outcome` is that of the participant that came furthest. Load clients have rows, too, with the
//! outcome `load_client`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Write};

use serde::Serialize;

use super::phases::Phases;
use super::round_rows::loss;
use crate::federation::{Direction, Entry, Event, EventSink, FrameOutcome, SinkError};
use crate::policy::ParticipantKind;
use crate::quantity::{ClientId, ParticipantId, Round, TaskId, VirtualTime};
use crate::report::column::{CLIENT, Columns, PHASE, ROUND, TASK};
use crate::report::csv::{Csv, Number};

#[derive(Columns, Serialize)]
pub(in crate::report) struct ParticipationRow {
    #[column(as_in = ROUND)]
    round: u32,
    #[column(as_in = TASK)]
    task: u32,
    #[column(as_in = PHASE)]
    phase: String,
    #[column(as_in = CLIENT)]
    client: u32,
    /// 1 if the client was sampled in the round, 0 for a load client.
    sampled: u8,
    /// Outcome: `aggregated`; `stale` (aggregated into a later round); `rejected` (an upload that must not be
    /// aggregated); `late` (arrived after the round had closed; with 0 samples and no `trained_s` if it was certain to
    /// be late and was not computed); `lost`; `skipped` (certain to be late and not computed, its upload still in
    /// transit at the end of the run); `restart` (lost with the server); `unopened` (part of a masked sum that could
    /// not be opened); `unused` (nothing is known); `load_client`; or the reason why the client failed: `crashed`,
    /// `corrupt`, `away`, `left`, `no_data`, `non_finite`, `out_of_range`, `excluded`, `policy`, `panicked`, ...
    outcome: String,
    /// Participants of the client in the round.
    participants: usize,
    /// Participants of the client whose upload was aggregated when the round closed.
    participants_aggregated: usize,
    /// Training samples behind the client's uploads.
    samples: u64,
    /// Loss at the end of local training, mean over the client's participants.
    loss: Option<Number>,
    /// Bytes of whole frames to the client, lost ones included.
    bytes_down: u64,
    /// Bytes of whole frames from the client, lost ones included.
    bytes_up: u64,
    /// Bytes that crossed the client's links; less than the sum of both only if frames were lost.
    bytes_sent: u64,
    /// Virtual time at which the round opened.
    opened_s: Number,
    /// Virtual time at which the model reached the client.
    received_s: Option<Number>,
    /// Virtual time at which the client's local training ended.
    trained_s: Option<Number>,
    /// Virtual time at which the client's last upload reached the server, in time or late.
    arrived_s: Option<Number>,
    /// Virtual time of the client's local work.
    work_s: Number,
}

/// Outcome of an update, in the order of progress.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum UpdateOutcome {
    /// No outcome is known.
    Unused,
    /// The client sent nothing for this reason.
    Failed(String),
    Skipped,
    Restart,
    Lost,
    Late,
    Unopened,
    Rejected,
    Stale,
    Aggregated,
}

impl UpdateOutcome {
    fn word(&self) -> &str {
        match self {
            UpdateOutcome::Unused => "unused",
            UpdateOutcome::Failed(reason) => reason,
            UpdateOutcome::Skipped => "skipped",
            UpdateOutcome::Restart => "restart",
            UpdateOutcome::Lost => "lost",
            UpdateOutcome::Late => "late",
            UpdateOutcome::Unopened => "unopened",
            UpdateOutcome::Rejected => "rejected",
            UpdateOutcome::Stale => "stale",
            UpdateOutcome::Aggregated => "aggregated",
        }
    }
}

/// Row of one participant of a round.
#[derive(Default)]
struct ParticipantRow {
    load: bool,
    outcome: Option<UpdateOutcome>,
    samples: u64,
    loss: Option<f64>,
    down: u64,
    up: u64,
    sent: u64,
    received: Option<VirtualTime>,
    trained: Option<VirtualTime>,
    arrived: Option<VirtualTime>,
    worked: u64,
}

impl ParticipantRow {
    /// Sets the outcome unless a final one is known; `Skipped` is an expectation that later events replace.
    fn became(&mut self, outcome: UpdateOutcome) {
        if matches!(self.outcome, None | Some(UpdateOutcome::Skipped)) {
            self.outcome = Some(outcome);
        }
    }

    /// Marks an upload that arrived as part of a sum that could not be opened.
    ///
    /// An upload that did not arrive is no part of the sum. Frames that are lost after it are those of secure
    /// aggregation.
    fn stays_unopened(&mut self) {
        if self.arrived.is_some() && matches!(self.outcome, None | Some(UpdateOutcome::Lost)) {
            self.outcome = Some(UpdateOutcome::Unopened);
        }
    }

    /// Returns true if no further event changes the row; a skipped client's frame is still to come.
    fn settled(&self) -> bool {
        match &self.outcome {
            None => self.load && self.arrived.is_some(),
            Some(UpdateOutcome::Skipped) => false,
            Some(_) => true,
        }
    }

    fn charge(&mut self, at: VirtualTime, event: &Event) {
        let Event::FrameCharged { direction, outcome, bytes, sent, kind, .. } = event else {
            return;
        };
        self.load |= *kind == ParticipantKind::LoadClient;
        self.sent += sent;
        // Frames of secure aggregation carry neither the model nor an update.
        let arrives = matches!(outcome, FrameOutcome::Delivered | FrameOutcome::Late);
        let delivered = (arrives && !bytes.is_protocol()).then_some(at);
        match direction {
            Direction::Down => {
                self.down += bytes.frame();
                self.received = self.received.max(delivered);
            }
            Direction::Up => {
                self.up += bytes.frame();
                self.arrived = self.arrived.max(delivered);
            }
        }
    }
}

/// Round whose rows are not final.
struct PendingRound {
    round: Round,
    task: TaskId,
    phase: u32,
    opened: VirtualTime,
    sampled: Vec<ClientId>,
    /// Number of participants, load clients among them.
    participants: usize,
    places: BTreeMap<(ClientId, ParticipantId), ParticipantRow>,
    closed: bool,
}

impl PendingRound {
    fn place(&mut self, client: ClientId, participant: ParticipantId) -> &mut ParticipantRow {
        self.places.entry((client, participant)).or_default()
    }

    fn close(&mut self, missing: &[ParticipantId]) {
        self.closed = true;
        for ((_, participant), place) in &mut self.places {
            if !place.load && missing.binary_search(participant).is_err() {
                // An aggregated update counts as such whatever else happened to it.
                place.outcome = Some(UpdateOutcome::Aggregated);
            }
        }
    }

    /// Returns true if the round has closed and the outcomes of all participants are known.
    ///
    /// The first frame of a participant may come after the round has closed.
    fn settled(&self) -> bool {
        let places = self.places.iter().filter(|(_, place)| place.settled());
        let settled: BTreeSet<ParticipantId> =
            places.map(|((_, participant), _)| *participant).collect();
        self.closed && settled.len() == self.participants
    }

    fn row(&self, client: ClientId, phase: String) -> ParticipationRow {
        let range = (client, ParticipantId(0))..=(client, ParticipantId(u32::MAX));
        let places: Vec<&ParticipantRow> =
            self.places.range(range).map(|(_, place)| place).collect();
        let sum = |of: fn(&ParticipantRow) -> u64| places.iter().map(|place| of(place)).sum();
        let last = |of: fn(&ParticipantRow) -> Option<VirtualTime>| {
            let at = places.iter().filter_map(|place| of(place)).max();
            at.map(|at| Number(at.as_seconds()))
        };
        let losses: Vec<f64> = places.iter().filter_map(|place| place.loss).collect();
        let loss = losses.iter().sum::<f64>() / losses.len() as f64;
        let load = !places.is_empty() && places.iter().all(|place| place.load);
        let outcome = places.iter().filter_map(|place| place.outcome.as_ref()).max();
        let word = if load {
            ParticipantKind::LoadClient.word()
        } else {
            outcome.unwrap_or(&UpdateOutcome::Unused).word()
        };
        let used = |place: &&&ParticipantRow| place.outcome == Some(UpdateOutcome::Aggregated);
        ParticipationRow {
            round: self.round.0 + 1,
            task: u32::from(self.task.0) + 1,
            phase,
            client: client.0,
            sampled: u8::from(self.sampled.binary_search(&client).is_ok()),
            outcome: word.to_string(),
            participants: places.len(),
            participants_aggregated: places.iter().filter(used).count(),
            samples: sum(|place| place.samples),
            loss: (!losses.is_empty()).then_some(Number(loss)),
            bytes_down: sum(|place| place.down),
            bytes_up: sum(|place| place.up),
            bytes_sent: sum(|place| place.sent),
            opened_s: Number(self.opened.as_seconds()),
            received_s: last(|place| place.received),
            trained_s: last(|place| place.trained),
            arrived_s: last(|place| place.arrived),
            work_s: Number(VirtualTime(sum(|place| place.worked)).as_seconds()),
        }
    }

    /// Returns the sampled clients and all others that have participants in the round.
    fn clients(&self) -> Vec<ClientId> {
        let mut all = self.sampled.clone();
        all.extend(self.places.keys().map(|(client, _)| *client));
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Writes one row per round and client.
pub struct ParticipationTable<W: Write> {
    csv: Csv<W, ParticipationRow>,
    phases: Phases,
    open: VecDeque<PendingRound>,
}

impl<W: Write> ParticipationTable<W> {
    /// Writes the header.
    pub fn new(out: W) -> io::Result<Self> {
        let phases = Phases::default();
        Ok(ParticipationTable { csv: Csv::new(out)?, phases, open: VecDeque::new() })
    }

    fn place(
        &mut self,
        round: Round,
        client: ClientId,
        participant: ParticipantId,
    ) -> Option<&mut ParticipantRow> {
        Some(self.round(round)?.place(client, participant))
    }

    fn round(&mut self, round: Round) -> Option<&mut PendingRound> {
        self.open.iter_mut().rev().find(|pending| pending.round == round)
    }

    fn flush(&mut self, all: bool) -> io::Result<()> {
        while let Some(round) = self.open.front() {
            if !all && !round.settled() {
                break;
            }
            for client in round.clients() {
                let phase = self.phases.name(round.task, round.phase);
                self.csv.row(&round.row(client, phase))?;
            }
            self.open.pop_front();
        }
        Ok(())
    }
}

impl<W: Write + Send> EventSink for ParticipationTable<W> {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        match &entry.event {
            Event::PhaseStarted { .. } => self.phases.take(&entry.event),
            Event::RoundOpened { round, task, phase, cohort, participants, .. } => {
                self.flush(false)?;
                self.open.push_back(PendingRound {
                    round: *round,
                    task: *task,
                    phase: *phase,
                    opened: entry.at,
                    sampled: cohort.clone(),
                    participants: *participants as usize,
                    places: BTreeMap::new(),
                    closed: false,
                });
            }
            Event::FrameCharged { round, participant, client, outcome, bytes, .. } => {
                if let Some(place) = self.place(*round, *client, *participant) {
                    place.charge(entry.at, &entry.event);
                    match outcome {
                        FrameOutcome::Late if bytes.is_protocol() => {}
                        FrameOutcome::Late => place.became(UpdateOutcome::Late),
                        FrameOutcome::Lost => place.became(UpdateOutcome::Lost),
                        _ => {}
                    }
                }
            }
            Event::ClientTrained {
                round, participant, client, samples, work_ns: worked, ..
            } => {
                if let Some(place) = self.place(*round, *client, *participant) {
                    place.samples = *samples;
                    place.worked += worked;
                    place.trained = Some(entry.at);
                    place.loss = loss(entry);
                }
            }
            Event::ClientSkipped { round, participant, client, work_ns: worked, .. } => {
                if let Some(place) = self.place(*round, *client, *participant) {
                    place.worked += worked;
                    place.became(UpdateOutcome::Skipped);
                }
            }
            Event::ClientFailed { round, participant, client, reason, .. } => {
                let place = self.place(*round, *client, *participant);
                place.into_iter().for_each(|p| p.became(UpdateOutcome::Failed(reason.clone())));
            }
            Event::UpdateRejected { round, participant, client, .. } => {
                let place = self.place(*round, *client, *participant);
                place.into_iter().for_each(|place| place.became(UpdateOutcome::Rejected));
            }
            Event::UpdateStale { round, participant, client, .. } => {
                let place = self.place(*round, *client, *participant);
                place.into_iter().for_each(|place| place.became(UpdateOutcome::Stale));
            }
            Event::ServerRestarted { round, lost, .. } => {
                for ((_, participant), place) in
                    self.round(*round).iter_mut().flat_map(|r| &mut r.places)
                {
                    if lost.contains(participant) {
                        place.became(UpdateOutcome::Restart);
                    }
                }
            }
            Event::SecureSumOpened { round, opened: false, .. } => {
                let places = self.round(*round).into_iter().flat_map(|r| r.places.values_mut());
                places.for_each(ParticipantRow::stays_unopened);
            }
            Event::RoundClosed { round, missing, .. } => {
                self.round(*round).into_iter().for_each(|r| r.close(missing));
            }
            Event::RunEnded { .. } => self.flush(true)?,
            _ => {}
        }
        Ok(())
    }
}
