//! Sums over the entries of a sized run.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::frame::FrameRange;
use super::work_count::WorkCount;
use super::{OneClient, PlannedPhase, Total};
use crate::federation::{
    Direction, Entry, Event, EventSink, FrameBytes, PlannedParticipant, RunSpec, SinkError,
};
use crate::policy::{ParticipantKind, RoundContext, UploadSize};
use crate::quantity::{ClientId, ParticipantId, Round, TaskId, VirtualTime};

/// Sums over a run in progress.
pub(super) struct PlanTally {
    work: WorkCount,
    /// Rounds whose end is not recorded yet; participants of a round open before its entries.
    rounds: BTreeMap<Round, RoundContext>,
    /// New and seen classes of every task.
    classes: Vec<(usize, usize)>,
    phases: Vec<PhaseTally>,
    /// Participants of a phase; they open before the entries of their round are recorded.
    sampled: BTreeMap<(TaskId, u32), SampledWork>,
    /// Work of participants that have neither finished it nor failed.
    underway: BTreeMap<(Round, ParticipantId), ParticipantWork>,
    total: Total,
}

#[derive(Default)]
struct SampledWork {
    participants: u64,
    samples: u64,
    passes: f64,
    flops: f64,
    upload_size: UploadSize,
    down_at_most: bool,
}

/// Work of one participant: sample passes and floating-point operations.
struct ParticipantWork {
    passes: f64,
    flops: f64,
}

struct PhaseTally {
    task: TaskId,
    index: u32,
    began: VirtualTime,
    row: PlannedPhase,
    uploads: Uploads,
}

/// Uploads by client.
type Uploads = BTreeMap<ClientId, Vec<Arc<FrameBytes>>>;

impl PlanTally {
    pub fn new(terms: &RunSpec) -> PlanTally {
        let tasks = terms.task_sequence.tasks.iter();
        let classes = tasks.map(|view| (view.rows.len(), view.seen())).collect();
        PlanTally {
            work: WorkCount::new(terms),
            rounds: BTreeMap::new(),
            classes,
            phases: Vec::new(),
            sampled: BTreeMap::new(),
            underway: BTreeMap::new(),
            total: Total::default(),
        }
    }

    /// Adds a participant of a round that opens. Load clients train nothing.
    pub fn participant(&mut self, participant: &PlannedParticipant<'_>) {
        let context = participant.context;
        self.rounds.entry(context.round).or_insert_with(|| context.clone());
        let phase = (participant.context.stage.task, participant.context.phase as u32);
        let sampled = self.sampled.entry(phase).or_default();
        sampled.participants += 1;
        if sampled.upload_size != UploadSize::FromValues {
            sampled.upload_size = participant.upload_size;
        }
        sampled.down_at_most |= participant.down_at_most;
        if participant.participant.kind != ParticipantKind::LoadClient {
            sampled.samples += participant.samples as u64;
            let work = ParticipantWork {
                passes: participant.passes,
                flops: self.work.of_client(participant),
            };
            self.underway.insert((context.round, participant.participant.id), work);
        }
    }

    /// Counts the work of a participant that has finished it. Returns true if it had any.
    fn finished(&mut self, phase: (TaskId, u32), participant: (Round, ParticipantId)) -> bool {
        let Some(ParticipantWork { passes, flops }) = self.underway.remove(&participant) else {
            return false;
        };
        let sampled = self.sampled.entry(phase).or_default();
        sampled.passes += passes;
        sampled.flops += flops;
        self.total.sample_passes += passes;
        self.total.client_flops += flops;
        true
    }

    fn take(&mut self, at: VirtualTime, event: &Event) {
        self.total.entries += 1;
        match event {
            Event::PhaseStarted { task, phase, name, rounds } => {
                let (new_classes, seen_classes) = self.classes[task.index()];
                let row = PlannedPhase {
                    task: u32::from(task.0) + 1,
                    new_classes,
                    seen_classes,
                    phase: name.clone(),
                    rounds: *rounds,
                    participants: 0,
                    samples: 0,
                    sample_passes: 0.0,
                    client_flops: 0.0,
                    assets: FrameRange::default(),
                    down: FrameRange::default(),
                    up: FrameRange::default(),
                    protocol_down: FrameRange::default(),
                    protocol_up: FrameRange::default(),
                    upload_size: UploadSize::Static,
                    down_at_most: false,
                    server_passes: 0.0,
                    server_flops: 0.0,
                    virtual_s: 0.0,
                };
                let (task, index, uploads) = (*task, *phase, Uploads::new());
                self.phases.push(PhaseTally { task, index, began: at, row, uploads });
            }
            Event::RoundClosed { round, aggregated, .. } => {
                self.total.rounds += 1;
                let (passes, flops) = self.of_server(*round, *aggregated as usize);
                let Some(PhaseTally { began, row, .. }) = self.phases.last_mut() else { return };
                row.server_passes += passes;
                row.server_flops += flops;
                self.total.server_passes += passes;
                self.total.server_flops += flops;
                row.virtual_s = VirtualTime(at.0 - began.0).as_seconds();
            }
            Event::ClientTrained { round, task, phase, participant, .. } => {
                let works = self.finished((*task, *phase), (*round, *participant));
                self.total.training_jobs += u64::from(works);
            }
            Event::ClientSkipped { round, task, phase, participant, .. } => {
                let works = self.finished((*task, *phase), (*round, *participant));
                self.total.skipped_jobs += u64::from(works);
            }
            Event::ClientFailed { round, participant, .. } => {
                self.underway.remove(&(*round, *participant));
            }
            Event::FrameCharged { task, phase, client, direction, bytes, asset, .. } => {
                self.frame((*task, *phase, *client), *direction, bytes, asset.is_some());
            }
            _ => {}
        }
    }

