//! The invariants of FedProx, FedLwF-2T and the oracle that are seen from outside.

use std::sync::Arc;

use fedcast::data::ClassPermutation;
use fedcast::learning::{OptimizerConfig, TrainingPlan};
use fedcast::methods::averaging::OldLogits;
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::methods::fedlwf_2t::{FedLwf2t, FirstTeacher, OwnModels, OwnTeacher};
use fedcast::methods::fedprox::{FedProx, Prox};
use fedcast::methods::oracle::{Oracle, Site};
use fedcast::model::{BatchNormMode, ParameterSet, TeacherBatchNormMode};
use fedcast::policy::{
    ClassCounts, ClientState, ExchangeFacts, MessageKind, Method, parameters_of,
};
use fedcast::wire::{Body, Kind, Saved, Section};

use crate::toys::watched::{Engine, Exchange};
use crate::toys::{CLASSES, deal, facts, first_exchange, plan, run_context};
use crate::{built, engine, far, head, values};

fn base(train: Train) -> FedAvg {
    FedAvg { train, old_logits: OldLogits::Keep, ..FedAvg::default() }
}

fn fedavg(train: Train) -> Arc<dyn Method> {
    built(base(train), &facts())
}

fn fedprox(train: Train, mu: f64, prox: Prox) -> Arc<dyn Method> {
    built(FedProx { fedavg: base(train), mu, prox }, &facts())
}

fn two_teachers(alpha: f64, beta: f64, own_teacher: OwnTeacher) -> Arc<dyn Method> {
    taught_by(FirstTeacher::Own, FedLwf2t { alpha, beta, own_teacher, ..Default::default() })
}

/// Two teachers that answer for all classes seen, where this trains.
fn two_teachers_on(train: Train, alpha: f64, beta: f64) -> Arc<dyn Method> {
    built(FedLwf2t { fedavg: base(train), alpha, beta, ..FedLwf2t::default() }, &facts())
}

const TRAINED: [Train; 3] = [Train::Head, Train::All, Train::Module];

fn taught_by(first_teacher: FirstTeacher, method: FedLwf2t) -> Arc<dyn Method> {
    built(FedLwf2t { fedavg: base(Train::Head), first_teacher, ..method }, &facts())
}

fn oracle(site: Site) -> Arc<dyn Method> {
    built(Oracle { fedavg: base(Train::Head), site }, &facts())
}

fn run(method: Arc<dyn Method>, tasks: usize, rounds: u32, plan: &TrainingPlan) -> Engine {
    let mut engine = engine(method, tasks);
    engine.ctx.training = plan.clone();
    engine.run(2, rounds)
}

fn sgd() -> TrainingPlan {
    plan(OptimizerConfig::sgd(0.1))
}

/// FedProx, invariant 1: no pull is FedAvg, bit for bit; one local step is, whatever the pull.
#[test]
fn without_a_pull_or_with_one_step_fedprox_is_fedavg() {
    let of = |method, plan: &TrainingPlan| run(method, 2, 2, plan).server.save().digest();
    for train in [Train::Head, Train::All, Train::Module] {
        assert_eq!(of(fedprox(train, 0.0, Prox::Squared), &sgd()), of(fedavg(train), &sgd()));
    }
    let one_step = TrainingPlan { epochs: 1, batch: 1_000, ..sgd() };
    for prox in [Prox::Squared, Prox::Norm] {
        let pulled = of(fedprox(Train::Head, 5.0, prox), &one_step);
        assert_eq!(pulled, of(fedavg(Train::Head), &one_step));
        assert_ne!(of(fedprox(Train::Head, 5.0, prox), &sgd()), of(fedavg(Train::Head), &sgd()));
    }
}

/// FedProx, invariants 2 and 5: a client moves less the stronger the pull, in the end hardly at all.
#[test]
fn a_stronger_pull_keeps_a_client_nearer() {
    let moved = |mu: f64, rate: f64| {
        let plan = TrainingPlan { epochs: 10, clip: None, ..plan(OptimizerConfig::sgd(rate)) };
        let mut engine = engine(fedprox(Train::Head, mu, Prox::Squared), 1);
        engine.ctx.training = plan;
        let before = values(&engine.server.save());
        far(&before, &values(&engine.run(1, 1).server.save()))
    };
    let all = [0.0, 0.5, 2.0].map(|mu| moved(mu, 0.1));
    assert!(all[0] > all[1] && all[1] > all[2], "{all:?}");
    // The rate falls as the pull grows, their product stays.
    let still = moved(1e4, 0.5e-4);
    assert!(still < 1e-3 * all[0], "{still}");
}

