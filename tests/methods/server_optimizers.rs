//! The invariants of FedAvgM, FedAdagrad, FedAdam and FedYogi that are seen from outside.

use std::sync::Arc;

use fedcast::learning::{OptimizerConfig, TrainingPlan};
use fedcast::methods::HeadForm;
use fedcast::methods::averaging::Reset;
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::methods::fedavgm::FedAvgM;
use fedcast::methods::fedopt::{FedOpt, ServerOptimizer};
use fedcast::model::ParameterSet;
use fedcast::policy::{Method, ModelFacts, parameters_of, vectors_of};

use crate::toys::watched::Engine;
use crate::toys::{facts, plan};
use crate::{built, engine, far};

fn base(train: Train) -> FedAvg {
    FedAvg { train, ..FedAvg::default() }
}

fn fedavgm(train: Train, change: impl Fn(&mut FedAvgM)) -> Arc<dyn Method> {
    let mut method = FedAvgM { fedavg: base(train), ..FedAvgM::default() };
    change(&mut method);
    built(method, &facts())
}

fn fedyogi(train: Train, change: impl Fn(&mut FedOpt)) -> Arc<dyn Method> {
    let mut method = FedOpt { fedavg: base(train), ..FedOpt::with(ServerOptimizer::Yogi) };
    change(&mut method);
    built(method, &facts())
}

fn sgd() -> TrainingPlan {
    TrainingPlan { clip: None, ..plan(OptimizerConfig::sgd(0.1)) }
}

/// The first tasks of three, of two classes each.
fn run(method: Arc<dyn Method>, tasks: usize, rounds: u32) -> Engine {
    let mut engine = engine(method, 3);
    engine.ctx.training = sgd();
    engine.tasks(tasks, 2, rounds)
}

fn theta(run: &Engine) -> ParameterSet {
    parameters_of(&run.server.save()).unwrap()
}

fn moment(run: &Engine, name: &str) -> ParameterSet {
    vectors_of(&run.server.save().sections, name).unwrap()
}

fn of_head(set: &ParameterSet) -> Vec<f32> {
    set.get("head.bias").unwrap().values.to_vec()
}

/// Also of networks with running statistics, and over tasks.
#[test]
fn fedavgm_without_momentum_is_fedavg_to_the_bit() {
    for train in [Train::Head, Train::Prompt, Train::All, Train::Module] {
        for reset in [Reset::Task, Reset::Keep] {
            let still = fedavgm(train, |method| (method.momentum, method.reset) = (0.0, reset));
            let fedavg = built(base(train), &facts());
            assert_eq!(theta(&run(still, 2, 2)), theta(&run(fedavg, 2, 2)), "{train:?} {reset:?}");
        }
    }
    let moving = fedavgm(Train::Head, |_| ());
    assert_ne!(theta(&run(moving, 1, 2)), theta(&run(built(base(Train::Head), &facts()), 1, 2)));
}

/// Messages, services and what clients keep are FedAvg's.
#[test]
fn nothing_of_an_optimizer_travels() {
    let fedavg = run(built(base(Train::Prompt), &facts()), 1, 1);
    for method in [fedavgm(Train::Prompt, |_| ()), fedyogi(Train::Prompt, |_| ())] {
        assert!(method.profile().stateless && method.profile().restrictions.is_empty());
        let run = run(method, 1, 1);
        for (own, plain) in run.exchanges.iter().zip(&fedavg.exchanges) {
            assert_eq!(own.down.digest(), plain.down.digest());
            let [own, plain] = [own, plain].map(|exchange| exchange.up.as_ref().unwrap());
            assert_eq!(own.digest(), plain.digest());
        }
    }
}

/// A module has batch norms: their statistics are means, and have no moments.
#[test]
fn running_statistics_take_the_mean() {
    let start = theta(&engine(built(base(Train::Module), &facts()), 3));
    let mean = theta(&run(built(base(Train::Module), &facts()), 1, 1));
    let half = run(fedavgm(Train::Module, |method| method.server_lr = 0.5), 1, 1);
    let (moved, velocity) = (theta(&half), moment(&half, "first_moment"));
    let (mut statistics, mut weights) = (0, 0);
    for (name, mean) in mean.iter() {
        let (start, moved) = (start.get(name).unwrap(), moved.get(name).unwrap());
        if name.contains("running") || name.contains("num_batches") {
            assert_eq!(moved.values, mean.values, "{name}");
            assert!(velocity.get(name).is_none(), "{name}");
            statistics += 1;
        } else {
            let halfway = start.values.iter().zip(mean.values.iter()).map(|(a, b)| 0.5 * (a + b));
            assert!(far(&moved.values, &halfway.collect::<Vec<f32>>()) < 1e-6, "{name}");
            weights += 1;
        }
    }
    assert!(statistics > 0 && weights > 0);
}

/// The second task forgets the moments of the first, or goes on with them.
#[test]
fn moments_are_forgotten_or_kept_as_a_task_starts() {
    let classes = 2;
    for (reset, remembers) in [(Reset::Task, false), (Reset::Keep, true)] {
        let avgm = run(fedavgm(Train::Head, |method| method.reset = reset), 2, 2);
        let yogi = run(fedyogi(Train::Head, |method| method.reset = reset), 2, 2);
        for set in [
            moment(&avgm, "first_moment"),
            moment(&yogi, "first_moment"),
            moment(&yogi, "second_moment"),
        ] {
            let bias = of_head(&set);
            let (old, new) = bias.split_at(classes);
            assert_eq!(old.iter().all(|value| *value != 0.0), remembers, "{reset:?} {old:?}");
            assert!(new[..classes].iter().all(|value| *value != 0.0), "{reset:?} {new:?}");
            assert!(new[classes..].iter().all(|value| *value == 0.0), "no class of a later task");
        }
    }
}

/// Rows of earlier tasks train no more, so that a momentum that is kept moves them no further; the prompt it moves.
#[test]
fn a_kept_momentum_leaves_rows_of_earlier_tasks_alone() {
    for head in [HeadForm::Fixed, HeadForm::Growing] {
        let of = |tasks, reset| {
            let change = move |method: &mut FedAvgM| {
                (method.reset, method.fedavg.head_form) = (reset, head);
            };
            theta(&run(fedavgm(Train::Prompt, change), tasks, 2))
        };
        let (before, after) = (of(1, Reset::Keep), of(2, Reset::Keep));
        assert_eq!(of_head(&before)[..2], of_head(&after)[..2], "{head:?}");
        assert_ne!(of_head(&before), of_head(&after));
        assert_ne!(after, of(2, Reset::Task), "{head:?}");
    }
}

/// Plan of a hundred clients: a vector or two at the server.
#[test]
fn servers_hold_their_moments() {
    let facts = ModelFacts { clients: 100, ..facts() };
    let held = |method: Arc<dyn Method>| method.profile().memory_footprint.unwrap();
    let numbers = (facts.classes * (facts.backbone.dim() + 1)) as u64;
    let avgm = held(built(FedAvgM { fedavg: base(Train::Head), ..FedAvgM::default() }, &facts));
    assert_eq!((avgm.server, avgm.client), (2 * 4 * numbers, 0));
    let adam = FedOpt { fedavg: base(Train::Head), ..FedOpt::with(ServerOptimizer::Adam) };
    let adam = held(built(adam, &facts));
    assert_eq!((adam.server, adam.client), (3 * 4 * numbers, 0));
}
