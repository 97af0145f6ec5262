//! The training job of a seat: a pure function from a Down, a state and a shard to an Up.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::machine::{Broadcast, ToClient};
use crate::federation::devices::{count_as, guard};
use crate::federation::effect::{Effect, Message, compute};
use crate::federation::figure::Figure;
use crate::federation::frames::{SentUp, send_up};
use crate::federation::queue::{ActorId, Class};
use crate::federation::sink::JobKind;
use crate::federation::world::World;
use crate::policy::{
    AnyMember, AnyOutcome, AnyState, Failure, Lab, RoundContext, Seat, SketchFacts,
};
use crate::quantity::{TaskId, VirtualTime};
use crate::wire::FrameHeader;

/// What a training job answers.
pub(crate) struct Trained {
    pub context: Arc<RoundContext>,
    pub seat: Seat,
    /// The state after a success; as it was after a failure.
    pub state: AnyState,
    pub samples: usize,
    /// How long it took on the simulated clock.
    pub worked: VirtualTime,
    pub result: Result<Done, Failure>,
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
                result: Err(Failure::Panicked(panic)),
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
    let Broadcast { context, seat, down, .. } = broadcast;
    let method = &*world.method;
    // A failed seat leaves the state as it was, also when it panicked half-way.
    let saved = (!method.stateless()).then(|| method.save_state(&state));
    let shard = world.shard(&seat.view, seat.client);
    let mut members = [AnyMember {
        seat: seat.clone(),
        phase: context.phase,
        down: Arc::clone(&down.payload),
        state,
        shard: Arc::clone(&shard),
        key: seat.key(context.run_seed, context.round),
        missed,
    }];
    let outcome = guard(|| method.train(&mut members, lab).pop());
    let result = match outcome {
        Err(panic) => Err(Failure::Panicked(panic)),
        Ok(None) => Err(Failure::Policy("the policy answered for no member".into())),
        Ok(Some(Err(failure))) => Err(failure),
        Ok(Some(Ok(outcome))) => seal(world, &context, &seat, &shard, outcome),
    };
    let [AnyMember { state, .. }] = members;
    let state = match (&result, saved) {
        (Err(_), Some(saved)) => method.load_state(&saved).unwrap_or_else(|_| method.fresh_state()),
        _ => state,
    };
    Trained { context, seat, state, samples: shard.len(), worked: VirtualTime::ZERO, result }
}

/// Makes an Up ready to travel.
fn seal(
    world: &World,
    context: &RoundContext,
    seat: &Seat,
    shard: &crate::data::Shard,
    outcome: AnyOutcome,
) -> Result<Done, Failure> {
    let counts = world.counts(shard);
    let sketch = world.method.sketch(&SketchFacts {
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
    let send = || send_up(&*world.method, outcome.up, &sketch, &world.coding, &header);
    let up = count_as(JobKind::Codec, send).map_err(|error| Failure::Policy(error.to_string()))?;
    let metrics =
        outcome.metrics.into_iter().map(|(name, v)| (name.to_string(), Figure(v))).collect();
    Ok(Done { up, metrics })
}
