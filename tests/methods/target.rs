//! The invariants of TARGET that are seen from outside, on a transformer and on a small residual network.

use std::sync::Arc;

use fedcast::learning::OptimizerConfig;
use fedcast::methods::HeadForm;
use fedcast::methods::averaging::ClientWeighting;
use fedcast::methods::fedavg::FedAvg;
use fedcast::methods::target::{EpochEnd, TargetMethod};
use fedcast::model::ParameterSet;
use fedcast::policy::{Asset, parameters_of};
use fedcast::wire::{Kind, TensorValues};

use crate::toys::watched::Engine;
use crate::toys::{deal, facts, plan};
use crate::{built, engine, far, head, on_resnet, own, replays_of_twins, sent, values};

/// A small generator, with a few calls.
fn target(change: impl Fn(&mut TargetMethod)) -> TargetMethod {
    let mut method = TargetMethod { synthetic_batch: 8, ..TargetMethod::default() };
    (method.synthesis_rounds, method.warmup) = (3, 1);
    let synthesis = &mut method.synthesis;
    (synthesis.batch, synthesis.steps) = (6, 2);
    (synthesis.width, synthesis.latent) = (4, 6);
    (synthesis.student_steps, synthesis.student_batch, synthesis.student_rate) = (2, 4, 1e-3);
    change(&mut method);
    method
}

fn images(run: &Engine, task: usize) -> Vec<Arc<Asset>> {
    sent(run, task, Kind::SyntheticData).into_iter().flatten().collect()
}

/// TARGET card, invariant 1: without distillation it is FedAvg, bit for bit, and so is the first task.
#[test]
fn without_distillation_it_is_fedavg() {
    let run = |method, tasks| {
        let mut engine = engine(method, tasks);
        engine.lab.training = plan(OptimizerConfig::sgd(0.05).weight_decay(0.1));
        engine.run(2, 2)
    };
    let fedavg = || {
        let (client_weighting, head_form) = (ClientWeighting::Uniform, HeadForm::Growing);
        built(FedAvg { client_weighting, head_form, ..FedAvg::default() }, &facts())
    };
    let plain = built(target(|method| method.kd_weight = 0.0), &facts());
    assert_eq!(run(plain, 3).server.save().digest(), run(fedavg(), 3).server.save().digest());
    let replaying = || built(target(|_| ()), &facts());
    let first = values(&own(&run(replaying(), 1)));
    assert_eq!(first, values(&run(fedavg(), 1).server.save()));
    assert_ne!(values(&own(&run(replaying(), 2))), values(&run(fedavg(), 2).server.save()));
}

/// The first task replays nothing, and a task has one old model and one set of images.
#[test]
fn a_task_has_one_old_model_and_its_images() {
    let limit = |method: &mut TargetMethod| method.replayed_images = 15;
    let mut run = on_resnet(target(limit));
    let mut left: Option<ParameterSet> = None;
    for task in 0..3 {
        let begun = run.exchanges.len();
        let shards = deal(&run.lab, &run.view(task), 2);
        run.task(task, &shards, 2);
        for exchange in &run.exchanges[begun..] {
            let kinds: Vec<Kind> = exchange.assets.iter().map(|asset| asset.kind).collect();
            let Some(left) = &left else {
                assert!(kinds.is_empty());
                continue;
            };
            assert_eq!(kinds, [Kind::Weights, Kind::SyntheticData]);
            for (name, old) in parameters_of(&exchange.assets[0].body).unwrap().iter() {
                let whole = &left.get(name).expect("a parameter").values;
                assert!(whole.starts_with(&old.values), "task {task}: {name}");
            }
        }
        left = Some(parameters_of(&own(&run)).unwrap());
    }
    let (second, third) = (images(&run, 1), images(&run, 2));
    assert_eq!((second.len(), third.len()), (4, 4));
    assert!(second.iter().all(|asset| asset.digest() == second[0].digest()));
    assert_ne!(second[0].digest(), third[0].digest());
    assert_eq!((second[0].version, third[0].version), (0, 1));
    let tensor = &second[0].body.sections[0].tensors[0];
    // Of three calls of six images those that are replayed.
    assert_eq!(tensor.shape(), [15, 1, 8, 8]);
    assert!(matches!(tensor.values(), TensorValues::U8(bytes) if bytes.len() == 15 * 64));
    assert!(run.states.values().all(|state| run.method.state_bytes(state).unwrap() == 0));
    let kept = run.server.save();
    let mut again = on_resnet(target(limit));
    again.server.load(&kept).unwrap();
    assert_eq!(again.server.save().digest(), kept.digest());
}

