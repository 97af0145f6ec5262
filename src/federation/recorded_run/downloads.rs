//! Downloads of a recorded round: frames that left the server, and which of them are copies.
//!
//! The journal has the frames that had arrived, without their contents. A snapshot has the downloads that were in
//! transit, and the frames that left for their receivers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::RecordedRun;
use crate::federation::error::FederationError;
use crate::federation::event::FrameBytes;
use crate::federation::frames::{Coding, SentAsset, SentDownload, sent_asset, size_of_received};
use crate::federation::snapshot::{PendingParticipant, SavedDownload, SentFrame};
use crate::policy::{Message, Participant};
use crate::quantity::{ClientId, ParticipantId, Round};

/// Frame that left the server for a participant.
struct DepartedFrame {
    /// Label of the asset; `None` for the message.
    asset: Option<String>,
    bytes: Arc<FrameBytes>,
    copy: bool,
}

/// Contents that left the server in a round, found by their frames that are not copies.
///
/// Events say that a frame is a copy, but not of which content. So a copy is matched with any content that may be the
/// same: one of equal size, or an asset of the same name.
#[derive(Default)]
struct Originals {
    /// First participant that was sent a message of this size.
    messages: BTreeMap<u64, usize>,
    named: BTreeMap<String, Vec<u64>>,
    /// Assets by size, because two names may have one content, which is sent once.
    sized: BTreeMap<u64, Vec<u64>>,
    /// Assets that clients got in the round; the dummy clients of one client share them.
    given: BTreeSet<(ClientId, u64)>,
}

impl Originals {
    fn of(round: Round, downloads: &[Vec<DepartedFrame>]) -> Originals {
        let mut originals = Originals::default();
        for (participant, frames) in downloads.iter().enumerate() {
            for (place, frame) in frames.iter().enumerate().filter(|(_, frame)| !frame.copy) {
                let size = frame.bytes.frame();
                let Some(label) = &frame.asset else {
                    originals.messages.entry(size).or_insert(participant);
                    continue;
                };
                let digest = identity(round, participant, place);
                originals.named.entry(label.clone()).or_default().push(digest);
                originals.sized.entry(size).or_default().push(digest);
            }
        }
        originals
    }

    /// Returns the content of an asset that a client was sent.
    fn content(&mut self, client: ClientId, frame: &DepartedFrame, label: &str, own: u64) -> u64 {
        let named = self.named.get(label).into_iter().flatten();
        let sized = self.sized.get(&frame.bytes.frame()).into_iter().flatten();
        // A client that got a content is not sent it again.
        let mut others =
            named.chain(sized).filter(|digest| !self.given.contains(&(client, **digest)));
        let digest = others.next().copied().filter(|_| frame.copy).unwrap_or(own);
        self.given.insert((client, digest));
        digest
    }

    /// Returns the first participant that was sent this message.
    fn alike(&self, frame: &DepartedFrame, own: usize) -> usize {
        let first = self.messages.get(&frame.bytes.frame());
        first.copied().filter(|_| frame.copy).unwrap_or(own)
    }
}

impl RecordedRun {
    /// Returns the downloads of a round; they have their tensors only if the participant trains on them.
    pub(super) fn downloads(
        &self,
        coding: &Coding,
        round: Round,
        all: &[Participant],
    ) -> Result<Vec<Arc<SentDownload>>, FederationError> {
        let participants = (0..all.len() as u32).map(ParticipantId);
        let departed: Vec<Vec<DepartedFrame>> =
            participants.clone().map(|id| self.departed(coding, round, id)).collect();
        let mut originals = Originals::of(round, &departed);
        let mut downloads = Vec::with_capacity(all.len());
        for (participant, frames) in participants.zip(departed) {
            let own = participant.index();
            let (mut bytes, mut assets, mut alike) = (Arc::default(), Vec::new(), own);
            for (place, frame) in frames.into_iter().enumerate() {
                match &frame.asset {
                    Some(label) => {
                        let digest = identity(round, own, place);
                        let digest = originals.content(all[own].client, &frame, label, digest);
                        let label = label.clone();
                        assets.push(SentAsset { label, digest, bytes: frame.bytes });
                    }
                    None => (alike, bytes) = (originals.alike(&frame, own), frame.bytes),
                }
            }
            let message = self.message(round, participant)?;
            downloads.push(Arc::new(SentDownload { message, bytes, assets, alike }));
        }
        Ok(downloads)
    }

    /// Returns the frames that left for a participant: the recorded ones, then those in transit.
    fn departed(
        &self,
        coding: &Coding,
        round: Round,
        participant: ParticipantId,
    ) -> Vec<DepartedFrame> {
        let mut frames = Vec::new();
        if let Some(recorded) = self.participants.get(&(round, participant)) {
            let assets = recorded.assets.iter().map(|(label, frame)| (Some(label.clone()), frame));
            let message = recorded.download.iter().map(|frame| (None, frame));
            frames.extend(assets.chain(message).map(|(asset, frame)| {
                let (bytes, copy) = (Arc::clone(&frame.bytes), frame.copy);
                DepartedFrame { asset, bytes, copy }
            }));
        }
        if let Some((pending, download)) = self.pending(round, participant) {
            let in_transit = pending.frames.iter().skip(frames.len());
            frames.extend(in_transit.filter_map(|SentFrame { asset, copy }| {
                let bytes = match asset {
                    Some(label) => size_of_asset(download, label)?,
                    None => size_of_received(&download.body, coding),
                };
                Some(DepartedFrame { asset: asset.clone(), bytes, copy: *copy })
            }));
        }
        frames
    }

    /// Returns the tensors of a download if its participant was out when the snapshot was taken, else none.
    fn message(
        &self,
        round: Round,
        participant: ParticipantId,
    ) -> Result<Arc<Message>, FederationError> {
        let Some((pending, download)) = self.pending(round, participant) else {
            return Ok(Arc::default());
        };
        let known = &self.downs[pending.down];
        if let Some(message) = known.get() {
            return Ok(Arc::clone(message));
        }
        let message = Message::from_body(&download.body, &download.assets).map_err(|error| {
            let what = format!("the download of {participant} of {round}");
            FederationError::Unrecorded(format!(
                "{what} in the checkpoint cannot be read back ({error})"
            ))
        })?;
        Ok(Arc::clone(known.get_or_init(|| Arc::new(message))))
    }

    /// Returns a participant that was out when the snapshot was taken, and its download.
    fn pending(
        &self,
        round: Round,
        participant: ParticipantId,
    ) -> Option<(&PendingParticipant, &SavedDownload)> {
        let snapshot = self.snapshot.as_ref()?;
        let pending = &snapshot.out[*self.out.get(&(round, participant))?];
        Some((pending, &snapshot.downs[pending.down]))
    }
}

fn size_of_asset(download: &SavedDownload, label: &str) -> Option<Arc<FrameBytes>> {
    let mut assets = download.assets.iter().map(|asset| sent_asset(asset));
    assets.find(|asset| asset.label == label).map(|asset| asset.bytes)
}

/// Returns an invented digest that separates the assets of a round; clients never hold one already.
fn identity(round: Round, participant: usize, place: usize) -> u64 {
    let mut hash = blake3::Hasher::new();
    hash.update(&round.0.to_le_bytes()).update(&(participant as u64).to_le_bytes());
    hash.update(&(place as u64).to_le_bytes());
    let hash = hash.finalize();
    let (first, _) = hash.as_bytes().split_first_chunk().expect("a hash has 32 bytes");
    u64::from_le_bytes(*first)
}
