//! An open round: participants that are out, those that came back, and the aggregation they feed.

mod secret;
mod training;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use secret::MaskedOutcome;

use super::messages::ToServer;
use super::policy_desk::PolicyDesk;
use crate::federation::aggregation::{
    self, AggregationMode, AggregationTree, RejectedUpload, Upload,
};
use crate::federation::assets::AssetCaches;
use crate::federation::client::{AssetArrived, Broadcast, ToClient};
use crate::federation::closing::RoundClosing;
use crate::federation::compute::{OwnModel, RoundOpening};
use crate::federation::effect::Effect;
use crate::federation::envelope::{ActorMessage, Envelope};
use crate::federation::event::{Direction, Event, FrameBytes, FrameOutcome};
use crate::federation::exchange::Exchange;
use crate::federation::frames::{SentDownload, SentUpload};
use crate::federation::links::{Fate, Transfer};
use crate::federation::network::{PendingFrame, Transmission};
use crate::federation::privacy::Masking;
use crate::federation::queue::EventClass;
use crate::federation::robust::AggregationRule;
use crate::federation::simulation_context::SimulationContext;
use crate::federation::snapshot::SentFrame;
use crate::policy::{Participant, Phase, RoundContext, UploadMeta};
use crate::quantity::{ClientId, ParticipantId, VirtualTime};

/// Status of a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParticipantStatus {
    /// Out: its download or upload is in transit, or it works.
    Out,
    /// Aggregated: its upload is in the running aggregation.
    Aggregated,
    /// Missing: it sends nothing that counts.
    Missing,
}

pub(super) struct OpenRound {
    pub context: Arc<RoundContext>,
    participants: Vec<Participant>,
    status: Vec<ParticipantStatus>,
    downloads: Vec<Arc<SentDownload>>,
    /// Frames that were sent to participants.
    frames: BTreeMap<ParticipantId, Vec<SentFrame>>,
    out: usize,
    /// Number of participants whose upload came in time.
    here: usize,
    /// Maximum number of participants that a worker trains together, by phase and rules.
    max_pack_size: usize,
    closing: RoundClosing,
    /// Time at which the round is certainly over, if stragglers are skipped.
    certain: Option<VirtualTime>,
    /// True if uploads from now on are late.
    closed: bool,
    /// Number of uploads of earlier rounds that are aggregated into this one.
    stale: u32,
    aggregation: AggregationTree,
    /// True if workers add uploads to the aggregation as soon as they are trained.
    aggregates_at_once: bool,
    aggregate: Option<tokio::sync::oneshot::Receiver<aggregation::AggregationResult>>,
    /// Client models before aggregation, if they are measured.
    models: Vec<OwnModel>,
    /// Exchange of the first participant under secure aggregation.
    first: Option<Arc<Exchange>>,
    /// Agreement of the members of secure aggregation.
    masking: Option<Arc<Masking>>,
    /// Outcome of the masked sum, until it is recorded.
    outcome: Option<MaskedOutcome>,
}

/// Items that the server has sent in a round; an item sent again is a copy.
#[derive(Default)]
struct Sent {
    /// Downloads, by the index of the first participant that gets them.
    downs: BTreeSet<usize>,
    /// Digests of assets, of all downloads.
    assets: BTreeSet<u64>,
    /// All frames, by participant.
    frames: BTreeMap<ParticipantId, Vec<SentFrame>>,
}

