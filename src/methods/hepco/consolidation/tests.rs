//! The invariants of HePCo's card that concern the server's step alone.

use std::sync::Arc;

use candle_core::Tensor;

use super::generation::{GenerationLoss, GeneratorObjective};
use super::*;
use crate::numerics::distributions::fill_normal;
use crate::numerics::streams::Domain;
use crate::quantity::TaskId;

const SHAPE: PoolShape = PoolShape { blocks: 2, pool: 3, length: 4, dim: 8 };
const CLASSES: usize = 6;

fn config() -> ConsolidationSettings {
    ConsolidationSettings {
        generator_steps: 3,
        old_steps_per_task: 2,
        prompt_steps: 4,
        head_steps: 4,
        server_batch: 8,
        server_lr: 1e-2,
        noise: 4,
        embedding: 5,
        hidden: [16, 12],
        ..ConsolidationSettings::default()
    }
}

fn key(place: u32) -> StreamKey {
    StreamKey::new(3, Domain::Method).client(place)
}

fn parameters(seed: u32) -> ParameterSet {
    let mut set = SHAPE.initial_parameters(key(seed), 1.0);
    let head = LinearHead::initial_parameters(CLASSES, SHAPE.dim, key(100 + seed));
    head.iter().for_each(|(name, parameter)| set.insert(Arc::clone(name), parameter.clone()));
    set
}

/// The second of three tasks.
fn view() -> TaskView {
    TaskView { task: TaskId(1), rows: 2..4, classes: vec![2, 3] }
}

fn client(seed: u32, counts: [u32; 2]) -> Local {
    let counts = vec![0, 0, counts[0], counts[1], 0, 0];
    Local { parameters: Arc::new(parameters(seed)), counts }
}

fn previous() -> Previous {
    Previous { parameters: parameters(50), counts: vec![5, 7, 0, 0, 0, 0] }
}

/// Pools and head after the server's step.
fn consolidated(
    config: &ConsolidationSettings,
    averaged: &ParameterSet,
    clients: &[Local],
    previous: Option<&Previous>,
) -> ParameterSet {
    let made = Consolidation::new((config, SHAPE), &view(), averaged, clients, previous, key(9));
    let made = made.unwrap().unwrap();
    let generators = made.generators().unwrap();
    let mut all = made.prompts(&generators).unwrap().parameters;
    let head = made.head(&generators).unwrap().parameters;
    head.iter().for_each(|(name, parameter)| all.insert(Arc::clone(name), parameter.clone()));
    all
}

/// Invariant 1.
#[test]
fn equal_models_do_not_disagree_and_prompts_keep_their_bits() {
    let same = parameters(1);
    let clients = [client(1, [3, 4]), client(1, [1, 0])];
    let past = Previous { parameters: same.clone(), ..previous() };
    let config = config();
    let made = Consolidation::new((&config, SHAPE), &view(), &same, &clients, Some(&past), key(9));
    let made = made.unwrap().unwrap();
    let generators = made.generators().unwrap();
    for value in [generators.new_value, generators.old.as_ref().unwrap().1] {
        assert!(value.heads.divergence.abs() < 1e-9, "{value:?}");
        assert!(value.distance.abs() < 1e-9, "{value:?}");
        assert!(value.heads.classification > 0.0);
    }
    let prompts = made.prompts(&generators).unwrap();
    assert_eq!(prompts.loss, 0.0);
    assert_eq!(prompts.parameters.len(), 4);
    for (name, parameter) in prompts.parameters.iter() {
        assert_eq!(Some(parameter), same.get(name), "{name}");
    }
    // A server that is not its clients' model does move.
    let moved = consolidated(&config, &parameters(2), &clients, Some(&past));
    assert!(moved.iter().all(|(name, p)| Some(p) != parameters(2).get(name)));
}

/// Parts without steps are not trained and report no metrics.
#[test]
fn each_distillation_can_be_left_out() {
    let (averaged, clients) = (parameters(0), [client(1, [3, 4])]);
    let moved = |prompt_steps, head_steps| {
        let config = ConsolidationSettings { prompt_steps, head_steps, ..config() };
        let made = Consolidation::new((&config, SHAPE), &view(), &averaged, &clients, None, key(9));
        let (moved, metrics) = made.unwrap().unwrap().run().unwrap();
        let reported = |part: &str| metrics.iter().any(|(name, _)| *name == part);
        (moved.len(), reported("prompt_distillation_loss"), reported("head_distillation_loss"))
    };
    assert_eq!(moved(4, 4), (6, true, true));
    assert_eq!(moved(4, 0), (4, true, false));
    assert_eq!(moved(0, 4), (2, false, true));
}

