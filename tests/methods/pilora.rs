//! The invariants of PILoRA: what trains, what stays, and whose prototypes count.

use std::sync::Arc;

use fedcast::methods::pilora::{Compete, Forward, PiLora};
use fedcast::model::{ParameterSet, PrototypeHead, is_lora};
use fedcast::policy::{Method, parameters_of};
use fedcast::wire::Body;

use crate::toys::{deal, facts};
use crate::{built, engine};

pub fn pilora(change: impl Fn(&mut PiLora)) -> Arc<dyn Method> {
    let mut method = PiLora::default();
    change(&mut method);
    built(method, &facts())
}

fn set(saved: &Body) -> ParameterSet {
    parameters_of(saved).unwrap()
}

/// Card, invariants 1 and 6: pairs of other tasks and prototypes of other classes stay to the bit, and a task begins
/// with the answers that the one before left.
#[test]
fn a_task_moves_its_own_pairs_and_prototypes_alone() {
    let mut run = engine(pilora(|_| ()), 3);
    let start = set(&run.server.save());
    let shards = |run: &crate::toys::watched::Engine, task| deal(&run.lab, &run.view(task), 2);
    let (first, second) = (shards(&run, 0), shards(&run, 1));
    run.task(0, &first, 2);
    let after_one = set(&run.server.save());
    run.task(1, &second, 2);
    let after_two = set(&run.server.save());
    for task in 0..3 {
        let (before, after) = match task {
            0 => (&start, &after_one),
            _ => (&after_one, &after_two),
        };
        for (name, old) in before.iter() {
            let rows = if is_lora(name) { task..task + 1 } else { run.view(task).rows.clone() };
            let (was, is) =
                (old.cut(rows.clone()).unwrap(), after.get(name).unwrap().cut(rows).unwrap());
            assert_eq!(was != is, task < 2, "{name} in task {task}");
        }
    }
    // What the second task may not touch: everything of the first.
    for (name, old) in after_one.iter() {
        let rows = if is_lora(name) { 0..1 } else { run.view(0).rows.clone() };
        let now = after_two.get(name).unwrap().cut(rows.clone()).unwrap();
        assert_eq!(old.cut(rows).unwrap(), now, "{name}");
    }
    let b = start.filter(|name| name.ends_with(".b"));
    assert!(b.iter().count() == 2 && b.iter().all(|(_, b)| b.values.iter().all(|v| *v == 0.0)));
}

/// Card, invariant 4: the prototypes of one client are what it sends, those of clients that are alike stay.
#[test]
fn one_client_is_believed() {
    let run = |clients: usize| {
        let mut run =
            engine(pilora(|own| own.unreported = fedcast::methods::pilora::Unreported::Mean), 3);
        let shards = deal(&run.lab, &run.view(0), clients);
        run.task(0, &shards, 1);
        set(&run.server.save()).get(PrototypeHead::PROTOTYPES).unwrap().clone()
    };
    assert_ne!(run(1), run(2));
}

#[test]
fn what_is_passed_and_what_competes_change_what_is_learnt() {
    let digest = |change: &dyn Fn(&mut PiLora)| {
        let run = engine(pilora(change), 3).run(2, 1);
        run.server.save().digest()
    };
    let usual = digest(&|_| ());
    assert_eq!(usual, digest(&|_| ()));
    for change in [
        &(|own: &mut PiLora| own.forward = Forward::Current) as &dyn Fn(&mut PiLora),
        &|own| own.compete = Compete::Seen,
        &|own| own.compete = Compete::Current,
        &|own| own.orthogonality = 0.0,
        &|own| own.prototype_lr = 0.1,
        &|own| own.sharpness = 0.0,
        &|own| own.min_features = 1_000,
    ] {
        assert_ne!(digest(change), usual);
    }
}