/// Weights and keys of clients change what they send; without replay nothing is generated.
#[test]
fn settings_of_clients_act() {
    let trained = |change: fn(&mut TargetMethod)| {
        let run = on_resnet(target(change)).tasks(2, 2, 1);
        (values(&own(&run)), images(&run, 1).len())
    };
    let changes: [fn(&mut TargetMethod); 7] = [
        |_| (),
        |method| method.joint_batch = true,
        |method| method.kd_weight = 12.0,
        |method| method.synthetic_batch = 5,
        |method| method.replayed_images = 4,
        |method| method.synthetic_batch = 18,
        |method| method.kd_weight = 0.0,
    ];
    let all: Vec<_> = changes.map(trained).into();
    for (at, (one, count)) in all.iter().enumerate() {
        assert!(at == 0 || far(one, &all[0].0) > 1e-7, "change {at}");
        assert_eq!(*count, if at == 6 { 0 } else { 2 }, "change {at}");
    }
}

/// One batch of 18 images ends an epoch after a step, of three that the samples of a client have.
#[test]
fn an_epoch_ends_with_the_images_or_the_samples() {
    let of = |epoch_end, joint_batch| {
        let mut run = on_resnet(target(|method| {
            (method.synthetic_batch, method.epoch_end) = (18, epoch_end);
            method.joint_batch = joint_batch;
        }));
        let shards = [0, 1].map(|task| deal(&run.lab, &run.view(task), 2));
        run.task(0, &shards[0], 1);
        run.task(1, &shards[1], 1);
        let steps = |task: usize| {
            let exchange = run.exchanges.iter().find(|exchange| exchange.task == task).unwrap();
            let up = parameters_of(exchange.up.as_ref().unwrap()).unwrap();
            let down = parameters_of(&exchange.down).unwrap();
            let count = |set: &ParameterSet| set.get("bn1.num_batches_tracked").unwrap().values[0];
            count(&up) - count(&down)
        };
        [steps(0), steps(1)]
    };
    let ([first, cut], [same, whole]) = (of(EpochEnd::First, false), of(EpochEnd::Samples, false));
    assert_eq!(first, same, "the first task has no images");
    // In the second task batch norms see own samples and images in every step.
    assert_eq!((whole, cut), (2.0 * first, 2.0 * first / 3.0));
    assert_eq!(of(EpochEnd::Samples, true), [first, first], "as one batch they see both at once");
}

/// Old head rows learn from replayed images alone; without them they stay.
#[test]
fn old_rows_move_by_replay_alone() {
    let moved = |weight: f64| {
        let mut run = on_resnet(target(|method| method.kd_weight = weight));
        let shards = [0, 1].map(|task| deal(&run.lab, &run.view(task), 2));
        run.task(0, &shards[0], 1);
        let before = head(&own(&run), 0..2);
        run.task(1, &shards[1], 1);
        before != head(&own(&run), 0..2)
    };
    assert!(moved(25.0) && !moved(0.0));
}

/// Clients with the same samples replay other images, and the same ones if repeated.
#[test]
fn clients_replay_images_of_their_own() {
    let uploads = || replays_of_twins(on_resnet(target(|_| ())));
    let [one, other] = uploads();
    assert!(far(&one, &other) > 1e-6);
    assert_eq!(uploads(), [one, other]);
}

/// Three calls of two steps each, as the first of two tasks ends.
#[test]
fn steps_of_the_generator_are_counted() {
    let run = on_resnet(target(|_| ())).tasks(2, 2, 1);
    assert_eq!(run.lab.server_steps.taken(), 6);
    assert!(run.lab.server_steps.now().is_none(), "the work has ended");
}
