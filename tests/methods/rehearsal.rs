//! The invariants of ER, DER++ and iCaRL that are seen from outside.

use std::sync::Arc;

use fedcast::data::{ClassPermutation, Shard};
use fedcast::learning::exemplars::Quota;
use fedcast::learning::{Classifier, OptimizerConfig};
use fedcast::methods::averaging::OldLogits;
use fedcast::methods::der::{ComparedColumns, Der, LogitTiming};
use fedcast::methods::er::Er;
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::methods::icarl::{Answers, ExemplarState, Icarl, IcarlLoss, Keeps, Reduction};
use fedcast::methods::replay::{Buffer, Offered, ReplayMemory};
use fedcast::policy::{Capability, ClientState, Method, Scope, check_capability, parameters_of};
use fedcast::wire::{Body, Kind, Saved};

use crate::gaussians::apart;
use crate::toys::watched::{Engine, Exchange};
use crate::toys::{CLASSES, deal, facts, plan, run_context};
use crate::{built, engine};

fn base(train: Train) -> FedAvg {
    FedAvg { train, old_logits: OldLogits::Keep, ..FedAvg::default() }
}

fn er(change: impl Fn(&mut Er)) -> Arc<dyn Method> {
    let mut method = Er { fedavg: base(Train::Head), ..Er::default() };
    method.buffer.size = 20;
    change(&mut method);
    built(method, &facts())
}

fn der(change: impl Fn(&mut Der)) -> Arc<dyn Method> {
    let mut method = Der { fedavg: base(Train::Head), ..Der::default() };
    method.buffer.size = 20;
    change(&mut method);
    built(method, &facts())
}

fn icarl(change: impl Fn(&mut Icarl)) -> Arc<dyn Method> {
    let mut method = Icarl {
        fedavg: base(Train::Head),
        memory_size: 18,
        quota: Quota::Floor,
        ..Icarl::default()
    };
    change(&mut method);
    built(method, &facts())
}

fn run(method: Arc<dyn Method>, tasks: usize, rounds: u32) -> Engine {
    let mut engine = engine(method, tasks);
    engine.ctx.training = plan(OptimizerConfig::sgd(0.1));
    engine.run(2, rounds)
}

fn digest(run: &Engine) -> u64 {
    run.server.save().digest()
}

/// Rehearsal card, invariant 1: who remembers nothing, or weighs it with nothing, is FedAvg to the bit.
#[test]
fn without_memory_replay_is_fedavg() {
    for train in [Train::Head, Train::All] {
        let fedavg = digest(&run(built(base(train), &facts()), 2, 2));
        let none = |buffer: &mut Buffer| buffer.size = 0;
        let methods = [
            er(|c| {
                c.fedavg.train = train;
                none(&mut c.buffer);
            }),
            der(|c| {
                c.fedavg.train = train;
                none(&mut c.buffer);
            }),
            der(|c| (c.fedavg.train, c.alpha, c.beta) = (train, 0.0, 0.0)),
        ];
        for (at, method) in methods.into_iter().enumerate() {
            assert_eq!(digest(&run(method, 2, 2)), fedavg, "{train:?} {at}");
        }
        let remembers = er(|c| c.fedavg.train = train);
        assert_ne!(digest(&run(remembers, 2, 2)), fedavg, "{train:?}");
    }
}

/// Invariant 4: without weight for logits DER++ is ER with a separate draw.
#[test]
fn der_without_logits_is_er() {
    let separate = digest(&run(er(|c| c.joint = false), 3, 1));
    assert_eq!(digest(&run(der(|c| (c.alpha, c.beta) = (0.0, 1.0)), 3, 1)), separate);
    assert_ne!(digest(&run(der(|c| (c.alpha, c.beta) = (0.5, 1.0)), 3, 1)), separate);
    assert_ne!(digest(&run(er(|_| ()), 3, 1)), separate);
}