/// FedProx, invariant 3: the pull is on what trains. However strong it is, running statistics move with the batches.
#[test]
fn a_pull_leaves_running_statistics_alone() {
    let strong = plan(OptimizerConfig::sgd(0.5e-4));
    let run = run(fedprox(Train::Module, 1e4, Prox::Squared), 1, 1, &strong);
    let last = run.last();
    let of = |body| parameters_of(body).unwrap();
    let (before, after) = (of(&last.down), of(last.up.as_ref().unwrap()));
    for (name, parameter) in before.iter() {
        let moved = far(&parameter.values, &after.get(name).unwrap().values);
        // Means may be zero before and after.
        if name.ends_with("running_var") {
            assert!(moved > 1e-2, "{name} stayed: {moved}");
        } else if !name.ends_with("running_mean") {
            assert!(moved < 1e-3, "{name} moved by {moved}");
        }
    }
}

/// FedLwF-2T, invariants 2 and 4: the cross-entropy alone is FedAvg, and so is the first task.
#[test]
fn without_teachers_two_teachers_are_fedavg() {
    let of = |method, tasks| run(method, tasks, 2, &sgd()).server.save().digest();
    for train in TRAINED {
        let two = |alpha, beta| two_teachers_on(train, alpha, beta);
        assert_eq!(of(two(1.0, 0.0), 3), of(fedavg(train), 3), "{train:?}");
        assert_eq!(of(two(0.3, 0.3), 1), of(fedavg(train), 1), "{train:?}");
        assert_ne!(of(two(0.3, 0.3), 3), of(fedavg(train), 3), "{train:?}");
    }
}

/// Returns the parameters that a client of the last task received and sent.
fn last_exchange(run: &Engine, client: usize) -> [ParameterSet; 2] {
    let of =
        |exchange: &&Exchange| exchange.task > 0 && exchange.participant.client.index() == client;
    let last = run.exchanges.iter().rfind(of).unwrap();
    [&last.down, last.up.as_ref().unwrap()].map(|body| parameters_of(body).unwrap())
}

/// Checked without running statistics, which move with the batches in any case.
fn trained_part(set: ParameterSet) -> ParameterSet {
    set.filter(|name| !name.contains("running"))
}

fn distance([down, up]: [ParameterSet; 2]) -> f32 {
    let all = |set: &ParameterSet| -> Vec<f32> {
        set.iter().flat_map(|(_, parameter)| parameter.values.to_vec()).collect()
    };
    far(&all(&down), &all(&up))
}

/// FedLwF-2T, invariant 2: without `b` there is the server's model only, which asks for nothing but itself; with
/// `a + b = 1` the own one only, and a client that has none learns as FedAvg does, at the rate `a`.
#[test]
fn the_shares_say_who_teaches() {
    for train in TRAINED {
        let two = |alpha, beta| two_teachers_on(train, alpha, beta);
        let alone = |alpha, beta| run(two(alpha, beta), 2, 1, &sgd());
        let stays = distance(last_exchange(&alone(0.0, 0.0), 0).map(trained_part));
        assert!(stays < 1e-6, "{train:?}: the server's model moves nobody from itself: {stays}");
        // Each of two clients has learned on its own since the server's mean, and is drawn back there.
        let drawn = distance(last_exchange(&alone(0.0, 1.0), 0).map(trained_part));
        assert!(drawn > 1e-3, "{train:?}: {drawn}");

        let exact = |rate| TrainingPlan { clip: None, ..plan(OptimizerConfig::sgd(rate)) };
        let late = |method, rate| {
            let mut run = engine(method, 2);
            let both = [0, 1].map(|task| deal(&run.ctx, &run.view(task), 2));
            run.ctx.training = exact(0.1);
            run.task(0, &both[0][..1], 1);
            run.ctx.training = exact(rate);
            run.task(1, &both[1], 1);
            last_exchange(&run, 1)
        };
        let half = late(two(0.5, 0.5), 0.1);
        assert_eq!(half, late(fedavg(train), 0.05), "{train:?}");
        assert!(distance(half.map(trained_part)) > 1e-3, "{train:?}");
        assert_eq!(distance(late(two(0.0, 1.0), 0.1).map(trained_part)), 0.0, "{train:?}");
    }
}