/// Invariant 4.
#[test]
fn without_replay_there_is_no_previous_server() {
    let (averaged, clients) = (parameters(0), [client(1, [3, 4]), client(2, [6, 1])]);
    let of = |ratio, previous: Option<&Previous>| {
        let config = ConsolidationSettings { replay_ratio: ratio, ..config() };
        consolidated(&config, &averaged, &clients, previous)
    };
    assert_eq!(of(0.0, Some(&previous())), of(0.5, None));
    assert_ne!(of(0.5, Some(&previous())), of(0.5, None));
    assert_eq!(ConsolidationSettings::default().replayed(), 32);
    assert_eq!(
        ConsolidationSettings { replay_ratio: 0.29, server_batch: 100, ..config() }.replayed(),
        29
    );
}

/// Step 4: the generator of old classes trains longer with every task, the one of new classes does not.
#[test]
fn every_task_trains_the_old_generator_longer() {
    let (averaged, clients, previous) = (parameters(0), [client(1, [3, 4])], previous());
    let values = |task: u16, generator_steps: u32, old_steps_per_task: u32| {
        let config = ConsolidationSettings { generator_steps, old_steps_per_task, ..config() };
        let view = TaskView { task: TaskId(task), ..view() };
        let settings = (&config, SHAPE);
        let made =
            Consolidation::new(settings, &view, &averaged, &clients, Some(&previous), key(9));
        let made = made.unwrap().unwrap().generators().unwrap();
        (made.new_value, made.old.unwrap().1)
    };
    assert_eq!(values(1, 3, 2).1, values(1, 5, 0).1);
    assert_eq!(values(2, 3, 2), values(1, 3, 4));
    assert_ne!(values(2, 3, 2).1, values(1, 3, 2).1);
    assert_eq!(values(2, 3, 2).0, values(1, 3, 2).0);
}

/// Invariant 4: with both lambdas at zero a generator learns classification alone.
#[test]
fn without_lambdas_the_generator_is_a_plain_one() {
    let server = Model::new(&parameters(0), &SHAPE, 4).unwrap();
    let model = Model::new(&parameters(1), &SHAPE, 4).unwrap();
    let teachers = [ConsolidationTeacher { model, weights: vec![1.0; CLASSES] }];
    let loss = GenerationLoss { kl: 0.0, mse: 0.0, ..config().generation_loss() };
    let objective = GeneratorObjective::new(&server, &teachers, loss).unwrap();
    let queries = Tensor::from_vec(noise(16), (2, 8), &candle_core::Device::Cpu).unwrap();
    let (total, value) = objective.value(&queries, &[2, 3]).unwrap();
    let total = f64::from(total.to_scalar::<f32>().unwrap());
    assert!((total - value.heads.classification).abs() < 1e-6);
    assert_eq!(value.distance, 0.0);
}

/// Invariant 5: as released, the distance of prompts is a number and nothing more.
#[test]
fn the_distance_of_prompts_moves_a_generator_only_where_its_gradient_is_live() {
    let (averaged, clients) = (parameters(0), [client(1, [3, 4]), client(2, [6, 1])]);
    let of = |mse_gradient, lambda_mse| {
        let config =
            ConsolidationSettings { replay_ratio: 1.0, mse_gradient, lambda_mse, ..config() };
        consolidated(&config, &averaged, &clients, Some(&previous()))
    };
    let without = of(MseGradient::Sum, 0.0);
    assert_eq!(of(MseGradient::Detached, 0.1), without);
    assert_ne!(of(MseGradient::Sum, 0.1), without);
    // A mean over eight queries of the numbers of a prompt: a power of two, so the bits are those of the sum.
    let entries = (8 * SHAPE.length * SHAPE.dim) as f64;
    assert_eq!(of(MseGradient::Mean, 0.5), of(MseGradient::Sum, 0.5 / entries));
    assert_ne!(of(MseGradient::Mean, 0.5), without);
}

