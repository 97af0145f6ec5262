//! The invariants of MFCL that are seen from outside, on a transformer and on a residual network.

use std::sync::Arc;

use fedcast::learning::OptimizerConfig;
use fedcast::methods::mfcl::{GeneratorStart, Mfcl};
use fedcast::policy::{Asset, Method, parameters_of};
use fedcast::wire::{Body, Kind};

use crate::image_replay::*;
use crate::toys::watched::Engine;
use crate::toys::{facts, plan};
use crate::{built, engine, own};

/// A small generator, with a few steps.
fn mfcl(change: impl Fn(&mut Mfcl)) -> Mfcl {
    let mut method = Mfcl { synthetic_batch: 8, ..Mfcl::default() };
    let generator = &mut method.generator;
    (generator.latent, generator.width) = (6, 4);
    (generator.steps, generator.batch) = (3, 8);
    change(&mut method);
    method
}

fn replaying() -> Arc<dyn Method> {
    built(mfcl(|_| ()), &facts())
}

/// Generators that the downloads of a task name, one per exchange; `None` where there is none.
fn generators(run: &Engine, task: usize) -> Vec<Option<Arc<Asset>>> {
    sent(run, task, Kind::Generator)
}

fn digests(run: &Engine, task: usize) -> Vec<u64> {
    generators(run, task).iter().map(|one| one.as_ref().expect("a generator").digest()).collect()
}

/// MFCL card, invariant 7, and weights of zero: bit for bit, whatever the weight decay.
#[test]
fn without_replay_it_is_fedavg() {
    let plain = mfcl(|method| (method.ft_weight, method.kd_weight) = (0.0, 0.0));
    let plain = decayed(built(plain, &facts()), 3).server.save();
    assert_eq!(plain.digest(), decayed(without_replay(), 3).server.save().digest());
    assert_replays_from_the_second_task(replaying);
}

/// MFCL card, invariant 7: the generator is constant during a task, and another one in the next.
#[test]
fn a_task_has_one_generator_and_one_old_model() {
    let run = with_one_old_model_per_task(engine(replaying(), 3), Kind::Generator);
    let [.., last] = &run.exchanges[..] else { panic!("no exchange") };
    let old = parameters_of(&last.assets[0].body).unwrap();
    assert_eq!(old.len(), parameters_of(&own(&run)).unwrap().len(), "the old model is whole");
    // After the last task there is no other one.
    let kept = run.server.save();
    let last = kept.sections.iter().find(|section| section.kind == Kind::Generator).cloned();
    let last = Body::new(Vec::new(), last.into_iter().collect());
    assert_eq!(last.digest(), digests(&run, 2)[0]);
    assert_server_is_saved(&run, engine(Arc::clone(&run.method), 3));
}

/// The second generator starts from the first one, or from fresh weights: without steps it is the first one, or is not.
#[test]
fn a_warm_generator_goes_on_with_the_last_one() {
    let of = |start, steps| {
        let method =
            mfcl(|method| (method.generator.start, method.generator.steps) = (start, steps));
        let run = decayed(built(method, &facts()), 3);
        (digests(&run, 1)[0], digests(&run, 2)[0])
    };
    let (first, second) = of(GeneratorStart::Warm, 0);
    assert_eq!(first, second);
    let (first, second) = of(GeneratorStart::Fresh, 0);
    assert_ne!(first, second);
    assert_ne!(of(GeneratorStart::Warm, 2), of(GeneratorStart::Fresh, 2));
}

/// Noise is a client's own: with the same samples clients send different models, and the same ones if repeated.
#[test]
fn clients_generate_images_of_their_own() {
    assert_clients_replay_their_own(|| engine(replaying(), 2));
}

/// Pseudo-labels train old rows of the head; with the distillation alone these stay.
#[test]
fn old_rows_move_by_pseudo_labels_alone() {
    let moved = |ft: f64, kd: f64| {
        let method = mfcl(|method| (method.ft_weight, method.kd_weight) = (ft, kd));
        let mut run = engine(built(method, &facts()), 2);
        run.ctx.training = plan(OptimizerConfig::sgd(0.05));
        moves_old_rows(run, 0..3)
    };
    assert!(moved(1.0, 0.1) && !moved(0.0, 0.1));
}

/// Real and generated images are one batch of a network with batch norms; the second pass moves their moments again.
#[test]
fn running_moments_move_twice() {
    let moments = |repeat: bool| {
        let run = on_resnet(mfcl(|method| method.repeat_moments = repeat)).tasks(2, 2, 1);
        let own = parameters_of(&own(&run)).unwrap();
        let of = |name: &str| own.get(name).expect("a parameter").values.to_vec();
        (of("bn1.num_batches_tracked"), of("bn1.running_mean"), of("conv1.weight"))
    };
    let (once, twice) = (moments(false), moments(true));
    // 24 images of a client in the first task and in the second, in three steps of two epochs.
    assert_eq!((once.0, twice.0), (vec![12.0], vec![18.0]));
    assert_ne!(once.1, twice.1);
    assert_eq!(once.2, twice.2, "steps themselves are the same in a round");
}

/// A generator that agrees with running moments lowers their divergence; here by what the server sends.
#[test]
fn a_generator_is_trained_for_the_global_model() {
    let of = |steps: u32, weight: f64| {
        let change = |method: &mut Mfcl| {
            method.generator.steps = steps;
            method.generator.statistics = weight;
        };
        let run = on_resnet(mfcl(change)).tasks(2, 2, 1);
        digests(&run, 1)[0]
    };
    let all = [of(0, 50.0), of(3, 50.0), of(3, 0.0)];
    assert!(all[0] != all[1] && all[1] != all[2], "steps and weights act: {all:?}");
    assert_eq!(all[1], of(3, 50.0), "the same bits again");
}

/// Three steps, as each of two tasks ends: a third would follow.
#[test]
fn steps_of_the_generator_are_counted() {
    let run = on_resnet(mfcl(|_| ())).tasks(2, 2, 1);
    assert_eq!(run.ctx.server_steps.taken(), 6);
}
