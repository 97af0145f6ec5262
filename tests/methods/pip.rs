//! The invariants of PIP that are seen from outside.

use std::sync::Arc;

use fedcast::data::{ClassPermutation, Shard, TaskSequence, TaskSizes, Transform};
use fedcast::learning::{Classifier, OptimizerConfig};
use fedcast::methods::HeadForm;
use fedcast::methods::dualprompt::DualPrompt;
use fedcast::methods::parts::ModelAdaptation;
use fedcast::methods::pip::{Features, Injection, Merge, Pip, Weighing};
use fedcast::model::VitConfig;
use fedcast::policy::{
    Capability, ClassCounts, ExchangeFacts, MessageKind, Method, ModelFacts, RunContext, WireForm,
    check_capability, parameters_of,
};
use fedcast::wire::{Body, BodyShape, Codec, CodecPlan, FrameSize, Kind};

use crate::toys::watched::Engine;
use crate::toys::{deal, facts, plan};
use crate::{built, engine, far, head};

fn base() -> DualPrompt {
    DualPrompt { pool: 3, g_len: 2, g_blocks: 1, e_len: 2, e_blocks: 1, ..DualPrompt::default() }
}

fn pip(change: impl Fn(&mut Pip)) -> Arc<dyn Method> {
    let mut method = Pip { base: base(), ..Pip::default() };
    change(&mut method);
    built(method, &facts())
}

fn run(method: Arc<dyn Method>, tasks: usize, rounds: u32) -> Engine {
    engine(method, 3).tasks(tasks, 2, rounds)
}

fn digest(run: &Engine) -> u64 {
    run.server.save().digest()
}

/// PIP card, invariant 1: without copies it is DualPrompt, message by message; with copies it is in a task's first
/// round, but for what an upload adds.
#[test]
fn without_injection_pip_is_dualprompt() {
    let dualprompt = run(built(base(), &facts()), 2, 2);
    let none = run(pip(|c| c.copies = 0), 2, 2);
    for (one, other) in dualprompt.exchanges.iter().zip(&none.exchanges) {
        assert_eq!(one.down.digest(), other.down.digest());
        let ups = [one, other].map(|exchange| exchange.up.as_ref().unwrap().digest());
        assert_eq!(ups[0], ups[1]);
    }
    let all = |run: &Engine| -> Vec<Body> {
        run.exchanges.iter().map(|exchange| exchange.up.as_ref().unwrap().clone()).collect()
    };
    let (plain, injected) = (all(&dualprompt), all(&run(pip(|_| ()), 1, 2)));
    for (place, (one, other)) in plain.iter().zip(&injected).enumerate() {
        let same = parameters_of(one).unwrap() == parameters_of(other).unwrap();
        assert_eq!(same, place < 2, "upload {place}");
    }
}

fn table(body: &Body, name: &str) -> Vec<f64> {
    body.tensor(Kind::Prototypes, name).unwrap().numbers()
}

/// Sections 4 to 6, invariant 6: a download from the second round on has what the uploads of the round before come to;
/// a task begins without, and rows of other tasks stay as they are.
#[test]
fn prototypes_are_what_clients_reported() {
    let run = run(pip(|_| ()), 2, 2);
    let [first, second] = [0, 1].map(|client| run.exchanges[client].up.as_ref().unwrap().clone());
    for round in [0, 1, 4, 5] {
        assert!(run.exchanges[round].down.of_kind(Kind::Prototypes).next().is_none());
    }
    let download = &run.exchanges[2].down;
    let (mean, variance) = (table(download, "means"), table(download, "variances"));
    assert_eq!(mean.len(), 2 * 16);
    for at in 0..mean.len() {
        // Both clients hold as much.
        let [a, b] = [&first, &second].map(|upload| table(upload, "means")[at]);
        let spread = [&first, &second].map(|upload| table(upload, "variances")[at]);
        assert!((mean[at] - (a + b) / 2.0).abs() < 1e-5);
        let wanted = (spread[0] + spread[1]) / 2.0 + ((a - b) / 2.0).powi(2);
        assert!((variance[at] - wanted).abs() < 1e-5 * (1.0 + wanted), "{} {wanted}", variance[at]);
    }
    let mut engine = engine(pip(|_| ()), 3);
    let shards = deal(&engine.ctx, &engine.view(0), 2);
    engine.task(0, &shards, 2);
    let before = head(&engine.server.save(), 0..2);
    let start = head(&engine.server.save(), 4..6);
    let shards = deal(&engine.ctx, &engine.view(1), 2);
    engine.task(1, &shards, 2);
    assert_eq!(head(&engine.server.save(), 0..2), before);
    assert_eq!(head(&engine.server.save(), 4..6), start);
    assert_ne!(head(&engine.server.save(), 2..4), start);
}

