//! Dry run: sizes, times and needs of a run, without data, weights or training.
//!
//! A dry run is walked like any other run. Layouts take the place of workers: the size of a participant's messages
//! follows from its client's data, and not from trained values. So its frames are those of the run, to the byte, where
//! nothing depends on learned values; where the size of an upload does, it is counted at its bound.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::client_data::{ClientData, LabelCountSource};
use super::compute::{
    ClientUpdate, ParticipantRef, ResultSource, SuppliedClosing, SuppliedTraining, Supplier,
};
use super::error::FederationError;
use super::event::{Direction, FrameBytes};
use super::event_loop::RunEnd;
use super::faults::{Spoilage, spoilt_shape};
use super::frames::{SentDownload, SentUpload, announced_asset, label_of};
use super::interrupt::Interrupt;
use super::privacy::Masking;
use super::rules::{Curve, OnBadUpdate, Rules};
use super::server::ServerMachine;
use super::simulate::run_loop;
use super::simulation_context::{RunSpec, SimulationContext};
use super::sink::EventSink;
use super::snapshot::Cadence;
use super::specs::CompiledSpec;
use super::worker_pool::WorkerPool;
use crate::policy::{AssetSpec, Failure, Participant, RoundContext, UploadSize};
use crate::quantity::{Round, TaskId};
use crate::wire::{Body, FrameSize};

/// Walks through a run without computing it.
///
/// Entries go to `sink` as those of a run do, without numbers; participants go to `participants` as their rounds open.
/// Nothing is tested, compared or kept, whatever the rules say.
///
/// # Errors
/// Returns an error if a round opens that no client can ever join, or if the rules contradict each other.
pub fn dry_run(
    terms: RunSpec,
    counts: LabelCountSource,
    participants: impl Fn(PlannedParticipant<'_>) + Send + Sync + 'static,
    sink: Box<dyn EventSink>,
) -> Result<RunEnd, FederationError> {
    dry_run_of(terms, ClientData::Counts(counts), participants, sink)
}

/// Walks through a run of clients with these data, without computing it.
pub(super) fn dry_run_of(
    terms: RunSpec,
    data: ClientData,
    participants: impl Fn(PlannedParticipant<'_>) + Send + Sync + 'static,
    sink: Box<dyn EventSink>,
) -> Result<RunEnd, FederationError> {
    let rules = Rules {
        curve: Curve::Never,
        bias: None,
        pack: 1,
        on_bad_update: OnBadUpdate::Drop,
        snapshots: Cadence::Never,
        models: false,
        answers: false,
        ..terms.rules
    };
    let simulation = Arc::new(SimulationContext::of(RunSpec { rules, ..terms }, data)?);
    let layouts = DryRun {
        on_participant: participants,
        participants: Mutex::default(),
        contents: Mutex::default(),
    };
    let supplier = Supplier::Source(Arc::new(layouts));
    let server = ServerMachine::new(Arc::clone(&simulation), supplier.clone(), None);
    let devices = WorkerPool::start(Vec::new(), None, Box::new(()), None)?;
    run_loop(simulation, supplier, server, devices, sink, Interrupt::default())
}

/// A participant of a round that opens.
pub struct PlannedParticipant<'a> {
    /// Round that opens.
    pub context: &'a RoundContext,
    /// Client, role, kind and classes of the participant.
    pub participant: &'a Participant,
    /// Samples it would train on.
    pub samples: usize,
    /// Sample passes of its work.
    pub passes: f64,
    /// Rule for the size of its upload: known before training or not.
    pub upload_size: UploadSize,
    /// True if its download may be smaller.
    ///
    /// See [`MessageSpec::is_upper_bound`](crate::policy::MessageSpec::is_upper_bound).
    pub down_at_most: bool,
}

/// Reason given for failed participants and bad uploads; the text of a run would need values.
const FAULT: &str = "a fault of the scenario";

/// Source of results that takes the sizes of messages from their layouts.
struct DryRun<F> {
    on_participant: F,
    /// Uploads of the participants of open rounds.
    participants: Mutex<BTreeMap<Round, Vec<DryRunUpload>>>,
    contents: Mutex<AssetContents>,
}

/// Rounds that may have changed the content of assets, in place of the content.
#[derive(Default)]
struct AssetContents {
    /// Number of rounds so far that aggregated an upload, by phase.
    aggregated: BTreeMap<usize, u32>,
    /// Task of the latest round.
    task: Option<TaskId>,
    /// Number of rounds before the task that aggregated an upload, by phase.
    before_task: BTreeMap<usize, u32>,
    /// Number of rounds that had changed a version as it was announced, by its label.
    versions: BTreeMap<String, u32>,
}

impl AssetContents {
    /// Notes that a round of a task opens.
    fn open(&mut self, task: TaskId) {
        if self.task.replace(task) != Some(task) {
            self.before_task.clone_from(&self.aggregated);
        }
    }

    /// Notes the end of a round that aggregated this number of uploads.
    fn close(&mut self, phase: usize, updates: u32) {
        *self.aggregated.entry(phase).or_default() += u32::from(updates > 0);
    }

    /// Returns a text that two assets share exactly if a receiver of one of them does not lack the other.
    ///
    /// A version is made as a task ends and first announced in the next.
    fn identity(&mut self, asset: &AssetSpec) -> String {
        let label = label_of(asset);
        let Some(phase) = asset.renewed_in else { return label };
        let before = self.before_task.get(&phase).copied().unwrap_or(0);
        let changes = *self.versions.entry(label).or_insert(before);
        format!("{} after {changes} changes: {:?}", asset.name, asset.body)
    }
}

/// Facts about a participant's upload.
#[derive(Clone)]
struct DryRunUpload {
    samples: usize,
    bytes: Arc<FrameBytes>,
}

impl<F> DryRun<F> {
    fn participants(&self) -> MutexGuard<'_, BTreeMap<Round, Vec<DryRunUpload>>> {
        self.participants.lock()
    }

    /// Returns the upload as known when its round opened; computes it again if that round is over.
    fn upload(
        &self,
        ParticipantRef { simulation, context, participant }: &ParticipantRef<'_>,
    ) -> DryRunUpload {
        let participants = self.participants();
        let known = participants
            .get(&context.round)
            .and_then(|participants| participants.get(participant.id.index()));
        if let Some(known) = known {
            return known.clone();
        }
        drop(participants);
        let exchange = simulation.exchange(context, participant);
        let bytes = Arc::clone(exchange.upload.bytes(&simulation.coding.up));
        DryRunUpload { samples: exchange.samples(), bytes }
    }
}

