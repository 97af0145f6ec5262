//! Rounds of the server: the open one, and participants of closed ones that are still out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::messages::Arrival;
use super::round::OpenRound;
use crate::federation::aggregation::{AggregationResult, RejectedUpload};
use crate::federation::event::Event;
use crate::federation::frames::SentDownload;
use crate::federation::snapshot::SentFrame;
use crate::policy::{Participant, RoundContext};
use crate::quantity::{ClientId, ParticipantId, Round};

/// Round, and one of its participants.
pub(super) type RoundParticipant = (Round, ParticipantId);

/// A participant and its download.
pub(super) type ParticipantDownload = (Participant, Arc<SentDownload>);

/// An upload of a closed round that still counts, with its participant and the participant's download.
pub(super) struct StaleUpload {
    pub sent: ParticipantDownload,
    pub arrival: Arrival,
}

/// A participant of a closed round that is still out.
struct Straggler {
    download: Arc<SentDownload>,
    /// Frames that were sent to it.
    frames: Vec<SentFrame>,
}

/// Uploads that a server loses with the round it had open.
pub(super) struct LostUploads {
    pub participants: Vec<ParticipantId>,
    /// Number of lost uploads of earlier rounds.
    pub stale: u32,
}

/// The open round, participants of closed rounds that are out, and uploads between two rounds.
#[derive(Default)]
pub(super) struct RoundBook {
    /// The round that the policy is opening.
    opening: Option<Arc<RoundContext>>,
    open: Option<OpenRound>,
    /// Result of the open round's aggregation.
    aggregate: Option<AggregationResult>,
    /// Clients whose uploads were aggregated in this task.
    participants: BTreeSet<ClientId>,
    /// Participants of closed rounds that are still out.
    stragglers: BTreeMap<RoundParticipant, Straggler>,
    /// Stragglers whose uploads still count.
    underway: BTreeMap<RoundParticipant, ParticipantDownload>,
    /// Uploads of closed rounds that arrived while no round was open.
    waiting: Vec<StaleUpload>,
    /// Uploads that could not be aggregated, of all rounds.
    untransformed: Vec<RoundParticipant>,
}

impl RoundBook {
    /// Begins a task: no client has taken part yet.
    pub fn begin_task(&mut self) {
        self.participants.clear();
    }

    /// Returns the clients whose uploads were aggregated in this task.
    pub fn participants(&self) -> &BTreeSet<ClientId> {
        &self.participants
    }

    /// Returns the clients of closed rounds whose uploads still count.
    pub fn clients_underway(&self) -> BTreeSet<ClientId> {
        self.underway.values().map(|(participant, _)| participant.client).collect()
    }

    /// Notes the round that the policy is opening.
    pub fn announce(&mut self, context: Arc<RoundContext>) {
        self.opening = Some(context);
    }

    /// Takes the round that the policy has opened.
    pub fn take_announced(&mut self) -> Option<Arc<RoundContext>> {
        self.opening.take()
    }

    /// Opens a round.
    pub fn open(&mut self, round: OpenRound) {
        self.open = Some(round);
    }

    /// Returns the open round.
    pub fn current(&self) -> Option<&OpenRound> {
        self.open.as_ref()
    }

    /// Returns the open round, to be changed.
    pub fn current_mut(&mut self) -> Option<&mut OpenRound> {
        self.open.as_mut()
    }

    /// Returns true if this round is open and not about to close.
    pub fn waits_for(&self, round: Round) -> bool {
        self.open.as_ref().is_some_and(|open| open.context.round == round && !open.is_closed())
    }

    /// Notes that a participant of the open round sends nothing that counts.
    pub fn skip(&mut self, participant: ParticipantId) {
        self.open.iter_mut().for_each(|round| round.skip(participant));
    }

    /// Closes the open round if it is complete, and returns it.
    ///
    /// Its participants that are out become stragglers; if `late_counts`, uploads of those that train still count.
    pub fn close_complete(&mut self, late_counts: bool) -> Option<&mut OpenRound> {
        let underway = self.underway.len();
        let complete = |round: &&mut OpenRound| !round.is_closed() && round.is_complete(underway);
        let round = self.open.as_mut().filter(complete)?;
        let number = round.context.round;
        for participant in round.close() {
            let sent = round.sent_to(participant);
            let (download, frames) = (Arc::clone(&sent.1), round.take_frames(participant));
            self.stragglers.insert((number, participant), Straggler { download, frames });
            if late_counts && sent.0.trains() {
                self.underway.insert((number, participant), sent);
            }
        }
        Some(round)
    }