/// The teachers classify pseudo-queries of a trained generator as intended. (Random heads would disagree about
/// everything; here all are the server's.)
#[test]
fn teachers_answer_a_trained_generator_as_it_was_asked() {
    let (averaged, clients) = (parameters(1), [client(1, [3, 4]), client(1, [6, 1])]);
    let accuracy = |generator_steps, server_lr| {
        let config =
            ConsolidationSettings { generator_steps, server_lr, server_batch: 32, ..config() };
        let past = Previous { parameters: parameters(1), ..previous() };
        let settings = (&config, SHAPE);
        let made = Consolidation::new(settings, &view(), &averaged, &clients, Some(&past), key(9));
        let made = made.unwrap().unwrap().generators().unwrap();
        [made.new_value, made.old.unwrap().1].map(|value| value.heads.accuracy().unwrap())
    };
    let (before, after) = (accuracy(1, 0.0), accuracy(200, 1e-2));
    assert!(before[0] < 0.9, "{before:?}");
    assert!(after.iter().all(|share| *share > 0.97), "{after:?}");
}

/// Returns a model that was trained from the common one.
fn descended(seed: u32) -> ParameterSet {
    parameters(1).zipped(&parameters(seed), |common, own| 0.7 * common + 0.3 * own)
}

/// Disagreeing teachers classify pseudo-queries as intended by the published losses. They differ like models with a
/// common start: with a factor of 1 their disagreement with the server grows, and they still answer. It has no bound,
/// and in the end outweighs the labels; the published number of steps at this rate ends before that.
#[test]
fn teachers_that_disagree_answer_as_they_were_asked_by_the_published_losses() {
    let local =
        |seed, counts| Local { parameters: Arc::new(descended(seed)), ..client(seed, counts) };
    let clients = [local(2, [3, 4]), local(3, [6, 1])];
    let averaged = descended(2).zipped(&descended(3), |one, other| 0.5 * (one + other));
    let past = Previous { parameters: descended(4), ..previous() };
    let published = ConsolidationSettings::default();
    assert_eq!((published.lambda_kl, published.generator_steps), (1.0, 100));
    let heads = |lambda_kl, server_lr| {
        let config = ConsolidationSettings {
            lambda_kl,
            server_lr,
            generator_steps: published.generator_steps,
            old_steps_per_task: 0,
            server_batch: 32,
            ..config()
        };
        let settings = (&config, SHAPE);
        let made = Consolidation::new(settings, &view(), &averaged, &clients, Some(&past), key(9));
        let made = made.unwrap().unwrap().generators().unwrap();
        [made.new_value, made.old.unwrap().1].map(|value| value.heads)
    };
    let (untrained, plain) = (heads(published.lambda_kl, 0.0), heads(0.0, 5e-3));
    for (place, trained) in heads(published.lambda_kl, 5e-3).iter().enumerate() {
        let before = untrained[place].accuracy().unwrap();
        let after = trained.accuracy().unwrap();
        assert!(before < 0.9 && after > 0.95, "{before} {trained:?}");
        assert!(trained.divergence > 1.02 * plain[place].divergence, "{plain:?} {trained:?}");
    }
}

/// A consolidation with long training, of the clients as they are.
fn trained(change: impl Fn(&mut ConsolidationSettings)) -> ConsolidationSettings {
    let mut config = ConsolidationSettings {
        generator_steps: 120,
        old_steps_per_task: 0,
        prompt_steps: 150,
        head_steps: 150,
        server_batch: 32,
        ..config()
    };
    change(&mut config);
    config
}

/// A larger factor of disagreement makes server and teachers differ more on the queries, not less. The queries are then
/// harder to classify.
#[test]
fn a_factor_of_disagreement_makes_more_of_it() {
    let (averaged, clients) = (parameters(0), [client(1, [3, 4]), client(2, [6, 1])]);
    for kl_form in [KlForm::ClientServer, KlForm::ServerClient] {
        let value = |lambda_kl, lambda_mse| {
            let config = trained(|c| {
                (c.lambda_kl, c.lambda_mse) = (lambda_kl, lambda_mse);
                (c.mse_gradient, c.kl) = (MseGradient::Sum, kl_form);
            });
            let made =
                Consolidation::new((&config, SHAPE), &view(), &averaged, &clients, None, key(9));
            made.unwrap().unwrap().generators().unwrap().new_value
        };
        // Factors near 0 measure a term without following it.
        let tiny = 1e-9;
        let (plain, kl, mse) = (value(tiny, tiny), value(0.8, tiny), value(tiny, 0.05));
        assert!(kl.heads.divergence > 1.5 * plain.heads.divergence, "{plain:?} {kl:?}");
        assert!(mse.distance > 1.5 * plain.distance, "{plain:?} {mse:?}");
        for other in [kl, mse] {
            assert!(other.heads.classification > plain.heads.classification, "{other:?}");
        }
    }
}