impl OpenRound {
    pub fn new(
        simulation: &SimulationContext,
        context: Arc<RoundContext>,
        phase: &Phase,
        opening: RoundOpening,
        (now, computes): (VirtualTime, bool),
    ) -> OpenRound {
        let RoundOpening { participants, downs: downloads, first, .. } = opening;
        let mode = match (&simulation.rules.privacy.secure, simulation.rules.aggregation) {
            (Some(rules), _) => AggregationMode::Masked(rules.numbers.modulus),
            (None, AggregationRule::Mean) => AggregationMode::Plain(Arc::clone(&simulation.method)),
            (None, rule) => AggregationMode::Robust(Arc::clone(&simulation.method), rule),
        };
        let working = participants.iter().filter(|participant| participant.trains()).count();
        let closing = simulation.rules.closing_of(phase, working);
        let (aggregation, aggregate) = AggregationTree::new(mode, participants.len());
        let restart = simulation.rules.faults.restart(simulation.rules.seed, context.round);
        let aggregates_at_once = computes && closing.waits_for_all(working) && restart.is_none();
        OpenRound {
            context,
            max_pack_size: simulation.rules.pack.min(phase.max_pack_size),
            closing,
            certain: closing.certain().map(|deadline| now + deadline),
            closed: false,
            stale: 0,
            status: vec![ParticipantStatus::Out; participants.len()],
            out: participants.len(),
            here: 0,
            participants,
            downloads,
            frames: BTreeMap::new(),
            aggregation,
            aggregates_at_once,
            aggregate: Some(aggregate),
            models: Vec::new(),
            first,
            masking: None,
            outcome: None,
        }
    }

    /// Returns true if the closing rule of the round is met.
    ///
    /// `underway` participants of earlier rounds may still answer.
    pub fn is_complete(&self, underway: usize) -> bool {
        match self.closing.any {
            true => self.closing.is_over(self.here + self.stale as usize, self.out + underway),
            false => self.closing.is_over(self.here, self.out),
        }
    }

    /// Returns the deadline of a round that was opened at `opened`.
    pub fn deadline(&self, opened: VirtualTime) -> Option<VirtualTime> {
        self.closing.deadline.map(|deadline| opened + deadline)
    }

    /// Marks the deadline as over.
    pub fn expire(&mut self) {
        self.closing.expire();
    }

    /// Closes the round: later uploads are late. Returns the participants that are still out.
    pub fn close(&mut self) -> Vec<ParticipantId> {
        self.closed = true;
        let out: Vec<ParticipantId> =
            self.participants_out().map(|participant| participant.id).collect();
        out.iter().for_each(|participant| self.skip(*participant));
        self.aggregation.seal();
        out
    }

    /// Drops all uploads that arrived.
    ///
    /// Returns their participants, and the number of uploads of earlier rounds.
    pub fn forget(&mut self) -> (Vec<ParticipantId>, u32) {
        let mut lost = Vec::new();
        for (participant, status) in self.participants.iter().zip(&mut self.status) {
            if *status == ParticipantStatus::Aggregated {
                *status = ParticipantStatus::Missing;
                lost.push(participant.id);
            }
        }
        self.models.clear();
        (lost, std::mem::take(&mut self.stale))
    }

    /// Returns a copy of a participant and its download.
    pub fn sent_to(&self, participant: ParticipantId) -> (Participant, Arc<SentDownload>) {
        (
            self.participants[participant.index()].clone(),
            Arc::clone(&self.downloads[participant.index()]),
        )
    }

    /// Takes the frames that were sent to a participant.
    pub fn take_frames(&mut self, participant: ParticipantId) -> Vec<SentFrame> {
        self.frames.remove(&participant).unwrap_or_default()
    }

    /// Sends every participant its download, after the assets it lacks.
    pub fn broadcast(
        &mut self,
        simulation: &SimulationContext,
        caches: &mut AssetCaches,
        now: VirtualTime,
        effects: &mut Vec<Effect>,
    ) {
        caches.begin_round();
        let mut sent = Sent::default();
        let mut reached = Vec::with_capacity(self.participants.len());
        for (participant, download) in self.participants.iter().zip(&self.downloads) {
            if !simulation.charged {
                let message = ToClient::Broadcast(Box::new(self.down(participant, download)));
                let client = participant.client;
                let envelope = Envelope::for_client(now, EventClass::Delivery, client, message);
                effects.push(Effect::Deliver(envelope));
                reached.push(participant);
                continue;
            }
            if self.send(simulation, (caches, &mut sent), (participant, download), effects) {
                reached.push(participant);
            }
        }
        self.begin_training(simulation, &reached, effects);
        self.frames = sent.frames;
    }