/// FedLwF-2T, invariant 6: what a single client kept at the end of the task before is what it receives in the next. Its
/// own teacher alone asks for nothing then, wherever it trains, and with a cross-entropy does not act on the first
/// step; a client of two, whose own model is another, is led elsewhere from there.
#[test]
fn an_own_model_that_is_the_received_one_asks_for_nothing_at_first() {
    let exact = |rate, steps: usize| TrainingPlan {
        clip: None,
        epochs: 1,
        batch: if steps == 1 { 1_000 } else { 8 },
        ..plan(OptimizerConfig::sgd(rate))
    };
    for train in TRAINED {
        let of = |method, clients, rate, steps| {
            let mut run = engine(method, 2);
            let both = [0, 1].map(|task| deal(&run.ctx, &run.view(task), clients));
            run.ctx.training = exact(0.1, 2);
            run.task(0, &both[0], 1);
            run.ctx.training = exact(rate, steps);
            run.task(1, &both[1], 1);
            last_exchange(&run, 0).map(trained_part)
        };
        let alone = distance(of(two_teachers_on(train, 0.0, 1.0), 1, 0.1, 2));
        assert!(alone < 1e-6, "{train:?}: {alone}");
        let drawn = distance(of(two_teachers_on(train, 0.0, 1.0), 2, 0.1, 2));
        assert!(drawn > 1e-3, "{train:?}: {drawn}");
        // At half the weight a step of the cross-entropy is one at half the rate.
        let [_, taught] = of(two_teachers_on(train, 0.5, 0.5), 1, 0.1, 1);
        let [down, plain] = of(fedavg(train), 1, 0.05, 1);
        let apart = distance([taught, plain.clone()]);
        assert!(apart < 1e-6 && distance([down, plain]) > 1e-3, "{train:?}: {apart}");
        // Afterwards the own model holds back.
        let [_, taught] = of(two_teachers_on(train, 0.5, 0.5), 1, 0.1, 2);
        let [_, plain] = of(fedavg(train), 1, 0.05, 2);
        let held = distance([taught, plain]);
        assert!(held > 1e-4, "{train:?}: {held}");
    }
}

/// FedLwF-2T, subtlety 1b: three weights of their own; what is not given is what the others leave of 1.
#[test]
fn the_weight_of_the_received_model_is_free() {
    let exact = |rate| TrainingPlan { clip: None, ..plan(OptimizerConfig::sgd(rate)) };
    let end = |alpha, beta, gamma, rate| {
        let method = FedLwf2t { alpha, beta, gamma, ..FedLwf2t::default() };
        let mut run = engine(taught_by(FirstTeacher::Own, method), 2);
        let both = [0, 1].map(|task| deal(&run.ctx, &run.view(task), 2));
        run.ctx.training = exact(0.1);
        run.task(0, &both[0], 1);
        run.ctx.training = exact(rate);
        run.task(1, &both[1], 1);
        last_exchange(&run, 0)
    };
    assert_eq!(end(0.25, 0.25, None, 0.1), end(0.25, 0.25, Some(0.5), 0.1));
    assert_ne!(end(0.25, 0.25, None, 0.1), end(0.25, 0.25, Some(1.0), 0.1));
    // Twice the weights are twice the rate, beyond 1 in all, too.
    let twice = end(1.0, 0.5, Some(0.5), 0.1);
    assert_eq!(twice, end(0.5, 0.25, Some(0.25), 0.2));
    // A cross-entropy alone, at its own weight.
    assert_eq!(end(0.5, 0.0, Some(0.0), 0.1), end(1.0, 0.0, Some(0.0), 0.05));
}

