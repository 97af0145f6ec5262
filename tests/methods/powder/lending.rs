//! Lending between client tasks, and the similarities that clients get.

use std::sync::Arc;

use fedcast::methods::powder::{
    Attention, ClientTaskKey, ClientTaskTable, Likeness, OWN_SHARE, OWN_TOKENS, Powder, Similarity,
    SimilarityKeys, SourceTasks,
};
use fedcast::model::{FrozenPart, ParameterSet};
use fedcast::numerics::streams::{Domain, StreamKey};
use fedcast::policy::{Member, Stage, parameters_of};
use fedcast::quantity::{ClientId, Round, TaskId};

use super::{context, downs, powder_with, small, table, task, uploads, values};
use crate::toys::watched::Engine;
use crate::toys::{deal, facts};
use crate::{engine, far};

/// Card, invariant 8: two clients with the same images in the first task are alike from its first round on, and what
/// each of them lends is what it sent last.
#[test]
fn client_tasks_that_begin_together_lend_each_other_at_once() {
    let mut run = engine(powder_with(|_| ()), 3);
    let shard = deal(&run.ctx, &run.view(0), 1).remove(0);
    run.task(0, &[Arc::clone(&shard), shard], 2);
    let client_tasks = table(&run);
    for client_task in 0..2 {
        let weights = client_tasks.weights(client_task);
        assert!(weights.iter().all(|weight| (weight - 0.5).abs() < 1e-6), "{weights:?}");
        // Both classes have a twin in the other client task, and perhaps another relative there.
        let shares = &client_tasks.entries()[client_task].class_shares;
        assert!(shares.iter().all(|share| (0.33..0.500_001).contains(share)), "{shares:?}");
    }
    let received: Vec<ParameterSet> =
        downs(&run, "train").map(|download| download.parameters).collect();
    let sent = uploads(&run);
    assert_eq!((received.len(), sent.len()), (4, 4));
    // Of three mixtures two are there; each leaves half to the client task itself.
    for parameters in &received {
        let shares = values(parameters, OWN_SHARE);
        assert!((shares[0] - 0.5).abs() < 1e-6 && (shares[1] - 0.5).abs() < 1e-6);
        assert_eq!(shares[2], 0.0);
    }
    for (client, other) in [(0, 1), (1, 0)] {
        let lent = values(&received[2 + client], "prompt.01.key.others");
        let last = values(&sent[other], "prompt.01.key");
        let half: Vec<f32> = last.iter().map(|value| value / 2.0).collect();
        assert!(
            far(&lent[..half.len()], &half) < 1e-6 && far(&half, &vec![0.0; half.len()]) > 0.01
        );
    }
    // Who learns from others learns something else, from the first round on.
    let mut alone = engine(powder_with(|c| c.transfer = false), 3);
    let shard = deal(&alone.ctx, &alone.view(0), 1).remove(0);
    alone.task(0, &[Arc::clone(&shard), shard], 1);
    assert!(uploads(&alone).iter().zip(&sent).all(|(alone, with)| alone != with));
}

/// Scores are of the components that client tasks mixed when they were last worked on; a new one is scored as it is.
#[test]
fn samples_are_scored_on_mixed_components() {
    let mut run = engine(powder_with(|_| ()), 3);
    let shard = deal(&run.ctx, &run.view(0), 1).remove(0);
    run.task(0, &[Arc::clone(&shard), shard], 1);
    let looks: Vec<SimilarityKeys> =
        downs(&run, "look").map(|download| SimilarityKeys::read(&download).unwrap()).collect();
    assert_eq!(looks.len(), 4); // as the stage begins, and as it ends
    let sent = uploads(&run);
    let keys = [0, 1].map(|client| values(&sent[client], "prompt.00.key"));
    let mean: Vec<f32> = keys[0].iter().zip(keys[1]).map(|(a, b)| (a + b) / 2.0).collect();
    let closing = values(&looks[2].parameters, "prompt.00.key");
    assert!(far(closing, &[&mean[..], &mean[..]].concat()) < 1e-6);
    assert!(far(keys[0], &mean) > 1e-3);
    // Rows of unit length, orthogonal: as they were drawn.
    let opening = values(&looks[0].parameters, "prompt.00.key");
    for (at, row) in opening.chunks(16).enumerate() {
        let norm: f32 = row.iter().map(|value| value * value).sum();
        assert!((norm - 1.0).abs() < 1e-5, "{at}: {norm}");
    }
    assert_eq!(opening.len(), 2 * 3 * 16);
}

