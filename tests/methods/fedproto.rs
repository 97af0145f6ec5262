//! The invariants of FedProto that are seen from outside.

use std::sync::Arc;

use fedcast::data::{ClassPermutation, Shard};
use fedcast::learning::losses::ProtoDistance;
use fedcast::learning::{OptimizerConfig, TrainingPlan};
use fedcast::methods::averaging::ClientWeighting;
use fedcast::methods::class_statistics::PrototypeWeighting;
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::methods::fedproto::FedProto;
use fedcast::model::ParameterSet;
use fedcast::policy::{Message, Method, parameters_of};
use fedcast::wire::{Body, Kind};

use crate::gaussians::{DESCRIBED, apart, moments, samples, uneven};
use crate::toys::watched::{Engine, Exchange};
use crate::toys::{CLASSES, deal, facts, plan, run_context};
use crate::{built, engine, far, values};

const DIM: usize = 16;

fn fedavg(train: Train, weights: ClientWeighting) -> FedAvg {
    FedAvg { train, client_weighting: weights, prompt_len: 6, ..FedAvg::default() }
}

/// FedProto with this pull.
pub fn drawn(train: Train, weight: f64) -> Arc<dyn Method> {
    let fedavg = fedavg(train, ClientWeighting::Uniform);
    built(FedProto { fedavg, weight, ..FedProto::default() }, &facts())
}

fn parameters(run: &Engine) -> ParameterSet {
    parameters_of(&run.server.save()).unwrap()
}

/// Returns what an upload reports of its classes: head rows, counts and means.
fn reported(exchange: &Exchange) -> Vec<(u32, u32, Vec<f32>)> {
    let upload = exchange.up.as_ref().unwrap();
    let message = Message::from_body(upload, &[]).unwrap();
    let mut control = message.fields();
    control.u64().unwrap();
    let rows = control.u32s().unwrap();
    let counts = upload.tensor(Kind::Prototypes, "counts").unwrap().as_u32().unwrap();
    let means = upload.tensor(Kind::Prototypes, "means").unwrap().as_f32().unwrap();
    let class =
        |(at, row): (usize, &u32)| (*row, counts[at], means[at * DIM..(at + 1) * DIM].to_vec());
    rows.iter().enumerate().map(class).collect()
}

/// `sum_m n p / sum_m n` of a class, over these uploads.
fn pooled(uploads: &[&Exchange], class: u32) -> Vec<f32> {
    let (mut total, mut sum) = (0.0, vec![0.0; DIM]);
    for (_, count, mean) in uploads.iter().flat_map(|e| reported(e)).filter(|c| c.0 == class) {
        total += f64::from(count);
        sum.iter_mut().zip(mean).for_each(|(s, v)| *s += f64::from(count) * f64::from(v));
    }
    sum.into_iter().map(|s| (s / total) as f32).collect()
}

/// Invariant 1: without a pull it is FedAvg of plain means, bit for bit; where clients have as many samples, that of
/// weighted means, too.
#[test]
fn without_a_pull_fedproto_is_fedavg() {
    for train in [Train::Head, Train::All] {
        let plain =
            |weights| parameters(&engine(built(fedavg(train, weights), &facts()), 3).run(2, 2));
        let none = parameters(&engine(drawn(train, 0.0), 3).run(2, 2));
        assert_eq!(none.digest(), plain(ClientWeighting::Uniform).digest(), "{train:?}");
        let all = |set: &ParameterSet| -> Vec<f32> {
            set.iter().flat_map(|(_, parameter)| parameter.values.to_vec()).collect()
        };
        assert!(far(&all(&none), &all(&plain(ClientWeighting::BySamples))) < 1e-4, "{train:?}");
    }
    assert_eq!(FedProto::default().fedavg.client_weighting, ClientWeighting::Uniform);
    let uneven = |weights| {
        let mut run = engine(built(fedavg(Train::Head, weights), &facts()), 3);
        let shards = uneven(&run.ctx);
        run.task(0, &shards, 1);
        values(&run.server.save())
    };
    assert!(far(&uneven(ClientWeighting::Uniform), &uneven(ClientWeighting::BySamples)) > 1e-4);
}

