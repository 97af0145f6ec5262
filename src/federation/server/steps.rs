//! The server's policy as device jobs: the policy goes into a job and comes back with its answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::federation::answers::{self, Answers};
use crate::federation::devices::count_as;
use crate::federation::error::FederationError;
use crate::federation::exchange::Exchange;
use crate::federation::figure::{Digest, Figure};
use crate::federation::fold::Part;
use crate::federation::frames::{SentDown, down_header, send_down};
use crate::federation::privacy::Masking;
use crate::federation::robust::{Figures, FoldRule};
use crate::federation::sink::JobKind;
use crate::federation::world::World;
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{
    Folded, Lab, Message, Period, PolicyError, Predictor, RoundContext, Seat, Server,
};
use crate::quantity::{ClientId, Round, TaskId};
use crate::wire::{Body, WireError};

/// The policy, where it was asked, and the answer.
pub(crate) type Answer<T> = (Option<Box<dyn Server>>, Result<T, FederationError>);

/// A round as the policy wants it.
pub(crate) struct Opening {
    pub cohort: Vec<ClientId>,
    pub seats: Vec<Seat>,
    /// One per seat; equal ones are shared.
    pub downs: Vec<Arc<SentDown>>,
    /// The first seat's exchange, where uploads are to be added in secret.
    pub first: Option<Arc<Exchange>>,
}

/// The server after a step that changed it.
pub(crate) struct Changed {
    /// Its whole state; nothing where it is told.
    pub saved: Body,
    pub digest: u64,
    /// What the policy says about the round.
    pub figures: BTreeMap<String, Figure>,
    /// Its model, where it is to be tested and nobody knows how it does.
    pub predictor: Option<Arc<dyn Predictor>>,
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

/// The policy before the first task, told of the first period.
pub(super) fn begin(mut server: Box<dyn Server>, lab: &Lab, period: &Period) -> Answer<()> {
    let answer = server.begin_period(period, lab).map_err(policy("begin a task"));
    (Some(server), answer)
}

/// What a server does that was lost.
pub(super) const RESTART: &str = "restart";

/// A policy in the place of a lost one: as it was saved, and told of a period that began since.
pub(super) fn restart(
    world: &World,
    lab: &Lab,
    saved: Option<Body>,
    begun: Option<Period>,
) -> Answer<()> {
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
    match anew().map_err(policy(RESTART)) {
        Ok(server) => (Some(server), Ok(())),
        Err(error) => (None, Err(error)),
    }
}

/// Seats, Downs, frames.
pub(super) fn open(
    mut server: Box<dyn Server>,
    lab: &Lab,
    world: &World,
    context: &RoundContext,
    cohort: Vec<ClientId>,
) -> Answer<Opening> {
    let answer = opening(&mut *server, lab, world, context, cohort);
    (Some(server), answer)
}

fn opening(
    server: &mut dyn Server,
    lab: &Lab,
    world: &World,
    context: &RoundContext,
    cohort: Vec<ClientId>,
) -> Result<Opening, FederationError> {
    let mut seats = seats(world, context, &cohort)?;
    let phase = context.phase_name;
    let wrong = |what: String| Err(FederationError::Impossible(what));
    let downs = server.broadcast(context, &seats, lab).map_err(policy("broadcast"))?;
    if downs.len() != seats.len() {
        return wrong(format!("the method gave {} Downs for {} seats", downs.len(), seats.len()));
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
        let header = down_header(context, seat);
        let down = Arc::clone(down);
        let send = || send_down(down, &world.coding, &header);
        let new = count_as(JobKind::Codec, send).map_err(unsendable(context))?;
        let new = Arc::new(new);
        packed.insert(address, Arc::clone(&new));
        sent.push(new);
    }
    let first = first_exchange(world, context, &seats);
    for (seat, like) in world.load_seats(phase, &seats, &context.period) {
        sent.push(Arc::clone(&sent[like]));
        seats.push(seat);
    }
    Ok(Opening { cohort, seats, downs: sent, first })
}

/// The first seat's exchange, where uploads are to be added in secret.
fn first_exchange(world: &World, context: &RoundContext, seats: &[Seat]) -> Option<Arc<Exchange>> {
    world
        .rules
        .privacy
        .secure
        .and(seats.first())
        .map(|seat| Arc::new(world.exchange(context, seat)))
}

/// The same without asking the policy.
pub(super) fn answered_opening(
    world: &World,
    answers: &dyn Answers,
    context: &RoundContext,
    cohort: Vec<ClientId>,
) -> Result<Opening, FederationError> {
    let mut seats = seats(world, context, &cohort)?;
    let first = first_exchange(world, context, &seats);
    let load = world.load_seats(context.phase_name, &seats, &context.period);
    seats.extend(load.into_iter().map(|(seat, _)| seat));
    let downs = answers.downs(world, context, &seats)?;
    Ok(Opening { cohort, seats, downs, first })
}

fn seats(
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

/// What a round folded to, as the policy takes it.
pub(super) struct Fold {
    pub part: Option<Part>,
    /// What members of secure aggregation agreed on, and the exchange that all have in common.
    pub masking: Option<(Arc<Masking>, Arc<Exchange>)>,
    pub rule: FoldRule,
}

impl Fold {
    /// The same in the clear, and figures of how it came about.
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

/// Folded parts go in, the next model comes out.
pub(super) fn close(
    mut server: Box<dyn Server>,
    lab: &Lab,
    context: &RoundContext,
    folded: Fold,
    test: bool,
) -> Answer<Changed> {
    let folded = folded.open().map_err(policy("fold uploads"));
    let answer = folded.and_then(|(part, figures)| {
        server.end_round(context, part, lab).map_err(policy("close a round"))?;
        let mut changed = changed(&*server, lab, test)?;
        let named = |(name, figure): (&str, f64)| (name.to_string(), Figure(figure));
        changed.figures.extend(figures.into_iter().map(named));
        Ok(changed)
    });
    (Some(server), answer)
}

/// All phases of the period are over.
pub(super) fn end(
    mut server: Box<dyn Server>,
    lab: &Lab,
    period: &Period,
    test: bool,
) -> Answer<Changed> {
    let answer = server
        .end_period(period, lab)
        .map_err(policy("end a task"))
        .and_then(|()| changed(&*server, lab, test));
    (Some(server), answer)
}

fn changed(server: &dyn Server, lab: &Lab, test: bool) -> Result<Changed, FederationError> {
    let (saved, digest) = count_as(JobKind::Codec, || {
        let saved = server.save();
        let digest = saved.digest();
        (saved, digest)
    });
    let predictor =
        test.then(|| server.predictor(lab)).transpose().map_err(policy("show its model"))?;
    let figures = server.figures().into_iter();
    let figures = figures.map(|(name, figure)| (name.to_string(), Figure(figure))).collect();
    Ok(Changed { saved, digest, figures, predictor })
}

/// How a round is closed, without asking the policy.
pub(super) fn answered_close(
    answers: &dyn Answers,
    round: Round,
) -> Result<Changed, FederationError> {
    let answers::Closing { digest, figures } = answers.closing(round)?;
    Ok(Changed { saved: Body::default(), digest, figures, predictor: None })
}

/// How a task ends, without asking the policy.
pub(super) fn answered_end(
    answers: &dyn Answers,
    task: TaskId,
) -> Result<Changed, FederationError> {
    let (Digest(digest), figures) = (answers.ending(task)?, BTreeMap::new());
    Ok(Changed { saved: Body::default(), digest, figures, predictor: None })
}