/// What clients report of a class is of images for statistics: with a model that does not move, the training transform
/// is of no account.
#[test]
fn prototypes_are_of_images_for_statistics() {
    let reported = |ctx: RunContext| {
        let mut run = Engine::new(pip(|_| ()), facts(), ctx);
        run.ctx.training = plan(OptimizerConfig::sgd(0.0));
        let shards = deal(&run.ctx, &run.view(0), 2);
        run.task(0, &shards, 1);
        let upload = run.exchanges[1].up.as_ref().unwrap();
        ["means", "variances"].map(|name| table(upload, name))
    };
    let apart = crate::gaussians::apart();
    let (train, statistics) = (&apart.train_transform, &apart.statistics_transform);
    let both = |transform: &Arc<Transform>| RunContext {
        train_transform: Arc::clone(transform),
        statistics_transform: Arc::clone(transform),
        ..apart.clone()
    };
    let found = reported(apart.clone());
    assert_eq!(found, reported(both(statistics)));
    let trained = reported(both(train));
    for (found, trained) in found.iter().flatten().zip(trained.iter().flatten()) {
        assert_ne!(found, trained);
    }
}

/// Shards of the first task with this number of samples of its two classes.
fn dealt(engine: &Engine, task: usize, counts: &[[usize; 2]]) -> Vec<Shard> {
    let by_class = engine.ctx.dataset.train.by_class();
    let view = engine.view(task);
    let mut taken = [0; 2];
    let one = |own: &[usize; 2]| -> Shard {
        let mut samples = Vec::new();
        for (class, count) in own.iter().enumerate() {
            let of_class = &by_class[view.classes[class] as usize];
            samples.extend(&of_class[taken[class]..taken[class] + count]);
            taken[class] += count;
        }
        samples.into()
    };
    counts.iter().map(one).collect()
}

/// The mean of the Gaussians of a class that these uploads report at these places, by these weights: `sum w mu` and
/// `sum w (var + mu^2) - mu^2`.
fn mixed(reports: &[(&Body, usize, f64)]) -> [Vec<f64>; 2] {
    let total: f64 = reports.iter().map(|(_, _, weight)| weight).sum();
    let row =
        |upload: &Body, name: &str, at: usize| table(upload, name)[16 * at..16 * (at + 1)].to_vec();
    let (mut mean, mut second) = (vec![0.0; 16], vec![0.0; 16]);
    for (upload, at, weight) in reports {
        let own = row(upload, "means", *at).into_iter().zip(row(upload, "variances", *at));
        for (place, (mu, variance)) in own.enumerate() {
            mean[place] += weight / total * mu;
            second[place] += weight / total * (variance + mu * mu);
        }
    }
    let variance = second.iter().zip(&mean).map(|(second, mu)| second - mu * mu).collect();
    [mean, variance]
}

fn assert_says(download: &Body, class: usize, [mean, variance]: [Vec<f64>; 2], what: &str) {
    for (name, wanted) in [("means", mean), ("variances", variance)] {
        let found = &table(download, name)[16 * class..16 * (class + 1)];
        for (found, wanted) in found.iter().zip(&wanted) {
            assert!(
                (found - wanted).abs() < 1e-4 * (1.0 + wanted.abs()),
                "{what}, {name}: {found} {wanted}"
            );
        }
    }
}

