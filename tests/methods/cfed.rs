//! The invariants of CFed that are seen from outside.

use std::sync::Arc;

use fedcast::data::{Auxiliary, AuxiliaryFacts, ClassPermutation, TaskSequence, TaskSizes};
use fedcast::learning::{Classifier, OptimizerConfig};
use fedcast::methods::HeadForm;
use fedcast::methods::averaging::{ClientWeighting, OldLogits};
use fedcast::methods::cfed::{Cfed, REVIEWER, RoleAssignment, Rounding, Surrogate};
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::model::VitConfig;
use fedcast::policy::{
    Capability, ClassCounts, ExchangeFacts, MessageKind, Method, ModelFacts, Role, WireForm,
    check_capability, parameters_of,
};
use fedcast::wire::{Body, BodyShape, Codec, CodecPlan, FrameSize, Kind};

use crate::toys::watched::Engine;
use crate::toys::{CLASSES, facts, plan};
use crate::{built, engine, far, values};

const CLIENTS: usize = 5;

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

fn small(change: impl Fn(&mut Cfed)) -> Cfed {
    let mut method = Cfed { fedavg: fedavg(Train::Head), ..Cfed::default() };
    method.division.drawn = RoleAssignment::Apart;
    change(&mut method);
    method
}

/// Shards of 144 / 8 = 18 samples.
fn known() -> ModelFacts {
    let auxiliary = AuxiliaryFacts { samples: 18, image: Some([1, 8, 8]), server: true };
    ModelFacts { auxiliary: Some(auxiliary), ..facts() }
}

fn run(change: impl Fn(&mut Cfed), tasks: usize, rounds: u32) -> Engine {
    run_of(built(small(change), &known()), tasks, rounds, 0.1)
}

fn run_of(method: Arc<dyn Method>, tasks: usize, rounds: u32, rate: f64) -> Engine {
    reviewed(method, rate).tasks(tasks, CLIENTS, rounds)
}

/// An engine with auxiliary samples.
fn reviewed(method: Arc<dyn Method>, rate: f64) -> Engine {
    let mut engine = engine(method, 3);
    let train = &engine.ctx.dataset.train;
    let dealt = Auxiliary::new(train, CLASSES, (7, true), 2).unwrap();
    engine.ctx.auxiliary = Some(Arc::new(dealt));
    engine.facts = known();
    engine.ctx.training = plan(OptimizerConfig::sgd(rate));
    engine
}

fn digest(run: &Engine) -> u64 {
    run.server.save().digest()
}

/// CFed card, invariant 3: the first task is FedAvg, to the bit.
#[test]
fn the_first_task_of_cfed_is_fedavg() {
    for train in [Train::Head, Train::All] {
        let plain = run_of(built(fedavg(train), &known()), 1, 2, 0.1);
        let method = run(|c| c.fedavg.train = train, 1, 2);
        assert_eq!(method.exchanges.len(), plain.exchanges.len());
        for (one, other) in method.exchanges.iter().zip(&plain.exchanges) {
            assert_eq!(one.down.digest(), other.down.digest(), "{train:?}");
            let ups = [one, other].map(|exchange| exchange.up.as_ref().unwrap().digest());
            assert_eq!(ups[0], ups[1], "{train:?}");
        }
        assert!(method.exchanges.iter().all(|exchange| exchange.assets.is_empty()));
    }
}

/// Sections 4 and 6, invariants 4 and 6: of five clients three learn and two review; only these are sent the model of the
/// task's start, which stays the same for all of the task.
#[test]
fn reviewers_are_sent_the_model_of_the_tasks_start() {
    let run = run(|_| (), 3, 2);
    for task in [1, 2] {
        let of_task = || run.exchanges.iter().filter(|exchange| exchange.task == task);
        assert_eq!(of_task().count(), 2 * 5);
        let reviewers: Vec<_> = of_task().filter(|e| e.participant.role == REVIEWER).collect();
        assert_eq!(reviewers.len(), 2 * 2);
        assert!(of_task().filter(|e| e.participant.role == Role(0)).all(|e| e.assets.is_empty()));
        let first = reviewers[0].assets[0].digest();
        assert!(reviewers.iter().all(|e| e.assets.len() == 1 && e.assets[0].digest() == first));
        let old = parameters_of(&reviewers[0].assets[0].body).unwrap();
        let sent = parameters_of(&of_task().next().unwrap().down).unwrap();
        for (name, old) in old.iter() {
            assert!(sent.get(name).unwrap().values.starts_with(&old.values), "{name}");
        }
        let counted = |e: &crate::toys::watched::Exchange| e.metrics.contains(&("reviewed", 18.0));
        assert!(reviewers.iter().all(|exchange| counted(exchange)));
    }
}