/// Returns the distance of the server's weighted prompts from a model's. Queries come from a trained generator.
fn distance(server: &ParameterSet, other: &ParameterSet, queries: &Tensor, labels: &[u32]) -> f64 {
    let model = |set: &ParameterSet| Model::new(set, &SHAPE, 4).unwrap();
    let teachers = [ConsolidationTeacher { model: model(other), weights: vec![1.0; CLASSES] }];
    let loss = GenerationLoss { mse: 1.0, ..config().generation_loss() };
    let server = model(server);
    let objective = GeneratorObjective::new(&server, &teachers, loss).unwrap();
    objective.value(queries, labels).unwrap().1.distance
}

/// By class, how much of its distance to the two clients' models and to the previous server's is left: one client has
/// all samples of class 2 and the other all of class 3.
fn distances_left(weighting: Weighting) -> [[f64; 3]; 4] {
    let (averaged, past) = (parameters(0), previous());
    let clients = [client(1, [40, 0]), client(2, [0, 40])];
    let config = trained(|c| (c.replay_ratio, c.weighting) = (1.0, weighting));
    let settings = (&config, SHAPE);
    let made = Consolidation::new(settings, &view(), &averaged, &clients, Some(&past), key(9));
    let made = made.unwrap().unwrap();
    let generators = made.generators().unwrap();
    let after = made.prompts(&generators).unwrap().parameters;
    let after = averaged.clone().merge(&after);
    let (old, _) = generators.old.as_ref().unwrap();
    let noise = Tensor::from_vec(noise(64 * 4), (64, 4), &candle_core::Device::Cpu).unwrap();
    let of = |label: u32| {
        let generator = if label < 2 { old } else { &generators.new };
        let labels = vec![label; 64];
        let queries = generator.generate(&labels, &noise).unwrap();
        let sources = [&*clients[0].parameters, &*clients[1].parameters, &past.parameters];
        sources.map(|source| {
            let at = |server| distance(server, source, &queries, &labels);
            at(&after) / at(&averaged)
        })
    };
    [0, 1, 2, 3].map(of)
}

/// A class is learned from clients that have it, earlier classes from the previous server.
///
/// What clients do to earlier classes has no effect.
#[test]
fn every_class_is_distilled_from_its_holders() {
    let left = distances_left(Weighting::Omega);
    for (label, source) in [(0, 2), (1, 2), (2, 0), (3, 1)] {
        let shares = left[label];
        assert!(shares[source] < 0.2, "class {label}: {shares:?}");
        for other in (0..3).filter(|other| *other != source) {
            assert!(
                shares[other] > 3.0 * shares[source],
                "class {label}, model {other}: {shares:?}"
            );
        }
    }
}

/// By the paper's sums clients teach about old classes, too: what is learned of those lies between clients and the
/// previous server, and not with the server alone.
#[test]
fn by_plain_sums_clients_teach_old_classes_too() {
    let [plain, omega] = [Weighting::Plain, Weighting::Omega].map(distances_left);
    for (label, (plain, omega)) in plain.iter().zip(&omega).take(2).enumerate() {
        for client in 0..2 {
            assert!(plain[client] < 0.75 * omega[client], "class {label}: {plain:?} {omega:?}");
        }
        assert!(plain[2] > 3.0 * omega[2], "class {label}: {plain:?} {omega:?}");
    }
}

