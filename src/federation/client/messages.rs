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

/// Message to a client while virtual time has not come to it: any of those that take time.
pub(crate) enum ToClient {
    Asset(AssetArrived),
    Broadcast(Box<Broadcast>),
    /// Local work is over.
    Trained(Box<TrainingFinished>),
    /// Local work would be over, had anything been computed.
    Idles(Box<Uncomputed>),
    Stops(WorkStopped),
}

impl ToClient {
    /// Returns the entry of the frame that brings it, where that is charged.
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
    /// Recorded on arrival, where frames are charged.
    pub charge: Option<Event>,
}

/// Result of a training job.
pub(crate) struct TrainingFinished {
    pub context: Arc<RoundContext>,
    pub participant: Participant,
    /// The state after a success; as it was after a failure; none where the training was not computed.
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
    /// The size its upload would have.
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

/// End of an idle client; answered with what is to be remembered. Its actor waits for another client.
pub(super) struct Retire;