    /// Sends a download. Returns true if it arrives.
    fn send(
        &self,
        simulation: &SimulationContext,
        (caches, sent): (&mut AssetCaches, &mut Sent),
        (participant, download): (&Participant, &Arc<SentDownload>),
        effects: &mut Vec<Effect>,
    ) -> bool {
        let mut frame = 0;
        let mut fate_of = |bytes: &FrameBytes| {
            let transfer = Transfer {
                client: participant.client,
                round: self.context.round,
                unit: participant.dummy_client_in_keys(),
                frame,
                direction: Direction::Down,
            };
            frame += 1;
            simulation.links.send(transfer, bytes.frame())
        };
        let to_client = |message| ActorMessage::Client(participant.client, message);
        let lost = |charge| {
            let (round, participant, charge) = (self.context.round, participant.id, Some(charge));
            ActorMessage::Server(ToServer::Lost { round, participant, charge })
        };
        let mut frames = VecDeque::new();
        let direction = Direction::Down;
        let mut leaves = |asset, copy| {
            sent.frames.entry(participant.id).or_default().push(SentFrame { asset, copy });
        };
        for asset in &download.assets {
            if !caches.lacks(participant.client, asset.digest) {
                continue;
            }
            let fate = fate_of(&asset.bytes);
            let copy = !sent.assets.insert(asset.digest);
            leaves(Some(asset.label.clone()), copy);
            let charge =
                self.charge(participant, &asset.bytes, fate, copy, Some(asset.label.clone()));
            if !fate.arrives {
                frames.push_back(PendingFrame { fate, message: lost(charge) });
                effects.push(Effect::Send(Transmission { direction, frames }));
                return false;
            }
            caches.keep(participant.client, asset.digest);
            let message = to_client(ToClient::Asset(AssetArrived { charge }));
            frames.push_back(PendingFrame { fate, message });
        }
        let fate = fate_of(&download.bytes);
        let copy = !sent.downs.insert(download.alike);
        leaves(None, copy);
        let charge = self.charge(participant, &download.bytes, fate, copy, None);
        let message = match fate.arrives {
            true => {
                let charged =
                    Broadcast { charge: Some(charge), ..self.down(participant, download) };
                to_client(ToClient::Broadcast(Box::new(charged)))
            }
            false => lost(charge),
        };
        frames.push_back(PendingFrame { fate, message });
        effects.push(Effect::Send(Transmission { direction, frames }));
        fate.arrives
    }

    fn down(&self, participant: &Participant, download: &Arc<SentDownload>) -> Broadcast {
        Broadcast {
            context: Arc::clone(&self.context),
            participant: participant.clone(),
            download: Arc::clone(download),
            masking: self.masking.clone(),
            closes: self.certain,
            aggregation: self.aggregates_at_once.then(|| self.aggregation.clone()),
            charge: None,
        }
    }

    fn charge(
        &self,
        participant: &Participant,
        bytes: &Arc<FrameBytes>,
        fate: Fate,
        copy: bool,
        asset: Option<String>,
    ) -> Event {
        Event::FrameCharged {
            round: self.context.round,
            task: self.context.stage.task,
            phase: self.context.phase as u32,
            participant: participant.id,
            client: participant.client,
            direction: Direction::Down,
            outcome: if fate.arrives { FrameOutcome::Delivered } else { FrameOutcome::Lost },
            bytes: Arc::clone(bytes),
            sent: fate.sent,
            latency: fate.latency.0,
            kind: participant.kind,
            copy,
            asset,
        }
    }

    /// Returns the work that adds the participant's upload to the aggregation.
    ///
    /// `None` if the worker that trained has added it.
    pub fn add_upload(
        &mut self,
        participant: ParticipantId,
        upload: SentUpload,
        keep_model: bool,
        desk: &PolicyDesk,
    ) -> Option<Effect> {
        self.account(participant, ParticipantStatus::Aggregated);
        let download = Arc::clone(&self.downloads[participant.index()]);
        let place = self.participants[participant.index()].clone();
        let SentUpload { body, own, exchange, .. } = upload;
        if keep_model && let (Some(own), Some(exchange)) = (own, &exchange) {
            let (participant, sent) = (place.clone(), Arc::clone(&download.message));
            self.models.push(OwnModel { participant, sent, own, exchange: Arc::clone(exchange) });
        }
        let body = body?;
        let meta = UploadMeta::timely(place, self.context.round);
        desk.add_upload(
            &self.aggregation,
            Upload { meta, sent: Arc::clone(&download.message), body, exchange },
        )
    }

