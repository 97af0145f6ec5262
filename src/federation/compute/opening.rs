//! The opening of a round: its participants and what they are sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::policy_steps::{StepRequest, policy};
use super::result_source::ResultSource;
use crate::federation::error::FederationError;
use crate::federation::exchange::Exchange;
use crate::federation::frames::{SentDownload, down_header, send_down};
use crate::federation::simulation_context::SimulationContext;
use crate::federation::sink::JobKind;
use crate::federation::timesheet::count_as;
use crate::policy::{Message, Participant, PolicyError, RoundContext, RunContext, Server};
use crate::quantity::ClientId;
use crate::wire::WireError;

/// Request to open a round: participants, their downloads, and the frames that carry them.
pub(in crate::federation) struct OpeningRequest {
    pub world: Arc<SimulationContext>,
    pub context: Arc<RoundContext>,
    pub cohort: Vec<ClientId>,
}

/// A round as the policy wants it.
pub(crate) struct RoundOpening {
    pub cohort: Vec<ClientId>,
    pub seats: Vec<Participant>,
    /// One per seat; equal ones are shared.
    pub downs: Vec<Arc<SentDownload>>,
    /// The first seat's exchange, where uploads are to be added in secret.
    pub first: Option<Arc<Exchange>>,
}

impl StepRequest for OpeningRequest {
    const STEP: &'static str = "open a round";
    type Answer = RoundOpening;

    fn work(
        self,
        server: &mut dyn Server,
        lab: &RunContext,
    ) -> Result<RoundOpening, FederationError> {
        let OpeningRequest { world, context, cohort } = self;
        let mut seats = participants(&world, &context, &cohort)?;
        let downs = server.broadcast(&context, &seats, lab).map_err(policy("broadcast"))?;
        if downs.len() != seats.len() {
            let (given, wanted) = (downs.len(), seats.len());
            let what = format!("the method gave {given} Downs for {wanted} seats");
            return Err(FederationError::Impossible(what));
        }
        let mut packed: BTreeMap<*const Message, Arc<SentDownload>> = BTreeMap::new();
        // The messages stay alive until all are packed, so that no address is used twice.
        let mut sent = Vec::with_capacity(downs.len());
        for (seat, down) in seats.iter().zip(&downs) {
            let address = Arc::as_ptr(down);
            if let Some(known) = packed.get(&address) {
                sent.push(Arc::clone(known));
                continue;
            }
            let header = down_header(&context, seat);
            let down = Arc::clone(down);
            let send = || send_down(down, &world.coding, &header);
            let new = count_as(JobKind::Codec, send).map_err(unsendable(&context))?;
            let new = Arc::new(new);
            packed.insert(address, Arc::clone(&new));
            sent.push(new);
        }
        let first = first_exchange(&world, &context, &seats);
        for (seat, like) in world.load_seats(context.phase_name, &seats, &context.period) {
            sent.push(Arc::clone(&sent[like]));
            seats.push(seat);
        }
        Ok(RoundOpening { cohort, seats, downs: sent, first })
    }

    fn known(self, source: &dyn ResultSource) -> Result<RoundOpening, FederationError> {
        let OpeningRequest { world, context, cohort } = self;
        let mut seats = participants(&world, &context, &cohort)?;
        let first = first_exchange(&world, &context, &seats);
        let load = world.load_seats(context.phase_name, &seats, &context.period);
        seats.extend(load.into_iter().map(|(seat, _)| seat));
        let downs = source.downs(&world, &context, &seats)?;
        Ok(RoundOpening { cohort, seats, downs, first })
    }
}

/// A value that no codec of downloads can carry is that of training that went wrong; the rest is the method's.
fn unsendable(context: &RoundContext) -> impl FnOnce(PolicyError) -> FederationError {
    let round = context.round;
    move |error| match error {
        PolicyError::Wire(source @ WireError::NotEncodable { .. }) => {
            FederationError::Download { round, source }
        }
        error => policy("pack a broadcast")(error),
    }
}

/// Returns the first seat's exchange, where uploads are to be added in secret.
fn first_exchange(
    world: &SimulationContext,
    context: &RoundContext,
    seats: &[Participant],
) -> Option<Arc<Exchange>> {
    world
        .rules
        .privacy
        .secure
        .and(seats.first())
        .map(|seat| Arc::new(world.exchange(context, seat)))
}

/// Returns the seats that the method gives a cohort, parts of shards as seats of their own.
fn participants(
    world: &SimulationContext,
    context: &RoundContext,
    cohort: &[ClientId],
) -> Result<Vec<Participant>, FederationError> {
    let seats = world.method.participants(context, cohort);
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
        if seat.unit.is_some_and(|unit| unit >= (1 << Participant::UNIT_BITS) - 1) {
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
