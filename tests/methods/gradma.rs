//! The invariants of GradMA that are seen from outside.

use std::sync::Arc;

use candle_core::Device;
use fedcast::learning::{Classifier, OptimizerConfig, TrainingPlan};
use fedcast::methods::averaging::Reset;
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::methods::gradma::{GradMa, Project, StepBefore};
use fedcast::model::{Parameter, ParameterSet};
use fedcast::numerics::cone::{Program, moved};
use fedcast::policy::{Method, Stage, parameters_of, vector_names, vectors_of};
use fedcast::quantity::ClientId;

use crate::toys::watched::{Engine, Exchange};
use crate::toys::{deal, facts, plan};
use crate::{built, client_passes, engine};

fn base(train: Train) -> FedAvg {
    FedAvg { train, ..FedAvg::default() }
}

fn gradma(train: Train, change: impl Fn(&mut GradMa)) -> Arc<dyn Method> {
    let mut method = GradMa { fedavg: base(train), ..GradMa::default() };
    change(&mut method);
    built(method, &facts())
}

fn whole(epochs: u32) -> TrainingPlan {
    TrainingPlan { epochs, batch: 1_000, clip: None, ..plan(OptimizerConfig::sgd(0.2)) }
}

fn run(method: Arc<dyn Method>, clients: usize, rounds: u32, plan: &TrainingPlan) -> Engine {
    let mut engine = engine(method, 1);
    engine.ctx.training = plan.clone();
    engine.run(clients, rounds)
}

fn theta(run: &Engine) -> ParameterSet {
    parameters_of(&run.server.save()).unwrap()
}

/// Invariant 1: without momentum, with a step of one and nothing to turn, it is FedAvg to the bit: one step of a round,
/// and one client who answers alone; clients that turn nothing, and a server that does not.
#[test]
fn where_nothing_is_turned_gradma_is_fedavg() {
    let plain = |method: &mut GradMa| {
        (method.momentum, method.memory_decay) = (0.0, 0.0);
    };
    for train in [Train::Head, Train::All, Train::Module] {
        let fedavg = |clients, rounds, epochs| {
            theta(&run(built(base(train), &facts()), clients, rounds, &whole(epochs)))
        };
        let one_step = run(gradma(train, plain), 1, 2, &whole(1));
        assert_eq!(theta(&one_step), fedavg(1, 2, 1), "{train:?}");
        let change = |project| {
            move |method: &mut GradMa| {
                plain(method);
                (method.project, method.previous) = (project, StepBefore::Received);
            }
        };
        let alone = run(gradma(train, change(Project::Server)), 1, 2, &whole(3));
        assert_eq!(theta(&alone), fedavg(1, 2, 3), "{train:?}");
        let steps = run(gradma(train, change(Project::Clients)), 2, 2, &whole(1));
        assert_eq!(theta(&steps), fedavg(2, 2, 1), "{train:?}");
    }
    let with_momentum = run(gradma(Train::Head, |_| ()), 1, 2, &whole(1));
    assert_ne!(
        theta(&with_momentum),
        theta(&run(built(base(Train::Head), &facts()), 1, 2, &whole(1)))
    );
}

/// Returns what is halved by a server learning rate of one half: the way from the model before the round.
#[test]
fn a_server_rate_of_one_half_goes_half_the_way() {
    for project in [Project::Clients, Project::Both] {
        let of = |server_lr| {
            let change = |method: &mut GradMa| {
                (method.project, method.server_lr, method.momentum) = (project, server_lr, 0.0);
            };
            run(gradma(Train::All, change), 1, 1, &whole(1))
        };
        let [whole, half] = [1.0, 0.5].map(of);
        let before = parameters_of(&whole.exchanges[0].down).unwrap();
        let [whole, half] = [&whole, &half].map(theta);
        for (name, half) in half.iter() {
            let [before, whole] = [&before, &whole].map(|set| &set.get(name).unwrap().values);
            for ((half, before), whole) in half.values.iter().zip(before.iter()).zip(whole.iter()) {
                let expected = before + 0.5 * (whole - before);
                assert!((half - expected).abs() < 1e-6, "{project:?} {name}: {half} {expected}");
            }
        }
        assert_ne!(whole, half, "{project:?}");
    }
}