/// Invariant 1: a reviewer that begins at the old model has nothing to learn.
#[test]
fn who_reviews_itself_stays_where_it_is() {
    let all_review = |c: &mut Cfed| (c.division.learners, c.division.reviewers) = (0.0, 1.0);
    for train in [Train::Head, Train::All] {
        let one = |tasks| {
            run(
                |c| {
                    all_review(c);
                    c.fedavg.train = train;
                    c.fedavg.head_form = HeadForm::Fixed;
                },
                tasks,
                1,
            )
        };
        let (before, after) = (one(1).server.save(), one(2).server.save());
        let start = parameters_of(&before).unwrap();
        for (name, now) in parameters_of(&after).unwrap().iter() {
            let gap = far(&now.values, &start.get(name).unwrap().values);
            assert!(gap < 1e-6, "{train:?} {name} {gap}");
        }
    }
}

/// Teachers and students see auxiliary samples as they are: where images are trained on mirrored, or otherwise changed, a
/// reviewer that begins at the old model has nothing to learn either.
#[test]
fn samples_of_no_client_are_not_augmented() {
    let gap = |augments| {
        let of = |tasks| {
            let method = small(|c| {
                (c.division.learners, c.division.reviewers) = (0.0, 1.0);
                c.fedavg.head_form = HeadForm::Fixed;
                (c.review_augments, c.review_weight) = (augments, 1.0);
            });
            let mut engine = reviewed(built(method, &known()), 0.1);
            let apart = crate::gaussians::apart();
            engine.ctx.train_transform = apart.train_transform;
            engine.ctx.statistics_transform = apart.statistics_transform;
            parameters_of(&engine.tasks(tasks, CLIENTS, 2).server.save()).unwrap()
        };
        let (before, after) = (of(1), of(2));
        let gaps =
            before.iter().map(|(name, own)| far(&own.values, &after.get(name).unwrap().values));
        gaps.fold(0.0, f32::max)
    };
    let (clean, augmented) = (gap(false), gap(true));
    assert!(clean < 1e-6 && augmented > 1e-4, "{clean} {augmented}");
}

/// A reviewer with dropout does not answer as the old model does, and learns; without it stays where it is. Adapters
/// begin at zero, so they need some rounds before there is anything to drop.
#[test]
fn reviewers_drop_what_learners_drop() {
    let moved = |dropout| {
        let of = |tasks| {
            let method = small(|c| {
                (c.division.learners, c.division.reviewers) = (0.0, 1.0);
                let fedavg =
                    FedAvg { head_form: HeadForm::Fixed, dropout, ..fedavg(Train::Adapter) };
                c.fedavg = FedAvg { bottleneck: 8, ..fedavg };
                c.review_weight = 1.0;
            });
            let run = run_of(built(method, &known()), tasks, 4, 0.5);
            parameters_of(&run.server.save()).unwrap()
        };
        let (before, after) = (of(1), of(2));
        let gaps =
            before.iter().map(|(name, own)| far(&own.values, &after.get(name).unwrap().values));
        gaps.fold(0.0, f32::max)
    };
    let (without, with) = (moved(0.0), moved(0.5));
    assert!(without < 1e-6 && with > 1e-4, "{without} {with}");
}

