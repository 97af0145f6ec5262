//! The invariants of GLFC and LGA that are seen from outside.

use std::collections::BTreeSet;
use std::sync::Arc;

use fedcast::data::{ClassPermutation, Shard, TaskSequence, TaskSizes};
use fedcast::learning::gradient_matching::LeNet;
use fedcast::learning::losses::ClassReduction;
use fedcast::learning::{Classifier, Herding, OptimizerConfig};
use fedcast::methods::HeadForm;
use fedcast::methods::averaging::{ClientWeighting, OldLogits};
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::methods::fedlwf_mc::FedLwfMc;
use fedcast::methods::glfc::{
    Balance, Glfc, GlfcClientState, Groups, OldModel, PassTransform, RateSchedule, Signal,
};
use fedcast::model::{BackboneConfig, ParameterSet};
use fedcast::policy::{
    Capability, ClassCounts, ClientState, ExchangeFacts, MessageKind, Method, ModelFacts, WireForm,
    check_capability, parameters_of,
};
use fedcast::wire::{BodyShape, Codec, CodecPlan, FrameSize, Kind, Saved};

use crate::toys::watched::Engine;
use crate::toys::{CLASSES, deal, facts, first_exchange, plan};
use crate::{built, engine};

fn fedavg(train: Train) -> FedAvg {
    let (weights, head) = (ClientWeighting::Uniform, HeadForm::Growing);
    FedAvg {
        train,
        client_weighting: weights,
        head_form: head,
        old_logits: OldLogits::Keep,
        ..FedAvg::default()
    }
}

fn small(change: impl Fn(&mut Glfc)) -> Glfc {
    let mut method = Glfc { fedavg: fedavg(Train::Head), memory_size: 18, ..Glfc::default() };
    method.lr_schedule = RateSchedule::Client;
    change(&mut method);
    method
}

fn glfc(change: impl Fn(&mut Glfc)) -> Arc<dyn Method> {
    built(small(change), &facts())
}

fn lga(groups: Groups) -> Arc<dyn Method> {
    let mut method = small_lga();
    method.terms.balance = Balance::Tasks(groups);
    built(method, &facts())
}

fn run(method: Arc<dyn Method>, tasks: usize, rounds: u32) -> Engine {
    let mut engine = engine(method, 3);
    engine.ctx.training = plan(OptimizerConfig::sgd(0.5));
    engine.tasks(tasks, 2, rounds)
}

fn digest(run: &Engine) -> u64 {
    run.server.save().digest()
}

fn memory(run: &Engine, client: usize) -> GlfcClientState {
    GlfcClientState::of(run.states.values().nth(client).unwrap()).unwrap()
}

/// GLFC card, invariant 2: where nothing is learned and no class is old, it is the mean of binary cross-entropies, to
/// the bit; from the second task on it is something else.
#[test]
fn the_first_task_is_plain_sigmoid_cross_entropy() {
    for train in [Train::Head, Train::All] {
        let plain = || {
            let class_reduction = ClassReduction::Mean;
            let method = FedLwfMc { fedavg: fedavg(train), class_reduction, ..FedLwfMc::default() };
            built(method, &facts())
        };
        let method = || glfc(|c| c.fedavg.train = train);
        assert_eq!(digest(&run(method(), 1, 2)), digest(&run(plain(), 1, 2)), "{train:?}");
        assert_ne!(digest(&run(method(), 2, 1)), digest(&run(plain(), 2, 1)), "{train:?}");
    }
    assert_eq!(digest(&run(lga(Groups::Task), 1, 2)), digest(&run(glfc(|_| ()), 1, 2)));
}

/// LGA card, invariant 4: after one task both readings of its groups are one; after two they are not.
#[test]
fn groups_of_lga_differ_from_the_third_task_on() {
    let of = |groups, tasks| digest(&run(lga(groups), tasks, 1));
    assert_eq!(of(Groups::Task, 2), of(Groups::Cumulative, 2));
    assert_ne!(of(Groups::Task, 3), of(Groups::Cumulative, 3));
    assert_ne!(of(Groups::Task, 2), digest(&run(glfc(|_| ()), 2, 1)));
}

