//! Attempt of a policy to train a pack, under the memory semaphore of its device.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::federation::guard::guard;
use crate::federation::memory_semaphore;
use crate::federation::retry::Full;
use crate::federation::sink::JobKind;
use crate::federation::timesheet::note_part;
use crate::model::GpuMemory;
use crate::policy::{ClientResult, Failure, Member, Method, RunContext};
use crate::quantity::ParticipantId;
use crate::wire::Body;

/// States of pack members before training, of those that have one.
pub(crate) type SavedStates = BTreeMap<ParticipantId, Body>;

/// Results of the policy for each member, or the error that the memory of the device was full.
pub(super) type ClientResults = Result<Vec<Result<ClientResult, Failure>>, Full>;

/// Trains a pack once there is room on the device.
///
/// A member that does not even fit alone is tried once more when no other job is there.
pub(super) fn client_update(
    method: &dyn Method,
    ctx: &RunContext,
    pack: &mut [Member],
    saved: &SavedStates,
) -> ClientResults {
    let admitted = memory_semaphore::acquire(JobKind::Train, pack.len());
    let first = learn_now(method, ctx, pack, saved);
    let full = matches!(first, Err(Full(_)));
    let shared = admitted.is_some();
    drop(admitted);
    if !full || pack.len() > 1 || !shared {
        return first;
    }
    let _admitted = memory_semaphore::acquire_exclusive();
    learn_now(method, ctx, pack, saved)
}

fn learn_now(
    method: &dyn Method,
    ctx: &RunContext,
    pack: &mut [Member],
    saved: &SavedStates,
) -> ClientResults {
    let start = Instant::now();
    let mut outcomes = match guard(|| method.train(pack, ctx)) {
        Ok(outcomes) => outcomes,
        Err(panic) => {
            let failed = |_: &Member| Err(Failure::Panicked(panic.clone()));
            return Ok(pack.iter().map(failed).collect());
        }
    };
    let no_outcome = || Err(Failure::Policy("the policy answered for no member".into()));
    outcomes.resize_with(pack.len(), no_outcome);
    let full = outcomes.iter().find_map(|outcome| match outcome {
        Err(Failure::Memory(why)) => Some(Full(why.clone())),
        _ => None,
    });
    let Some(full) = full else { return Ok(outcomes) };
    note_part(JobKind::Retry, start);
    if let Some(memory) = GpuMemory::of(&ctx.device) {
        // What the attempt allocated may otherwise still wait in the stream; if even that fails, so
        // does the next attempt.
        let _ = memory.settle();
    }
    for member in pack {
        if let Some(saved) = saved.get(&member.participant.id) {
            member.state = saved.clone();
        }
    }
    Err(full)
}