/// A review brings the answers on auxiliary samples nearer to the old model's.
///
/// The comparison is with the model that the reviewer received.
#[test]
fn reviews_lead_back_to_the_old_model() {
    let run = run(|c| c.review_weight = 2.0, 2, 3);
    let auxiliary = run.ctx.auxiliary.as_deref().unwrap();
    let later = run.exchanges.iter().filter(|e| e.participant.role == REVIEWER).skip(2);
    let mut reviewers = 0;
    for exchange in later {
        let samples = auxiliary.of(exchange.participant.client);
        let answers = |body: &Body| -> Vec<f32> {
            let parameters = parameters_of(body).unwrap();
            let model = Classifier::frozen(&run.ctx.backbone, &parameters).unwrap();
            let transform = &run.ctx.statistics_transform;
            let loader = auxiliary.loader(&samples, &run.ctx.task_sequence, transform);
            let batch = loader.in_order(18).next().unwrap().unwrap();
            let features = model.batch_features(&batch, &run.ctx.device).unwrap();
            // The old model knows two classes.
            let logits = model.logits(&features).unwrap().narrow(1, 0, 2).unwrap();
            logits.contiguous().unwrap().flatten_all().unwrap().to_vec1().unwrap()
        };
        let old = answers(&exchange.assets[0].body);
        let gap = |body: &Body| -> f32 {
            // Of two outputs only their difference counts.
            let own = answers(body);
            let margins = own.chunks(2).zip(old.chunks(2));
            margins.map(|(a, b)| ((a[0] - a[1]) - (b[0] - b[1])).abs()).sum()
        };
        let (received, trained) = (gap(&exchange.down), gap(exchange.up.as_ref().unwrap()));
        assert!(trained < received, "{received} {trained}");
        reviewers += 1;
    }
    assert_eq!(reviewers, 4);
}

/// A shard that is sent is the client's own, image by image.
#[test]
fn shards_are_sent_to_those_who_review() {
    let run = run(|c| c.surrogate = Surrogate::Sent, 2, 2);
    let reviewers =
        || run.exchanges.iter().filter(|exchange| exchange.participant.role == REVIEWER);
    assert_eq!(reviewers().count(), 4);
    let auxiliary = run.ctx.auxiliary.as_deref().unwrap();
    for exchange in reviewers() {
        let [_, sent] = &exchange.assets[..] else { panic!("{} assets", exchange.assets.len()) };
        let images = sent.body.tensor(Kind::Exemplars, "surrogate").unwrap();
        assert_eq!(images.shape(), [18, 1, 8, 8]);
        let shard = auxiliary.of(exchange.participant.client);
        let first = auxiliary.split().image(shard[0] as usize).unwrap();
        let first: Vec<f64> = first.pixels.iter().map(|byte| f64::from(*byte)).collect();
        assert_eq!(images.numbers()[..64], first[..]);
    }
    let held = self::run(|_| (), 2, 2);
    assert_eq!(values(&run.server.save()), values(&held.server.save()));
}

/// The server's own distillation changes what it sends, begins its cycle of teachers in every round, and is read back
/// to the bit.
#[test]
fn a_server_distils_what_came_back() {
    let run = run(|c| c.server_distils = true, 2, 2);
    let plain = self::run(|_| (), 2, 2);
    assert!(far(&values(&run.server.save()), &values(&plain.server.save())) > 1e-4);
    assert!(run.metrics.iter().all(|metrics| metrics["distilled"] == 18.0));
    let stored = run.server.save();
    assert!(stored.of_kind(Kind::Settings).next().is_none(), "the cycle is of one round");
    let method = built(small(|c| c.server_distils = true), &known());
    let mut again = engine(Arc::clone(&method), 3);
    again.server.load(&run.server.save()).unwrap();
    assert_eq!(again.server.save().digest(), digest(&run));
    for (distils, allowed) in [(true, false), (false, true)] {
        let method = built(small(|c| c.server_distils = distils), &known());
        for service in
            [Capability::LateUpdates, Capability::RobustAggregation, Capability::SecureAggregation]
        {
            assert_eq!(
                check_capability(&*method, &known(), service).is_none(),
                allowed,
                "{service:?}"
            );
        }
        assert!(check_capability(&*method, &known(), Capability::MixedTasks).is_some());
    }
}