/// Invariant 4: in the first round of every task nothing pulls, to the bit; in the second something does. (The engine
/// of these tests compares every download with its layout.)
#[test]
fn the_first_round_of_a_task_is_the_cross_entropy_s() {
    let of = |weight, rounds| parameters(&engine(drawn(Train::All, weight), 3).run(2, rounds));
    assert_eq!(of(5.0, 1).digest(), of(0.0, 1).digest());
    assert_ne!(of(5.0, 2).digest(), of(0.0, 2).digest());
}

/// Invariant 6: the pull is on features; a head alone learns as if there were none.
#[test]
fn the_pull_has_no_part_in_the_head() {
    let of = |weight| parameters(&engine(drawn(Train::Head, weight), 3).run(2, 3));
    assert_eq!(of(5.0).digest(), of(0.0).digest());
}

/// Sections 5 and 6: a client describes every class it holds, by the model as it was just trained, on images of the
/// statistics transform; the next round gets the mean by counts.
#[test]
fn prototypes_are_means_over_all_clients() {
    let fedavg = fedavg(Train::All, ClientWeighting::Uniform);
    let method = built(FedProto { fedavg, ..FedProto::default() }, &facts());
    let mut run = Engine::new(method, facts(), apart());
    let mut shards = uneven(&run.ctx);
    // A class of a single sample counts, too.
    let mut taken = [16; CLASSES];
    let single = samples(&run.ctx, &mut taken, &[(0, 3), (1, 1)]);
    shards.push(single);
    run.task(0, &shards, 2);
    let (first, second) = run.exchanges.split_at(3);
    for (exchange, shard) in first.iter().zip(&shards) {
        let trained = parameters_of(exchange.up.as_ref().unwrap()).unwrap();
        let wanted = moments(&run.ctx, &trained, shard, DESCRIBED);
        let said = reported(exchange);
        assert_eq!(said.len(), 2);
        for (row, count, mean) in said {
            let of_class = |s: &&u32| run.ctx.dataset.train.labels()[**s as usize] == row;
            assert_eq!(count as usize, shard.iter().filter(of_class).count());
            let found: Vec<f32> = wanted[&row][0].iter().map(|v| *v as f32).collect();
            assert!(far(&mean, &found) < 1e-4, "class {row}");
        }
    }
    let uploads: Vec<&Exchange> = first.iter().collect();
    let classes = [pooled(&uploads, 0), pooled(&uploads, 1)].concat();
    for exchange in second {
        let table = exchange.down.tensor(Kind::Prototypes, "prototypes").unwrap();
        assert_eq!((table.shape(), &exchange.down.meta[..]), (&[2, DIM][..], &[0b11][..]));
        assert!(far(table.as_f32().unwrap(), &classes) < 1e-6);
    }
}

/// The authors' code: with uniform weights a prototype is the plain mean of what clients report.
#[test]
fn uniform_prototypes_are_plain_means_over_clients() {
    let of = |prototype_weighting| {
        let fedavg = fedavg(Train::Prompt, ClientWeighting::Uniform);
        let method = FedProto { fedavg, prototype_weighting, ..FedProto::default() };
        let mut run = engine(built(method, &facts()), 3);
        let shards = uneven(&run.ctx);
        run.task(0, &shards, 2);
        run
    };
    let run = of(PrototypeWeighting::Uniform);
    let sent_table = |run: &Engine| {
        let table = run.last().down.tensor(Kind::Prototypes, "prototypes").unwrap();
        table.as_f32().unwrap().to_vec()
    };
    let [one, other] = [0, 1].map(|at| {
        reported(&run.exchanges[at]).into_iter().flat_map(|(_, _, mean)| mean).collect::<Vec<_>>()
    });
    let plain: Vec<f32> = one.iter().zip(&other).map(|(a, b)| (a + b) / 2.0).collect();
    assert!(far(&sent_table(&run), &plain) < 1e-6);
    assert!(far(&sent_table(&of(PrototypeWeighting::BySamples)), &plain) > 1e-3);
}