    /// Returns sample passes and operations of the server in a round that is over; drops earlier ones.
    fn of_server(&mut self, round: Round, updates: usize) -> (f64, f64) {
        let mut later = self.rounds.split_off(&round);
        self.rounds.clear();
        let closed = later.remove(&round);
        self.rounds = later;
        // A round without participants trains nothing.
        closed.map_or((0.0, 0.0), |context| self.work.of_server(&context, updates))
    }

    fn frame(
        &mut self,
        (task, index, client): (TaskId, u32, ClientId),
        direction: Direction,
        bytes: &Arc<FrameBytes>,
        is_asset: bool,
    ) {
        // Stragglers belong to phases that are over.
        let of = |phase: &&mut PhaseTally| (phase.task, phase.index) == (task, index);
        let Some(PhaseTally { row, uploads, .. }) = self.phases.iter_mut().rev().find(of) else {
            return;
        };
        if direction == Direction::Up {
            uploads.entry(client).or_default().push(Arc::clone(bytes));
        }
        let range = match (direction, bytes.is_protocol()) {
            (Direction::Down, true) => &mut row.protocol_down,
            (Direction::Up, true) => &mut row.protocol_up,
            (Direction::Down, false) if is_asset => &mut row.assets,
            (Direction::Down, false) => &mut row.down,
            (Direction::Up, false) => &mut row.up,
        };
        range.add(bytes);
    }

    /// Returns the floating-point operations of an answer after the last task.
    pub fn inference_flops(&self) -> f64 {
        self.work.of_answer()
    }

    /// Returns the client that uploads most in phases of each name, the sums, and the phases.
    pub fn finish(&mut self) -> (Vec<OneClient>, Total, Vec<PlannedPhase>) {
        let phases = std::mem::take(&mut self.phases);
        let mut sampled = std::mem::take(&mut self.sampled);
        let mut total = std::mem::take(&mut self.total);
        let mut by_name: BTreeMap<String, Uploads> = BTreeMap::new();
        let with_participants = |PhaseTally { task, index, row, uploads, .. }: PhaseTally| {
            let of_name = by_name.entry(row.phase.clone()).or_default();
            for (client, frames) in uploads {
                of_name.entry(client).or_default().extend(frames);
            }
            let SampledWork { participants, samples, passes, flops, upload_size, down_at_most } =
                sampled.remove(&(task, index)).unwrap_or_default();
            PlannedPhase {
                participants,
                samples,
                sample_passes: passes,
                client_flops: flops,
                upload_size,
                down_at_most,
                ..row
            }
        };
        let rows: Vec<PlannedPhase> = phases.into_iter().map(with_participants).collect();
        for row in &rows {
            total.virtual_s += row.virtual_s;
            for range in [&row.assets, &row.down, &row.up, &row.protocol_down, &row.protocol_up] {
                total.control += range.sum.control;
                total.raw += range.sum.raw;
                for (kind, bytes) in &range.sum.kinds {
                    *total.kinds.entry(kind.clone()).or_default() += bytes;
                }
            }
            let down = [&row.assets, &row.down, &row.protocol_down];
            total.down += down.iter().map(|range| range.sum.frame).sum::<u64>();
            total.up += row.up.sum.frame + row.protocol_up.sum.frame;
        }
        let bytes = |frames: &Vec<Arc<FrameBytes>>| -> u64 {
            frames.iter().map(|bytes| bytes.frame()).sum()
        };
        let most = |(phase, clients): (String, Uploads)| {
            let mut range = FrameRange::default();
            let of = clients.into_values().max_by_key(bytes)?;
            of.iter().for_each(|bytes| range.add(bytes));
            Some(OneClient { phase, frames: range.frames, up: range.sum })
        };
        (by_name.into_iter().filter_map(most).collect(), total, rows)
    }
}

/// Hands entries to a tally.
pub(super) struct Listener(pub Arc<Mutex<PlanTally>>);

impl EventSink for Listener {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        self.0.lock().take(entry.at, &entry.event);
        Ok(())
    }
}
