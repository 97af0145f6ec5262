//! Clients with quadratic losses whose server has an optimizer, for tests of methods with one.

use super::*;
use crate::learning::OptimizerConfig;
use crate::methods::averaging::quadratics::{QuadraticStep, SIZE, World, uneven};
use crate::methods::fedavg::{FedAvg, Train};
use crate::methods::parts::AveragingMethod;
use crate::policy::parameters_of;
use crate::wire::Body;

/// Clients that take part, round by round.
const COHORTS: [&[usize]; 4] = [&[0, 1, 2], &[0, 2], &[1], &[0, 1, 2]];

/// FedAvg of the unknowns, by samples.
pub(in crate::methods) fn fedavg() -> FedAvg {
    FedAvg { train: Train::Head, ..FedAvg::default() }
}

/// Returns the federation after four rounds, and its models: of 10, 20 and 30 samples, two to four steps of 0.05 a
/// round, from 0.5.
pub(in crate::methods) fn four_rounds<C: AveragingMethod>(method: C) -> (World<C>, Vec<Vec<f64>>) {
    let mut clients = uneven();
    clients.iter_mut().zip([10, 20, 30]).for_each(|(client, samples)| client.samples = samples);
    let mut simulation = World::new(method, clients, &[0.5; SIZE]);
    simulation.ctx.training.optimizer = OptimizerConfig::sgd(0.1);
    simulation.ctx.training.clip = None;
    let step = QuadraticStep { rate: 0.05, noise: vec![0.0; SIZE] };
    let models = COHORTS.map(|cohort| {
        simulation.round(cohort, |client| vec![step.clone(); 2 + client], |_, _, _| ());
        simulation.model()
    });
    (simulation, models.into())
}

/// Compares with models that were computed apart, in f64.
#[track_caller]
pub(in crate::methods) fn assert_models(models: &[Vec<f64>], expected: &[[f64; SIZE]], case: &str) {
    assert_eq!(models.len(), expected.len());
    for (round, (model, expected)) in models.iter().zip(expected).enumerate() {
        for (got, want) in model.iter().zip(expected) {
            assert!((got - want).abs() < 2e-6, "{case}, round {round}: {model:?} {expected:?}");
        }
    }
}

#[test]
fn moments_are_saved_and_loaded_whole() {
    let of = |value: f32| {
        let bias = model::Parameter { shape: vec![2], values: [value, -0.0].into() };
        [("head.bias", bias)].into_iter().collect::<ParameterSet>()
    };
    let mut kept = ServerMoments { task: None, rounds: 7, moments: [of(0.1), of(3.0)] };
    assert!(kept.is_new_task(2) && !kept.is_new_task(2));
    let mut body = Body::new(Vec::new(), crate::policy::parameter_sections(&of(9.0)));
    let saved = kept.save();
    body.meta.extend(saved.meta);
    body.sections.extend(saved.sections);
    let mut loaded = ServerMoments::load(&body).unwrap();
    assert_eq!((&loaded, parameters_of(&body).unwrap()), (&kept, of(9.0)));
    assert!(!loaded.is_new_task(2), "it was begun before");
    loaded.clear();
    assert_eq!((loaded.rounds(), loaded.of_order(1).is_empty()), (0, true));
    assert!(!loaded.is_new_task(2) && loaded.is_new_task(3));
    let none = ServerMoments::<1>::default();
    assert_eq!(ServerMoments::load(&none.save()).unwrap(), none);
}

#[test]
fn unmoved_head_rows_rest() {
    let of = |rows| AveragedParameter { name: "w".to_owned(), shape: vec![3, 2], rows };
    let steps = |rows, sums: &[f64]| moved(&of(rows), 2, sums).collect::<Vec<_>>();
    let sums = [0.0, 0.0, 0.0, -1.0, 0.0, 0.0];
    assert_eq!(steps(Rows::Class, &sums), [2, 3]);
    assert_eq!(steps(Rows::Shared, &sums), [0, 1, 2, 3, 4, 5]);
    assert_eq!(steps(Rows::Class, &sums[..2]), [0; 0]);
    assert_eq!(steps(Rows::Shared, &[]), [0; 0]);
}

#[test]
fn numbers_without_moments_begin_at_the_start() {
    let bias = model::Parameter { shape: vec![1], values: [3.0].into() };
    let known: ParameterSet = [("head.bias", bias)].into_iter().collect();
    let moments = ServerMoments { task: None, rounds: 1, moments: [known.clone(), known] };
    assert_eq!(moments.numbers("head.bias", 3, [0.0, 0.5]), [[3.0, 0.0, 0.0], [3.0, 0.5, 0.5]]);
    assert_eq!(moments.numbers("other", 1, [0.0, 0.5]), [[0.0], [0.5]]);
}