/// Invariants 2 and 9: a sample is offered at every visit, or once per task, however many rounds; a memory is never
/// larger than it may be, and is read back as it was.
#[test]
fn a_memory_is_a_subset_of_the_training_samples() {
    let cases = [1, 3].into_iter().flat_map(|n| [(n, Offered::EveryStep), (n, Offered::Once)]);
    for (rounds, offered) in cases {
        let run = run(er(|c| c.buffer.offered = offered), 3, rounds);
        let visits = match offered {
            Offered::EveryStep => u64::from(rounds * run.ctx.training.epochs),
            Offered::Once => 1,
        };
        for (client, state) in &run.states {
            let memory = ReplayMemory::of(state).unwrap();
            let mine = |task: usize| deal(&run.ctx, &run.view(task), 2)[client.index()].to_vec();
            let own_samples: Vec<u32> = (0..3).flat_map(mine).collect();
            assert_eq!(memory.reservoir.offered(), visits * own_samples.len() as u64);
            let held = memory.reservoir.samples();
            assert_eq!(held.len(), 20);
            assert!(held.iter().all(|sample| own_samples.contains(sample)));
            let mut own = held.to_vec();
            own.sort_unstable();
            own.dedup();
            assert!(own.len() == 20 || offered == Offered::EveryStep, "each once");
            assert_eq!(memory.save().digest(), state.digest());
            assert_eq!(run.method.state_bytes(state).unwrap(), 20 * 64);
        }
    }
}

/// Every visit of a sample is stored with the logits of its step, before the step: those of the first batch are of the
/// model received, on images as they are trained on.
#[test]
fn a_visit_is_stored_with_the_logits_of_its_step() {
    let method = der(|c| (c.buffer.size, c.alpha, c.beta) = (1_000, 0.5, 0.0));
    let mut run = Engine::new(method, facts(), apart());
    run.ctx.training = plan(OptimizerConfig::sgd(0.1));
    let shards = deal(&run.ctx, &run.view(0), 2);
    run.task(0, &shards, 2);
    for (client, shard) in shards.iter().enumerate() {
        let of = |e: &&Exchange| e.participant.client.index() == client;
        let exchange = run.exchanges.iter().find(of).unwrap();
        let memory = ReplayMemory::of(&run.states[&exchange.participant.client]).unwrap();
        let slots = memory.reservoir.slots();
        assert_eq!(slots.len(), 2 * 2 * shard.len());
        let visits = |sample| slots.iter().filter(move |slot| slot.sample == sample);
        for sample in shard.iter() {
            let notes: Vec<_> = visits(*sample).map(|slot| &slot.logits).collect();
            assert_eq!(notes.len(), 4);
            assert!((1..4).all(|at| !notes[..at].contains(&notes[at])), "{sample}: {notes:?}");
        }
        let first = &slots[..run.ctx.training.batch];
        let own: Shard = first.iter().map(|slot| slot.sample).collect();
        let received = parameters_of(&exchange.down).unwrap();
        let model = Classifier::frozen(&run.ctx.backbone, &received).unwrap();
        let loader = run.ctx.train_loader(&own);
        let batch = loader.in_order(64).next().unwrap().unwrap();
        let features = model.batch_features(&batch, &run.ctx.device).unwrap();
        let logits = model.logits(&features).unwrap().to_vec2::<f32>().unwrap();
        for (slot, logits) in first.iter().zip(logits) {
            let pairs = slot.logits.iter().zip(&logits);
            assert!(pairs.clone().count() == 6 && pairs.clone().all(|(a, b)| (a - b).abs() < 1e-4));
        }
    }
}