/// The gradient of each tensor at these parameters, with a weight decay of all but biases.
fn gradient(
    run: &Engine,
    shard: &fedcast::data::Shard,
    at: &ParameterSet,
    decay: f32,
) -> ParameterSet {
    let rows = run.view(0).rows.clone();
    let network = Classifier::trainable(&run.ctx.backbone, at, rows).unwrap();
    let loader = run.ctx.statistics_loader(shard);
    let batch = loader.in_order(1_000).next().unwrap().unwrap();
    let gradients = network.batch_loss(&batch, &Device::Cpu).unwrap().backward().unwrap();
    let one = |(name, variable): &(Arc<str>, candle_core::Var)| {
        let slope = Parameter::of(gradients.get(variable).unwrap()).unwrap();
        let decay = if name.ends_with("bias") { 0.0 } else { decay };
        let values = slope.values.iter().zip(at.get(name).unwrap().values.iter());
        let values = values.map(|(slope, value)| slope + decay * value).collect();
        (Arc::clone(name), Parameter { shape: slope.shape, values })
    };
    network.variables().iter().map(one).collect()
}

/// Section 5, step by step on a head: gradients at the model, before its last step and at the start, on the same batch;
/// each tensor turned against the three rows; plain steps.
///
/// The result is the largest difference, in the last round, of a walk that looks back at the model received.
fn turns_its_steps(previous: StepBefore, (rate, rho, decay, steps): WalkSettings) -> f32 {
    let change = |method: &mut GradMa| {
        (method.project, method.client_margin, method.steps) = (Project::Clients, rho, Some(steps));
        (method.decay, method.previous) = (f64::from(decay), previous);
    };
    let plan = TrainingPlan { optimizer: OptimizerConfig::sgd(f64::from(rate)), ..whole(1) };
    let run = run(gradma(Train::Head, change), 2, 2, &plan);
    let shards = deal(&run.ctx, &run.view(0), 2);
    let client = |round: usize| {
        let of = |e: &&Exchange| e.participant.client.index() == 0;
        run.exchanges.iter().filter(of).nth(round).unwrap()
    };
    let (mut last, mut gap): (Option<ParameterSet>, f32) = (None, 0.0);
    for round in 0..2 {
        let exchange = client(round);
        let start = parameters_of(&exchange.down).unwrap();
        let kept = last.take().filter(|_| previous == StepBefore::LastRound);
        let walk = |kept| walked(&run, &shards[0], (&start, kept), (rate, rho, decay, steps));
        let (here, turned) = walk(kept);
        assert!(turned > 2, "{turned}");
        gap = largest_difference(&here, &walk(None).0);
        let sent = parameters_of(exchange.up.as_ref().unwrap()).unwrap();
        let off = largest_difference(&sent, &here);
        assert!(off < 1e-3, "{round}: {off}");
        assert_eq!(exchange.metrics[0], ("steps", f64::from(steps)));
        last = Some(sent);
    }
    let state = &run.states[&ClientId(0)];
    match previous {
        StepBefore::LastRound => {
            assert_eq!(Some(vectors_of(&state.sections, "last").unwrap()), last);
        }
        StepBefore::Received => assert_eq!(run.method.state_bytes(state).unwrap(), 0),
    }
    gap
}

/// Learning rate, margin, weight decay and number of steps.
type WalkSettings = (f32, f64, f32, u32);

fn largest_difference(one: &ParameterSet, other: &ParameterSet) -> f32 {
    let mut differences = Vec::new();
    for (name, own) in one.iter() {
        let pairs = own.values.iter().zip(other.get(name).unwrap().values.iter());
        differences.extend(pairs.map(|(a, b)| (a - b).abs()));
    }
    // Unlike `f32::max` this order does not lose a NaN.
    differences.into_iter().max_by(f32::total_cmp).unwrap()
}

