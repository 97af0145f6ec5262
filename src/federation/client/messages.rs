//! Messages to a client.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::training::Trained;
use super::uncomputed::Uncomputed;
use crate::federation::event::Event;
use crate::federation::frames::SentDown;
use crate::federation::privacy::Masking;
use crate::federation::world::World;
use crate::policy::{Failure, RoundContext, Seat};
use crate::quantity::{Round, SeatId, VirtualTime};

/// Message to a client while virtual time has not come to it: any of those that take time.
pub(crate) enum ToClient {
    Asset(AssetArrived),
    Broadcast(Box<Broadcast>),
    /// Local work is over.
    Trained(Box<Trained>),
    /// Local work would be over, had anything been computed.
    Idles(Box<Uncomputed>),
    Stops(WorkStopped),
}

/// Arrival of an asset.
pub(crate) struct AssetArrived {
    /// To be recorded.
    pub charge: Event,
}

/// Download on its way to a seat.
#[derive(Clone)]
pub(crate) struct Broadcast {
    pub context: Arc<RoundContext>,
    pub seat: Seat,
    pub down: Arc<SentDown>,
    /// What the seat masks its upload with, where the server sees sums only.
    pub masking: Option<Arc<Masking>>,
    /// When its round is certainly over, where stragglers are skipped.
    pub closes: Option<VirtualTime>,
    /// Recorded on arrival, where frames are charged.
    pub charge: Option<Event>,
}

/// Departure or crash of a client before the work of a seat is over.
pub(crate) struct WorkStopped {
    pub context: Arc<RoundContext>,
    pub seat: SeatId,
    pub failure: Failure,
}

/// Change of what holds for everybody.
pub(super) struct NewTerms(pub Arc<World>);

/// Request for the client's part of a snapshot; seats that are still out are named.
pub(super) struct Keep(pub Arc<BTreeSet<(Round, SeatId)>>);

/// End of an idle client's actor; answered with what is to be remembered.
pub(super) struct Retire;