/// Logits of a task are stored at its end, whatever the order of classes; those of earlier tasks stay.
#[test]
fn logits_of_earlier_tasks_stay_as_a_task_ends() {
    let method = der(|c| (c.logits, c.buffer.size) = (LogitTiming::End, 1_000));
    let mut run = Engine::new(method, facts(), run_context(3, ClassPermutation::Seeded(4)));
    run.ctx.training = plan(OptimizerConfig::sgd(0.1));
    let mut before = Vec::new();
    for task in 0..2 {
        let shards = deal(&run.ctx, &run.view(task), 2);
        run.task(task, &shards, 1);
        let state = run.states.values().next().unwrap();
        let slots = ReplayMemory::of(state).unwrap().reservoir.slots().to_vec();
        assert!(slots.iter().all(|slot| slot.logits.len() == 6), "all are noted");
        assert!(slots.len() > before.len() && slots[..before.len()] == before[..]);
        before = slots;
    }
}

/// A model that does not move says of a remembered sample what was stored of it: logits then add nothing to the loss.
#[test]
fn each_draw_is_compared_with_its_own_logits() {
    let losses = |alpha: f64, rate: f64| -> Vec<f64> {
        let mut run = engine(der(|c| (c.buffer.size, c.alpha, c.beta) = (1_000, alpha, 0.0)), 3);
        run.ctx.training = plan(OptimizerConfig::sgd(rate));
        let shards = deal(&run.ctx, &run.view(0), 2);
        run.task(0, &shards, 2);
        let metrics = run.exchanges.iter().flat_map(|exchange| exchange.metrics.clone());
        let last = metrics.filter(|(name, _)| *name == "loss_last_epoch");
        last.map(|(_, loss)| loss).collect()
    };
    let apart = |rate| {
        let pairs = losses(100.0, rate).into_iter().zip(losses(0.0, rate));
        pairs.map(|(with, without)| (with - without).abs()).fold(0.0, f64::max)
    };
    assert!(apart(0.0) < 1e-4 && apart(0.1) > 1e-3, "{} {}", apart(0.0), apart(0.1));
}

/// What a client held without being sampled is offered where each sample is offered once, and never where visits are.
#[test]
fn tasks_that_were_missed_are_no_visits() {
    let offered = |offered| {
        let mut run = engine(er(|c| c.buffer.offered = offered), 3);
        run.ctx.training = plan(OptimizerConfig::sgd(0.1));
        let [missed, shards] = [0, 1].map(|task| deal(&run.ctx, &run.view(task), 2));
        run.task_after_missing(1, &missed, &shards);
        let state = &run.states.values().next().unwrap();
        (ReplayMemory::of(state).unwrap().reservoir.offered(), shards[0].len() as u64)
    };
    let ((once, shard), (visits, _)) = (offered(Offered::Once), offered(Offered::EveryStep));
    assert_eq!((once, visits), (2 * shard, 2 * shard), "two tasks once, or one in two epochs");
}

/// Section 5.2: how wide stored logits are, and when they are those of the client's model.
#[test]
fn stored_logits_are_as_wide_as_what_is_compared() {
    let widths = |columns| {
        let run = run(der(|c| c.columns = columns), 3, 1);
        let state = run.states.values().next().unwrap();
        let memory = ReplayMemory::of(state).unwrap();
        let of = |sample: u32| run.ctx.dataset.train.labels()[sample as usize] as usize / 2;
        let slots = memory.reservoir.slots().iter();
        slots.map(|slot| (of(slot.sample), slot.logits.len())).collect::<Vec<_>>()
    };
    assert!(widths(ComparedColumns::All).iter().all(|(_, width)| *width == 6));
    assert!(widths(ComparedColumns::Seen).iter().all(|(_, width)| *width == 6));
    assert!(widths(ComparedColumns::Stored).iter().all(|(task, width)| *width == 2 * (task + 1)));

    let unlike = |logits| {
        let mut run = Engine::new(der(|c| c.logits = logits), facts(), apart());
        run.ctx.training = plan(OptimizerConfig::sgd(0.1));
        run.tasks(1, 2, 2)
    };
    let end = unlike(LogitTiming::End);
    let last = end.exchanges.iter().rfind(|e| e.participant.client.index() == 0).unwrap();
    let sent = parameters_of(last.up.as_ref().unwrap()).unwrap();
    let model = fedcast::learning::Classifier::frozen(&end.ctx.backbone, &sent).unwrap();
    let memory = ReplayMemory::of(&end.states[&last.participant.client]).unwrap();
    let loader = end.ctx.statistics_loader(&memory.reservoir.samples());
    let batch = loader.in_order(64).next().unwrap().unwrap();
    let features = model.batch_features(&batch, &end.ctx.device).unwrap();
    let logits = model.logits(&features).unwrap().to_vec2::<f32>().unwrap();
    for (slot, logits) in memory.reservoir.slots().iter().zip(logits) {
        assert_eq!(slot.logits.len(), 6);
        assert!(slot.logits.iter().zip(&logits).all(|(a, b)| (a - b).abs() < 1e-5));
    }
    let stream = unlike(LogitTiming::Stream);
    assert_ne!(
        stream.states[&last.participant.client].digest(),
        end.states[&last.participant.client].digest()
    );
}