/// Returns the answer of a client that received keys and attention of these client tasks, all as they are.
fn answered(run: &Engine, mut client_tasks: ClientTaskTable, task: usize) -> Attention {
    (0..client_tasks.entries().len())
        .for_each(|client_task| client_tasks.entry_mut(client_task).row.clear());
    let shape = Powder::new(small(), &facts()).shape;
    let (numbers, parameters) = client_tasks.looks(&shape, SourceTasks::Started, &[]);
    let download = SimilarityKeys { client_tasks: numbers, parameters }.write(&shape).unwrap();
    let view = run.view(task);
    let participants = run.method.participants(&context(run, task, 3), &[ClientId(0)]);
    let mut member = Member {
        phase: 3,
        download: Arc::new(download),
        state: Default::default(),
        shard: deal(&run.ctx, &view, 1).remove(0),
        key: participants[0].key(5, Round(9)),
        missed: Vec::new(),
        participant: participants[0].clone(),
    };
    let found = run.method.train(std::slice::from_mut(&mut member), &run.ctx).remove(0).unwrap();
    Attention::read(&found.upload).unwrap()
}

/// A client reports, for a class, the mean over its samples of their attended cosines: block by block, by client
/// task.
#[test]
fn answers_are_means_of_attended_cosines() {
    let mut run = engine(powder_with(|_| ()), 3);
    task(&mut run, 0, 2, 1);
    let client_tasks = table(&run);
    let found = answered(&run, client_tasks.clone(), 0);
    let shard = deal(&run.ctx, &run.view(0), 1).remove(0);
    let mut wanted = vec![0f64; found.means.len()];
    let mut counts = vec![0u32; 2];
    for batch in run.ctx.statistics_loader(&shard).in_order(1) {
        let batch = batch.unwrap();
        let pixels = run.ctx.pixels(&batch).unwrap();
        let query = run.ctx.backbone.frozen(&pixels, FrozenPart::Whole).unwrap();
        let query = query.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let class = batch.labels()[0] as usize;
        counts[class] += 1;
        let mut at = class * wanted.len() / 2;
        for block in ["00", "01"] {
            for client_task in &client_tasks.entries()[..2] {
                let part =
                    |part: &str| values(&client_task.parameters, &format!("prompt.{block}.{part}"));
                for (key, attention) in part("key").chunks(16).zip(part("attention").chunks(16)) {
                    let attended = query.iter().zip(attention).map(|(q, a)| f64::from(q * a));
                    let (mut product, mut lengths) = (0.0, [0.0; 2]);
                    for (q, k) in attended.zip(key) {
                        product += q * f64::from(*k);
                        lengths[0] += q * q;
                        lengths[1] += f64::from(k * k);
                    }
                    wanted[at] += product / (lengths[0] * lengths[1]).sqrt();
                    at += 1;
                }
            }
        }
    }
    assert_eq!(found.counts, counts);
    let each = wanted.len() / 2;
    assert_eq!(each, 2 * 2 * 3);
    for (at, (found, wanted)) in found.means.iter().zip(&wanted).enumerate() {
        let wanted = wanted / f64::from(counts[at / each]);
        assert!((f64::from(*found) - wanted).abs() < 1e-5, "{at}: {found} and not {wanted}");
    }
}

/// Answers are kept until a client trains or a stage begins; until then those about other client tasks are added.
#[test]
fn answers_are_kept_as_long_as_they_are_true() {
    let mut run = engine(powder_with(|_| ()), 3);
    task(&mut run, 0, 2, 1);
    let (shape, blocks) = (Powder::new(small(), &facts()).shape, small().n_blocks as usize);
    let mut client_tasks = table(&run);
    assert_eq!(client_tasks.known(0), [0, 1]);
    assert_eq!(ClientTaskTable::load(&client_tasks.save()).unwrap(), client_tasks);
    let key = ClientTaskKey { task: TaskId(1), client: ClientId(0) };
    let new = client_tasks.begin(key, 2..4, &shape, StreamKey::new(1, Domain::Init));
    let numbers = |client_tasks: &ClientTaskTable, of: usize| {
        client_tasks.looks(&shape, SourceTasks::Started, client_tasks.known(of)).0
    };
    assert_eq!((numbers(&client_tasks, 0), numbers(&client_tasks, new)), (vec![2], vec![0, 1, 2]));

    let before = client_tasks.entries()[0].attention.clone().unwrap();
    let width = before.means.len() / 2;
    let found = Attention { over: vec![2], means: vec![0.5; width], counts: before.counts.clone() };
    client_tasks.take(0, found.clone(), blocks);
    let both = client_tasks.entries()[0].attention.clone().unwrap();
    assert_eq!((&both.over[..], both.without(&[2], blocks)), (&[0, 1, 2][..], before));
    assert!(numbers(&client_tasks, 0).is_empty());
    let likeness = Likeness { blocks, components: 3, exponent: 30 };
    let mut started = client_tasks.clone();
    started.compare(&likeness, SourceTasks::Started, &[0, 1]);
    assert_eq!(started.known(0), [0u32; 0]);

    let own = client_tasks.entries()[new].parameters.clone();
    client_tasks.learn(new, own);
    assert_eq!((numbers(&client_tasks, 0), client_tasks.entries()[new].rounds), (vec![0, 1, 2], 1));
    client_tasks.take(0, found.clone(), blocks);
    assert_eq!(client_tasks.entries()[0].attention, Some(found));
}