/// With all outputs distilled, rows of classes to come train, as in FedCIL's code; otherwise they stay.
#[test]
fn all_outputs_may_be_distilled() {
    let coming = |own_teacher| {
        let mut run = engine(two_teachers(0.3, 0.3, own_teacher), 3);
        run.ctx.training = sgd();
        for task in 0..2 {
            let shards = deal(&run.ctx, &run.view(task), 2);
            run.task(task, &shards, 1);
        }
        let last = run.last();
        [&last.down, last.up.as_ref().unwrap()].map(|body| head(body, 4..6))
    };
    for own_teacher in [OwnTeacher::Seen, OwnTeacher::Old] {
        let [down, up] = coming(own_teacher);
        assert_eq!(down, up, "{own_teacher:?}");
    }
    let [down, up] = coming(OwnTeacher::All);
    assert_ne!(down, up);
}

/// FedHAF's module with these batch norms and dropout.
fn on_module(norms: BatchNormMode, dropout: f64) -> FedAvg {
    FedAvg { batch_norm: norms, dropout, ..base(Train::Module) }
}

fn running(set: &ParameterSet, part: &str) -> ParameterSet {
    set.filter(|name| name.starts_with(part) && name.contains("running"))
}

/// FedLwF-2T, invariant 1 with batch norms: the received model is the student's own start and asks for nothing, by
/// whichever moments the student goes; by running ones, where the student goes by the batch, it pulls.
#[test]
fn teachers_on_a_module_normalize_as_the_student() {
    let ends = |norms, teacher_norms| {
        let (alpha, beta, gamma) = (0.0, 0.0, Some(1.0));
        let fedavg = on_module(norms, 0.0);
        let method = FedLwf2t {
            fedavg,
            alpha,
            beta,
            gamma,
            teacher_batch_norm: teacher_norms,
            ..Default::default()
        };
        last_exchange(&run(built(method, &facts()), 2, 1, &sgd()), 0).map(trained_part)
    };
    for norms in [BatchNormMode::Batch, BatchNormMode::Running] {
        let [down, up] = ends(norms, TeacherBatchNormMode::Student);
        assert_eq!(down, up, "{norms:?}");
        let pull = distance(ends(norms, TeacherBatchNormMode::Running));
        assert!(pull > 1e-3, "{norms:?} {pull}");
    }
}

/// FedHAF's baselines normalize and drop as configured: settled statistics of the module are those of the first
/// task, in every method that is FedAvg but for some hooks; those of the head always move.
#[test]
fn baselines_on_the_module_have_its_norms_and_dropout() {
    let all = |norms, dropout| -> [Arc<dyn Method>; 4] {
        let fedavg = || on_module(norms, dropout);
        let two = FedLwf2t { fedavg: fedavg(), ..FedLwf2t::default() };
        [
            built(fedavg(), &facts()),
            built(FedProx { fedavg: fedavg(), ..FedProx::default() }, &facts()),
            built(two, &facts()),
            built(Oracle { fedavg: fedavg(), site: Site::Clients }, &facts()),
        ]
    };
    let runs = |norms, dropout| all(norms, dropout).map(|method| run(method, 2, 1, &sgd()));
    let (batch, settled) = (runs(BatchNormMode::Batch, 0.0), runs(BatchNormMode::Running, 0.0));
    let dropped = runs(BatchNormMode::Batch, 0.3);
    for (at, ((batch, settled), dropped)) in batch.iter().zip(&settled).zip(&dropped).enumerate() {
        let [down, up] = last_exchange(settled, 0);
        assert_eq!(running(&down, "adjust."), running(&up, "adjust."), "{at}");
        assert_ne!(running(&down, "head."), running(&up, "head."), "{at}");
        assert_ne!(down.get("adjust.3.norm.weight"), up.get("adjust.3.norm.weight"), "{at}");
        let [down, up] = last_exchange(batch, 0);
        assert_ne!(running(&down, "adjust."), running(&up, "adjust."), "{at}");
        let first = |run: &Engine| run.exchanges[0].up.as_ref().unwrap().digest();
        assert_eq!(first(batch), first(settled), "{at}: nothing has settled in the first task");
        assert_ne!(first(batch), first(dropped), "{at}");
    }
}

