//! Clients that train together learn what they learn alone.

use std::sync::Arc;

use fedcast::data::{Shard, TaskView};
use fedcast::policy::{Member, Method};
use fedcast::quantity::{ClientId, Round};

use super::{context, powder_with, task};
use crate::toys::watched::Engine;
use crate::{engine, max_pack_size};

/// Ragged batches, one sample, none.
const SHARDS: [usize; 4] = [11, 1, 0, 9];

/// Digest of an upload, and what is said of its training.
pub type Sent = (u64, Vec<(&'static str, f64)>);

/// The uploads of a pack and of its members alone.
pub fn pack_and_alone(
    method: &Arc<dyn Method>,
    run: &mut Engine,
    phase: usize,
    view: &Arc<TaskView>,
) -> [Vec<Sent>; 2] {
    let cohort: Vec<ClientId> = (0..SHARDS.len() as u32).map(ClientId).collect();
    let context = context(run, view.task.index(), phase);
    let participants = run.method.participants(&context, &cohort);
    let downloads = run.server.broadcast(&context, &participants, &run.ctx).unwrap();
    let by_class = run.ctx.dataset.train.by_class();
    let own = view.classes.iter().flat_map(|class| by_class[*class as usize].iter().copied());
    let own: Vec<u32> = own.collect();
    let members = || -> Vec<Member> {
        let mut next = 0;
        let member = |(participant, download): (&fedcast::policy::Participant, &_)| {
            let count = SHARDS[participant.client.index()];
            let shard: Shard = (next..next + count).map(|at| own[at * 5 % own.len()]).collect();
            next += count;
            Member {
                phase,
                download: Arc::clone(download),
                state: run.states.get(&participant.client).cloned().unwrap_or_default(),
                shard,
                key: participant.key(5, Round(40)),
                missed: Vec::new(),
                participant: participant.clone(),
            }
        };
        participants.iter().zip(&downloads).map(member).collect()
    };
    let sent = |members: &mut [Member]| {
        let outcomes = method.train(members, &run.ctx).into_iter();
        let sent = outcomes.map(|outcome| {
            let outcome = outcome.unwrap();
            (outcome.upload.body().digest(), outcome.metrics)
        });
        sent.collect::<Vec<_>>()
    };
    let together = sent(&mut members());
    let alone = members().chunks_mut(1).flat_map(sent).collect();
    [together, alone]
}

#[test]
fn a_pack_learns_what_its_members_learn_alone() {
    let method = powder_with(|c| c.first_block = 1);
    // Three classes a task: two of them can be wrong.
    let mut run = engine(Arc::clone(&method), 2);
    let view = run.view(0);
    assert_eq!(
        [0, 1, 2].map(|phase| max_pack_size(&*method, &view, phase)),
        [1, usize::MAX, usize::MAX]
    );
    let [together, alone] = pack_and_alone(&method, &mut run, 1, &view);
    assert_eq!(together, alone);
    // With teachers and other client tasks.
    task(&mut run, 0, 4, 1);
    let [together, alone] = pack_and_alone(&method, &mut run, 1, &view);
    assert_eq!(together, alone);
    task(&mut run, 1, 4, 1);
    let view = run.view(1);
    let [together, alone] = pack_and_alone(&method, &mut run, 2, &view);
    assert_eq!(together, alone);
}
