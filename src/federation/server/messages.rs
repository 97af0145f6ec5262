//! Messages to the server, and what it hands out for a snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::federation::aggregation::AggregationResult;
use crate::federation::assets::AssetCaches;
use crate::federation::bias::BiasMeasurement;
use crate::federation::compute::{PolicyStep, PolicyStepResult, RoundOpening};
use crate::federation::error::FederationError;
use crate::federation::event::{EvaluationPoint, Event};
use crate::federation::frames::{SentDownload, SentUpload};
use crate::federation::privacy::KeyExchange;
use crate::federation::snapshot::{SentFrame, SnapshotPlace};
use crate::learning::Tally;
use crate::quantity::{ClientId, ParticipantId, Round, VirtualTime};
use crate::wire::Body;

/// Message to the server: something happens to it.
pub(crate) enum ToServer {
    /// The run begins.
    Start,
    /// The next task reaches its first client.
    TaskDue,
    /// The policy has begun the stage of a new task.
    Started(PolicyStep<()>),
    /// A client can be reached again.
    Reopen,
    /// The policy has prepared the downloads.
    Opened(PolicyStep<RoundOpening>),
    /// An upload arrives.
    Arrived(Box<Arrival>),
    /// The upload of a load client arrives.
    Loaded { round: Round, participant: ParticipantId, charge: Option<Event> },
    /// A frame from or to a participant was lost.
    Lost { round: Round, participant: ParticipantId, charge: Option<Event> },
    /// The upload of a participant that was not computed, because it certainly is late.
    Untrained { round: Round, participant: ParticipantId, charge: Option<Event> },
    /// A participant sends nothing.
    Failed { round: Round, participant: ParticipantId },
    /// The deadline of a round is over.
    Deadline(Round),
    /// The server is lost.
    Lose(Box<ServerLoss>),
    /// The server is back, with a policy made from the saved state.
    Restarted(PolicyStep<()>),
    /// A frame of secure aggregation after the uploads arrives; it is only charged.
    Charged(Event),
    /// A frame of the exchange of keys before a round arrives, at the server or at a client.
    KeysArrived { round: Round, charge: Event },
    /// The key exchange of secure aggregation is over, with enough members or too few.
    Introduced(Round, KeyExchange),
    /// All uploads of the round are merged.
    Aggregated(Result<AggregationResult, String>),
    /// Client models were compared.
    Compared(Result<BiasMeasurement, FederationError>),
    /// The policy closed the round.
    Closed(PolicyStep<PolicyStepResult>),
    /// The policy ended the stage.
    StageEnded(PolicyStep<PolicyStepResult>),
    /// The model was tested.
    Tested(EvaluationPoint, Result<Vec<Tally>, FederationError>),
}

impl ToServer {
    /// Returns the charge that is recorded when the message arrives, if it has one.
    pub fn charge_mut(&mut self) -> Option<&mut Event> {
        match self {
            ToServer::Arrived(arrival) => arrival.charge.as_mut(),
            ToServer::Loaded { charge, .. }
            | ToServer::Lost { charge, .. }
            | ToServer::Untrained { charge, .. } => charge.as_mut(),
            ToServer::Charged(charge) | ToServer::KeysArrived { charge, .. } => Some(charge),
            _ => None,
        }
    }
}

/// An upload as it reaches the server.
pub(crate) struct Arrival {
    pub round: Round,
    pub participant: ParticipantId,
    pub up: SentUpload,
    pub charge: Option<Event>,
    /// True if the network delivers it a second time at once.
    pub twice: bool,
}

/// A server that is about to be lost.
pub(crate) struct ServerLoss {
    pub round: Round,
    pub downtime: VirtualTime,
    /// Assets that clients held before the round.
    pub caches: AssetCaches,
}

/// The server's part of a snapshot.
pub(crate) struct ServerSnapshot {
    pub place: SnapshotPlace,
    pub round: Round,
    pub policy: Body,
    pub caches: Vec<(ClientId, Vec<u64>)>,
    pub untransformed: Vec<(Round, ParticipantId)>,
    /// Participants of closed rounds whose answers are to come or to be used, with their downloads.
    pub out: BTreeMap<(Round, ParticipantId), Arc<SentDownload>>,
    /// Frames that were sent to participants from which nothing has arrived.
    pub frames: BTreeMap<(Round, ParticipantId), Vec<SentFrame>>,
}