/// GLFC card, invariants 4 and 6: never more than the budget, a set for every learned class, the first of each nearest
/// to the class mean, a cut keeps the best; and what is at hand is not learned yet.
#[test]
fn memories_are_what_the_card_says() {
    for repeats in [true, false] {
        let method = || glfc(|c| c.repeats = repeats);
        let (two, three) = (run(method(), 2, 2), run(method(), 3, 1));
        for client in 0..2 {
            let (before, after) = (memory(&two, client), memory(&three, client));
            assert_eq!(before.rows.iter().copied().collect::<Vec<_>>(), [0, 1]);
            assert_eq!(after.rows.iter().copied().collect::<Vec<_>>(), [0, 1, 2, 3]);
            assert_eq!((before.by_class.len(), after.by_class.len()), (18, 16));
            let distinct =
                |(_, chosen): (u32, &[u32])| chosen.iter().collect::<BTreeSet<_>>().len();
            let images: usize = after.by_class.iter().map(distinct).sum();
            assert_eq!(images == 16, !repeats, "{images}");
            assert_eq!(three.method.state_bytes(&after.save()).unwrap(), images as u64 * 64);
        }
        let one = run(method(), 1, 1);
        assert!(memory(&one, 0).rows.is_empty() && memory(&one, 0).by_class.is_empty());

        // Chosen in the second task, with what that round's download said.
        let mut engine = run(method(), 1, 2);
        let shards = deal(&engine.ctx, &engine.view(1), 2);
        engine.task(1, &shards, 1);
        let download = &engine.exchanges[engine.exchanges.len() - 2].down;
        let model =
            Classifier::frozen(&engine.ctx.backbone, &parameters_of(download).unwrap()).unwrap();
        let mine = &deal(&engine.ctx, &engine.view(0), 2)[0];
        let row = |sample: &u32| engine.ctx.dataset.train.labels()[*sample as usize];
        for (class, chosen) in memory(&engine, 0).by_class.iter() {
            let own: Shard = mine.iter().copied().filter(|sample| row(sample) == class).collect();
            let batch = engine.ctx.statistics_loader(&own).in_order(64).next().unwrap().unwrap();
            let features = model.batch_features(&batch, &engine.ctx.device).unwrap();
            let features = features.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            let order = match repeats {
                true => Herding::GreedyUnit.order_with_repeats(&features, 16, 9),
                false => Herding::GreedyUnit.order(&features, 16, 9),
            };
            let wanted: Vec<u32> = order.iter().map(|at| own[*at]).collect();
            assert_eq!(chosen, wanted, "class {class}");
        }
        // Half of the nine are left when four classes are learned: the first.
        let kept = |rounds| memory(&run(method(), rounds, 2), 0).by_class;
        let (nine, four) = (kept(2), kept(3));
        for ((row, nine), (same, four)) in nine.iter().zip(four.iter()) {
            assert_eq!((row, &nine[..4]), (same, four));
        }
    }
}

