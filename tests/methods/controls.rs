//! The invariants of SCAFFOLD and FedDC that are seen from outside.

use std::sync::Arc;

use fedcast::data::Shard;
use fedcast::learning::{OptimizerConfig, TrainingPlan};
use fedcast::methods::HeadForm;
use fedcast::methods::averaging::{
    Averager, ClientWeighting, Keeper, OldLogits, Reset, VectorKeeping, VectorStore,
};
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::methods::feddc::{FedDc, Rates};
use fedcast::methods::fedprox::{FedProx, Prox};
use fedcast::methods::parts::AveragingMethod;
use fedcast::methods::scaffold::{Renewal, Scaffold};
use fedcast::model::ParameterSet;
use fedcast::policy::{
    Aggregate, ClientState, Member, MessageKind, Method, ModelFacts, RoundContext, Stage,
    UploadMeta, WireForm, one_participant_per_client, parameters_of, vectors_of,
};
use fedcast::quantity::{ClientId, Round};
use fedcast::wire::{Body, Saved};

use crate::toys::watched::Engine;
use crate::toys::{deal, facts, first_exchange, plan, run_context};
use crate::{built, client_passes, engine, far, head, values};
use fedcast::data::ClassPermutation;

fn base(train: Train) -> FedAvg {
    FedAvg { train, client_weighting: ClientWeighting::Uniform, ..FedAvg::default() }
}

fn scaffold(train: Train, change: impl Fn(&mut Scaffold)) -> Arc<dyn Method> {
    let mut method = Scaffold { fedavg: base(train), ..Scaffold::default() };
    change(&mut method);
    built(method, &facts())
}

fn feddc(train: Train, change: impl Fn(&mut FedDc)) -> Arc<dyn Method> {
    let mut method = FedDc { fedavg: base(train), ..FedDc::default() };
    change(&mut method);
    built(method, &facts())
}

fn sgd() -> TrainingPlan {
    TrainingPlan { clip: None, ..plan(OptimizerConfig::sgd(0.1)) }
}

/// Steps on whole shards, so that equal shards are equal clients.
fn whole(epochs: u32, rate: f64) -> TrainingPlan {
    TrainingPlan { epochs, batch: 1_000, clip: None, ..plan(OptimizerConfig::sgd(rate)) }
}

fn run(method: Arc<dyn Method>, tasks: usize, rounds: u32, plan: &TrainingPlan) -> Engine {
    let mut engine = engine(method, tasks);
    engine.ctx.training = plan.clone();
    engine.run(2, rounds)
}

fn theta(run: &Engine) -> ParameterSet {
    parameters_of(&run.server.save()).unwrap()
}

fn flat(set: &ParameterSet) -> Vec<f32> {
    set.iter().flat_map(|(_, parameter)| parameter.values.to_vec()).collect()
}

/// Returns the vectors that the server remembers under a name.
fn memory(run: &Engine, name: &str) -> Vec<f32> {
    flat(&vectors_of(&run.server.save().sections, name).unwrap())
}

fn kept(run: &Engine, client: u32, name: &str) -> Vec<f32> {
    flat(&vectors_of(&run.states[&ClientId(client)].sections, name).unwrap())
}

/// SCAFFOLD, invariant 1: while all variates are zero, which they are in the first round, it is FedAvg, to the bit; in
/// the second it is not.
#[test]
fn the_first_round_of_scaffold_is_fedavg() {
    let of = |method, rounds| theta(&run(method, 1, rounds, &sgd()));
    for train in [Train::Head, Train::Prompt, Train::All, Train::Module] {
        let fedavg = |rounds| of(built(base(train), &facts()), rounds);
        for (option, variates) in [
            (Renewal::Way, Keeper::Client),
            (Renewal::Gradient, Keeper::Client),
            (Renewal::Way, Keeper::Server),
        ] {
            let change = |method: &mut Scaffold| {
                (method.option, method.keeping.keeper) = (option, variates);
            };
            assert_eq!(of(scaffold(train, change), 1), fedavg(1), "{train:?} {option:?}");
            if train == Train::Head {
                assert_ne!(of(scaffold(train, change), 2), fedavg(2), "{option:?}");
            }
        }
    }
}

