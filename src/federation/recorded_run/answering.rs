//! Results of a recorded past, in place of workers and of the server's policy.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Frame, RecordedRun};
use crate::federation::aggregation::RejectedUpload;
use crate::federation::bias::BiasMeasurement;
use crate::federation::compute::{
    ClientUpdate, ParticipantRef, ResultSource, SuppliedClosing, SuppliedTraining,
};
use crate::federation::error::FederationError;
use crate::federation::event::FrameBytes;
use crate::federation::frames::{
    SentAsset, SentDownload, SentUpload, sent_asset, size_of_received,
};
use crate::federation::metric_value::Digest;
use crate::federation::privacy::Masking;
use crate::federation::simulation_context::SimulationContext;
use crate::federation::snapshot::{SavedDownload, Snapshot, SnapshotPlace};
use crate::learning::Tally;
use crate::policy::{Failure, Message, Participant, RoundContext};
use crate::quantity::{ClientId, ParticipantId, Round, TaskId};
use crate::scenario::AssetCache;
use crate::wire::{Body, WireError};

fn missing(what: String) -> FederationError {
    FederationError::Unrecorded(what)
}

fn unreadable(what: &str, error: &WireError) -> FederationError {
    missing(format!("{what} in the checkpoint cannot be read back ({error})"))
}

impl RecordedRun {
    /// Returns the tensors of a download, for participants that were out when the snapshot was taken.
    fn message(
        &self,
        round: Round,
        participant: ParticipantId,
    ) -> Result<Arc<Message>, FederationError> {
        let (Some(snapshot), Some(place)) = (&self.snapshot, self.out.get(&(round, participant)))
        else {
            return Ok(Arc::default());
        };
        let kept = &snapshot.downs[*place];
        if let Some(message) = self.downs[*place].get() {
            return Ok(Arc::clone(message));
        }
        let message = Message::from_body(&kept.body, &kept.assets).map_err(|error| {
            unreadable(&format!("the Down of {participant} of {round}"), &error)
        })?;
        Ok(Arc::clone(self.downs[*place].get_or_init(|| Arc::new(message))))
    }

    /// Returns the download of a participant that was out when the snapshot was taken.
    fn saved_download(&self, round: Round, participant: ParticipantId) -> Option<&SavedDownload> {
        let place = self.out.get(&(round, participant))?;
        Some(&self.snapshot.as_ref()?.downs[*place])
    }

    /// Returns the assets of a download that were in transit when the snapshot was taken.
    ///
    /// `arrived` are those of the same download that were not. An asset that the client held is not sent again.
    fn assets_in_transit(
        &self,
        (cache, context, client): (AssetCache, &RoundContext, ClientId),
        download: &SavedDownload,
        arrived: &[SentAsset],
    ) -> Vec<SentAsset> {
        let task = context.stage.task;
        let held = |label: &str| {
            let of_client = self.held_assets.get(&client).into_iter().flatten();
            let mut before = of_client.filter(|((at, held), round)| {
                let kept = match cache {
                    AssetCache::None => false,
                    AssetCache::Task => *at == task,
                    AssetCache::Run => true,
                };
                kept && held == label && **round < context.round
            });
            before.next().is_some()
        };
        let came = |label: &str| arrived.iter().any(|asset| asset.label == label);
        let assets = download.assets.iter().map(|asset| sent_asset(asset));
        assets.filter(|asset| !came(&asset.label) && !held(&asset.label)).collect()
    }

    /// Returns true if a refused upload was found to be bad only during aggregation.
    fn was_lifted(&self, round: Round, participant: ParticipantId) -> bool {
        if self.snapshot.is_some() {
            return self.untransformed.contains(&(round, participant));
        }
        let recorded = self
            .participants
            .get(&(round, participant))
            .and_then(|recorded| recorded.rejected.as_ref());
        recorded.is_some_and(|(_, on_arrival)| !on_arrival)
    }
}

impl ResultSource for RecordedRun {
    fn ends_at(&self, place: SnapshotPlace) -> Option<&Snapshot> {
        self.snapshot.as_ref().filter(|snapshot| snapshot.place == place)
    }

