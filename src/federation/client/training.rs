//! The training job of a seat: a pure function from a Down, a state and a shard to an Up.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::machine::{Broadcast, ToClient};
use crate::federation::devices::{count_as, guard};
use crate::federation::effect::{Effect, Message, compute};
use crate::federation::error::FederationError;
use crate::federation::figure::Figure;
use crate::federation::frames::{SentUp, send_masked, send_up, shape_fault};
use crate::federation::privacy::{Masking, Noise};
use crate::federation::queue::{ActorId, Class};
use crate::federation::sink::JobKind;
use crate::federation::world::World;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    AnyMember, AnyMethod, AnyOutcome, AnyState, ExchangeSketch, Failure, Lab, Payload,
    RoundContext, Seat, SketchFacts, UpMeta,
};
use crate::quantity::{TaskId, VirtualTime};
use crate::wire::{Body, FrameHeader, WireError};

/// What a training job answers.
pub(crate) struct Trained {
    pub context: Arc<RoundContext>,
    pub seat: Seat,
    /// The state after a success; as it was after a failure.
    pub state: AnyState,
    pub samples: usize,
    /// How long it took on the simulated clock.
    pub worked: VirtualTime,
    pub result: Result<Done, Stop>,
}

/// Why a seat sends nothing.
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
            other => Stop::Failed(other),
        }
    }
}

/// A success.
pub(crate) struct Done {
    pub up: SentUp,
    pub metrics: BTreeMap<String, Figure>,
}

/// The effects that compute a seat now and tell its client at `end`.
pub(super) fn job(
    world: &Arc<World>,
    broadcast: Broadcast,
    state: AnyState,
    missed: Vec<TaskId>,
    (worked, end): (VirtualTime, VirtualTime),
) -> [Effect; 2] {
    let world = Arc::clone(world);
    let to = ActorId::Client(broadcast.seat.client);
    let (context, seat) = (Arc::clone(&broadcast.context), broadcast.seat.clone());
    let fallback = Arc::clone(&world);
    compute(
        (end, Class::Timer, to),
        JobKind::Train,
        move |lab| Trained { worked, ..train(&world, lab, broadcast, state, missed) },
        move |answer| {
            let trained = answer.unwrap_or_else(|panic| Trained {
                context,
                seat,
                state: fallback.method.fresh_state(),
                samples: 0,
                worked,
                result: Err(Stop::Failed(Failure::Panicked(panic))),
            });
            Message::Client(ToClient::Trained(Box::new(trained)))
        },
    )
}

fn train(
    world: &World,
    lab: &Lab,
    broadcast: Broadcast,
    state: AnyState,
    missed: Vec<TaskId>,
) -> Trained {
    let Broadcast { context, seat, down, masking, .. } = broadcast;
    let method = &*world.method;
    // A failed seat leaves the state as it was, also when it panicked half-way.
    let shard = world.shard(&seat.view, seat.client);
    let samples = shard.len();
    let worked = VirtualTime::ZERO;
    let saved = match guard(|| (!method.stateless()).then(|| method.save_state(&state))) {
        Ok(saved) => saved,
        Err(panic) => {
            let result = Err(Stop::Failed(Failure::Panicked(panic)));
            return Trained { context, seat, state, samples, worked, result };
        }
    };
    let mut members = [AnyMember {
        seat: seat.clone(),
        phase: context.phase,
        down: Arc::clone(&down.payload),
        state,
        shard: Arc::clone(&shard),
        key: seat.key(context.run_seed, context.round),
        missed,
    }];
    let answer = guard(|| {
        let outcome = method.train(&mut members, &lab.in_round(&context)).pop();
        let nobody = || Failure::Policy("the policy answered for no member".into());
        let masked = masking.as_deref().map(|masking| (masking, &down.payload));
        seal(world, &context, &seat, &shard, outcome.ok_or_else(nobody)??, masked)
    });
    let result = answer.unwrap_or_else(|panic| Err(Stop::Failed(Failure::Panicked(panic))));
    let [AnyMember { state, .. }] = members;
    let (state, result) = match (result, saved) {
        (Err(stop), Some(saved)) => restore(method, &saved, stop),
        (result, _) => (state, result),
    };
    Trained { context, seat, state, samples, worked, result }
}

/// The state before a failed seat. Where it cannot be read back, the failure says that the client
/// begins anew.
fn restore(method: &dyn AnyMethod, saved: &Body, stop: Stop) -> (AnyState, Result<Done, Stop>) {
    let why = match guard(|| method.load_state(saved)) {
        Ok(Ok(state)) => return (state, Err(stop)),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => panic,
    };
    let stop = match stop {
        Stop::Failed(failure) => Stop::Failed(Failure::Policy(format!(
            "{failure}; its state could not be restored ({why}), so it begins anew"
        ))),
        ends => ends,
    };
    (method.fresh_state(), Err(stop))
}