/// Section 6 by value, for clients that hold unlike: a client counts by all its samples, by those of the class, or by
/// the rounds of the task that it took part in.
#[test]
fn clients_count_as_the_key_says() {
    for (weighing, weights) in [
        (Weighing::Samples, [[18.0, 16.0], [18.0, 16.0]]),
        (Weighing::Classes, [[16.0, 4.0], [2.0, 12.0]]),
        (Weighing::Visits, [[1.0, 1.0], [1.0, 1.0]]),
    ] {
        let mut engine = engine(pip(|c| c.proto_weights = weighing), 3);
        let shards = dealt(&engine, 0, &[[16, 2], [4, 12]]);
        engine.task(0, &shards, 2);
        let [first, second] = [0, 1].map(|at| engine.exchanges[at].up.as_ref().unwrap());
        for (class, [one, other]) in weights.into_iter().enumerate() {
            let wanted = mixed(&[(first, class, one), (second, class, other)]);
            assert_says(&engine.exchanges[2].down, class, wanted, &format!("{weighing:?} {class}"));
        }
    }
    // In a second task the first client is missing at first, and then has been there half as often.
    let mut engine = engine(pip(|c| c.proto_weights = Weighing::Visits), 3);
    let shards = dealt(&engine, 0, &[[12, 12], [12, 12]]);
    engine.task(0, &shards, 1);
    let shards = dealt(&engine, 1, &[[9, 3], [5, 12]]);
    engine.task(1, &[Shard::from([]), shards[1].clone()], 1);
    let before = engine.exchanges.len();
    engine.task(1, &shards, 2);
    let [first, second] = [0, 1].map(|at| engine.exchanges[before + at].up.as_ref().unwrap());
    for class in 0..2 {
        let wanted = mixed(&[(first, class, 1.0), (second, class, 2.0)]);
        assert_says(&engine.exchanges[before + 2].down, class, wanted, "visits");
    }
}

/// Section 4: a download has the classes that clients reported, 8 bytes for each number of a feature, and names them.
/// Of the first class of the task there is one sample, which is too few.
#[test]
fn a_down_has_the_classes_that_are_known() {
    let mut engine = engine(pip(|_| ()), 3);
    let shards = dealt(&engine, 0, &[[1, 9], [0, 8]]);
    engine.task(0, &shards, 2);
    let bytes = |download: &Body| payload(&download.shape());
    let [first, later] = [0, 2].map(|at| &engine.exchanges[at].down);
    assert_eq!(bytes(later), bytes(first) + 4 * 2 * 16);
    assert_eq!((table(later, "means").len(), later.meta.last()), (16, Some(&0b10)));
    let [one, other] = [0, 1].map(|at| engine.exchanges[at].up.as_ref().unwrap());
    assert_says(later, 0, mixed(&[(one, 0, 10.0), (other, 0, 8.0)]), "class 1");
    // No client has two samples of a class: nothing is reported, and nothing injected.
    let mut none = self::engine(pip(|_| ()), 3);
    let shards = dealt(&none, 0, &[[1, 1], [1, 0]]);
    none.task(0, &shards, 2);
    let [first, later] = [0, 2].map(|at| &none.exchanges[at].down);
    assert_eq!((bytes(later), later.meta.last()), (bytes(first), Some(&0)));
}

/// A prototype is the mean of features, with the expert just trained or the one that images choose.
#[test]
fn prototypes_are_behind_the_expert_that_the_key_says() {
    for (features, given) in [(Features::Trained, true), (Features::Matched, false)] {
        let run = engine(pip(|c| c.features = features), 3).tasks(2, 1, 1);
        let upload = run.last().up.as_ref().unwrap();
        let prompting = base().prompting(&facts(), 1, given);
        let trained = parameters_of(upload).unwrap();
        let local = Classifier::frozen_with(&run.ctx.backbone, &trained, prompting).unwrap();
        let (view, mut classes) = (run.view(1), [vec![], vec![]]);
        let loader = run.ctx.statistics_loader(&deal(&run.ctx, &view, 1)[0]);
        let loader = run.ctx.with_queries(loader, base().prompted.query).unwrap();
        for batch in loader.in_order(16) {
            let batch = batch.unwrap();
            let found = local.batch_features(&batch, &run.ctx.device).unwrap();
            for (feature, label) in found.to_vec2::<f32>().unwrap().into_iter().zip(batch.labels())
            {
                classes[*label as usize - view.rows.start].push(feature);
            }
        }
        let mean = |class: &Vec<Vec<f32>>| {
            let sum = |at: usize| class.iter().map(|feature| feature[at]).sum::<f32>();
            (0..16).map(|at| sum(at) / class.len() as f32).collect::<Vec<f32>>()
        };
        let means: Vec<f32> = classes.iter().flat_map(mean).collect();
        let reported: Vec<f32> =
            table(upload, "means").into_iter().map(|mean| mean as f32).collect();
        assert!(far(&means, &reported) < 1e-4, "{features:?}: {}", far(&means, &reported));
    }
}