/// With replay old classes are recognized after the last task, without it they are not.
///
/// A larger weight for remembered samples, and the choice of samples that count, change a round.
#[test]
fn who_remembers_forgets_less() {
    let of = |method| {
        let mut engine = engine(method, 3);
        engine.ctx.training = plan(OptimizerConfig::sgd(0.3));
        engine.ctx.training.epochs = 6;
        engine.run(2, 2).accuracy(CLASSES)
    };
    let (fedavg, er, der) =
        (of(built(base(Train::Head), &facts())), of(er(|_| ())), of(der(|_| ())));
    assert!(er > fedavg && der > fedavg, "{fedavg} {er} {der}");
    let icarl = of(icarl(|_| ()));
    assert!(icarl > fedavg, "{fedavg} {icarl}");
}

/// With counted memories an upload weighs by them, too; only the weight differs.
#[test]
fn remembered_samples_may_count() {
    let of = |counts| {
        let run = run(er(|c| c.buffer.counts = counts), 1, 1);
        let upload = run.last().up.as_ref().unwrap();
        upload.tensor(Kind::Statistics, "samples").unwrap().as_u32().unwrap()[0]
    };
    assert_eq!((of(false), of(true)), (72, 72 + 20));
}

/// iCaRL, invariants 1, 5 and 9: in the first task, and without a budget, exemplars change nothing; afterwards there
/// are `floor(budget / classes)` of every class held, read back as they were.
#[test]
fn exemplars_of_icarl_fill_their_budget() {
    let kept = run(icarl(|_| ()), 3, 1);
    for state in kept.states.values() {
        let exemplars = ExemplarState::of(state).unwrap();
        assert_eq!((exemplars.by_class.classes(), exemplars.by_class.len()), (6, 18));
        assert!(exemplars.by_class.iter().all(|(_, samples)| samples.len() == 3));
        assert_eq!(exemplars.save().digest(), state.digest());
        assert_eq!(kept.method.state_bytes(state).unwrap(), 18 * 64);
    }
    let first = |run: &Engine| run.exchanges[0].up.as_ref().unwrap().digest();
    let none = run(icarl(|c| c.memory_size = 0), 3, 1);
    assert_eq!(first(&kept), first(&none));
    assert!(none.states.values().all(|state| none.method.state_bytes(state).unwrap() == 0));
    let everything = run(icarl(|c| c.keep = Keeps::Everything), 3, 1);
    let state = everything.states.values().next().unwrap();
    assert_eq!(everything.method.state_bytes(state).unwrap(), 72 * 64);
    let of = |run: &Engine| {
        let last = run.exchanges.iter().rfind(|e| e.phase == "train").unwrap();
        last.metrics.iter().find(|(name, _)| *name == "exemplars").unwrap().1
    };
    // Four old classes of six: three each after the second task's cut to four.
    assert_eq!((of(&kept), of(&everything)), (16.0, 18.0));
}

