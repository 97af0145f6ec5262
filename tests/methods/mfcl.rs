//! The invariants of MFCL that are seen from outside, on a transformer and on a residual network.

use std::sync::Arc;

use fedcast::learning::OptimizerConfig;
use fedcast::methods::HeadForm;
use fedcast::methods::averaging::ClientWeighting;
use fedcast::methods::fedavg::FedAvg;
use fedcast::methods::mfcl::{GeneratorStart, Mfcl};
use fedcast::model::{Parameter, ParameterSet};
use fedcast::policy::{Asset, Method, parameters_of};
use fedcast::wire::{Body, Kind};

use crate::toys::watched::Engine;
use crate::toys::{deal, facts, plan};
use crate::{built, engine, far, head, on_resnet, own, replays_of_twins, sent, values};

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

fn fedavg() -> Arc<dyn Method> {
    let (client_weighting, head_form) = (ClientWeighting::Uniform, HeadForm::Growing);
    built(FedAvg { client_weighting, head_form, ..FedAvg::default() }, &facts())
}

fn run(method: Arc<dyn Method>, tasks: usize) -> Engine {
    let mut engine = engine(method, tasks);
    engine.lab.training = plan(OptimizerConfig::sgd(0.05).weight_decay(0.1));
    engine.run(2, 2)
}

/// Generators that the downloads of a task name, one per exchange; `None` where there is none.
fn generators(run: &Engine, task: usize) -> Vec<Option<Arc<Asset>>> {
    sent(run, task, Kind::Generator)
}

fn digests(run: &Engine, task: usize) -> Vec<u64> {
    generators(run, task).iter().map(|one| one.as_ref().expect("a generator").digest()).collect()
}

/// Returns true if these are the same parameters, of whose head the first ones may have fewer rows.
fn is_start_of(some: Option<&ParameterSet>, all: Option<&ParameterSet>) -> bool {
    let (Some(some), Some(all)) = (some, all) else { return some.is_none() && all.is_none() };
    let starts = |(name, part): (&Arc<str>, &Parameter)| {
        all.get(name).is_some_and(|whole| whole.values.starts_with(&part.values))
    };
    some.len() == all.len() && some.iter().all(starts)
}

/// MFCL card, invariant 7, and weights of zero: bit for bit, whatever the weight decay.
#[test]
fn without_replay_it_is_fedavg() {
    let plain = mfcl(|method| (method.ft_weight, method.kd_weight) = (0.0, 0.0));
    let plain = run(built(plain, &facts()), 3).server.save();
    assert_eq!(plain.digest(), run(fedavg(), 3).server.save().digest());
    let first = values(&own(&run(replaying(), 1)));
    assert_eq!(first, values(&run(fedavg(), 1).server.save()));
    assert_ne!(values(&own(&run(replaying(), 2))), values(&run(fedavg(), 2).server.save()));
}

/// MFCL card, invariant 7: the generator is constant during a task, and another one in the next.
#[test]
fn a_task_has_one_generator_and_one_old_model() {
    let mut run = engine(replaying(), 3);
    let mut left: Option<ParameterSet> = None;
    for task in 0..3 {
        let begun = run.exchanges.len();
        let shards = deal(&run.lab, &run.view(task), 2);
        run.task(task, &shards, 2);
        for exchange in &run.exchanges[begun..] {
            let kinds: Vec<Kind> = exchange.assets.iter().map(|asset| asset.kind).collect();
            match task {
                0 => assert!(kinds.is_empty()),
                _ => assert_eq!(kinds, [Kind::Weights, Kind::Generator]),
            }
            let told = exchange.assets.first().map(|asset| parameters_of(&asset.body).unwrap());
            assert!(is_start_of(told.as_ref(), left.as_ref()), "task {task}");
        }
        left = Some(parameters_of(&own(&run)).unwrap());
    }
    let (second, third) = (digests(&run, 1), digests(&run, 2));
    assert!(second.len() == 4 && second.iter().all(|digest| *digest == second[0]));
    assert!(third.len() == 4 && third.iter().all(|digest| *digest == third[0]));
    assert_ne!(second[0], third[0]);
    let versions = [1, 2].map(|task| generators(&run, task)[0].as_ref().unwrap().version);
    assert_eq!(versions, [0, 1]);
    // After the last task there is no other one.
    let kept = run.server.save();
    let last = kept.sections.iter().find(|section| section.kind == Kind::Generator).cloned();
    let last = Body::new(Vec::new(), last.into_iter().collect());
    assert_eq!(last.digest(), third[0]);
    // Clients keep nothing, and a server goes on from what it saved.
    assert!(run.states.values().all(|state| run.method.state_bytes(state).unwrap() == 0));
    let mut again = engine(Arc::clone(&run.method), 3);
    again.server.load(&kept).unwrap();
    assert_eq!(again.server.save().digest(), kept.digest());
}

/// The second generator starts from the first one, or anew: with no steps it is the first one, or is not.
#[test]
fn a_warm_generator_goes_on_with_the_last_one() {
    let of = |start, steps| {
        let method =
            mfcl(|method| (method.generator.start, method.generator.steps) = (start, steps));
        let run = run(built(method, &facts()), 3);
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
    let uploads = || replays_of_twins(engine(replaying(), 2));
    let [one, other] = uploads();
    assert!(far(&one, &other) > 1e-6);
    assert_eq!(uploads(), [one, other]);
}

/// Pseudo-labels train old rows of the head; with the distillation alone these stay.
#[test]
fn old_rows_move_by_pseudo_labels_alone() {
    let moved = |ft: f64, kd: f64| {
        let method = mfcl(|method| (method.ft_weight, method.kd_weight) = (ft, kd));
        let mut run = engine(built(method, &facts()), 2);
        run.lab.training = plan(OptimizerConfig::sgd(0.05));
        let shards = [0, 1].map(|task| deal(&run.lab, &run.view(task), 2));
        run.task(0, &shards[0], 1);
        let before = head(&own(&run), 0..3);
        run.task(1, &shards[1], 1);
        before != head(&own(&run), 0..3)
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

/// Three steps, as the first of two tasks ends.
#[test]
fn steps_of_the_generator_are_counted() {
    let run = on_resnet(mfcl(|_| ())).tasks(2, 2, 1);
    assert_eq!(run.lab.server_steps.taken(), 3);
}
