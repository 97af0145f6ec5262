//! The invariants of TARGET that are seen from outside, on a transformer and on a small residual network.

use fedcast::methods::target::{EpochEnd, TargetMethod};
use fedcast::model::ParameterSet;
use fedcast::policy::parameters_of;
use fedcast::wire::{Kind, TensorValues};

use crate::image_replay::*;
use crate::toys::{deal, facts};
use crate::{built, far, own, values};

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

/// TARGET card, invariant 1: without distillation it is FedAvg, bit for bit, and so is the first task.
#[test]
fn without_distillation_it_is_fedavg() {
    let plain = built(target(|method| method.kd_weight = 0.0), &facts());
    let fedavg = decayed(without_replay(), 3).server.save();
    assert_eq!(decayed(plain, 3).server.save().digest(), fedavg.digest());
    assert_replays_from_the_second_task(|| built(target(|_| ()), &facts()));
}

/// The first task replays nothing, and a task has one old model and one set of images.
#[test]
fn a_task_has_one_old_model_and_its_images() {
    let limit = |method: &mut TargetMethod| method.replayed_images = 15;
    let run = with_one_old_model_per_task(on_resnet(target(limit)), Kind::SyntheticData);
    let images = images(&run, 1);
    let tensor = &images[0].body.sections[0].tensors[0];
    // Of three calls of six images those that are replayed.
    assert_eq!(tensor.shape(), [15, 1, 8, 8]);
    assert!(matches!(tensor.values(), TensorValues::U8(bytes) if bytes.len() == 15 * 64));
    assert_server_is_saved(&run, on_resnet(target(limit)));
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
        let shards = [0, 1].map(|task| deal(&run.ctx, &run.view(task), 2));
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
    let moved =
        |weight: f64| moves_old_rows(on_resnet(target(|method| method.kd_weight = weight)), 0..2);
    assert!(moved(25.0) && !moved(0.0));
}

/// Clients with the same samples replay other images, and the same ones if repeated.
#[test]
fn clients_replay_images_of_their_own() {
    assert_clients_replay_their_own(|| on_resnet(target(|_| ())));
}

/// Three calls of two steps each, as each of two tasks ends: a third would follow.
#[test]
fn steps_of_the_generator_are_counted() {
    let run = on_resnet(target(|_| ())).tasks(2, 2, 1);
    assert_eq!(run.ctx.server_steps.taken(), 12);
    assert!(run.ctx.server_steps.now().is_none(), "the work has ended");
}
