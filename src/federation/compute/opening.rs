//! The opening of a round: its participants and what they are sent.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::federation::error::FederationError;
use crate::federation::exchange::Exchange;
use crate::federation::frames::SentDown;
use crate::federation::world::World;
use crate::policy::{RoundContext, Seat};
use crate::quantity::ClientId;

/// A round that is to be opened.
pub(in crate::federation) struct OpeningRequest {
    pub world: Arc<World>,
    pub context: Arc<RoundContext>,
    pub cohort: Vec<ClientId>,
}

/// A round as the policy wants it.
pub(crate) struct RoundOpening {
    pub cohort: Vec<ClientId>,
    pub seats: Vec<Seat>,
    /// One per seat; equal ones are shared.
    pub downs: Vec<Arc<SentDown>>,
    /// The first seat's exchange, where uploads are to be added in secret.
    pub first: Option<Arc<Exchange>>,
}

/// Returns the first seat's exchange, where uploads are to be added in secret.
pub(super) fn first_exchange(
    world: &World,
    context: &RoundContext,
    seats: &[Seat],
) -> Option<Arc<Exchange>> {
    world
        .rules
        .privacy
        .secure
        .and(seats.first())
        .map(|seat| Arc::new(world.exchange(context, seat)))
}

/// Returns the seats that the method gives a cohort, parts of shards as seats of their own.
pub(super) fn seats(
    world: &World,
    context: &RoundContext,
    cohort: &[ClientId],
) -> Result<Vec<Seat>, FederationError> {
    let seats = world.method.seats(context, cohort);
    let phase = context.phase_name;
    let wrong = |what: String| Err(FederationError::Impossible(what));
    if let Some(place) = (0..seats.len()).find(|place| seats[*place].id.index() != *place) {
        return wrong(format!("the method numbered {} in place {place}", seats[place].id));
    }
    if let Some(seat) = seats.iter().find(|seat| seat.client.0 >= world.rules.clients) {
        return wrong(format!("the method seated {}, who is not there", seat.client));
    }
    let seats = world.split(phase, seats)?;
    let mut places = BTreeSet::new();
    for seat in &seats {
        if seat.unit.is_some_and(|unit| unit >= (1 << Seat::UNIT_BITS) - 1) {
            return wrong(format!("the method gave {} a unit beyond 24 bits", seat.client));
        }
        if !places.insert((seat.client, seat.role, seat.unit)) {
            return wrong(format!(
                "the method seated {} twice in the same role and unit ({}); \
                 seats of one client need different roles or units",
                seat.client, seat.id
            ));
        }
    }
    Ok(seats)
}
