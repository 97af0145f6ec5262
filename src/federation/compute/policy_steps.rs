//! Steps of the server's policy, as workers do them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::opening::{OpeningRequest, RoundOpening, first_exchange, seats};
use crate::federation::error::FederationError;
use crate::federation::exchange::Exchange;
use crate::federation::figure::Figure;
use crate::federation::fold::Part;
use crate::federation::frames::{SentDown, down_header, send_down};
use crate::federation::privacy::Masking;
use crate::federation::robust::{Figures, FoldRule};
use crate::federation::sink::JobKind;
use crate::federation::timesheet::count_as;
use crate::federation::world::World;
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{Folded, Lab, Message, Period, PolicyError, Predictor, RoundContext, Server};
use crate::wire::{Body, WireError};

/// Names of the steps, as errors give them.
pub(super) const BEGIN: &str = "begin a task";
pub(super) const OPEN: &str = "open a round";
pub(super) const CLOSE: &str = "close a round";
pub(super) const END: &str = "end a task";
pub(super) const RESTART: &str = "restart";

/// The server after a step that changed it.
pub(crate) struct ServerState {
    /// All of it; nothing where it is supplied without a policy.
    pub saved: Body,
    pub digest: u64,
    /// Metrics of the policy for the round.
    pub figures: BTreeMap<String, Figure>,
    /// Its model, where it is to be tested and nobody knows the result.
    pub predictor: Option<Arc<dyn Predictor>>,
}

/// A policy that is to be made in the place of a lost one.
pub(in crate::federation) struct Restart {
    pub world: Arc<World>,
    /// Its last saved state; before its first round a server has none, and begins anew.
    pub saved: Option<Body>,
    /// The period that began since.
    pub begun: Option<Period>,
}

/// Result of a round's fold, as the policy takes it.
pub(in crate::federation) struct RoundAggregate {
    pub part: Option<Part>,
    /// The agreement of the members of secure aggregation, and the exchange that all have in common.
    pub masking: Option<(Arc<Masking>, Arc<Exchange>)>,
    pub rule: FoldRule,
}

impl RoundAggregate {
    /// Returns the aggregate in the clear, and metrics of its making.
    fn open(self) -> Result<(Option<Folded>, Figures), PolicyError> {
        match (self.part, self.masking) {
            (None, _) => Ok((None, Figures::new())),
            (Some(Part::Plain(folded)), _) => Ok((Some(folded), Figures::new())),
            (Some(Part::Robust(updates)), _) => Ok(updates.fold(self.rule)),
            (Some(Part::Masked(sum)), Some((masking, exchange))) => {
                let (down, up) = (&exchange.down.layout, &exchange.up.layout);
                Ok((Some(Folded::of_sum(&masking.open(sum)?, down, up)?), Figures::new()))
            }
            (Some(Part::Masked(_)), None) => {
                Err(PolicyError::Unsupported("a masked sum without members".to_owned()))
            }
        }
    }
}

fn policy(step: &'static str) -> impl FnOnce(PolicyError) -> FederationError {
    move |source| match source {
        PolicyError::Data(error) => FederationError::Data(error.to_string()),
        source => FederationError::Policy { step, source: Box::new(source) },
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

/// Tells the policy of a task that begins.
pub(super) fn begin(
    server: &mut dyn Server,
    lab: &Lab,
    period: &Period,
) -> Result<(), FederationError> {
    server.begin_period(period, lab).map_err(policy(BEGIN))
}

/// Makes a policy as it was saved, and tells it of a period that began since.
pub(super) fn restart(lab: &Lab, restart: Restart) -> Result<Box<dyn Server>, FederationError> {
    let Restart { world, saved, begun } = restart;
    let anew = || {
        let init = StreamKey::new(world.rules.seed, Domain::Init);
        let mut server = world.method.server(lab, init)?;
        if let Some(saved) = saved {
            server.load(&saved)?;
        }
        if let Some(period) = begun {
            server.begin_period(&period, lab)?;
        }
        Ok(server)
    };
    anew().map_err(policy(RESTART))
}

/// Opens a round: participants, their downloads, and the frames that carry them.
pub(super) fn open(
    server: &mut dyn Server,
    lab: &Lab,
    request: OpeningRequest,
) -> Result<RoundOpening, FederationError> {
    let OpeningRequest { world, context, cohort } = request;
    let mut seats = seats(&world, &context, &cohort)?;
    let downs = server.broadcast(&context, &seats, lab).map_err(policy("broadcast"))?;
    if downs.len() != seats.len() {
        let (given, wanted) = (downs.len(), seats.len());
        let what = format!("the method gave {given} Downs for {wanted} seats");
        return Err(FederationError::Impossible(what));
    }
    let mut packed: BTreeMap<*const Message, Arc<SentDown>> = BTreeMap::new();
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

/// Takes the aggregate of a round into the policy.
pub(super) fn close(
    server: &mut dyn Server,
    lab: &Lab,
    context: &RoundContext,
    aggregate: RoundAggregate,
    test: bool,
) -> Result<ServerState, FederationError> {
    let (folded, figures) = aggregate.open().map_err(policy("fold uploads"))?;
    server.end_round(context, folded, lab).map_err(policy(CLOSE))?;
    let mut state = state(server, lab, test)?;
    let named = |(name, figure): (&str, f64)| (name.to_string(), Figure(figure));
    state.figures.extend(figures.into_iter().map(named));
    Ok(state)
}

/// Tells the policy that all phases of the period are over.
pub(super) fn end(
    server: &mut dyn Server,
    lab: &Lab,
    period: &Period,
    test: bool,
) -> Result<ServerState, FederationError> {
    server.end_period(period, lab).map_err(policy(END))?;
    state(server, lab, test)
}

fn state(server: &dyn Server, lab: &Lab, test: bool) -> Result<ServerState, FederationError> {
    let (saved, digest) = count_as(JobKind::Codec, || {
        let saved = server.save();
        let digest = saved.digest();
        (saved, digest)
    });
    let predictor =
        test.then(|| server.predictor(lab)).transpose().map_err(policy("show its model"))?;
    let figures = server.figures().into_iter();
    let figures = figures.map(|(name, figure)| (name.to_string(), Figure(figure))).collect();
    Ok(ServerState { saved, digest, figures, predictor })
}