/// The pull on samples is another than that on class means, and nothing in a task's first round.
#[test]
fn samples_are_pulled_from_the_second_round_on() {
    let of = |distance, rounds| {
        let fedavg = fedavg(Train::Prompt, ClientWeighting::Uniform);
        let method = FedProto { fedavg, weight: 1.0, distance, ..FedProto::default() };
        parameters(&engine(built(method, &facts()), 3).run(2, rounds)).digest()
    };
    let [samples, means] = [ProtoDistance::Samples, ProtoDistance::MeanSquare];
    assert_eq!(of(samples, 1), of(means, 1));
    assert_ne!(of(samples, 2), of(means, 2));
}

/// A class that no client has gets no prototype, and prototypes of earlier tasks are dropped.
#[test]
fn a_class_without_a_prototype_is_left_out() {
    let mut run = engine(drawn(Train::Prompt, 0.5), 3);
    let shard =
        |classes: &[(usize, usize)], run: &Engine| samples(&run.ctx, &mut [0; CLASSES], classes);
    let (one, none) = (shard(&[(1, 6)], &run), Shard::from([]));
    run.task(0, &[one, none.clone()], 2);
    assert_eq!(run.last().down.meta, [0b10]);
    let table = run.last().down.tensor(Kind::Prototypes, "prototypes").unwrap().as_f32().unwrap();
    assert!(table[..DIM].iter().all(|v| *v == 0.0) && table[DIM..].iter().any(|v| *v != 0.0));
    let kept = |run: &Engine| {
        let saved = run.server.save();
        saved.tensor(Kind::Prototypes, "prototypes").unwrap().shape()[0]
    };
    assert_eq!(kept(&run), 1);
    let other = shard(&[(2, 5), (3, 4)], &run);
    run.task(1, &[other, none], 2);
    assert_eq!(kept(&run), 2, "those of the first task are gone");
    // A server goes on from what it saved.
    let saved = run.server.save();
    let mut again = engine(Arc::clone(&run.method), 3);
    again.server.load(&saved).unwrap();
    assert_eq!(again.server.save().digest(), saved.digest());
}

/// With a strong pull clients end with means nearer to the prototypes that they received.
#[test]
fn a_stronger_pull_brings_means_nearer() {
    let apart = |weight: f64| {
        let fedavg = fedavg(Train::All, ClientWeighting::Uniform);
        let distance = ProtoDistance::Square;
        let method = built(FedProto { fedavg, weight, distance, ..FedProto::default() }, &facts());
        let mut run = Engine::new(method, facts(), run_context(3, ClassPermutation::Native));
        run.ctx.training = plan(OptimizerConfig::sgd(0.01));
        let shards = deal(&run.ctx, &run.view(0), 2);
        run.task(0, &shards, 2);
        let last: &Exchange = run.last();
        let received = last.down.tensor(Kind::Prototypes, "prototypes").unwrap().as_f32().unwrap();
        let own: Vec<f32> = reported(last).into_iter().flat_map(|(_, _, mean)| mean).collect();
        own.iter().zip(received.iter()).map(|(a, b)| (a - b).powi(2)).sum::<f32>()
    };
    let all = [1e-9, 0.5, 5.0].map(apart);
    assert!(all[0] > all[1] && all[1] > all[2], "{all:?}");
}

/// Invariant 5: clients with the same samples send the same, and their mean is what each of them sent.
#[test]
fn the_mean_of_identical_clients_is_each_of_them() {
    let mut run = engine(drawn(Train::Prompt, 0.5), 2);
    run.ctx.training = TrainingPlan { batch: 1_000, ..plan(OptimizerConfig::sgd(0.1)) };
    let shard = deal(&run.ctx, &run.view(0), 2).remove(0);
    run.task(0, &[shard.clone(), shard], 2);
    let [.., first, second] = &run.exchanges[..] else { panic!("two rounds") };
    let of = |body: &Body| values(body);
    let (one, other) = (of(first.up.as_ref().unwrap()), of(second.up.as_ref().unwrap()));
    assert!(far(&one, &other) < 1e-5, "{}", far(&one, &other));
    assert!(far(&one, &values(&run.server.save())) < 1e-5);
}