/// FedLwF-2T, invariant 5 as a client sees it: a task of training under its teacher leaves every bit of it as it
/// was sent at the end of the task before.
#[test]
fn a_teacher_stays_as_it_was_trained() {
    let run = run(two_teachers(0.3, 0.3, OwnTeacher::Seen), 2, 2, &sgd());
    for (client, state) in &run.states {
        let sent = |task: usize| {
            let own = |e: &&Exchange| e.participant.client == *client && e.task == task;
            let last = run.exchanges.iter().rfind(own).unwrap();
            parameters_of(last.up.as_ref().unwrap()).unwrap()
        };
        let (last, teacher) = state.sections.split_at(state.sections.len() / 2);
        let set = |sections: &[Section]| parameters_of(&Body::new(vec![], sections.to_vec()));
        assert_eq!((set(last).unwrap(), set(teacher).unwrap()), (sent(1), sent(0)));
        assert_ne!(sent(1), sent(0));
    }
}

/// Distillation draws a client to its earlier model.
///
/// Without a cross-entropy a client goes from what it received towards what it kept at the end of the task before.
/// (The distillation is convex in the head and least there, so that every step leads nearer.)
#[test]
fn a_client_returns_to_its_own_teacher_and_keeps_it() {
    let taught = run(two_teachers(0.0, 1.0, OwnTeacher::Seen), 2, 1, &sgd());
    for client in 0..2 {
        let first =
            taught.exchanges.iter().find(|e| e.participant.client.index() == client).unwrap();
        let own = parameters_of(first.up.as_ref().unwrap()).unwrap();
        let apart = |set: &ParameterSet| -> f32 {
            let gaps = set.iter().flat_map(|(name, parameter)| {
                let own = own.get(name).unwrap();
                parameter.values.iter().zip(own.values.iter()).map(|(a, b)| (a - b).powi(2))
            });
            gaps.sum::<f32>().sqrt()
        };
        let [down, up] = last_exchange(&taught, client);
        let (before, after) = (apart(&down), apart(&up));
        assert!(before > 1e-2 && after < 0.99 * before, "{client}: from {before} to {after}");
    }
    let run = run(two_teachers(0.3, 0.3, OwnTeacher::Seen), 2, 1, &sgd());
    let state = run.states.values().next().unwrap();
    // Its last model and the one of the task before: a head of 6 rows of 16 and a bias each.
    assert_eq!(run.method.state_bytes(state).unwrap(), 2 * 4 * (6 * 17));
    assert_eq!(OwnModels::of(state).unwrap().save().digest(), state.digest());
    let server_only = two_teachers(0.3, 0.0, OwnTeacher::Seen);
    assert_eq!(server_only.state_bytes(&Body::default()).unwrap(), 0);
}

/// FedLwF-2T, invariant 6: with one client the server's old model is the client's own; section 4: it is sent once
/// per task, and no client keeps anything.
#[test]
fn a_server_that_teaches_is_the_own_teacher_of_a_single_client() {
    let of = |first, clients| {
        let mut engine = engine(taught_by(first, FedLwf2t::default()), 3);
        engine.ctx.training = sgd();
        engine.run(clients, 2)
    };
    let (own, server) = (of(FirstTeacher::Own, 1), of(FirstTeacher::Server, 1));
    let models = [&own, &server].map(|run| parameters_of(run.last().up.as_ref().unwrap()).unwrap());
    assert_eq!(models[0], models[1]);
    let several = of(FirstTeacher::Server, 2);
    assert!(several.states.values().all(|state| several.method.state_bytes(state).unwrap() == 0));
    for exchange in &several.exchanges {
        assert_eq!(exchange.assets.len(), usize::from(exchange.task > 0));
        let Some(asset) = exchange.assets.first() else { continue };
        assert_eq!(asset.version as usize, exchange.task - 1);
        let (view, counts) = (several.view(exchange.task), ClassCounts::new());
        let (model, phase, round_in_phase) = (&several.facts, 0, 0);
        let facts =
            ExchangeFacts { phase, round_in_phase, ..first_exchange(model, &view, &counts) };
        assert_eq!(
            asset.body.shape(),
            several.method.message_spec(MessageKind::Download, &facts).assets[0].body
        );
    }
    let saved = several.server.save();
    let mut again = engine(taught_by(FirstTeacher::Server, FedLwf2t::default()), 3);
    again.server.load(&saved).unwrap();
    assert_eq!(again.server.save().digest(), saved.digest());
    // Without a share for it nothing is sent.
    let none = FedLwf2t { beta: 0.0, ..FedLwf2t::default() };
    let run = run(taught_by(FirstTeacher::Server, none), 2, 1, &sgd());
    assert!(run.exchanges.iter().all(|exchange| exchange.assets.is_empty()));
}