    fn knows(&self, round: Round, participant: ParticipantId) -> bool {
        let known = || self.participants.get(&(round, participant));
        let recorded = || {
            known().is_some_and(|recorded| recorded.trained.is_some() || recorded.failed.is_some())
        };
        // A whole past knows every participant, or none.
        !self.out.contains_key(&(round, participant)) && (self.snapshot.is_none() || recorded())
    }

    /// Downloads have their tensors only if a participant will train on them.
    fn downs(
        &self,
        simulation: &SimulationContext,
        context: &RoundContext,
        all: &[Participant],
    ) -> Result<Vec<Arc<SentDownload>>, FederationError> {
        let round = context.round;
        let participants = || (0..all.len() as u32).map(ParticipantId);
        let recorded = |participant| self.participants.get(&(round, participant));
        let in_transit: BTreeMap<ParticipantId, &SavedDownload> = participants()
            .filter(|participant| {
                recorded(*participant).is_none_or(|recorded| recorded.download.is_none())
            })
            .filter_map(|participant| Some((participant, self.saved_download(round, participant)?)))
            .collect();
        let size_of = |saved: &SavedDownload| size_of_received(&saved.body, &simulation.coding);
        // Copies are of the first download of their size.
        let mut first: BTreeMap<u64, usize> = BTreeMap::new();
        for participant in participants() {
            if let Some(Frame { bytes, copy: false }) =
                recorded(participant).and_then(|p| p.download.as_ref())
            {
                first.entry(bytes.frame()).or_insert(participant.index());
            }
            if let Some(saved) = in_transit.get(&participant)
                && saved.alike == participant.index()
            {
                first.entry(size_of(saved).frame()).or_insert(participant.index());
            }
        }
        let mut named: BTreeMap<&str, u64> = BTreeMap::new();
        // Assets of two names may have one content, which is sent once.
        let mut sized: BTreeMap<u64, u64> = BTreeMap::new();
        let assets = participants().flat_map(|participant| {
            let assets =
                recorded(participant).into_iter().flat_map(|p| p.assets.iter().enumerate());
            assets.map(move |(place, asset)| (identity(round, participant, place), asset))
        });
        for (digest, (label, frame)) in assets {
            if !frame.copy {
                named.entry(label.as_str()).or_insert(digest);
                sized.entry(frame.bytes.frame()).or_insert(digest);
            }
        }
        participants()
            .map(|participant| {
                let down = recorded(participant).and_then(|p| p.download.as_ref());
                let in_transit = in_transit.get(&participant);
                let bytes = match (down, in_transit) {
                    (Some(down), _) => Arc::clone(&down.bytes),
                    (None, Some(saved)) => size_of(saved),
                    (None, None) => Arc::<FrameBytes>::default(),
                };
                let original = first.get(&bytes.frame()).copied();
                let alike = original.filter(|_| down.is_some_and(|down| down.copy));
                let alike = alike.or(in_transit.map(|saved| saved.alike));
                let sent =
                    recorded(participant).into_iter().flat_map(|p| p.assets.iter().enumerate());
                let sent = sent.map(|(place, (label, frame))| {
                    let own = identity(round, participant, place);
                    let shared = named.get(label.as_str()).or(sized.get(&frame.bytes.frame()));
                    let shared = shared.copied().filter(|_| frame.copy);
                    SentAsset {
                        label: label.clone(),
                        digest: shared.unwrap_or(own),
                        bytes: Arc::clone(&frame.bytes),
                    }
                });
                let mut assets: Vec<SentAsset> = sent.collect();
                if let Some(saved) = in_transit {
                    let receiver =
                        (simulation.rules.cache, context, all[participant.index()].client);
                    let more = self.assets_in_transit(receiver, saved, &assets);
                    assets.extend(more);
                }
                let message = self.message(round, participant)?;
                let alike = alike.unwrap_or(participant.index());
                Ok(Arc::new(SentDownload { message, bytes, assets, alike }))
            })
            .collect()
    }