/// A server that computes similarities itself finds what clients would report, and sends nothing for it.
#[test]
fn a_server_that_sees_images_finds_what_clients_report() {
    let method = powder_with(|c| c.similarity = Similarity::Server);
    let mut run = engine(method, 3);
    task(&mut run, 0, 1, 2);
    assert!(run.exchanges.iter().all(|exchange| exchange.phase == "train"));
    let left = answered(&run, table(&run), 0);
    assert_eq!(left.over, [0]);
    run.server.begin_stage(&Stage::of(run.view(1), 3), &run.ctx).unwrap();
    let context = context(&run, 1, 2);
    let participants = run.method.participants(&context, &[ClientId(0)]);
    run.server.broadcast(&context, &participants, &run.ctx).unwrap();
    let client_tasks = table(&run);
    // The client task that was left is scored again on what it has become, the new one on both.
    assert_eq!(client_tasks.entries()[0].attention, Some(left));
    let new = answered(&run, client_tasks.clone(), 1);
    assert_eq!(
        (&new.over[..], client_tasks.entries()[1].attention.as_ref()),
        (&[0, 1][..], Some(&new))
    );
    let weights = client_tasks.weights(1);
    assert!((weights[0] + weights[1] - 1.0).abs() < 1e-9 && weights[0] > 0.0, "{weights:?}");
    assert_eq!(client_tasks.entries()[1].row, weights);
}

/// Client tasks that were not trained before a stage lend nothing in it where that is asked: in the first one, and
/// where nothing is transferred, a client task learns from itself alone.
#[test]
fn client_tasks_that_lend_once_trained_lend_from_task_two() {
    let runs = [true, false].map(|transfer| {
        let method =
            powder_with(|c| (c.transfer, c.source_tasks) = (transfer, SourceTasks::Trained));
        let mut run = engine(method, 3);
        task(&mut run, 0, 2, 2);
        task(&mut run, 1, 2, 1);
        run
    });
    let [with, without] = [&runs[0], &runs[1]].map(uploads);
    assert_eq!(with[..4], without[..4]);
    assert_ne!(with[4..], without[4..]);
    let downloads = |run: &Engine| -> Vec<ParameterSet> {
        let trained = run.exchanges.iter().filter(|exchange| exchange.phase == "train");
        trained.map(|exchange| parameters_of(&exchange.down).unwrap()).collect()
    };
    assert!(downloads(&runs[1]).iter().all(|download| download.get(OWN_SHARE).is_none()));
    let second = &downloads(&runs[0])[4];
    let (share, tokens) = (second.get(OWN_SHARE).unwrap(), second.get(OWN_TOKENS).unwrap());
    assert!(share.values[0] > 0.0 && share.values[0] < 1.0, "{:?}", share.values);
    assert!((share.values[0] / tokens.values[0] - 3.0).abs() < 1e-4, "{:?}", tokens.values);
    let others = second.get("prompt.01.key.others").unwrap();
    assert_eq!(others.shape, [9, 16]);
    assert!(others.values.iter().any(|v| *v != 0.0));
    // A new client task uses others, and is not used before it was trained.
    let table = table(&runs[0]);
    for client_task in 0..4 {
        let weights = table.weights(client_task);
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!((2..4).filter(|other| *other != client_task).all(|other| weights[other] == 0.0));
    }
    assert!(table.weights(2)[0] > 0.0);
}
