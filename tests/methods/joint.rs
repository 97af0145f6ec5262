//! The invariants of Joint.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use candle_core::Device;
use fedcast::data::ClassPermutation;
use fedcast::learning::{Classifier, OptimizerConfig, TrainingPlan, train};
use fedcast::methods::Registry;
use fedcast::methods::fedavg::Train;
use fedcast::model::{Parameter, ParameterSet};
use fedcast::policy::{parameter_sections, parameters_of};
use fedcast::quantity::Round;
use fedcast::scenario::Scenario;
use fedcast::wire::Body;

use crate::toys::watched::{Engine, SEED};
use crate::toys::{CLASSES, deal, facts, plan, run_context};
use crate::{engine, far, fedavg_of, head, joint_of, values};

/// Invariant 1: Joint is FedAvg with one client and one task; keeping the optimizer is the only
/// difference, and none in the first round.
#[test]
fn joint_is_fedavg_with_one_client_and_one_task() {
    let run = |method, rounds| engine(method, 1).run(1, rounds).server.save().digest();
    let (kept, fresh) = (|| joint_of(Train::All, true), || joint_of(Train::All, false));
    assert_eq!(run(kept(), 1), run(fedavg_of(Train::All), 1));
    assert_eq!(run(fresh(), 3), run(fedavg_of(Train::All), 3));
    assert_ne!(run(kept(), 3), run(fresh(), 3));
    assert!(
        !kept().profile().stateless
            && !kept().profile().uses_network
            && fedavg_of(Train::All).profile().uses_network
    );
}

/// With one optimizer for the run, rounds of one epoch and SGD with momentum are one training.
#[test]
fn the_optimizer_goes_on_from_round_to_round() {
    let mut run = engine(joint_of(Train::Head, true), 1);
    let plan =
        TrainingPlan { epochs: 1, batch: 1_000, ..plan(OptimizerConfig::sgd(0.1).momentum(0.9)) };
    run.ctx.training = plan.clone();
    let rounds = run.run(1, 4);
    let fresh = engine(joint_of(Train::Head, true), 1);
    let received = parameters_of(&fresh.server.save()).unwrap();
    let model = Classifier::trainable(&fresh.ctx.backbone, &received, 0..CLASSES).unwrap();
    let shard = deal(&fresh.ctx, &fresh.view(0), 1).remove(0);
    let key = rounds.exchanges[0].participant.key(SEED, Round(0));
    // Full batches: the order of samples changes only the last bits.
    let plan = TrainingPlan { epochs: 4, ..plan };
    train(&plan, &fresh.ctx.train_loader(&shard), model.variables(), key, |batch| {
        model.masked_loss(&batch.pixels(&Device::Cpu)?, batch.labels())
    })
    .unwrap();
    let central = model.parameters().unwrap();
    let central: Vec<f32> = central.iter().flat_map(|(_, p)| p.values.to_vec()).collect();
    assert!(far(&central, &values(&rounds.server.save())) < 1e-5);
}

/// Invariant 2: the order of classes only renames head rows. With the initial rows renamed
/// alike, every test image gets the same class.
#[test]
fn the_order_of_classes_only_renames_rows() {
    let native = engine(joint_of(Train::Head, true), 1);
    let mut renamed = Engine::new(
        joint_of(Train::Head, true),
        facts(),
        run_context(1, ClassPermutation::Seeded(4)),
    );
    let order = renamed.ctx.task_sequence.order.clone();
    assert_ne!(order, (0..CLASSES as u32).collect::<Vec<_>>());
    let start = parameters_of(&native.server.save()).unwrap();
    let permuted = start.iter().map(|(name, parameter)| {
        let width: usize = parameter.shape[1..].iter().product();
        let rows = order.iter().map(|class| *class as usize);
        let values = rows.flat_map(|row| parameter.values[row * width..(row + 1) * width].to_vec());
        let shape = parameter.shape.clone();
        (Arc::clone(name), Parameter { shape, values: values.collect() })
    });
    let permuted: ParameterSet = permuted.collect();
    let saved = Body::new(Vec::new(), parameter_sections(&permuted));
    renamed.server.load(&saved).unwrap();
    let (native, renamed) = (native.run(1, 2), renamed.run(1, 2));
    let (a, b) = (native.server.save(), renamed.server.save());
    for (row, class) in order.iter().map(|class| *class as usize).enumerate() {
        let of = |body: &Body, row: usize| -> Vec<f32> {
            head(body, row..row + 1).into_iter().map(f32::from_bits).collect()
        };
        assert!(far(&of(&a, class), &of(&b, row)) < 1e-4, "class {class}");
    }
    assert_eq!(native.accuracy(CLASSES), renamed.accuracy(CLASSES));
}

