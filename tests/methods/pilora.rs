//! The invariants of PILoRA: what trains, what stays, and whose prototypes count.

use std::sync::Arc;

use fedcast::data::Shard;
use fedcast::methods::pilora::{AnsweringPairs, Compete, Forward, Pilora};
use fedcast::model::{ParameterSet, PrototypeHead, is_lora};
use fedcast::policy::{Method, parameters_of};
use fedcast::wire::{Body, Kind};

use crate::toys::{deal, facts};
use crate::{built, engine};

pub fn pilora(change: impl Fn(&mut Pilora)) -> Arc<dyn Method> {
    let mut method = Pilora::default();
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
    let shards = |run: &crate::toys::watched::Engine, task| deal(&run.ctx, &run.view(task), 2);
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

fn rows(set: &ParameterSet) -> Vec<Vec<f64>> {
    let all = set.get(PrototypeHead::PROTOTYPES).unwrap();
    let wide = |row: &[f32]| row.iter().map(|value| f64::from(*value)).collect();
    all.values.chunks(all.width()).map(wide).collect()
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

/// One round of the first task, whose classes are 0 and 1, with these shards: what was sent, and prototypes then.
fn one_round(
    change: impl Fn(&mut Pilora),
    shards: impl Fn(&[Vec<u32>; 2]) -> Vec<Shard>,
) -> (Vec<Body>, Vec<Vec<f64>>) {
    let mut run = engine(pilora(change), 3);
    let by_class = run.ctx.dataset.train.by_class();
    let shards = shards(&[0, 1].map(|class| by_class[class].clone()));
    run.task(0, &shards, 1);
    let uploads = run.exchanges.iter().map(|exchange| exchange.up.as_ref().unwrap().clone());
    (uploads.collect(), rows(&set(&run.server.save())))
}

/// Card, invariant 4: the prototypes of one client are what it sends.
#[test]
fn one_client_is_believed() {
    let (uploads, merged) = one_round(|_| (), |[zero, one]| vec![[&zero[..], one].concat().into()]);
    for (row, (found, sent)) in merged.iter().zip(rows(&set(&uploads[0]))).enumerate() {
        assert!(distance(found, &sent) < 1e-5 * (1.0 + distance(&sent, &[0.0; 16])), "class {row}");
    }
}

/// Card, section 6, by value: of three clients, one of which lacks a class, every client's prototype counts by its
/// distance from the features of those who report the class.
#[test]
fn prototypes_count_by_their_distance_from_reports() {
    let (uploads, merged) = one_round(
        |own| own.min_features = 0,
        |[zero, one]| {
            let (first, second) = ([&zero[..9], &one[..3]].concat(), one[3..18].to_vec());
            vec![first.into(), second.into(), [&zero[9..13], &one[18..24]].concat().into()]
        },
    );
    let prototypes: Vec<_> = uploads.iter().map(|upload| rows(&set(upload))).collect();
    // Mean features, in order of the classes that each client holds.
    let means = |upload: &Body| -> Vec<Vec<f64>> {
        let means = upload.tensor(Kind::Prototypes, "means").unwrap();
        means.numbers().chunks(16).map(<[f64]>::to_vec).collect()
    };
    let [first, second, third] = &uploads.iter().map(means).collect::<Vec<_>>()[..] else {
        panic!("three clients")
    };
    assert_eq!((first.len(), second.len(), third.len()), (2, 1, 2));
    let reports = [vec![&first[0], &third[0]], vec![&first[1], &second[0], &third[1]]];
    for (class, reports) in reports.iter().enumerate() {
        let near = prototypes.iter().map(|own| {
            1.0 / (reports.iter().map(|mean| distance(&own[class], mean)).sum::<f64>() + 1e-10)
        });
        let near: Vec<f64> = near.collect();
        let least = near.iter().copied().fold(f64::INFINITY, f64::min);
        let most = near.iter().copied().fold(0.0, f64::max);
        let scores: Vec<f64> =
            near.iter().map(|near| (5.0 * (near - least) / (most - least)).exp()).collect();
        let total: f64 = scores.iter().sum();
        let wanted: Vec<f64> = (0..16)
            .map(|at| {
                let each = scores.iter().zip(&prototypes);
                each.map(|(score, own)| score / total * own[class][at]).sum()
            })
            .collect();
        let found = distance(&merged[class], &wanted);
        assert!(found < 1e-4 * distance(&wanted, &[0.0; 16]), "class {class}: {found}");
        let plain = distance(&prototypes[0][class], &prototypes[1][class]);
        assert!(plain > 1e-3 * distance(&wanted, &[0.0; 16]), "all clients are alike: {plain}");
    }
}

#[test]
fn forwarding_and_competition_change_the_training() {
    let digest = |change: &dyn Fn(&mut Pilora)| {
        let run = engine(pilora(change), 3).run(2, 1);
        run.server.save().digest()
    };
    let usual = digest(&|_| ());
    assert_eq!(usual, digest(&|_| ()));
    for change in [
        &(|own: &mut Pilora| own.forward = Forward::Current) as &dyn Fn(&mut Pilora),
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

/// Features of the model that answers after two tasks, and of one whose second task trained nothing.
#[test]
fn later_pairs_do_not_answer_where_those_of_the_first_task_do() {
    let features = |answers, tasks| {
        let change = |own: &mut Pilora| (own.forward, own.answers) = (Forward::Current, answers);
        let mut run = engine(pilora(change), 3);
        for task in 0..tasks {
            let shards = deal(&run.ctx, &run.view(task), 2);
            run.task(task, &shards, 1);
        }
        let predictor = run.server.predictor(&run.ctx).unwrap();
        let shard = deal(&run.ctx, &run.view(0), 1).remove(0);
        let batch = run.ctx.train_loader(&shard).in_order(8).next().unwrap().unwrap();
        let pixels = run.ctx.pixels(&batch).unwrap();
        predictor.features(&pixels).unwrap().to_vec2::<f32>().unwrap()
    };
    let first = AnsweringPairs::First;
    assert_eq!(features(first, 2), features(first, 1));
    let forward = AnsweringPairs::Forward;
    assert_ne!(features(forward, 2), features(forward, 1));
    assert_eq!(features(forward, 1), features(first, 1));
}