/// SCAFFOLD, invariants 2 and 3: one client, or clients that are alike, have nothing to correct.
#[test]
fn clients_that_are_alike_have_nothing_to_correct() {
    let of = |method: Arc<dyn Method>, clients: usize| {
        let mut engine =
            Engine::new(Arc::clone(&method), facts(), run_context(1, ClassPermutation::Native));
        engine.ctx.training = whole(3, 0.1);
        let view = engine.view(0);
        let all: Shard = deal(&engine.ctx, &view, 2).remove(0);
        engine.task(0, &vec![all; clients], 4);
        values(&engine.server.save())
    };
    let alone = |method: Scaffold| -> Arc<dyn Method> {
        let facts = ModelFacts { clients: 1, ..facts() };
        Arc::new(Averager::new(method, &facts))
    };
    let fedavg = of(built(base(Train::Head), &facts()), 1);
    for option in [Renewal::Way, Renewal::Gradient] {
        let method = Scaffold { fedavg: base(Train::Head), option, ..Scaffold::default() };
        assert!(far(&of(alone(method.clone()), 1), &fedavg) < 1e-5, "{option:?}");
        assert!(far(&of(built(method, &facts()), 2), &fedavg) < 1e-5, "{option:?}");
    }
}

/// SCAFFOLD, invariants 4 and 8, and FedDC, invariant 2: `c` (and the mean drift) is the mean over all clients, also
/// where one of two took part in the first task; a server that keeps all variates makes the same of it, to the bit.
#[test]
fn the_server_knows_the_mean_of_all_clients() {
    let checked = |method: Arc<dyn Method>, names: &[&str], server: bool| {
        let mut run = engine(method, 2);
        run.ctx.training = sgd();
        let shards = [0, 1].map(|task| deal(&run.ctx, &run.view(task), 2));
        run.task(0, &shards[0][..1], 2);
        run.task(1, &shards[1], 2);
        for name in names {
            let own = |client: u32| match server {
                false => kept(&run, client, name),
                true => memory(&run, &format!("{name}.{client}")),
            };
            let mean: Vec<f32> = own(0).iter().zip(own(1)).map(|(a, b)| 0.5 * (a + b)).collect();
            let all = memory(&run, name);
            assert!(
                far(&mean, &all) < 1e-4 && all.iter().any(|value| value.abs() > 1e-3),
                "{name}"
            );
        }
        assert_eq!(run.method.profile().stateless, server);
        if server {
            assert!(run.states.values().all(|state| state.sections.is_empty()));
        }
        theta(&run)
    };
    let of = |variates: Keeper| {
        let server = variates == Keeper::Server;
        let first = scaffold(Train::Module, |method| {
            (method.keeping.keeper, method.keeping.reset) = (variates, Reset::Keep);
        });
        let other = feddc(Train::Module, |method| {
            (method.keeping.keeper, method.keeping.reset) = (variates, Reset::Keep);
        });
        [checked(first, &["control"], server), checked(other, &["control", "drift"], server)]
    };
    assert_eq!(of(Keeper::Client), of(Keeper::Server));
}

/// SCAFFOLD, section 5.2: after one step on everything both options know the gradient there, also where a backbone
/// takes shorter steps than its head.
#[test]
fn both_options_know_the_gradient_of_a_single_step() {
    let of = |option: Renewal, train: Train| {
        let method = scaffold(train, |method| {
            (method.option, method.fedavg.backbone_lr) = (option, 0.25);
        });
        let run = run(method, 1, 1, &whole(1, 0.1));
        (kept(&run, 0, "control"), kept(&run, 1, "control"))
    };
    for train in [Train::Head, Train::All] {
        let (gradient, way) = (of(Renewal::Gradient, train), of(Renewal::Way, train));
        assert!(gradient.0.iter().any(|value| value.abs() > 1e-2));
        // Differences of weights that are of order one, divided by a rate of 0.1.
        assert!(far(&gradient.0, &way.0) < 1e-4, "{train:?}");
        assert!(far(&gradient.1, &way.1) < 1e-4, "{train:?}");
    }
}

/// A server learning rate of one half moves the model half the way to the clients' mean.
#[test]
fn half_a_step_of_scaffold_is_half_the_way() {
    let of =
        |server_lr| run(scaffold(Train::Head, |method| method.server_lr = server_lr), 1, 1, &sgd());
    let [whole, half] = [1.0, 0.5].map(of);
    let before = flat(&parameters_of(&whole.exchanges[0].down).unwrap());
    let [whole, half] = [whole, half].map(|run| flat(&theta(&run)));
    let middle: Vec<f32> = before.iter().zip(&whole).map(|(a, b)| a + 0.5 * (b - a)).collect();
    assert!(far(&half, &middle) < 1e-6 && far(&whole, &before) > 1e-3);
}