/// Keys change what they name.
#[test]
fn every_key_of_pip_counts() {
    let of = |change: fn(&mut Pip)| digest(&run(pip(change), 1, 3));
    let default = of(|_| ());
    for (at, change) in [
        |c: &mut Pip| c.copies = 2,
        |c: &mut Pip| c.inject = Injection::Spread,
        |c: &mut Pip| c.merge = Merge::Benchmark,
        |c: &mut Pip| c.features = Features::Trained,
        |c: &mut Pip| c.proto_weights = Weighing::Visits,
        |c: &mut Pip| c.proto_weights = Weighing::Classes,
    ]
    .into_iter()
    .enumerate()
    {
        // Both clients hold as much of every class, and take part as often.
        assert_eq!(of(change) == default, at > 3, "change {at}");
    }
}

#[test]
fn pip_is_resumed_and_asked_for_services() {
    let run = run(pip(|_| ()), 2, 1);
    let mut again = engine(pip(|_| ()), 3);
    again.server.load(&run.server.save()).unwrap();
    assert_eq!(again.server.save().digest(), digest(&run));
    for (copies, allowed) in [(5, false), (0, true)] {
        let method = pip(|c| c.copies = copies);
        for service in
            [Capability::LateUpdates, Capability::RobustAggregation, Capability::SecureAggregation]
        {
            assert_eq!(
                check_capability(&*method, &facts(), service).is_none(),
                allowed,
                "{service:?}"
            );
        }
    }
}

fn payload(shape: &BodyShape) -> u64 {
    FrameSize::of_shape(shape, &CodecPlan::new(Codec::F32)).payload.0
}

/// Section 4, all ten classes present.
#[test]
fn pip_sends_the_bytes_of_its_card() {
    let vit = VitConfig::preset("vit-base-patch16-224").unwrap();
    let task_sequence =
        TaskSequence::new(100, &ClassPermutation::Native, &TaskSizes::Even(10)).unwrap();
    let bytes = |form: WireForm, head: HeadForm, round_in_phase: u32| {
        let backbone = vit.into();
        let model =
            ModelFacts { backbone, classes: 100, tasks: 10, clients: 1, form, auxiliary: None };
        let view = &task_sequence.tasks[0];
        let counts: ClassCounts = (0..10).map(|row| (row, 50)).collect();
        let (stage, phase, role) = (view.task, 0, Default::default());
        let facts = ExchangeFacts {
            model: &model,
            view,
            stage,
            phase,
            round_in_phase,
            role,
            counts: &counts,
        };
        let mut method = Pip::default();
        method.base.prompted.head_form = head;
        let method = built(method, &model);
        (
            payload(&method.message_spec(MessageKind::Download, &facts).body()),
            payload(&method.message_spec(MessageKind::Upload, &facts).body()),
        )
    };
    use HeadForm::{Fixed, Growing};
    assert_eq!(bytes(WireForm::Full, Fixed, 1), (4_147_600, 4_147_604));
    assert_eq!(bytes(WireForm::Full, Fixed, 0), (4_086_160, 4_147_604));
    assert_eq!(bytes(WireForm::Full, Growing, 1), (3_870_760, 3_870_764));
    assert_eq!(bytes(WireForm::Lean, Fixed, 1), (525_352, 525_356));
}