    /// Returns the work that aggregates an upload of an earlier round.
    pub fn add_stale_upload(
        &mut self,
        download: &Arc<SentDownload>,
        upload: SentUpload,
        meta: UploadMeta,
        desk: &PolicyDesk,
    ) -> Option<Effect> {
        self.stale += 1;
        let SentUpload { body, exchange, .. } = upload;
        let body = body?;
        desk.add_upload(
            &self.aggregation,
            Upload { meta, sent: Arc::clone(&download.message), body, exchange },
        )
    }

    /// Marks an upload as rejected by the aggregation.
    pub fn refuse(&mut self, refusal: &RejectedUpload) {
        if refusal.round != self.context.round {
            self.stale -= 1;
            return;
        }
        self.status[refusal.participant.index()] = ParticipantStatus::Missing;
        self.models.retain(|model| model.participant.id != refusal.participant);
    }

    /// Marks a participant as one that sends nothing that counts.
    pub fn skip(&mut self, participant: ParticipantId) {
        self.account(participant, ParticipantStatus::Missing);
        self.aggregation.skip(participant);
    }

    /// Records that the participant fails: it sends nothing that counts.
    pub fn fail(&mut self, participant: ParticipantId, reason: &str, detail: &str) -> Effect {
        self.skip(participant);
        let event = Event::ClientFailed {
            round: self.context.round,
            task: self.context.stage.task,
            participant,
            client: self.client(participant),
            reason: reason.to_string(),
            detail: detail.to_string(),
        };
        Effect::Record(event, None)
    }

    fn account(&mut self, participant: ParticipantId, status: ParticipantStatus) {
        debug_assert_eq!(
            self.status[participant.index()],
            ParticipantStatus::Out,
            "{participant} accounted for twice"
        );
        self.status[participant.index()] = status;
        self.out -= 1;
        self.here += usize::from(status == ParticipantStatus::Aggregated);
    }

    /// Returns the participants that are out.
    pub fn participants_out(&self) -> impl Iterator<Item = &Participant> {
        self.participants_at(ParticipantStatus::Out)
    }

    fn participants_at(&self, wanted: ParticipantStatus) -> impl Iterator<Item = &Participant> {
        let pairs = self.participants.iter().zip(&self.status);
        pairs.filter(move |(_, status)| **status == wanted).map(|(participant, _)| participant)
    }

    /// Returns true if the round is closed: frames that arrive now are late.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns the number of uploads that are aggregated, those of earlier rounds among them.
    pub fn updates(&self) -> u32 {
        self.aggregated_clients().count() as u32 + self.stale
    }

    /// Returns the number of uploads of earlier rounds.
    pub fn stale(&self) -> u32 {
        self.stale
    }

    /// Takes the receiver of the aggregation's result.
    pub fn take_aggregate(
        &mut self,
    ) -> Option<tokio::sync::oneshot::Receiver<aggregation::AggregationResult>> {
        self.aggregate.take()
    }

    /// Takes the client models that are to be compared.
    pub fn take_models(&mut self) -> Vec<OwnModel> {
        std::mem::take(&mut self.models)
    }

    /// Returns the agreement of the members of secure aggregation, and the exchange that all share.
    pub fn agreement(&self) -> Option<(Arc<Masking>, Arc<Exchange>)> {
        self.masking.clone().zip(self.first.clone())
    }

    /// Returns the client of a participant.
    pub fn client(&self, participant: ParticipantId) -> ClientId {
        self.participants[participant.index()].client
    }

    /// Returns the clients of participants that were aggregated.
    pub fn aggregated_clients(&self) -> impl Iterator<Item = ClientId> {
        self.participants_at(ParticipantStatus::Aggregated).map(|participant| participant.client)
    }

    /// Returns the participants that trained or should have, and were not aggregated.
    pub fn missing(&self) -> Vec<ParticipantId> {
        let pairs = self.participants.iter().zip(&self.status);
        let due = pairs.filter(|(participant, _)| participant.trains());
        due.filter(|(_, s)| **s != ParticipantStatus::Aggregated)
            .map(|(participant, _)| participant.id)
            .collect()
    }
}