/// Lessons of each teacher: with plain sums, old pseudo-queries follow the new ones in the clients' lesson.
#[test]
fn lessons_are_of_who_teaches_them() {
    let (averaged, past) = (parameters(0), previous());
    let clients = [client(1, [3, 4]), client(2, [6, 1])];
    let asked = |rows: usize, from: f32, label: u32| PseudoQueries {
        queries: Tensor::full(from, (rows, SHAPE.dim), &candle_core::Device::Cpu).unwrap(),
        labels: vec![label; rows],
    };
    for (weighting, of_clients) in [(Weighting::Omega, 5), (Weighting::Plain, 8)] {
        let config = ConsolidationSettings { weighting, ..config() };
        let settings = (&config, SHAPE);
        let made = Consolidation::new(settings, &view(), &averaged, &clients, Some(&past), key(9));
        let made = made.unwrap().unwrap();
        let batches = made.batches(asked(5, 2.0, 3), Some(asked(3, 1.0, 0))).unwrap();
        let [new, old] = &batches[..] else { panic!("clients and the previous server") };
        assert_eq!((new.teachers.len(), old.teachers.len()), (2, 1));
        assert_eq!((new.labels.len(), &old.labels[..]), (of_clients, &[0; 3][..]));
        assert_eq!(new.labels[..5], [3; 5]);
        assert!(new.labels[5..].iter().all(|label| *label == 0));
        let first =
            |batch: &DistillationBatch| batch.queries.get_on_dim(1, 0).unwrap().to_vec1::<f32>();
        let values = [vec![2.0; 5], vec![1.0; 3]].concat();
        assert_eq!(first(new).unwrap(), values[..of_clients]);
        assert_eq!(first(old).unwrap(), [1.0; 3]);
    }
}

/// The head answers pseudo-queries as they were asked for, old ones, too, and better than before.
#[test]
fn the_head_learns_what_generators_were_asked_for() {
    let (averaged, past) = (parameters(0), previous());
    let clients = [client(1, [30, 10]), client(1, [10, 30])];
    let loss = |ratio, head_steps| {
        let config = trained(|c| (c.replay_ratio, c.head_steps) = (ratio, head_steps));
        let settings = (&config, SHAPE);
        let made = Consolidation::new(settings, &view(), &averaged, &clients, Some(&past), key(9));
        let made = made.unwrap().unwrap();
        let generators = made.generators().unwrap();
        let head = made.head(&generators).unwrap();
        let server = Model::new(&averaged.clone().merge(&head.parameters), &SHAPE, 4).unwrap();
        let noise = Tensor::from_vec(noise(32 * 4), (32, 4), &candle_core::Device::Cpu).unwrap();
        let of = |generator: &Generator, label: u32| {
            let queries = generator.generate(&[label; 32], &noise).unwrap();
            let student = super::head_distillation::HeadStudent::new(&server).unwrap();
            f64::from(student.loss(&queries, &[label; 32]).unwrap().to_scalar::<f32>().unwrap())
        };
        let new = of(&generators.new, 2) + of(&generators.new, 3);
        let old = generators.old.as_ref().map_or(0.0, |(old, _)| of(old, 0) + of(old, 1));
        (head.loss, new, old)
    };
    let (before, after) = (loss(1.0, 1), loss(1.0, 150));
    assert!(after.0 < 0.3 * before.0, "{before:?} {after:?}");
    assert!(after.1 < 0.3 * before.1 && after.2 < 0.3 * before.2, "{before:?} {after:?}");
    assert_eq!(loss(0.0, 1).2, 0.0);
}

fn noise(count: usize) -> Vec<f32> {
    let mut values = vec![0.0; count];
    fill_normal(&mut key(77).rng(), &mut values);
    values
}