/// The old model that is reviewed is of one task; without reviewers clients may be of several.
#[test]
fn only_with_reviewers_all_clients_are_of_one_task() {
    let refused = |reviewers: f64| {
        let method = built(small(|c| c.division.reviewers = reviewers), &known());
        check_capability(&*method, &known(), Capability::MixedTasks).is_some()
    };
    assert_eq!([0.0, 0.4].map(refused), [false, true]);
}

/// Shares and forms change what they name; of two clients one reviews only where shares are rounded up.
#[test]
fn every_key_of_cfed_counts() {
    let of = |change: fn(&mut Cfed)| digest(&run(change, 2, 2));
    let default = of(|_| ());
    for (at, change) in [
        |c: &mut Cfed| c.division.drawn = RoleAssignment::Independently,
        |c: &mut Cfed| c.division.learners = 0.4,
        |c: &mut Cfed| c.division.reviewers = 0.2,
        |c: &mut Cfed| c.temperature = 1.0,
        |c: &mut Cfed| c.review_weight = 1.0,
        |c: &mut Cfed| c.fedavg.head_form = HeadForm::Fixed,
    ]
    .into_iter()
    .enumerate()
    {
        assert_ne!(of(change), default, "change {at}");
    }
    assert_eq!((Rounding::Down.of(0.4, 2), Rounding::Up.of(0.4, 2)), (0, 1));
    // The server has 18 samples, of which clients would take eight in a step.
    let at_server = |batch, epochs| {
        let change = |c: &mut Cfed| {
            c.server_distils = true;
            (c.server_batch, c.server_epochs) = (batch, epochs);
        };
        digest(&run(change, 2, 2))
    };
    let usual = at_server(18, 2);
    assert_ne!(at_server(4, 2), usual, "server_batch");
    assert_ne!(at_server(18, 3), usual, "server_epochs");
}

fn payload(shape: &BodyShape) -> u64 {
    FrameSize::of_shape(shape, &CodecPlan::new(Codec::F32)).payload.0
}

/// Section 4: on ViT-B/16 a model is 343.5 MB, a reviewer without a cache is sent two and, once, a twentieth of
/// Caltech-256 at 32 pixels: 1,530 images of 3,072 bytes.
#[test]
fn cfed_sends_the_bytes_of_its_card() {
    let vit = VitConfig::preset("vit-base-patch16-224").unwrap();
    let auxiliary = AuxiliaryFacts { samples: 1_530, image: Some([3, 32, 32]), server: false };
    let (form, auxiliary) = (WireForm::Full, Some(auxiliary));
    let model =
        ModelFacts { backbone: vit.into(), classes: 100, tasks: 10, clients: 20, form, auxiliary };
    let task_sequence =
        TaskSequence::new(100, &ClassPermutation::Native, &TaskSizes::Even(10)).unwrap();
    let counts = ClassCounts::new();
    let bytes = |task: usize, role, surrogate| {
        let view = &task_sequence.tasks[task];
        let (stage, phase, round_in_phase) = (view.task, 0, 0);
        let facts = ExchangeFacts {
            model: &model,
            view,
            stage,
            phase,
            round_in_phase,
            role,
            counts: &counts,
        };
        let method = built(Cfed { surrogate, ..Cfed::default() }, &model);
        let (download, upload) = (
            method.message_spec(MessageKind::Download, &facts),
            method.message_spec(MessageKind::Upload, &facts),
        );
        let assets = download.assets.iter().map(|asset| payload(&asset.body)).collect::<Vec<u64>>();
        (payload(&download.body()), assets, payload(&upload.body()))
    };
    let one = 343_502_224;
    for surrogate in [Surrogate::Held, Surrogate::Sent] {
        assert_eq!(bytes(4, Role(0), surrogate), (one, vec![], one + 4));
        assert_eq!(bytes(0, Role(0), surrogate), (one, vec![], one + 4));
    }
    assert_eq!(bytes(4, REVIEWER, Surrogate::Held), (one, vec![one], one + 4));
    let sent = bytes(4, REVIEWER, Surrogate::Sent);
    assert_eq!(sent, (one, vec![one, 1_530 * 3_072], one + 4));
}
