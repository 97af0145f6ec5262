//! Participants, phases and rounds of the exchange.
//!
//! The unit of exchange is a **participant**, not a client: one download and one upload per participant. By default
//! a sampled client has one participant; a dummy client (a part of its shard acting alone), a role (learner,
//! reviewer) or a fresh client are further participants.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Stage;
use crate::data::TaskView;
use crate::numerics::streams::{Domain, StreamKey};
use crate::quantity::{ClientId, ParticipantId, Round};

/// Role of a participant in its round; methods with more than one role number them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Role(pub u8);

/// Kind of a participant.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum ParticipantKind {
    /// A client with its whole shard.
    #[default]
    Client,
    /// A random part of a client's shard.
    DummyClient,
    /// A load client: frames of real size, no training, nothing aggregated.
    LoadClient,
}

impl ParticipantKind {
    /// Returns the word in journals and tables.
    pub fn word(self) -> &'static str {
        match self {
            ParticipantKind::Client => "client",
            ParticipantKind::DummyClient => "dummy_client",
            ParticipantKind::LoadClient => "load_client",
        }
    }

    /// Returns true if it is a client with its whole shard.
    pub fn is_client(&self) -> bool {
        *self == ParticipantKind::Client
    }
}

/// Unit of exchange in a round: gets one download and returns one upload.
#[derive(Clone, Debug)]
pub struct Participant {
    /// Position in the round; aggregation happens in this order.
    pub id: ParticipantId,
    /// Client whose data and state the participant works on.
    pub client: ClientId,
    /// The participant's role.
    pub role: Role,
    /// Index of the sub-shard, if a part of the client's shard is a separate participant.
    pub dummy_client: Option<u32>,
    /// Kind of the participant. Methods leave the default; the engine adds dummy clients and load clients.
    pub kind: ParticipantKind,
    /// The classes this participant learns and the head rows they have.
    pub view: Arc<TaskView>,
}

impl Participant {
    /// Returns true if the participant trains; a load client does not.
    pub fn trains(&self) -> bool {
        self.kind != ParticipantKind::LoadClient
    }

    /// Returns the stream key of everything this participant draws in `round`.
    ///
    /// Choose the purpose with [`StreamKey::domain`].
    pub fn key(&self, run_seed: u64, round: Round) -> StreamKey {
        StreamKey::new(run_seed, Domain::Method)
            .task(u32::from(self.view.task.0))
            .round(round.0)
            .client(self.client.0)
            .unit(self.dummy_client_in_keys())
    }

    /// Returns the number that separates the participants of one client in stream keys.
    ///
    /// It is the sub-shard plus one, or zero, below the role.
    pub(crate) fn dummy_client_in_keys(&self) -> u32 {
        self.dummy_client.map_or(0, |dummy_client| dummy_client + 1)
            | u32::from(self.role.0) << Participant::DUMMY_CLIENT_BITS
    }

    /// Number of bits of a sub-shard plus one.
    pub(crate) const DUMMY_CLIENT_BITS: u32 = 24;
}

/// Rule for the clients that a phase samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CohortRule {
    /// The scenario's participation draws a cohort.
    Sampled,
    /// Every client that took part in an earlier phase of this stage.
    Participants,
    /// Every client that holds data of the stage's task. Refused for fresh populations.
    Holders,
}

/// A kind of exchange within a stage (train, estimate, statistics, ...).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Name in journals and reports.
    pub name: &'static str,
    /// Number of rounds.
    pub rounds: u32,
    /// Rule for the clients that take part.
    pub cohort: CohortRule,
    /// The most participants that [`Method::train`](super::Method::train) learns together. One is right where they are
    /// trained one after another: participants are spread over workers instead.
    pub max_pack_size: usize,
}

impl Phase {
    /// Creates a phase whose participants are not packed.
    pub fn new(name: &'static str, rounds: u32, cohort: CohortRule) -> Phase {
        Phase { name, rounds, cohort, max_pack_size: 1 }
    }

    /// Returns the usual phase: `rounds` rounds of training with the sampled cohort.
    pub fn train(rounds: u32) -> Phase {
        Phase::new("train", rounds, CohortRule::Sampled)
    }

    /// Returns the phase with packs of at most `max_pack_size` participants.
    pub fn packed(self, max_pack_size: usize) -> Phase {
        Phase { max_pack_size, ..self }
    }
}

/// Position of a round in the run.
#[derive(Clone, Debug)]
pub struct RoundContext {
    /// Run-wide number of the round.
    pub round: Round,
    /// The stage it belongs to.
    pub stage: Stage,
    /// Index of the phase in [`Method::phases`](super::Method::phases).
    pub phase: usize,
    /// Name of that phase.
    pub phase_name: &'static str,
    /// Number of the round within its phase, from 0.
    pub round_in_phase: u32,
    /// Maximum number of rounds of the phase.
    pub rounds_in_phase: u32,
    /// The run's seed, for the server's own draws.
    pub run_seed: u64,
}

impl RoundContext {
    /// Returns the first and only round of a phase without a name, for questions about costs.
    pub fn alone(stage: &Stage, phase: usize) -> RoundContext {
        RoundContext {
            round: Round(0),
            stage: stage.clone(),
            phase,
            phase_name: "",
            round_in_phase: 0,
            rounds_in_phase: 1,
            run_seed: 0,
        }
    }

    /// Returns the stream key of the server's draws in this round for `domain`; no participant draws there.
    pub fn key(&self, domain: Domain) -> StreamKey {
        StreamKey::new(self.run_seed, domain)
            .task(u32::from(self.stage.task.0))
            .round(self.round.0)
            .client(SERVER)
    }
}

/// Client number that stands for the server in stream keys.
const SERVER: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::one_participant_per_client;
    use crate::quantity::TaskId;

    #[test]
    fn a_client_is_no_unit_and_a_load_client_does_not_work() {
        let view = Arc::new(TaskView { task: TaskId(0), rows: 0..2, classes: vec![0, 1] });
        let participant = one_participant_per_client(&Stage::of(view, 1), &[ClientId(0)]).remove(0);
        let kinds =
            [ParticipantKind::Client, ParticipantKind::DummyClient, ParticipantKind::LoadClient];
        assert_eq!(kinds.map(|kind| kind.is_client()), [true, false, false]);
        assert_eq!(
            kinds.map(|kind| Participant { kind, ..participant.clone() }.trains()),
            [true, true, false]
        );
    }

    #[test]
    fn roles_units_and_the_server_draw_from_places_of_their_own() {
        let view = Arc::new(TaskView { task: TaskId(0), rows: 0..2, classes: vec![0, 1] });
        let participant = |role, dummy_client| Participant {
            id: ParticipantId(0),
            client: ClientId(0),
            role: Role(role),
            dummy_client,
            kind: ParticipantKind::Client,
            view: Arc::clone(&view),
        };
        let context = RoundContext {
            round: Round(0),
            stage: Stage::of(Arc::clone(&view), 1),
            phase: 0,
            phase_name: "train",
            round_in_phase: 0,
            rounds_in_phase: 1,
            run_seed: 7,
        };
        let participants = [(0, None), (1, None), (0, Some(0)), (1, Some(0)), (0, Some(1))];
        let mut keys: Vec<StreamKey> = participants
            .iter()
            .map(|(role, dummy_client)| participant(*role, *dummy_client).key(7, Round(0)))
            .collect();
        keys.push(context.key(Domain::Method));
        for (place, key) in keys.iter().enumerate() {
            assert!(!keys[..place].contains(key), "{key:?}");
        }
    }
}