/// FedDC, invariant 1: in the first round clients go as FedProx's with the same pull, and the server goes twice as far
/// as their mean.
#[test]
fn the_first_round_of_feddc_is_fedprox_twice() {
    for train in [Train::Head, Train::Module] {
        let method = FedProx { fedavg: base(train), mu: 0.5, prox: Prox::Squared };
        let prox = run(built(method, &facts()), 1, 1, &sgd());
        let drift = run(feddc(train, |method| method.alpha = 0.5), 1, 1, &sgd());
        let sent = |run: &Engine| -> Vec<ParameterSet> {
            run.exchanges.iter().map(|e| parameters_of(e.up.as_ref().unwrap()).unwrap()).collect()
        };
        assert_eq!(sent(&prox), sent(&drift), "{train:?}");
        let start = parameters_of(&prox.exchanges[0].down).unwrap();
        let trained = |name: &str| !name.contains("running");
        let [start, mean, twice] = [start, theta(&prox), theta(&drift)].map(|set| {
            assert!(set.len() >= 2);
            flat(&set.filter(trained))
        });
        let expected: Vec<f32> =
            start.iter().zip(&mean).map(|(start, mean)| start + 2.0 * (mean - start)).collect();
        assert!(far(&expected, &twice) < 1e-5, "{train:?}");
        assert!(far(&start, &mean) > 1e-3);
        // Running statistics are averaged, and drift nowhere.
        let moments = |run| flat(&theta(run).filter(|name| name.contains("running")));
        assert_eq!(moments(&prox), moments(&drift));
    }
}

/// A task starts with nothing remembered, or with everything; a head that grew has zeros in its new rows.
#[test]
fn a_task_starts_as_configured() {
    let start_of_task = |method: Arc<dyn Method>| {
        let run = run(method, 2, 2, &sgd());
        let first = run.exchanges.iter().find(|exchange| exchange.task == 1).unwrap();
        flat(&vectors_of(&first.down.sections, "control").unwrap())
    };
    for reset in [Reset::Task, Reset::Keep] {
        let zero = [
            start_of_task(scaffold(Train::Head, |method| method.keeping.reset = reset)),
            start_of_task(feddc(Train::Head, |method| method.keeping.reset = reset)),
        ]
        .map(|set| set.iter().all(|value| *value == 0.0));
        assert_eq!(zero, [reset == Reset::Task; 2]);
    }
    let growing = |method: &mut Scaffold| {
        (method.keeping.reset, method.fedavg.head_form) = (Reset::Keep, HeadForm::Growing);
    };
    let run = run(scaffold(Train::Head, growing), 2, 2, &sgd());
    let of_task = |task: usize| {
        let one = run.exchanges.iter().find(|exchange| exchange.task == task).unwrap();
        vectors_of(&one.down.sections, "control").unwrap().get("head.bias").unwrap().values.clone()
    };
    assert_eq!((of_task(0).len(), of_task(1).len()), (3, 6));
    assert!(of_task(1)[..3].iter().all(|v| *v != 0.0) && of_task(1)[3..].iter().all(|v| *v == 0.0));
}

/// SCAFFOLD, subtlety 7, and FedDC, subtlety 6: rows of other tasks keep their bits, whether or not vectors of theirs
/// are remembered; with the logits of all classes in the loss they train.
#[test]
fn rows_of_other_tasks_stay() {
    let of = |old_logits: OldLogits, reset: Reset| -> [Arc<dyn Method>; 3] {
        let fedavg = FedAvg { old_logits, ..base(Train::Head) };
        let scaffold = |keeper| {
            let (fedavg, keeping) = (fedavg.clone(), VectorKeeping { reset, keeper });
            built(Scaffold { fedavg, keeping, ..Scaffold::default() }, &facts())
        };
        let keeping = VectorKeeping { reset, ..FedDc::default().keeping };
        let feddc = FedDc { fedavg: fedavg.clone(), keeping, ..FedDc::default() };
        [scaffold(Keeper::Client), scaffold(Keeper::Server), built(feddc, &facts())]
    };
    for reset in [Reset::Task, Reset::Keep] {
        for (old_logits, stays) in [(OldLogits::Mask, true), (OldLogits::Keep, false)] {
            for method in of(old_logits, reset) {
                let mut run = engine(method, 3);
                run.ctx.training = sgd();
                for task in 0..2 {
                    let before = head(&run.server.save(), 0..2);
                    let shards = deal(&run.ctx, &run.view(task), 2);
                    run.task(task, &shards, 2);
                    if task == 1 {
                        assert_eq!(head(&run.server.save(), 0..2) == before, stays, "{reset:?}");
                    }
                }
            }
        }
    }
}