/// GLFC card, invariant 5: the signal of the entropy fires first, as the release's does; on data that do not change it
/// never fires again, and on a new task as far as answers are less sure.
#[test]
fn entropy_signals_what_is_new() {
    let method =
        |threshold| glfc(|c| (c.task_detection, c.threshold) = (Signal::Entropy, threshold));
    let signals = |run: &Engine| -> Vec<f64> {
        let of = |name| move |(found, value): &(&str, f64)| (*found == name).then_some(*value);
        run.exchanges.iter().filter_map(|e| e.metrics.iter().find_map(of("signal"))).collect()
    };
    // ln 2 = 0.69 at most with two outputs.
    let constant = run(method(0.3), 1, 4);
    assert_eq!(signals(&constant), [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    let entropy = constant.exchanges[0].metrics.iter().find(|(name, _)| *name == "entropy");
    assert!(entropy.unwrap().1 <= 2f64.ln() + 1e-9);
    // Without signals nothing is learned; with one at every step of entropy something is.
    let never = run(method(9.0), 3, 1);
    assert!(signals(&never).iter().all(|signal| *signal == 0.0));
    assert!(memory(&never, 0).rows.is_empty());
    let signaled = run(method(0.0), 3, 1);
    assert_eq!(memory(&signaled, 0).rows.len(), 4, "{:?}", signals(&signaled));
}

/// The entropy is of images as they train, or as statistics see them, by the received model.
#[test]
fn the_entropy_is_of_images_of_the_keys_transform() {
    let mean = |of: fedcast::data::Loader, run: &Engine| {
        let received = parameters_of(&run.exchanges[0].down).unwrap();
        let model = Classifier::frozen(&run.ctx.backbone, &received).unwrap();
        let batch = of.in_order(of.len()).next().unwrap().unwrap();
        let features = model.batch_features(&batch, &run.ctx.device).unwrap();
        let logits = model.logits(&features).unwrap().narrow(1, 0, 2).unwrap();
        let entropy = |row: &Vec<f32>| {
            let share = 1.0 / (1.0 + f64::from(row[1] - row[0]).exp());
            -share * share.ln() - (1.0 - share) * (1.0 - share).ln()
        };
        let rows = logits.contiguous().unwrap().to_vec2::<f32>().unwrap();
        rows.iter().map(entropy).sum::<f64>() / rows.len() as f64
    };
    for transform in [PassTransform::Train, PassTransform::Statistics] {
        let method = glfc(|c| {
            (c.task_detection, c.entropy_transform) = (Signal::Entropy, transform);
        });
        let mut run = Engine::new(method, facts(), crate::gaussians::apart());
        let shards = deal(&run.ctx, &run.view(0), 2);
        run.task(0, &shards, 1);
        let metrics = &run.exchanges[0].metrics;
        let said = metrics.iter().find(|(name, _)| *name == "entropy").unwrap().1;
        let train = mean(run.ctx.train_loader(&shards[0]), &run);
        let statistics = mean(run.ctx.statistics_loader(&shards[0]), &run);
        assert!((train - statistics).abs() > 1e-4, "{train} {statistics}");
        let wanted = if transform == PassTransform::Train { train } else { statistics };
        assert!((said - wanted).abs() < 1e-6, "{transform:?}: {said} {train} {statistics}");
    }
}

/// A client that is asked again only in the third task learns from both before.
#[test]
fn who_was_not_drawn_learns_when_it_is_asked() {
    let mut engine = run(glfc(|_| ()), 1, 1);
    let no_samples = Shard::from([]);
    let second = deal(&engine.ctx, &engine.view(1), 2);
    engine.task(1, &[no_samples, second[1].clone()], 1);
    let third = deal(&engine.ctx, &engine.view(2), 2);
    engine.task(2, &third, 1);
    assert_eq!(memory(&engine, 0).rows.iter().copied().collect::<Vec<_>>(), [0, 1]);
    assert_eq!(memory(&engine, 1).rows.iter().copied().collect::<Vec<_>>(), [0, 1, 2, 3]);
}

/// With exemplars and an old model old classes are recognized after the last task.
#[test]
fn who_is_compensated_forgets_less() {
    let of = |method| {
        let mut engine = engine(method, 3);
        engine.ctx.training = plan(OptimizerConfig::sgd(2.0));
        engine.ctx.training.epochs = 6;
        engine.run(2, 2).accuracy(CLASSES)
    };
    let plain = glfc(|c| {
        c.memory_size = 0;
        c.terms.relation = 0.0;
    });
    let (plain, glfc) = (of(plain), of(glfc(|_| ())));
    assert!(glfc > plain && glfc > 0.4, "{plain} {glfc}");
    let lga = of(lga(Groups::Task));
    assert!(lga > plain, "{plain} {lga}");
}

/// Keys change what they name.
#[test]
fn every_key_of_glfc_counts() {
    let of = |change: fn(&mut Glfc)| digest(&run(glfc(change), 2, 2));
    let default = of(|_| ());
    for (at, change) in [
        |c: &mut Glfc| c.memory_size = 6,
        |c: &mut Glfc| c.repeats = false,
        |c: &mut Glfc| c.terms.balance = Balance::None,
        |c: &mut Glfc| c.terms.labels = 0.3,
        |c: &mut Glfc| c.terms.relation = 0.3,
        |c: &mut Glfc| c.lr_schedule = RateSchedule::Code,
        |c: &mut Glfc| c.fedavg.client_weighting = ClientWeighting::BySamples,
    ]
    .into_iter()
    .enumerate()
    {
        let same = of(change) == default;
        // Both clients hold as much.
        assert_eq!(same, at == 6, "change {at}");
    }
}

/// Section 6 by value, for clients of which one holds twice as much: models count alike, or by samples.
#[test]
fn models_count_alike_or_by_samples() {
    for (weights, share) in
        [(ClientWeighting::Uniform, 1.0 / 2.0), (ClientWeighting::BySamples, 2.0 / 3.0)]
    {
        let mut engine = engine(glfc(|c| c.fedavg.client_weighting = weights), 3);
        engine.ctx.training = plan(OptimizerConfig::sgd(0.5));
        let [one, other, third] = &deal(&engine.ctx, &engine.view(0), 3)[..] else {
            panic!("three")
        };
        engine.task(0, &[[&one[..], other].concat().into(), third.clone()], 1);
        let [first, second] =
            [0, 1].map(|at| parameters_of(engine.exchanges[at].up.as_ref().unwrap()).unwrap());
        let mean = parameters_of(&engine.server.save()).unwrap();
        for (name, own) in first.iter() {
            let each = own.values.iter().zip(&*second.get(name).unwrap().values);
            for ((own, other), found) in each.zip(&*mean.get(name).unwrap().values) {
                let wanted = share * own + (1.0 - share) * other;
                assert!((found - wanted).abs() < 1e-5, "{weights:?} {name}: {found} {wanted}");
            }
        }
        let apart = first.get("head.weight") != second.get("head.weight");
        assert!(apart, "both learnt the same");
    }
}

/// State and server are read back to the bit in the middle of a task, and services follow from the layout.
#[test]
fn glfc_is_resumed_and_asked_for_services() {
    let run = run(glfc(|_| ()), 2, 1);
    for state in run.states.values() {
        assert_eq!(GlfcClientState::of(state).unwrap().save().digest(), state.digest());
    }
    let mut again = engine(glfc(|_| ()), 3);
    again.server.load(&run.server.save()).unwrap();
    assert_eq!(again.server.save().digest(), digest(&run));
    let method = glfc(|_| ());
    let refused = |service| check_capability(&*method, &facts(), service).is_some();
    assert!(
        refused(Capability::MixedTasks)
            && !refused(Capability::RobustAggregation)
            && !refused(Capability::SecureAggregation)
    );
}

fn with_proxy(method: Glfc) -> Arc<dyn Method> {
    let mut method = Glfc { old_model: OldModel::Proxy, ..method };
    (method.proxy.calls, method.proxy.images) = (4, 2);
    method.proxy.perturbation = 3;
    built(method, &facts())
}

fn small_lga() -> Glfc {
    let Glfc { fedavg, memory_size: budget, lr_schedule, .. } = small(|_| ());
    Glfc { fedavg, memory_size: budget, lr_schedule, ..Glfc::default_lga() }
}

/// Section 6: on a signal every class's gradient goes up, from whichever part is trained; the proxy server finds as
/// many images of each and names the labels, and the model that knew them best is the old one of the next task.
#[test]
fn a_proxy_server_picks_the_old_model() {
    for train in [Train::Head, Train::All] {
        let run = run(with_proxy(small(|c| c.fedavg.train = train)), 2, 2);
        let length = LeNet::length_of([1, 8, 8], CLASSES);
        for (place, exchange) in run.exchanges.iter().enumerate() {
            let upload = exchange.up.as_ref().unwrap();
            let sent = upload.tensor(Kind::Statistics, "gradients");
            // Two clients, two rounds a task: the first of them is signaled.
            assert_eq!(sent.is_ok(), place % 4 < 2, "exchange {place}");
            if let Ok(sent) = sent {
                assert_eq!(sent.shape(), [2, length]);
            }
            let named: Vec<&str> = exchange.assets.iter().map(|asset| &*asset.name).collect();
            assert_eq!(named, if place < 4 { vec![] } else { vec!["old"] });
        }
        let saved = run.server.save();
        let labels = saved.tensor(Kind::SyntheticData, "labels").unwrap().as_u32().unwrap();
        assert_eq!(labels[..], [2, 2, 3, 3, 2, 2, 3, 3]);
        let images = saved.tensor(Kind::SyntheticData, "images").unwrap();
        assert_eq!(images.shape(), [8, 1, 8, 8]);
        // One of the two mean models of the first task.
        let old = &run.exchanges[4].assets[0];
        let sent = [2, 4].map(|place| parameters_of(&run.exchanges[place].down).unwrap());
        let old = parameters_of(&old.body).unwrap();
        let is_old = |sent: &ParameterSet| {
            old.iter().all(|(name, old)| sent.get(name).unwrap().values.starts_with(&old.values))
        };
        let better = usize::from(run.metrics[1]["proxy_score"] >= run.metrics[0]["proxy_score"]);
        assert!(is_old(&sent[better]), "{:?}", &run.metrics[..2]);
        assert!(run.metrics[0]["matching_distance"] > 0.0);
        assert!(run.metrics[0]["gradients"] == 4.0 && !run.metrics[1].contains_key("gradients"));

        let method = with_proxy(small(|c| c.fedavg.train = train));
        let mut again = engine(Arc::clone(&method), 3);
        again.server.load(&saved).unwrap();
        assert_eq!(again.server.save().digest(), saved.digest());
        for service in [
            Capability::LateUpdates,
            Capability::RobustAggregation,
            Capability::SecureAggregation,
            Capability::MixedTasks,
        ] {
            assert!(check_capability(&*method, &facts(), service).is_some(), "{service:?}");
        }
    }
}

/// LGA card, section 6 and invariant 7: clients say how far features spread in the first task, scores of the first
/// rounds are zero, and without a radius what is scored are the images themselves.
#[test]
fn the_proxy_of_lga_scores_copies_of_features() {
    let with = |change: fn(&mut Glfc)| {
        let mut method = small_lga();
        method.proxy.wait = 1;
        change(&mut method);
        run(with_proxy(method), 2, 3)
    };
    let lga = with(|_| ());
    for exchange in &lga.exchanges {
        let traces = exchange.up.as_ref().unwrap().tensor(Kind::Statistics, "traces");
        assert_eq!(traces.is_ok(), exchange.task == 0);
        if let Ok(traces) = traces {
            assert!(traces.as_f64().unwrap().iter().all(|trace| *trace > 0.0));
        }
    }
    let scores = |run: &Engine| -> Vec<f64> {
        run.metrics.iter().map(|metrics| metrics["proxy_score"]).collect()
    };
    assert_eq!((scores(&lga)[0], scores(&lga)[3]), (0.0, 0.0));
    // In the middle of the first task what clients said of their features is kept, too.
    let mut early = engine(with_proxy(small_lga()), 3);
    early.ctx.training = plan(OptimizerConfig::sgd(0.5));
    let shards = deal(&early.ctx, &early.view(0), 2);
    early.first_phase(0, &shards, 1);
    let saved = early.server.save();
    let mut again = engine(with_proxy(small_lga()), 3);
    again.server.load(&saved).unwrap();
    assert_eq!(again.server.save().digest(), saved.digest());
    let traced = early.last().up.as_ref().unwrap().tensor(Kind::Statistics, "traces").unwrap();
    let kept = saved.tensor(Kind::Settings, "proxy").unwrap().numbers();
    assert_eq!((kept.len(), kept[15]), (5 + 2 * 2 * 4, traced.numbers()[0]));
    let plain = with(|c| c.proxy.augment = None);
    let of_images = |c: &mut Glfc| {
        if let Some(augment) = &mut c.proxy.augment {
            (augment.radius, augment.from_clients) = (0.0, false);
        }
    };
    assert_eq!(scores(&with(of_images)), scores(&plain));
    let saved = lga.server.save();
    let mut again = engine(with_proxy(small_lga()), 3);
    again.server.load(&saved).unwrap();
    assert_eq!(again.server.save().digest(), saved.digest());
}

/// Section 4: a model of ResNet18 is 44.88 MB and its running moments, the old one comes once per task, and on a signal
/// six gradients of 340,144 bytes go up.
#[test]
fn glfc_sends_the_bytes_of_its_card() {
    let backbone = BackboneConfig::ResNet(Default::default());
    let form = WireForm::Full;
    let model =
        ModelFacts { backbone, classes: 100, tasks: 10, clients: 10, form, auxiliary: None };
    let task_sequence =
        TaskSequence::new(100, &ClassPermutation::Native, &TaskSizes::Even(10)).unwrap();
    let counts: ClassCounts = (90..96).map(|row| (row, 500)).collect();
    let payload =
        |shape: &BodyShape| FrameSize::of_shape(shape, &CodecPlan::new(Codec::F32)).payload.0;
    let bytes = |old_model: OldModel, lga: bool| {
        let view = &task_sequence.tasks[9];
        let (stage, phase, round_in_phase, role) = (view.task, 0, 0, Default::default());
        let facts = ExchangeFacts {
            model: &model,
            view,
            stage,
            phase,
            round_in_phase,
            role,
            counts: &counts,
        };
        let method = if lga { Glfc::default_lga() } else { Glfc::default() };
        let method = built(Glfc { old_model, ..method }, &model);
        let download = method.message_spec(MessageKind::Download, &facts);
        let assets: u64 = download.assets.iter().map(|asset| payload(&asset.body)).sum();
        (
            payload(&download.body()),
            assets,
            payload(&method.message_spec(MessageKind::Upload, &facts).body()),
        )
    };
    let first = {
        let view = &task_sequence.tasks[0];
        let counts: ClassCounts = (0..6).map(|row| (row, 500)).collect();
        let facts = first_exchange(&model, view, &counts);
        let method = built(Glfc::default(), &model);
        let download = method.message_spec(MessageKind::Download, &facts);
        (
            payload(&download.body()),
            download.assets.len(),
            payload(&method.message_spec(MessageKind::Upload, &facts).body()),
        )
    };
    let moments = 4 * (9_600 + 20);
    let ten = 4 * (11_168_832 + 513 * 10) + moments;
    assert_eq!(first, (ten, 0, ten + 4));
    let all = 4 * 11_220_132;
    assert_eq!(all, 44_880_528);
    let (one, old) = (all + moments, all + moments - 4 * 10 * 513);
    for lga in [false, true] {
        assert_eq!(bytes(OldModel::TaskEnd, lga), (one, old, one + 4));
        assert_eq!(bytes(OldModel::Proxy, lga), (one, old, one + 4 + 6 * 340_144));
    }
}