/// Invariant 5.
#[test]
fn who_has_no_data_teaches_nothing_and_order_does_not_matter() {
    let averaged = parameters(0);
    let (a, b, idle) = (client(1, [3, 4]), client(2, [6, 1]), client(3, [0, 0]));
    for weighting in [Weighting::Omega, Weighting::Plain] {
        let config = ConsolidationSettings { weighting, ..config() };
        let of = |clients: &[Local]| consolidated(&config, &averaged, clients, Some(&previous()));
        let both = of(&[a.clone(), b.clone()]);
        assert_eq!(both, of(&[a.clone(), idle.clone(), b.clone()]));
        let alone = [idle.clone()];
        let without_clients =
            Consolidation::new((&config, SHAPE), &view(), &averaged, &alone, None, key(9));
        assert!(without_clients.unwrap().is_none());
    }
    let counts = [a.counts.clone(), b.counts.clone(), idle.counts];
    let shares = omega(&counts, OmegaForm::Normalized);
    assert!((shares.iter().flatten().sum::<f32>() - 1.0).abs() < 1e-6);
    // As released, four classes that no client has count as one sample each.
    let released = omega(&counts, OmegaForm::Release);
    let (all, without) = (14.0, 4.0);
    for (share, released) in shares.iter().flatten().zip(released.iter().flatten()) {
        assert!((share * all / (all + without) - released).abs() < 1e-7, "{share} {released}");
    }
    assert!(shares[2].iter().all(|share| *share == 0.0));

    let server = Model::new(&averaged, &SHAPE, 4).unwrap();
    let teach = |order: [usize; 2]| {
        let teachers = order.map(|i| ConsolidationTeacher {
            model: Model::new(&[&a, &b][i].parameters, &SHAPE, 4).unwrap(),
            weights: shares[i].clone(),
        });
        let queries = Tensor::from_vec(noise(16), (2, 8), &candle_core::Device::Cpu).unwrap();
        let objective =
            GeneratorObjective::new(&server, &teachers, config().generation_loss()).unwrap();
        let value = objective.value(&queries, &[2, 3]).unwrap().1;
        let batch = DistillationBatch { queries, labels: vec![2, 3], teachers: &teachers };
        let mut student = Student::new(&server).unwrap();
        let (loss, by_keys) = student.gradients(&[batch]).unwrap();
        let gradients = [by_keys.concat(), student.by_prompts.concat()].concat();
        (vec![value.heads.classification, value.heads.divergence, value.distance, loss], gradients)
    };
    let (one, other) = (teach([0, 1]), teach([1, 0]));
    assert!(one.0.iter().zip(&other.0).all(|(a, b)| (a - b).abs() < 1e-6 * a.abs()));
    assert!(one.1.iter().zip(&other.1).all(|(a, b)| (a - b).abs() < 1e-6 * (1.0 + a.abs())));
    assert!(one.1.iter().any(|g| g.abs() > 1e-3));
}

/// Invariant 6: no class is requested that no client of the round has.
#[test]
fn labels_are_those_of_the_round_as_often_as_reported() {
    let conditions = Conditions::new(&[0, 0, 30, 10, 0, 0], 4).unwrap();
    let batch = conditions.draw(4_000, key(1)).unwrap();
    let count = |row| batch.labels.iter().filter(|label| **label == row).count();
    assert_eq!(count(2) + count(3), 4_000);
    assert!((count(2) as f64 / 4_000.0 - 0.75).abs() < 0.03, "{}", count(2));
    assert_eq!(batch.noise.dims(), [4_000, 4]);
    assert_eq!(batch.labels, conditions.draw(4_000, key(1)).unwrap().labels);
    assert_ne!(batch.labels, conditions.draw(4_000, key(2)).unwrap().labels);
}

/// The forms of paper and release, in every combination, move the server in their own way.
#[test]
fn forms_differ() {
    let (averaged, clients) = (parameters(0), [client(1, [3, 4]), client(2, [6, 1])]);
    let mut found = Vec::new();
    for weighting in [Weighting::Omega, Weighting::Plain] {
        for kl in [
            crate::methods::hepco::consolidation::KlForm::ClientServer,
            crate::methods::hepco::consolidation::KlForm::ServerClient,
        ] {
            let config = ConsolidationSettings { weighting, kl, ..config() };
            found.push(consolidated(&config, &averaged, &clients, Some(&previous())));
        }
    }
    // What label counts are divided by is a key, too, where there are weights.
    let forms = [OmegaForm::Release, OmegaForm::Normalized].map(|omega| {
        let config = ConsolidationSettings { weighting: Weighting::Omega, omega, ..config() };
        consolidated(&config, &averaged, &clients, Some(&previous()))
    });
    assert_ne!(forms[0], forms[1]);
    for i in 0..4 {
        (0..i).for_each(|j| assert_ne!(found[i], found[j], "{i} {j}"));
    }
    // Rows of classes to come stay as they are.
    let head = found[0].get(LinearHead::WEIGHT).unwrap();
    let was = averaged.get(LinearHead::WEIGHT).unwrap();
    assert_eq!(head.values[4 * SHAPE.dim..], was.values[4 * SHAPE.dim..]);
}