/// Lean messages and heads that grow change no number.
#[test]
fn lean_and_growing_messages_change_no_model() {
    let scaffold = |head: HeadForm, keeper: Keeper, facts: &ModelFacts| {
        let fedavg = FedAvg { head_form: head, ..base(Train::Head) };
        let keeping = VectorKeeping { reset: Reset::Keep, keeper };
        built(Scaffold { fedavg, keeping, ..Scaffold::default() }, facts)
    };
    let feddc = |head: HeadForm, keeper: Keeper, facts: &ModelFacts| {
        let fedavg = FedAvg { head_form: head, ..base(Train::Head) };
        let keeping = VectorKeeping { reset: Reset::Keep, keeper };
        built(FedDc { fedavg, keeping, ..FedDc::default() }, facts)
    };
    for drifts in [false, true] {
        for variates in [Keeper::Client, Keeper::Server] {
            let of = |form: WireForm, head: HeadForm| {
                let facts = ModelFacts { form, ..facts() };
                let method = match drifts {
                    false => scaffold(head, variates, &facts),
                    true => feddc(head, variates, &facts),
                };
                let mut run = Engine::new(method, facts, run_context(3, ClassPermutation::Native));
                run.ctx.training = sgd();
                theta(&run.run(2, 2))
            };
            let full = of(WireForm::Full, HeadForm::Fixed);
            assert_eq!(of(WireForm::Lean, HeadForm::Fixed), full, "{variates:?}");
            assert_eq!(of(WireForm::Full, HeadForm::Growing), full, "{variates:?}");
            assert_eq!(of(WireForm::Lean, HeadForm::Growing), full, "{variates:?}");
        }
    }
}

/// Everything is saved and loaded bit for bit: a server and clients that were goes on as if nothing had been.
#[test]
fn what_is_remembered_survives() {
    for variates in [Keeper::Client, Keeper::Server] {
        for method in [
            scaffold(Train::Head, |method| method.keeping.keeper = variates),
            feddc(Train::Head, |method| method.keeping.keeper = variates),
        ] {
            let run = run(Arc::clone(&method), 2, 2, &sgd());
            let saved = run.server.save();
            let mut again = engine(method, 2);
            again.server.load(&saved).unwrap();
            assert_eq!(again.server.save().digest(), saved.digest());
            // Within a task it does not begin again.
            let stage = Stage::of(run.view(1), 2);
            again.server.begin_stage(&stage, &again.ctx).unwrap();
            assert_eq!(again.server.save().digest(), saved.digest());
            // Where the server keeps everything, there is nothing to save.
            let states = run.states.values().filter(|state| !state.sections.is_empty());
            assert_eq!(states.clone().count(), if variates == Keeper::Client { 2 } else { 0 });
            for state in states {
                assert_eq!(VectorStore::of(state).unwrap().save().digest(), state.digest());
            }
        }
    }
}