/// iCaRL, section 4: once per task every client that took part gets the parameters and answers with sums and counts
/// of the classes seen; the previous network is an asset from the second task on.
#[test]
fn a_task_of_icarl_ends_with_means() {
    let run = run(icarl(|_| ()), 3, 2);
    let means: Vec<_> = run.exchanges.iter().filter(|e| e.phase == "means").collect();
    assert_eq!(means.len(), 3 * 2);
    for exchange in means {
        let upload = exchange.up.as_ref().unwrap();
        let seen = 2 * (exchange.task + 1);
        let bytes: u64 = upload.tensors().map(|(_, tensor)| tensor.values().bytes()).sum();
        assert_eq!(bytes as usize, 4 * seen * (16 + 1));
        let counts = upload.tensor(Kind::Prototypes, "exemplar_counts").unwrap().as_u32().unwrap();
        // With mirror images.
        assert!(counts.iter().all(|count| *count as usize == 2 * (18 / seen)), "{counts:?}");
        assert!(exchange.assets.is_empty());
    }
    let train = run.exchanges.iter().filter(|e| e.phase == "train");
    assert!(train.into_iter().all(|e| e.assets.len() == usize::from(e.task > 0)));
    let refused = |service| check_capability(&*run.method, &facts(), service).is_some();
    let services = [
        Capability::LateUpdates,
        Capability::MixedTasks,
        Capability::RobustAggregation,
        Capability::SecureAggregation,
        Capability::MaliciousClients,
    ];
    assert_eq!(services.map(refused), [true, true, true, false, false]);
    // The state of the server, with its means, is read back and answers alike.
    let saved = run.server.save();
    let mut again = engine(icarl(|_| ()), 3);
    again.server.load(&saved).unwrap();
    assert_eq!(again.server.save().digest(), saved.digest());
    assert_eq!(again.tally(CLASSES).accuracy(0..CLASSES), Some(run.accuracy(CLASSES)));
}

/// Before anybody has exemplars there is no mean that an image could be near to.
#[test]
fn the_head_of_icarl_answers_until_there_are_means() {
    let answers = |answers| {
        let fresh = engine(icarl(|c| c.classifier = answers), 3);
        let images = (0..10).collect();
        let batch = fresh.ctx.statistics_loader(&images).in_order(10).next().unwrap().unwrap();
        let predictor = fresh.server.predictor(&fresh.ctx).unwrap();
        let scores = predictor.batch_scores(&batch, &fresh.ctx.device, &Scope::Seen(CLASSES));
        scores.unwrap().to_vec2::<f32>().unwrap()
    };
    assert_eq!(answers(Answers::NearestMean), answers(Answers::Head));
}

/// Every loss learns, and the plain head answers without the exchange at the end.
#[test]
fn variants_of_icarl_differ_where_they_should() {
    let of = |change: fn(&mut Icarl)| digest(&run(icarl(change), 2, 1));
    let default = of(|_| ());
    assert_ne!(of(|c| c.loss = IcarlLoss::Softmax), default);
    assert_ne!(of(|c| c.bce = Reduction::Mean), default);
    assert_ne!(of(|c| c.bce = Reduction::MeanAll), of(|c| c.bce = Reduction::Mean));
    assert_ne!(of(|c| c.flips = false), default);
    let head = run(icarl(|c| c.classifier = Answers::Head), 2, 1);
    assert!(head.exchanges.iter().all(|exchange| exchange.phase == "train"));
    // What was to be chosen from at the end is chosen from when the client is next asked.
    let classes = |run: &Engine| {
        let state = run.states.values().next().unwrap();
        ExemplarState::of(state).unwrap().by_class.classes()
    };
    assert_eq!(classes(&head), 3);
    // A second round of a task is no next task.
    assert_eq!(classes(&run(icarl(|c| c.classifier = Answers::Head), 2, 2)), 3);
    assert!(Body::default().meta.is_empty());
}