impl<F: Fn(PlannedParticipant<'_>) + Send + Sync> ResultSource for DryRun<F> {
    fn downs(
        &self,
        simulation: &SimulationContext,
        context: &RoundContext,
        participants: &[Participant],
    ) -> Result<Vec<Arc<SentDownload>>, FederationError> {
        let (mut uploads, mut downloads) = (Vec::new(), Vec::with_capacity(participants.len()));
        let mut last: Option<(Arc<CompiledSpec>, Arc<SentDownload>)> = None;
        let mut contents = self.contents.lock();
        contents.open(context.stage.task);
        for participant in participants {
            let exchange = simulation.exchange(context, participant);
            let (samples, upload_size) = (exchange.samples(), exchange.upload.layout.size);
            let passes = simulation.passes_over(context, participant, samples);
            let down_at_most = exchange.download.layout.is_upper_bound;
            (self.on_participant)(PlannedParticipant {
                context,
                participant,
                samples,
                passes,
                upload_size,
                down_at_most,
            });
            let bytes = Arc::clone(exchange.upload.bytes(&simulation.coding.up));
            uploads.push(DryRunUpload { samples, bytes });
            let sent = match last.take() {
                Some((known, sent)) if Arc::ptr_eq(&known, &exchange.download) => sent,
                _ => Arc::new(shaped(&exchange.download, simulation, participant, &mut contents)),
            };
            downloads.push(Arc::clone(&sent));
            last = Some((exchange.download, sent));
        }
        self.participants().insert(context.round, uploads);
        Ok(downloads)
    }

    fn training(
        &self,
        at: &ParticipantRef<'_>,
        masking: Option<&Masking>,
    ) -> Result<SuppliedTraining, FederationError> {
        let ParticipantRef { simulation, context, participant } = *at;
        let DryRunUpload { samples, mut bytes } = self.upload(at);
        let (faults, seed) = (&simulation.rules.faults, simulation.rules.seed);
        let victim = simulation.victim(context.round, participant);
        let spoilt = faults.spoils(seed, victim).map(|(how, _)| how);
        match (masking, spoilt) {
            // Masked content cannot be checked: the client itself finds a bad update.
            (Some(_), Some(_)) => {
                let failure = Failure::Policy(FAULT.to_owned());
                return Ok(SuppliedTraining { samples, result: Err(failure) });
            }
            (Some(masking), None) => bytes = masking.size(),
            (None, Some(how)) => bytes = spoilt_size(at, how),
            (None, None) => {}
        }
        let corrupt = simulation.charged && faults.corrupts(seed, victim, Direction::Up).is_some();
        let fault = (corrupt || spoilt.is_some()).then(|| FAULT.to_owned());
        let upload = SentUpload {
            body: Some(Body::default()),
            own: None,
            exchange: None,
            bytes,
            digest: 0,
            fault,
        };
        let forged = faults.lies(seed, victim).map(|(malice, _)| malice.to_string());
        let update = ClientUpdate { up: upload, forged, metrics: BTreeMap::new(), state_bytes: 0 };
        Ok(SuppliedTraining { samples, result: Ok(update) })
    }

    fn closing(
        &self,
        context: &RoundContext,
        updates: u32,
    ) -> Result<SuppliedClosing, FederationError> {
        self.participants().remove(&context.round);
        self.contents.lock().close(context.phase, updates);
        Ok(SuppliedClosing::default())
    }

    fn damage(&self, _: &ParticipantRef<'_>) -> Option<String> {
        Some(FAULT.to_owned())
    }
}

/// Returns the size of an upload that a fault has made bad.
fn spoilt_size(
    ParticipantRef { simulation, context, participant }: &ParticipantRef<'_>,
    how: Spoilage,
) -> Arc<FrameBytes> {
    let exchange = simulation.exchange(context, participant);
    let shape = spoilt_shape(exchange.upload.body().clone(), how);
    Arc::new(FrameBytes::from(&FrameSize::of_shape(&shape, &simulation.coding.up)))
}

/// Returns a download of which only the layout is known.
fn shaped(
    download: &CompiledSpec,
    simulation: &SimulationContext,
    participant: &Participant,
    contents: &mut AssetContents,
) -> SentDownload {
    let asset = |asset: &AssetSpec| announced_asset(asset, &contents.identity(asset));
    SentDownload {
        message: Arc::default(),
        bytes: Arc::clone(download.bytes(&simulation.coding.down)),
        assets: download.layout.assets.iter().map(asset).collect(),
        alike: participant.id.index(),
    }
}