/// Both cards, subtlety 8: a client has renewed what it keeps when its training is over. If its upload is lost, the
/// server does not know; a server that keeps everything for clients knows what it knows, and agrees with itself.
#[test]
fn a_lost_upload_parts_a_client_from_its_server() {
    let after_a_loss = |variates: Keeper| {
        let method = scaffold(Train::Head, |method| method.keeping.keeper = variates);
        let run = engine(Arc::clone(&method), 1);
        let mut server = run.server;
        let ctx = fedcast::policy::RunContext { training: sgd(), ..run.ctx };
        let view = Arc::clone(&ctx.task_sequence.tasks[0]);
        let stage = Stage::of(Arc::clone(&view), 1);
        server.begin_stage(&stage, &ctx).unwrap();
        let round = RoundContext {
            round: Round(0),
            stage: stage.clone(),
            phase: 0,
            phase_name: "train",
            round_in_phase: 0,
            rounds_in_phase: 1,
            run_seed: 5,
        };
        let participants = one_participant_per_client(&stage, &[ClientId(0), ClientId(1)]);
        let downloads = server.broadcast(&round, &participants, &ctx).unwrap();
        let (mut aggregate, mut states) = (None, Vec::new());
        for ((participant, download), shard) in
            participants.into_iter().zip(downloads).zip(deal(&ctx, &view, 2))
        {
            let mut member = Member {
                phase: 0,
                download: Arc::clone(&download),
                state: Body::default(),
                shard,
                key: participant.key(5, Round(0)),
                missed: Vec::new(),
                participant: participant.clone(),
            };
            let outcome = method.train(std::slice::from_mut(&mut member), &ctx).remove(0).unwrap();
            states.push(member.state);
            let (model, counts) = (facts(), ctx.shard_label_counts(&member.shard));
            let facts = first_exchange(&model, &view, &counts);
            let (sent, said) = (
                method.message_spec(MessageKind::Download, &facts),
                method.message_spec(MessageKind::Upload, &facts),
            );
            let meta = UploadMeta::timely(participant.clone(), Round(0));
            // The upload of the second is lost.
            if participant.client == ClientId(0) {
                aggregate = Some(
                    Aggregate::of(&meta, (&download, &sent), (outcome.upload, &said)).unwrap(),
                );
            }
        }
        server.end_round(&round, aggregate, &ctx).unwrap();
        let saved = server.save();
        let of = |sections: &[_], name: &str| flat(&vectors_of(sections, name).unwrap());
        let own = [0, 1].map(|client: usize| match variates {
            Keeper::Client => of(&states[client].sections, "control"),
            Keeper::Server => of(&saved.sections, &format!("control.{client}")),
        });
        let control = of(&saved.sections, "control");
        let zeros = vec![0.0; control.len()];
        let own = own.map(|own| if own.is_empty() { zeros.clone() } else { own });
        let mean: Vec<f32> = own[0].iter().zip(&own[1]).map(|(a, b)| 0.5 * (a + b)).collect();
        far(&control, &mean)
    };
    assert!(after_a_loss(Keeper::Client) > 1e-2);
    assert!(after_a_loss(Keeper::Server) < 1e-6);
}

/// Three classes each, several steps a round, a strongly convex loss: FedAvg ends where its clients balance each other,
/// SCAFFOLD and FedDC at the optimum of all samples, which a single site with all of them finds.
#[test]
fn uneven_clients_meet_at_the_optimum_of_all() {
    let plan = TrainingPlan {
        epochs: 6,
        batch: 1_000,
        clip: None,
        ..plan(OptimizerConfig::sgd(0.1).weight_decay(0.1))
    };
    let end = |method: Arc<dyn Method>, clients: usize| {
        let mut run = engine(method, 1);
        run.ctx.training = plan.clone();
        let of_class = run.ctx.dataset.train.by_class();
        let of = |classes: std::ops::Range<usize>| -> Shard {
            classes.flat_map(|class| of_class[class].iter().copied()).collect()
        };
        let shards = if clients == 1 { vec![of(0..6)] } else { vec![of(0..3), of(3..6)] };
        run.task(0, &shards, 200);
        values(&run.server.save())
    };
    let fedavg = || built(base(Train::Head), &facts());
    let optimum = end(fedavg(), 1);
    let apart = |method: Arc<dyn Method>| far(&end(method, 2), &optimum);
    let astray = apart(fedavg());
    let corrected = [
        apart(scaffold(Train::Head, |_| ())),
        apart(scaffold(Train::Head, |method| method.option = Renewal::Gradient)),
        apart(scaffold(Train::Head, |method| method.keeping.keeper = Keeper::Server)),
        apart(feddc(Train::Head, |method| (method.alpha, method.rates) = (0.1, Rates::Used))),
    ];
    for (place, apart) in corrected.iter().enumerate() {
        assert!(*apart < 1e-3 && astray > 30.0 * apart, "{place}: {apart}, FedAvg {astray}");
    }
}

/// Option I asks for nothing of the optimizer, and its further pass costs time.
#[test]
fn the_gradient_of_the_whole_loss_costs_a_pass() {
    let view = run_context(1, ClassPermutation::Native).task_sequence.tasks[0].clone();
    let work = |option| {
        let method = scaffold(Train::Head, |method| method.option = option);
        client_passes(&*method, &view, 50, &TrainingPlan { epochs: 4, ..sgd() })
    };
    assert_eq!((work(Renewal::Way), work(Renewal::Gradient)), (200.0, 250.0));
    let method = Scaffold { option: Renewal::Gradient, ..Scaffold::default() };
    assert!(method.parts().requirements().len() < Scaffold::default().parts().requirements().len());
}