/// Steps by hand: the model at their end, and how many tensors were turned.
///
/// `kept` is the model that counts as the one before the first step.
fn walked(
    run: &Engine,
    shard: &fedcast::data::Shard,
    (start, kept): (&ParameterSet, Option<ParameterSet>),
    (rate, rho, decay, steps): WalkSettings,
) -> (ParameterSet, usize) {
    let before = kept.unwrap_or_else(|| start.clone());
    let (mut here, mut before, mut turned) = (start.clone(), before, 0);
    for _ in 0..steps {
        let slopes = [&here, &before, start].map(|at| gradient(run, shard, at, decay));
        let mut next = here.clone();
        for (name, own) in slopes[0].iter() {
            let now = &here.get(name).unwrap().values;
            let first = &start.get(name).unwrap().values;
            let way: Vec<f32> = now.iter().zip(first.iter()).map(|(a, b)| a - b).collect();
            let rows = [&slopes[1], &slopes[2]].map(|set| &set.get(name).unwrap().values[..]);
            let rows = [rows[0], rows[1], &way];
            let z = Program::of(&own.values, &rows, rho).by_enumeration();
            let z = z.unwrap_or_else(|| vec![0.0; 3]);
            turned += usize::from(z.iter().any(|z| *z > 0.0));
            let direction = moved(&own.values, &rows, &z);
            let values = now.iter().zip(direction).map(|(w, u)| w - rate * u as f32).collect();
            next.insert(name.clone(), Parameter { shape: own.shape.clone(), values });
        }
        (before, here) = (here, next);
    }
    (here, turned)
}

#[test]
fn a_client_turns_its_steps_as_the_card_says() {
    let gap = turns_its_steps(StepBefore::Received, (1.5, 0.2, 0.5, 6));
    assert_eq!(gap, 0.0);
}

/// As GradMA-W's release: the first step of a later round looks back at the end of the client's last one.
///
/// With a wide margin that first step is turned, and the walk is another than from the model received.
#[test]
fn a_client_of_gradma_w_remembers_where_it_was() {
    let gap = turns_its_steps(StepBefore::LastRound, (1.5, 0.8, 0.0, 6));
    assert!(gap > 1e-2, "{gap}");
    assert_eq!(GradMa { ..GradMa::default() }.previous, StepBefore::Received);
}

/// Invariant 6, seen from outside: clients may answer in any order; and what is remembered is saved, loaded, and
/// forgotten as a task starts.
#[test]
fn what_is_remembered_survives_until_the_next_task() {
    let of = |reset: Reset| {
        let mut run = engine(gradma(Train::Head, |method| method.reset = reset), 2);
        run.ctx.training = whole(3);
        let shards = deal(&run.ctx, &run.view(0), 2);
        run.task(0, &shards, 3);
        let saved = run.server.save();
        assert_eq!(vector_names(&saved.sections), ["momentum", "update.0", "update.1"]);
        let mut again = engine(gradma(Train::Head, |method| method.reset = reset), 2);
        again.server.load(&saved).unwrap();
        assert_eq!(again.server.save().digest(), saved.digest());
        let next = |task| Stage::of(run.view(task), 2);
        again.server.begin_stage(&next(0), &again.ctx).unwrap();
        assert_eq!(again.server.save().digest(), saved.digest(), "within a task nothing begins");
        again.server.begin_stage(&next(1), &again.ctx).unwrap();
        vectors_of(&again.server.save().sections, "update.0").unwrap().is_empty()
    };
    assert!(of(Reset::Task) && !of(Reset::Keep));
}

/// The server sees single updates; where clients alone turn steps it does not.
#[test]
fn a_server_that_turns_steps_sees_every_update() {
    use fedcast::policy::{Capability, check_capability};
    for (project, allowed) in [(Project::Both, false), (Project::Clients, true)] {
        let received = StepBefore::Received;
        let method =
            gradma(Train::Head, |method| (method.project, method.previous) = (project, received));
        for service in [
            Capability::SecureAggregation,
            Capability::LateUpdates,
            Capability::RobustAggregation,
            Capability::MixedTasks,
        ] {
            assert_eq!(
                check_capability(&*method, &facts(), service).is_none(),
                allowed,
                "{service:?}"
            );
        }
        let view = engine(Arc::clone(&method), 1).view(0);
        // Three passes of a batch in place of one, and a program in every step but the first.
        let work = |epochs| client_passes(&*method, &view, 50, &whole(epochs));
        let program = work(2) - 3.0 * 2.0 * 50.0;
        assert_eq!(work(1), 3.0 * 50.0);
        assert!(program > 0.0 && program < 0.1, "{program}");
        assert!((work(3) - 3.0 * 3.0 * 50.0 - 2.0 * program).abs() < 1e-9);
    }
}
