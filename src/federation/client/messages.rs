//! Messages to a client.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::federation::aggregation::AggregationTree;
use crate::federation::compute::ClientUpdate;
use crate::federation::error::FederationError;
use crate::federation::event::{Event, FrameBytes};
use crate::federation::frames::SentDownload;
use crate::federation::privacy::Masking;
use crate::federation::simulation_context::SimulationContext;
use crate::policy::{Failure, Participant, RoundContext};
use crate::quantity::{ParticipantId, Round, VirtualTime};
use crate::wire::Body;

/// Message that is delivered to a client at its virtual time.
pub(crate) enum ToClient {
    Asset(AssetArrived),
    Broadcast(Box<Broadcast>),
    /// Local work is over.
    Trained(Box<TrainingFinished>),
    /// The local work of a participant that was not computed is over.
    Idles(Box<Uncomputed>),
    Stops(WorkStopped),
}

impl ToClient {
    /// Returns the charge that is recorded when the message arrives, if it has one.
    pub fn charge_mut(&mut self) -> Option<&mut Event> {
        match self {
            ToClient::Asset(asset) => Some(&mut asset.charge),
            ToClient::Broadcast(broadcast) => broadcast.charge.as_mut(),
            ToClient::Trained(_) | ToClient::Idles(_) | ToClient::Stops(_) => None,
        }
    }
}

/// Arrival of an asset.
pub(crate) struct AssetArrived {
    /// Charge to be recorded.
    pub charge: Event,
}

/// Download on its way to a participant.
#[derive(Clone)]
pub(crate) struct Broadcast {
    pub context: Arc<RoundContext>,
    pub participant: Participant,
    pub download: Arc<SentDownload>,
    /// Masking of the upload, if the server sees only sums.
    pub masking: Option<Arc<Masking>>,
    /// Time at which its round is certainly over, if stragglers are skipped.
    pub closes: Option<VirtualTime>,
    /// Aggregation of its round, if that takes every upload that reaches the server.
    pub aggregation: Option<AggregationTree>,
    /// Charge of the frame, recorded on arrival; `None` if frames are not charged.
    pub charge: Option<Event>,
}

/// Result of a training job.
pub(crate) struct TrainingFinished {
    pub context: Arc<RoundContext>,
    pub participant: Participant,
    /// State after training, or the earlier one if training failed; `None` if nothing was computed.
    pub state: Option<Body>,
    pub samples: usize,
    /// Duration of the work on the simulated clock.
    pub worked: VirtualTime,
    pub result: Result<ClientUpdate, Stop>,
}

/// Reason why a participant sends nothing.
pub(crate) enum Stop {
    /// The client failed; the run goes on without it.
    Failed(Failure),
    /// The run cannot go on.
    Ends(FederationError),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        match failure {
            Failure::Data(why) => Stop::Ends(FederationError::Data(why)),
            Failure::Memory(why) => Stop::Ends(FederationError::Memory(why)),
            other => Stop::Failed(other),
        }
    }
}

/// A participant that works and sends on the simulated clock only.
pub(crate) struct Uncomputed {
    pub context: Arc<RoundContext>,
    pub participant: Participant,
    pub worked: VirtualTime,
    /// Size that its upload would have.
    pub bytes: Arc<FrameBytes>,
}

/// Departure or crash of a client before the work of a participant is over.
pub(crate) struct WorkStopped {
    pub context: Arc<RoundContext>,
    pub participant: ParticipantId,
    pub failure: Failure,
}

/// Switch of the context for every actor.
pub(super) struct NewTerms(pub Arc<SimulationContext>);

/// Request for the client's part of a snapshot; participants that are still out are named.
pub(super) struct Keep(pub Arc<BTreeSet<(Round, ParticipantId)>>);

/// Request that an idle client retires, answered with its memory. Its actor then waits for another client.
pub(super) struct Retire;