    /// Closes the open round of a server that is lost.
    ///
    /// All its participants that are out are stragglers, and all uploads that arrived are lost, as are those that
    /// earlier rounds still expected.
    pub fn lose(&mut self) -> Option<LostUploads> {
        let round = self.open.as_mut()?;
        let number = round.context.round;
        for participant in round.close() {
            let (_, download) = round.sent_to(participant);
            let frames = round.take_frames(participant);
            self.stragglers.insert((number, participant), Straggler { download, frames });
        }
        let (participants, stale) = round.forget();
        self.underway.clear();
        Some(LostUploads { participants, stale })
    }

    /// Notes an upload that could not be aggregated.
    pub fn refuse(&mut self, refusal: &RejectedUpload) {
        self.open.iter_mut().for_each(|round| round.refuse(refusal));
        self.untransformed.push((refusal.round, refusal.participant));
    }

    /// Keeps the result of the open round's aggregation; its clients have taken part in the task.
    pub fn keep_aggregate(&mut self, aggregate: AggregationResult) {
        if let Some(round) = &self.open {
            self.participants.extend(round.aggregated_clients());
        }
        self.aggregate = Some(aggregate);
    }

    /// Takes the result of the open round's aggregation.
    pub fn take_aggregate(&mut self) -> Option<AggregationResult> {
        self.aggregate.take()
    }

    /// Takes the round that the policy has closed.
    pub fn take_closed(&mut self) -> Option<OpenRound> {
        self.open.take()
    }

    /// Notes that a participant of a closed round is not out any longer.
    pub fn straggler_is_back(&mut self, participant: RoundParticipant) {
        self.stragglers.remove(&participant);
    }

    /// Returns true if participants of closed rounds are still out.
    pub fn has_stragglers(&self) -> bool {
        !self.stragglers.is_empty()
    }

    /// Returns true if participants of closed rounds are out, or their uploads wait to be aggregated.
    pub fn owes_updates(&self) -> bool {
        self.has_stragglers() || !self.waiting.is_empty()
    }

    /// Takes a participant of a closed round whose upload still counts.
    pub fn take_underway(&mut self, participant: RoundParticipant) -> Option<ParticipantDownload> {
        self.underway.remove(&participant)
    }

    /// Holds an upload of a closed round until a round is open again.
    pub fn hold(&mut self, upload: StaleUpload) {
        self.waiting.push(upload);
    }

    /// Takes the uploads that arrived while no round was open.
    pub fn take_held(&mut self) -> Vec<StaleUpload> {
        std::mem::take(&mut self.waiting)
    }

    /// Ends a phase: uploads of its rounds count no longer.
    ///
    /// Returns the charges of those that have arrived.
    pub fn end_phase(&mut self) -> Vec<Event> {
        self.underway.clear();
        self.waiting.drain(..).filter_map(|upload| upload.arrival.charge).collect()
    }

    /// Returns participants of closed rounds whose uploads are to come or to be used, with their downloads.
    pub fn participants_out(&self) -> BTreeMap<RoundParticipant, Arc<SentDownload>> {
        let waiting = self.waiting.iter();
        let waiting = waiting.map(|StaleUpload { sent, arrival }| {
            ((arrival.round, arrival.participant), Arc::clone(&sent.1))
        });
        let out = self
            .stragglers
            .iter()
            .map(|(participant, straggler)| (*participant, Arc::clone(&straggler.download)));
        out.chain(waiting).collect()
    }

    /// Returns the frames that were sent to participants of closed rounds that are still out.
    pub fn frames_out(&self) -> BTreeMap<RoundParticipant, Vec<SentFrame>> {
        let stragglers = self.stragglers.iter();
        stragglers
            .map(|(participant, straggler)| (*participant, straggler.frames.clone()))
            .collect()
    }

    /// Returns the uploads that could not be aggregated.
    pub fn untransformed(&self) -> &[RoundParticipant] {
        &self.untransformed
    }

    /// Returns the participants of the open round that are out, as lines of text.
    pub fn waiting(&self) -> Vec<String> {
        let out = self.open.iter().flat_map(OpenRound::participants_out);
        out.map(|participant| format!("{} of {} is out", participant.id, participant.client))
            .collect()
    }
}