    fn training(
        &self,
        at: &ParticipantRef<'_>,
        _: Option<&Masking>,
    ) -> Result<SuppliedTraining, FederationError> {
        let (round, participant) = at.place();
        let nothing =
            || missing(format!("{participant} of {round} was not trained in the recorded run"));
        let recorded = self.participants.get(&(round, participant)).ok_or_else(nothing)?;
        let Some(training) = &recorded.trained else {
            let (reason, detail) = recorded.failed.clone().ok_or_else(nothing)?;
            let failure = failure(&reason, detail).ok_or_else(nothing)?;
            return Ok(SuppliedTraining { samples: 0, result: Err(failure) });
        };
        let upload = SentUpload {
            body: Some(Body::default()),
            own: None,
            exchange: None,
            bytes: recorded.upload.clone().unwrap_or_default(),
            digest: training.digest,
            fault: recorded
                .rejected
                .as_ref()
                .filter(|_| !self.was_lifted(round, participant))
                .map(|r| r.0.clone()),
        };
        let (forged, metrics) = (recorded.forged.clone(), training.metrics.clone());
        let result = Ok(ClientUpdate { up: upload, forged, metrics, kept: training.kept });
        Ok(SuppliedTraining { samples: training.samples as usize, result })
    }

    fn damage(&self, at: &ParticipantRef<'_>) -> Option<String> {
        let (reason, detail) = self.participants.get(&at.place())?.failed.clone()?;
        (reason == "corrupt").then_some(detail)
    }

    fn refused(&self, round: Round) -> Vec<RejectedUpload> {
        let rejected = self.rounds.get(&round).into_iter().flat_map(|recorded| &recorded.rejected);
        rejected
            .filter(|refusal| self.was_lifted(refusal.round, refusal.participant))
            .cloned()
            .collect()
    }

    fn closing(&self, round: Round) -> Result<SuppliedClosing, FederationError> {
        let nothing = || missing(format!("{round} was not closed in the recorded run"));
        let recorded = self.rounds.get(&round).ok_or_else(nothing)?;
        Ok(SuppliedClosing { digest: recorded.digest, metrics: recorded.metrics.clone() })
    }

    fn ending(&self, task: TaskId) -> Result<Digest, FederationError> {
        let nothing = || missing(format!("{task} was not over in the recorded run"));
        self.tasks.get(&task).copied().ok_or_else(nothing)
    }

    fn tested_round(&self, round: Round) -> Result<Tally, FederationError> {
        let nothing = || missing(format!("nothing was tested after {round} of the recorded run"));
        self.tested_rounds.get(&round).cloned().ok_or_else(nothing)
    }

    fn tested_task(&self, task: TaskId) -> Result<Tally, FederationError> {
        let nothing = || missing(format!("nothing was tested after {task} of the recorded run"));
        self.tested_tasks.get(&task).cloned().ok_or_else(nothing)
    }

    fn bias(&self, round: Round) -> Result<BiasMeasurement, FederationError> {
        let recorded = self.rounds.get(&round).and_then(|recorded| recorded.bias.clone());
        recorded.ok_or_else(|| missing(format!("client models of {round} were not compared")))
    }

    fn saved_state(&self, client: ClientId) -> Option<&Body> {
        let snapshot = self.snapshot.as_ref()?;
        self.states.get(&client).map(|place| &snapshot.clients[*place].1)
    }
}

/// Returns a number that separates the assets of a round; clients never hold one already.
fn identity(round: Round, participant: ParticipantId, place: usize) -> u64 {
    let mut hash = blake3::Hasher::new();
    hash.update(&round.0.to_le_bytes()).update(&participant.0.to_le_bytes());
    hash.update(&(place as u64).to_le_bytes());
    let hash = hash.finalize();
    let (first, _) = hash.as_bytes().split_first_chunk().expect("a hash has 32 bytes");
    u64::from_le_bytes(*first)
}

/// Returns the failure of training in the journal; `None` for failures that follow from others.
fn failure(reason: &str, detail: String) -> Option<Failure> {
    Some(match reason {
        "no_data" => Failure::NoData,
        "non_finite" => Failure::NonFinite(detail),
        "out_of_range" => Failure::OutOfRange(detail),
        "policy" => Failure::Policy(detail),
        "panicked" => Failure::Panicked(detail),
        _ => return None,
    })
}