/// Invariant 3: micro accuracy is the sample-weighted mean over any groups of classes.
#[test]
fn micro_accuracy_is_the_weighted_mean_over_task_groups() {
    let run = engine(joint_of(Train::Head, true), 1).run(1, 1);
    let tally = run.tally(CLASSES);
    let groups = [0..2, 2..5, 5..6].map(|rows: Range<usize>| {
        (tally.accuracy(rows.clone()).unwrap(), tally.total[rows].iter().sum::<u64>() as f64)
    });
    let mean = groups.iter().map(|(a, n)| a * n).sum::<f64>() / tally.samples() as f64;
    assert!((mean - run.accuracy(CLASSES)).abs() < 1e-12);
}

/// Invariant 4: on a frozen backbone, full batches and a small rate, the loss only falls, and
/// with weight decay every start ends at the same head.
#[test]
fn softmax_regression_is_convex() {
    let run = |scale: f32, rounds: u32| {
        let mut run = engine(joint_of(Train::Head, true), 1);
        run.ctx.training = TrainingPlan {
            epochs: 1,
            batch: 1_000,
            clip: None,
            ..plan(OptimizerConfig::sgd(0.05).weight_decay(0.5))
        };
        let start = parameters_of(&run.server.save()).unwrap();
        let scaled = start.iter().map(|(name, parameter)| {
            let values = parameter.values.iter().map(|v| scale * v).collect();
            let shape = parameter.shape.clone();
            (Arc::clone(name), Parameter { shape, values })
        });
        let saved = Body::new(Vec::new(), parameter_sections(&scaled.collect()));
        run.server.load(&saved).unwrap();
        run.run(1, rounds)
    };
    let (a, b) = (run(1.0, 300), run(-3.0, 300));
    let apart = far(&values(&a.server.save()), &values(&b.server.save()));
    assert!(apart < 1e-3, "two starts end {apart} apart");

    let mut falling = engine(joint_of(Train::Head, true), 1);
    falling.ctx.training =
        TrainingPlan { epochs: 1, batch: 1_000, clip: None, ..plan(OptimizerConfig::sgd(0.02)) };
    let falling = falling.run(1, 40);
    let losses: Vec<f64> = falling.exchanges.iter().map(|e| e.metrics[1].1).collect();
    assert!(losses.windows(2).all(|pair| pair[1] < pair[0] + 1e-7), "{losses:?}");
    assert!(losses[39] < 0.95 * losses[0]);
}

/// Joint refuses any other federation, and says what to set.
#[test]
fn joint_refuses_other_federations() {
    let registry = Registry::builtin();
    let text = |clients: u32, tasks: u32| {
        format!(
            "schema = 2\n[data]\nsource = \"digits\"\n[tasks]\ncount = {tasks}\n[method]\nname = \"joint\"\n\
             [backbone]\nweights = \"embedded\"\n[federation]\nclients = {clients}\n[partition]\nkind = \"iid\"\n"
        )
    };
    let reading = |clients, tasks| {
        let folder = Path::new(".");
        let read = Scenario::from_toml(&text(clients, tasks), "j", folder, &[], &registry);
        read.map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(reading(1, 1), Ok(()));
    let error = reading(10, 5).unwrap_err();
    assert!(error.contains("`federation.clients = 1`"), "{error}");
    assert!(error.contains("`tasks.count = 1`"), "{error}");
    assert!(error.contains("clients = 10\n"), "shows the line: {error}");
}