/// Makes an Up ready to travel.
fn seal(
    world: &World,
    context: &RoundContext,
    seat: &Seat,
    shard: &crate::data::Shard,
    outcome: AnyOutcome,
    masked: Option<(&Masking, &Payload)>,
) -> Result<Done, Stop> {
    let method = &*world.method;
    let own = outcome.up;
    let told = match &world.rules.privacy.noise {
        Some(noise) => add_noise(method, noise, &own, seat.key(context.run_seed, context.round))?,
        None => Arc::clone(&own),
    };
    let counts = world.counts(shard);
    let sketch = method.sketch(&SketchFacts {
        model: &world.facts,
        view: &seat.view,
        phase: context.phase,
        round_in_phase: context.round_in_phase,
        counts: &counts,
    });
    let header = FrameHeader {
        kind: context.phase as u16,
        run: context.run_seed,
        sender: seat.client.0,
        receiver: FrameHeader::SERVER,
        round: context.round.0,
        task: context.period.task.0,
        sequence: seat.id.0,
    };
    let meta = UpMeta { seat: seat.clone(), base: context.round, staleness: 0 };
    let send = || match masked {
        Some((masking, down)) => {
            let body = mask(method, masking, down, &told, &sketch, &meta)?;
            Ok(send_masked(body, told, &world.coding, &header))
        }
        None => Ok(send_up(method, told, &sketch, &world.coding, &header)),
    };
    let up = count_as(JobKind::Codec, send).map_err(Stop::Failed)?;
    // The client's own model is the one without noise.
    let up = SentUp { payload: own, ..up.map_err(|error| refused(seat, context, error))? };
    let metrics =
        outcome.metrics.into_iter().map(|(name, v)| (name.to_string(), Figure(v))).collect();
    Ok(Done { up, metrics })
}

/// The upload as the server may see it.
fn add_noise(
    method: &dyn AnyMethod,
    noise: &Noise,
    up: &Payload,
    key: StreamKey,
) -> Result<Payload, Failure> {
    let noisy = noise.apply(&method.pack_up(up), &method.symmetric(), key);
    noisy.and_then(|body| method.unpack_up(&body)).map_err(|e| Failure::Policy(e.to_string()))
}

/// What leaves the client where the server sees sums only. The server cannot check what it cannot
/// see, so a bad update is found here.
fn mask(
    method: &dyn AnyMethod,
    masking: &Masking,
    down: &Payload,
    up: &Payload,
    sketch: &ExchangeSketch,
    meta: &UpMeta,
) -> Result<Body, Failure> {
    let body = method.pack_up(up);
    if let Some(tensor) = body.first_not_finite() {
        return Err(Failure::NonFinite(format!("tensor `{}`", tensor.name())));
    }
    if let Some(fault) = shape_fault(&body, sketch) {
        return Err(Failure::Policy(fault));
    }
    let summand = method.summand(down, up, meta)?;
    masking.mask(meta.seat.id, &summand).map_err(Failure::OutOfRange)
}

/// A codec that refuses a value is the client's failure; a frame that does not survive its own
/// encoding is the engine's.
fn refused(seat: &Seat, context: &RoundContext, error: WireError) -> Stop {
    match error {
        WireError::Changed(_) | WireError::Malformed(_) | WireError::Truncated(_) => {
            let (client, round, seat) = (seat.client, context.round, seat.id);
            Stop::Ends(FederationError::Upload { client, round, seat, source: error })
        }
        other => Stop::Failed(Failure::Policy(other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federation::rules::Rules;
    use crate::federation::testing::{seat, setup};
    use crate::quantity::Round;

    #[test]
    fn an_upload_that_changes_on_the_wire_ends_the_run_and_a_refused_value_does_not() {
        let setup = setup(Rules { clients: 1, ..Rules::default() });
        let seat = seat(&setup, 0);
        let view = Arc::clone(&seat.view);
        let context = RoundContext {
            round: Round(0),
            period: crate::policy::Period { task: view.task, tasks: 2, view },
            phase: 0,
            phase_name: "train",
            round_in_phase: 0,
            rounds_in_phase: 1,
            run_seed: 0,
        };
        for error in [
            WireError::Changed("head".into()),
            WireError::Malformed("head".into()),
            WireError::Truncated("head"),
        ] {
            let stop = refused(&seat, &context, error);
            assert!(matches!(stop, Stop::Ends(FederationError::Upload { .. })));
        }
        let stop = refused(&seat, &context, WireError::TooLarge(1 << 50));
        assert!(matches!(stop, Stop::Failed(Failure::Policy(_))));
    }
}