/// FedHAF's networks under the baselines' rules: everything in them trains, running statistics travel.
#[test]
fn baselines_train_fedhaf_s_module_too() {
    let run = run(fedavg(Train::Module), 1, 1, &sgd());
    let last = run.last();
    let (download, upload) = (&last.down, last.up.as_ref().unwrap());
    let (before, after) = (parameters_of(download).unwrap(), parameters_of(upload).unwrap());
    assert_eq!(before.len(), after.len());
    // A constant before a batch norm changes nothing, so the biases of the linear layers have no gradient.
    let idle = |name: &str| name.ends_with("bias") && !name.contains("norm") && name != "head.bias";
    for (name, parameter) in before.iter().filter(|(name, _)| !idle(name)) {
        assert_ne!(after.get(name).unwrap().values, parameter.values, "{name} stayed");
    }
    for name in ["adjust.3.norm.running_var", "head.norm.running_mean", "head.hidden.weight"] {
        assert!(after.get(name).is_some(), "{name}");
    }
    // What they give to others are adjusted features, without the head.
    let predictor = run.server.predictor(&run.ctx).unwrap();
    assert_eq!(predictor.feature_state().shape(), run.method.profile().features);
}

/// The oracle trains on all it has held and forgets little; a client's memory is all of it.
#[test]
fn the_oracle_keeps_everything() {
    let plan = TrainingPlan { epochs: 6, ..plan(OptimizerConfig::sgd(0.3)) };
    let of = |method, clients| {
        let mut engine = engine(method, 3);
        engine.ctx.training = plan.clone();
        engine.run(clients, 2)
    };
    let central = of(oracle(Site::Central), 1);
    let held = central.states.values().next().unwrap();
    for (task, view) in central.ctx.task_sequence.tasks.iter().enumerate() {
        let all = deal(&central.ctx, view, 1).remove(0);
        let kept = held.tensor(Kind::Exemplars, &format!("task.{task}")).unwrap();
        assert_eq!(kept.as_u32().unwrap(), &all);
    }
    let forgetful = of(fedavg(Train::Head), 1);
    let (bound, other) = (central.accuracy(CLASSES), forgetful.accuracy(CLASSES));
    assert!(bound > other, "{bound} {other}");
    assert!(
        !oracle(Site::Central).profile().uses_network
            && oracle(Site::Clients).profile().uses_network
    );
    // With one client both forms are one.
    let one = of(oracle(Site::Clients), 1).server.save().digest();
    assert_eq!(one, central.server.save().digest());
}

/// FedProx, invariant 6: where all data is at one site, the end does not depend on when which task came. The head's
/// loss is convex, so with decay and full batches there is one end; FedAvg on the same tasks ends elsewhere.
#[test]
fn a_central_oracle_ends_alike_for_every_order_of_tasks() {
    let plan = TrainingPlan {
        epochs: 1,
        batch: 1_000,
        clip: None,
        ..plan(OptimizerConfig::sgd(0.1).weight_decay(1.0))
    };
    let rows = |method: Arc<dyn Method>, order: ClassPermutation| -> Vec<Vec<f32>> {
        let mut engine = Engine::new(method, facts(), run_context(3, order));
        engine.ctx.training = plan.clone();
        let saved = engine.run(1, 100);
        let rows = &saved.ctx.task_sequence;
        let row = |class| rows.row_of(class) as usize;
        let body = saved.server.save();
        let of = |row| head(&body, row..row + 1).into_iter().map(f32::from_bits).collect();
        (0..CLASSES as u32).map(|class| of(row(class))).collect()
    };
    let apart = |method: fn() -> Arc<dyn Method>| {
        let (one, other) =
            (rows(method(), ClassPermutation::Native), rows(method(), ClassPermutation::Seeded(4)));
        far(&one.concat(), &other.concat())
    };
    let (oracle, fedavg) = (apart(|| oracle(Site::Central)), apart(|| fedavg(Train::Head)));
    assert!(oracle < 1e-3 && fedavg > 30.0 * oracle, "{oracle} {fedavg}");
}
