//! Participants in addition to those of the method: dummy clients and load clients.
//!
//! A *dummy client* is a random part of a client's shard that acts as a separate client in some phases. A *load client* has no
//! data: frames of real size travel to it and from it, but it never trains and nothing of it is aggregated. It stands
//! for a client that has data, whose shard determines the size of its frames and the length of its work.

use std::ops::Range;
use std::sync::Arc;

use super::client_data::{ClientData, sum};
use super::error::FederationError;
use super::rules::{DummyClientsSection, Rules};
use super::simulation_context::SimulationContext;
use crate::data::{Shard, dummy_clients};
use crate::policy::{ClassCounts, Participant, ParticipantKind, Stage};
use crate::quantity::{ClientId, ParticipantId};

impl DummyClientsSection {
    /// Returns the numbers of the dummy clients of a shard in a phase, or `None` if it acts as a whole.
    pub fn of(&self, phase: &str, samples: impl FnOnce() -> usize) -> Option<Range<u32>> {
        let cut = self.count > 1 && self.phases.iter().any(|name| name == phase);
        cut.then(|| dummy_clients::numbers(samples(), self.count, self.split))
    }
}

impl Rules {
    /// Returns the client whose shard a client uses: itself, or the one that a load client stands for.
    pub fn holder(&self, client: ClientId) -> ClientId {
        match client.0.checked_sub(self.clients) {
            None => client,
            Some(load) => ClientId(load % self.clients.max(1)),
        }
    }

    /// Returns the load clients; their numbers follow those of the clients that own data.
    pub fn load_clients(&self) -> impl Iterator<Item = ClientId> {
        (self.clients..self.clients.saturating_add(self.load)).map(ClientId)
    }
}

impl SimulationContext {
    /// Returns the samples of a participant.
    pub fn participant_shard(&self, phase: &str, participant: &Participant) -> Shard {
        let holder = self.rules.holder(participant.client);
        let shard = self.shard(&participant.view, holder);
        let Some(dummy_client) = self.dummy_client_of(phase, participant, || shard.len()) else {
            return shard;
        };
        let labels = self.holdings.data().dataset.train.labels();
        let mut samples: Vec<u32> = shard.to_vec();
        samples
            .sort_by_key(|sample| (self.task_sequence.row_of(labels[*sample as usize]), *sample));
        let places = self.places(participant, samples.len(), dummy_client);
        let mut part: Vec<u32> = places.into_iter().map(|place| samples[place as usize]).collect();
        part.sort_unstable();
        part.into()
    }

    /// Returns the number of a participant's samples.
    pub fn participant_samples(&self, phase: &str, participant: &Participant) -> usize {
        let samples =
            self.holdings.samples(&participant.view, self.rules.holder(participant.client));
        match self.dummy_client_of(phase, participant, || samples) {
            None => samples,
            Some(dummy_client) => self.places(participant, samples, dummy_client).len(),
        }
    }

    /// Returns the label counts of a participant, by head row.
    pub fn participant_counts(&self, phase: &str, participant: &Participant) -> ClassCounts {
        let held = match &self.holdings {
            ClientData::Counts(source) => {
                source.counts(&participant.view, self.rules.holder(participant.client))
            }
            samples => {
                return samples
                    .counts_of(&self.task_sequence, &self.participant_shard(phase, participant));
            }
        };
        let Some(dummy_client) = self.dummy_client_of(phase, participant, || sum(&held)) else {
            return held;
        };
        let rows = held.iter().flat_map(|(row, count)| vec![*row; *count as usize]);
        let rows: Vec<u32> = rows.collect();
        let mut counts = ClassCounts::new();
        for place in self.places(participant, rows.len(), dummy_client) {
            *counts.entry(rows[place as usize]).or_default() += 1;
        }
        counts
    }

    /// Returns the dummy client of a participant, if shards are split.
    fn dummy_client_of(
        &self,
        phase: &str,
        participant: &Participant,
        samples: impl FnOnce() -> usize,
    ) -> Option<u32> {
        let dummy_client = participant.dummy_client?;
        self.rules.dummy_clients.of(phase, samples).map(|_| dummy_client)
    }

    /// Returns the positions of a dummy client's samples in those of its client, sorted by head row.
    fn places(&self, participant: &Participant, samples: usize, dummy_client: u32) -> Vec<u32> {
        let key = dummy_clients::key(
            self.rules.seed,
            participant.view.task,
            self.rules.holder(participant.client),
        );
        let DummyClientsSection { count, split: rule, .. } = self.rules.dummy_clients;
        std::mem::take(&mut dummy_clients::cut(samples, count, rule, key)[dummy_client as usize])
    }

    /// Replaces every participant whose shard is split in this phase by one participant per dummy client.
    ///
    /// The order stays, and participants are numbered again.
    ///
    /// # Errors
    /// Returns an error if the method already gives such a participant dummy clients.
    pub fn split(
        &self,
        phase: &str,
        participants: Vec<Participant>,
    ) -> Result<Vec<Participant>, FederationError> {
        let mut split = Vec::with_capacity(participants.len());
        for participant in participants {
            let samples = || self.holdings.samples(&participant.view, participant.client);
            let Some(dummy_clients) = self.rules.dummy_clients.of(phase, samples) else {
                split.push(participant);
                continue;
            };
            if participant.dummy_client.is_some() {
                return Err(FederationError::Impossible(format!(
                    "the method gives {} dummy clients of its own in `{phase}`; take this phase out of \
                     federation.dummy_clients.phases",
                    participant.client
                )));
            }
            let dummy_client = |dummy_client| Participant {
                dummy_client: Some(dummy_client),
                kind: ParticipantKind::DummyClient,
                ..participant.clone()
            };
            split.extend(dummy_clients.map(dummy_client));
        }
        let numbered = split.into_iter().enumerate();
        Ok(numbered
            .map(|(place, participant)| Participant {
                id: ParticipantId(place as u32),
                ..participant
            })
            .collect())
    }

    /// Returns the participants of load clients, after all others, in a round that has any other.
    ///
    /// Each comes with the place of the participant whose download it gets: its holder's, or the first. Where no message
    /// crosses a link, there are none.
    pub fn load_participants(
        &self,
        phase: &str,
        participants: &[Participant],
        stage: &Stage,
    ) -> Vec<(Participant, usize)> {
        let mut load: Vec<(Participant, usize)> = Vec::new();
        let has_load = self.charged && !participants.is_empty();
        for client in self.rules.load_clients().take_while(|_| has_load) {
            let holder = self.rules.holder(client);
            let like = participants
                .iter()
                .position(|participant| participant.client == holder)
                .unwrap_or(0);
            let view = stage.view_of(holder);
            let samples = || self.holdings.samples(&view, holder);
            let dummy_clients: Vec<Option<u32>> = match self.rules.dummy_clients.of(phase, samples)
            {
                None => vec![None],
                Some(dummy_clients) => dummy_clients.map(Some).collect(),
            };
            for dummy_client in dummy_clients {
                let id = ParticipantId((participants.len() + load.len()) as u32);
                let (role, view) = (participants[like].role, Arc::clone(&view));
                load.push((
                    Participant {
                        id,
                        client,
                        role,
                        dummy_client,
                        kind: ParticipantKind::LoadClient,
                        view,
                    },
                    like,
                ));
            }
        }
        load
    }
}
