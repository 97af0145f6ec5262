//! The invariants of the card that concern losses and stages.

use std::sync::Arc;

use candle_core::{Device, Tensor, Var};

use super::super::network::FedHafNetwork;
use super::super::{BatchNormMode, ModuleShape, NetworkShape, Residual, TeacherBatchNormMode};
use super::*;
use crate::model::{ByBatch, Drops, MaskPlace, ParameterSet, Trains, of_module as is_of_module};
use crate::numerics::streams::{Domain, StreamKey};

const SHAPE: NetworkShape = NetworkShape {
    features: 6,
    module: Some(ModuleShape { hidden: 8, output: 5, residual: Residual::Identity }),
    head_hidden: 7,
    classes: 4,
};

/// Rows 2 and 3 are the task's, 0 and 1 are old.
const LABELS: [u32; 6] = [2, 0, 3, 1, 2, 0];

fn parameters() -> ParameterSet {
    SHAPE.initial_parameters(StreamKey::new(3, Domain::Init))
}

fn network(trains: Trains) -> FedHafNetwork {
    let by_batch = ByBatch::training(trains, BatchNormMode::Batch);
    FedHafNetwork::new(&SHAPE, &parameters(), trains, 0..4, by_batch, &Device::Cpu).unwrap()
}

fn features() -> Tensor {
    let values: Vec<f32> = (0..36).map(|i| (i as f32 * 0.7).sin()).collect();
    Tensor::from_vec(values, (6, 6), &Device::Cpu).unwrap()
}

fn seen<'a>(features: &'a Tensor, labels: &'a [u32]) -> LossBatch<'a> {
    LossBatch { features, labels, rows: 2..4 }
}

fn number(loss: &Tensor) -> f32 {
    loss.to_scalar().unwrap()
}

fn only(change: impl Fn(&mut FedHaf)) -> FedHaf {
    let none = FedHaf { lambda_ce: 0.0, lambda_kd: 0.0, ..FedHaf::default() };
    let none = FedHaf { lambda_fd: 0.0, lambda_fb: 0.0, ..none };
    let mut config = FedHaf { exemplars_in_ce: false, squares: Squares::Sum, ..none };
    change(&mut config);
    config
}

fn drops(rate: f64) -> Drops {
    let key = StreamKey::new(1, Domain::Dropout);
    Drops { rate, place: MaskPlace { key, step: 0 } }
}

/// Invariant 2: from itself nothing is distilled, and nothing pulls.
#[test]
fn a_model_learns_nothing_from_itself() {
    let (x, frozen) = (features(), network(Trains::NOTHING));
    let seen = seen(&x, &LABELS);
    let adjusted = Var::from_tensor(&frozen.adjust(&x, None).unwrap()).unwrap();
    let logits = Var::from_tensor(&frozen.logits(&adjusted, None).unwrap()).unwrap();
    let kd = of_head(&only(|c| c.lambda_kd = 1.0), &logits, &seen, Some(&frozen)).unwrap();
    let fd = of_module(&only(|c| c.lambda_fd = 2.0), &adjusted, &seen, Some(&frozen)).unwrap();
    for (loss, of, rounding) in [(&kd, &logits, 1e-7), (&fd, &adjusted, 0.0)] {
        assert!(number(loss).abs() <= rounding, "{}", number(loss));
        let gradient = loss.backward().unwrap().get(of).unwrap().abs().unwrap();
        let largest = number(&gradient.max_all().unwrap());
        assert!(largest <= rounding, "{largest}");
    }
}

/// Section 5: `KL(current || previous)` at temperature 1 of exemplars over old outputs, and the squared distance of
/// their features; both are means over exemplars, and a factor is a factor.
#[test]
fn what_is_distilled_is_what_the_card_says() {
    let (x, frozen) = (features(), network(Trains::NOTHING));
    let before = frozen.adjust(&x, None).unwrap();
    let target = frozen.logits(&before, None).unwrap().to_vec2::<f32>().unwrap();
    let own: Vec<f32> = (0..24).map(|i| (i as f32 * 1.3).cos()).collect();
    let softmax = |logits: &[f32]| {
        let powers = [logits[0], logits[1]].map(|z| libm::exp(f64::from(z)));
        powers.map(|p| p / (powers[0] + powers[1]))
    };
    let old = [1, 3, 5];
    let divergence = |place: usize| -> f64 {
        let (own, target) = (softmax(&own[4 * place..]), softmax(&target[place]));
        own.iter().zip(target).map(|(p, q)| p * libm::log(p / q)).sum()
    };
    let by_hand = old.map(divergence).iter().sum::<f64>() / 3.0;
    let kd = |own: &[f32], factor| {
        let logits = Tensor::from_slice(own, (6, 4), &Device::Cpu).unwrap();
        let config = only(|c| c.lambda_kd = factor);
        f64::from(number(&of_head(&config, &logits, &seen(&x, &LABELS), Some(&frozen)).unwrap()))
    };
    assert!((kd(&own, 1.0) - by_hand).abs() < 1e-6, "{by_hand}");
    assert!((kd(&own, 3.0) - 3.0 * by_hand).abs() < 1e-6);
    // Neither new outputs nor new samples take part.
    let others = |at: usize| !old.contains(&(at / 4)) || at % 4 >= 2;
    let changed: Vec<f32> =
        own.iter().enumerate().map(|(at, z)| if others(at) { z + 5.0 } else { *z }).collect();
    assert_eq!(kd(&changed, 1.0), kd(&own, 1.0));

    let fd = |adjusted: &Tensor| {
        let config = only(|c| c.lambda_fd = 2.0);
        number(&of_module(&config, adjusted, &seen(&x, &LABELS), Some(&frozen)).unwrap())
    };
    let squares = before.sqr().unwrap().sum(1).unwrap().to_vec1::<f32>().unwrap();
    let of_half = old.map(|place| 0.25 * squares[place]).iter().sum::<f32>() / 3.0;
    let found = fd(&(&before * 1.5).unwrap());
    assert!((found / (2.0 * of_half) - 1.0).abs() < 1e-4, "{found} {of_half}");
}

/// Invariant 5: old rows and the rows of no exemplar get a gradient of exactly zero from a split cross-entropy.
#[test]
fn split_supervision_leaves_old_rows_alone() {
    let x = features();
    let logits = Var::from_tensor(
        &network(Trains::NOTHING)
            .logits(&network(Trains::NOTHING).adjust(&x, None).unwrap(), None)
            .unwrap(),
    )
    .unwrap();
    let gradient = |config: &FedHaf| {
        let loss = of_head(config, &logits, &seen(&x, &LABELS), None).unwrap();
        loss.backward().unwrap().get(&logits).unwrap().to_vec2::<f32>().unwrap()
    };
    let split = gradient(&only(|c| c.lambda_ce = 1.0));
    assert!(split.iter().all(|row| row[..2] == [0.0, 0.0]));
    for (row, label) in split.iter().zip(LABELS) {
        assert_eq!(row[2..] == [0.0, 0.0], label < 2, "exemplars have no cross-entropy");
    }
    let all = gradient(&only(|c| (c.lambda_ce, c.supervision) = (1.0, Supervision::All)));
    assert!(all[0].iter().all(|g| *g != 0.0) && all[1] == [0.0; 4]);
    let with_old = gradient(&only(|c| (c.lambda_ce, c.exemplars_in_ce) = (1.0, true)));
    assert!(with_old[1].iter().all(|g| *g != 0.0) && with_old[0][..2] == [0.0, 0.0]);
}

/// Invariant 3: no loss where class norms agree, and `a` times the features give `a^2` times the loss.
#[test]
fn balance_compares_norms() {
    let config = only(|c| c.lambda_fb = 1.0);
    let x = features();
    let balance = |adjusted: &Tensor| {
        number(&of_module(&config, adjusted, &seen(&x, &LABELS), None).unwrap())
    };
    let rows: Vec<f32> = (0..6).flat_map(|i| [(i as f32).cos(), (i as f32).sin()]).collect();
    let even = Tensor::from_vec(rows, (6, 2), &Device::Cpu).unwrap();
    assert!(balance(&even) < 1e-12);
    let uneven = network(Trains::NOTHING).adjust(&x, None).unwrap();
    let (once, thrice) = (balance(&uneven), balance(&(&uneven * 3.0).unwrap()));
    assert!(once > 0.0 && (thrice / once - 9.0).abs() < 1e-3, "{once} {thrice}");
    // By hand: class means of norms, then means over classes.
    let norms = uneven.sqr().unwrap().sum(1).unwrap().sqrt().unwrap().to_vec1::<f32>().unwrap();
    let new = ((norms[0] + norms[4]) / 2.0 + norms[2]) / 2.0;
    let old = ((norms[1] + norms[5]) / 2.0 + norms[3]) / 2.0;
    assert!(((new - old).powi(2) / once - 1.0).abs() < 1e-4);
    // As means over the width of 5 they are a fifth, and so is the distillation.
    let mean = only(|c| (c.lambda_fb, c.squares) = (1.0, Squares::Mean));
    let fifth = number(&of_module(&mean, &uneven, &seen(&x, &LABELS), None).unwrap());
    assert!((5.0 * fifth / once - 1.0).abs() < 1e-4, "{fifth} {once}");
    let (frozen, apart) = (network(Trains::NOTHING), (&uneven * 1.5).unwrap());
    let fd = |squares| {
        let config = only(|c| (c.lambda_fd, c.squares) = (1.0, squares));
        number(&of_module(&config, &apart, &seen(&x, &LABELS), Some(&frozen)).unwrap())
    };
    assert!((5.0 * fd(Squares::Mean) / fd(Squares::Sum) - 1.0).abs() < 1e-4);
}

/// The loss of a stage's first step from the model that teaches, and its largest slope. Dropout is off.
fn first_step(
    trains: Trains,
    norms: BatchNormMode,
    teacher: TeacherBatchNormMode,
    config: &FedHaf,
) -> [f32; 2] {
    let by_batch = ByBatch::training(trains, norms);
    let set = parameters();
    let of =
        |trains, by_batch| FedHafNetwork::new(&SHAPE, &set, trains, 0..4, by_batch, &Device::Cpu);
    let net = of(trains, by_batch).unwrap();
    let previous = of(Trains::NOTHING, by_batch.taught_by(teacher)).unwrap();
    let (network, previous) = (&net, Some(&previous));
    let objective =
        FedHafObjective { config, network, previous, parts: (trains.head, trains.module) };
    let x = features();
    let loss = objective.loss(&seen(&x, &LABELS), drops(0.0)).unwrap();
    let gradients = loss.backward().unwrap();
    let slope = |(_, variable): &(Arc<str>, Var)| {
        let gradient = gradients.get(variable).unwrap().abs().unwrap();
        number(&gradient.flatten_all().unwrap().max(0).unwrap())
    };
    [number(&loss), net.variables().iter().map(slope).fold(0f32, f32::max)]
}

/// Invariant 2 in training, subtlety 4: whose teacher normalizes as it does learns nothing from itself, in either
/// stage, by whichever moments, however squares are taken together. By the teacher's running ones the same is true
/// of what has settled alone: otherwise a model pulls at itself.
#[test]
fn a_model_that_trains_learns_nothing_from_itself() {
    for squares in [Squares::Sum, Squares::Mean] {
        let fd = only(|c| (c.lambda_fd, c.squares) = (2.0, squares));
        let step = |norms, teacher| first_step(Trains::MODULE, norms, teacher, &fd);
        assert_eq!(
            step(BatchNormMode::Batch, TeacherBatchNormMode::Student),
            [0.0, 0.0],
            "{squares:?}"
        );
        assert_eq!(
            step(BatchNormMode::Running, TeacherBatchNormMode::Student),
            [0.0, 0.0],
            "{squares:?}"
        );
        assert_eq!(
            step(BatchNormMode::Running, TeacherBatchNormMode::Running),
            [0.0, 0.0],
            "{squares:?}"
        );
        let [loss, slope] = step(BatchNormMode::Batch, TeacherBatchNormMode::Running);
        assert!(loss > 0.1 && slope > 0.1, "{loss} {slope}");
    }
    let kd = only(|c| c.lambda_kd = 1.0);
    for norms in [BatchNormMode::Batch, BatchNormMode::Running] {
        let step = |teacher| first_step(Trains::HEAD, norms, teacher, &kd);
        let [loss, slope] = step(TeacherBatchNormMode::Student);
        assert!(loss.abs() < 1e-7 && slope < 1e-7, "{loss} {slope}");
        let [loss, slope] = step(TeacherBatchNormMode::Running);
        assert!(loss > 1e-3 && slope > 1e-3, "{loss} {slope}");
    }
}

/// A frozen teacher that goes by the batch takes all of it, new samples, too, as its student: the moments of the
/// exemplars alone are others.
#[test]
fn a_teacher_by_the_batch_sees_the_whole_of_it() {
    let by_batch = ByBatch { module: true, head: true };
    let teacher =
        FedHafNetwork::new(&SHAPE, &parameters(), Trains::NOTHING, 0..4, by_batch, &Device::Cpu);
    let (teacher, x) = (teacher.unwrap(), features());
    let whole = teacher.adjust(&x, None).unwrap();
    let fd = only(|c| c.lambda_fd = 1.0);
    let apart = |adjusted: &Tensor| {
        number(&of_module(&fd, adjusted, &seen(&x, &LABELS), Some(&teacher)).unwrap())
    };
    assert_eq!(apart(&whole), 0.0);
    let old = [1u32, 3, 5];
    let alone = teacher.adjust(&select(&x, &old).unwrap(), None).unwrap();
    let gap = (select(&whole, &old).unwrap() - alone).unwrap();
    assert!(number(&gap.abs().unwrap().max_all().unwrap()) > 1e-2);
    assert!(teacher.variables().is_empty());
    assert_eq!(teacher.parameters().unwrap(), parameters(), "its running statistics stay");
}

/// A gradient step on the module's loss moves features as expected. Each exemplar moves straight to the teacher's
/// output, by `2 lambda / n` of the way, and no new sample moves; with the balance, samples of the side with the longer
/// features move inwards and those of the other outwards, each by the share of its class.
#[test]
fn a_step_goes_to_the_teacher_and_to_equal_norms() {
    let (x, frozen) = (features(), network(Trains::NOTHING));
    let target = frozen.adjust(&x, None).unwrap().to_vec2::<f32>().unwrap();
    let start: Vec<f32> =
        (0..30).map(|i| (i as f32 * 0.9).sin() * (1.0 + (i / 5) as f32)).collect();
    let own = Var::from_slice(&start, (6, 5), &Device::Cpu).unwrap();
    let slope = |config: &FedHaf, previous| {
        let loss = of_module(config, &own, &seen(&x, &LABELS), previous).unwrap();
        loss.backward().unwrap().get(&own).unwrap().to_vec2::<f32>().unwrap()
    };
    let fd = slope(&only(|c| c.lambda_fd = 3.0), Some(&frozen));
    for (place, (slope, label)) in fd.iter().zip(LABELS).enumerate() {
        for (at, slope) in slope.iter().enumerate() {
            let gap = start[5 * place + at] - target[place][at];
            let expected = if label < 2 { 2.0 * 3.0 * gap / 3.0 } else { 0.0 };
            assert!((slope - expected).abs() < 1e-4, "{place} {at}: {slope} {expected}");
        }
    }
    let norms: Vec<f32> =
        start.chunks(5).map(|f| f.iter().map(|v| v * v).sum::<f32>().sqrt()).collect();
    // Classes 2 (samples 0 and 4) and 3 are new, 0 (samples 1 and 5) and 1 old.
    let new = ((norms[0] + norms[4]) / 2.0 + norms[2]) / 2.0;
    let old = ((norms[1] + norms[5]) / 2.0 + norms[3]) / 2.0;
    let shares = [0.25, -0.25, 0.5, -0.5, 0.25, -0.25];
    let fb = slope(&only(|c| c.lambda_fb = 1.5), None);
    for (place, slope) in fb.iter().enumerate() {
        for (at, slope) in slope.iter().enumerate() {
            let unit = start[5 * place + at] / norms[place];
            let expected = 1.5 * 2.0 * (new - old) * shares[place] * unit;
            assert!((slope - expected).abs() < 1e-4, "{place} {at}: {slope} {expected}");
        }
    }
    assert!((new - old).abs() > 0.1);
}

#[test]
fn parts_without_samples_are_zero_and_still_differentiable() {
    let x = features();
    let config = FedHaf::default();
    let teacher = network(Trains::NOTHING);
    let both = [(Trains::BOTH, (true, true)), (Trains::MODULE, (false, true))];
    for (labels, (trains, parts)) in
        [[2u32; 6], [0; 6]].into_iter().flat_map(|l| both.map(|b| (l, b)))
    {
        let net = network(trains);
        let objective =
            FedHafObjective { config: &config, network: &net, previous: Some(&teacher), parts };
        let loss = objective.loss(&seen(&x, &labels), drops(0.1)).unwrap();
        assert!(number(&loss).is_finite());
        let gradients = loss.backward().unwrap();
        for (name, variable) in net.variables() {
            assert!(gradients.get(variable).is_some(), "{name}");
        }
    }
}

/// Invariant 1: the part that does not train keeps every bit, running statistics included, and the other moves.
#[test]
fn a_stage_leaves_the_other_network_alone() {
    let x = features();
    let teacher = network(Trains::NOTHING);
    let config = FedHaf::default();
    for (trains, parts) in [(Trains::HEAD, (true, false)), (Trains::MODULE, (false, true))] {
        let net = network(trains);
        for step in 0..3 {
            let objective =
                FedHafObjective { config: &config, network: &net, previous: Some(&teacher), parts };
            let loss = objective.loss(&seen(&x, &LABELS), drops(0.2)).unwrap();
            let gradients = loss.backward().unwrap();
            for (name, variable) in net.variables() {
                let gradient = gradients.get(variable).unwrap_or_else(|| panic!("{name}: {step}"));
                variable.set(&(variable.as_tensor() - (gradient * 0.1).unwrap()).unwrap()).unwrap();
            }
        }
        let (before, after) = (parameters(), net.parameters().unwrap());
        assert_eq!(before.len(), after.len());
        for (name, parameter) in before.iter() {
            let moved = after.get(name).unwrap() != parameter;
            let trained = is_of_module(name) == trains.module;
            assert!(!moved || trained, "{name} moved");
            if trained && name.contains("running") {
                assert!(moved, "{name} stayed");
            }
        }
        let variables: Vec<&Arc<str>> = net.variables().iter().map(|(name, _)| name).collect();
        assert!(variables.iter().all(|name| is_of_module(name) == trains.module));
        assert!(variables.iter().all(|name| !name.contains("running")));
    }
}

/// Residuals change what the module gives, and dropped entries change it in training only.
#[test]
fn residuals_and_dropout_are_where_they_should_be() {
    let x = features();
    let of = |residual| {
        let module = ModuleShape { hidden: 8, output: 5, residual };
        let shape = NetworkShape { module: Some(module), ..SHAPE };
        let set = shape.initial_parameters(StreamKey::new(3, Domain::Init));
        let trains = Trains::NOTHING;
        let by_batch = ByBatch::NOTHING;
        let net = FedHafNetwork::new(&shape, &set, trains, 0..4, by_batch, &Device::Cpu).unwrap();
        net.adjust(&x, None).unwrap().to_vec2::<f32>().unwrap()
    };
    let all = [Residual::None, Residual::Identity, Residual::Last, Residual::Whole].map(of);
    for (at, one) in all.iter().enumerate() {
        assert!(all[..at].iter().all(|other| other != one), "{at}");
    }
    let adjusted = |trains, rate| {
        network(trains).adjust(&x, Some(drops(rate))).unwrap().to_vec2::<f32>().unwrap()
    };
    assert_eq!(adjusted(Trains::HEAD, 0.5), adjusted(Trains::HEAD, 0.0));
    assert_ne!(adjusted(Trains::MODULE, 0.5), adjusted(Trains::MODULE, 0.0));
}

/// Equation 4 and algorithm 1: one mean over all samples that take part, new ones over the new outputs, exemplars over
/// all; the factor is a factor.
#[test]
fn a_cross_entropy_is_a_mean_over_samples() {
    let (x, frozen) = (features(), network(Trains::NOTHING));
    let logits = frozen.logits(&frozen.adjust(&x, None).unwrap(), None).unwrap();
    let rows = logits.to_vec2::<f32>().unwrap();
    // One exemplar among six: shares that differ.
    let labels = [2, 3, 3, 1, 2, 2];
    let by_hand = |exemplars: bool| {
        let of = |(row, label): (&Vec<f32>, u32)| {
            let columns = if label < 2 { 0..4 } else { 2..4 };
            let sum: f64 = row[columns].iter().map(|z| libm::exp(f64::from(*z))).sum();
            libm::log(sum) - f64::from(row[label as usize])
        };
        let takes_part = |(_, label): &(&Vec<f32>, u32)| exemplars || *label >= 2;
        let all: Vec<f64> = rows.iter().zip(labels).filter(takes_part).map(of).collect();
        all.iter().sum::<f64>() / all.len() as f64
    };
    for (exemplars_in_ce, factor) in [(true, 1.0), (true, 3.0), (false, 0.5)] {
        let config = only(|c| (c.lambda_ce, c.exemplars_in_ce) = (factor, exemplars_in_ce));
        let found =
            f64::from(number(&of_head(&config, &logits, &seen(&x, &labels), None).unwrap()));
        let wanted = factor * by_hand(exemplars_in_ce);
        assert!((found - wanted).abs() < 1e-5, "{found} and not {wanted}");
    }
}

/// Features of one side alone have nothing to be equal to, and features of zeros have a slope.
#[test]
fn balance_needs_both_sides() {
    let config = only(|c| c.lambda_fb = 1.0);
    let loss = |adjusted: &Tensor, labels: &[u32]| {
        let x = features();
        of_module(&config, adjusted, &seen(&x, labels), None).unwrap()
    };
    let some = features();
    assert_eq!(number(&loss(&some, &[2, 3, 2, 3, 2, 2])), 0.0);
    assert_eq!(number(&loss(&some, &[0, 1, 0, 1, 0, 0])), 0.0);
    assert!(number(&loss(&some, &LABELS)) > 0.0);
    let zeros = Var::zeros((6, 5), candle_core::DType::F32, &Device::Cpu).unwrap();
    let gradient = loss(&zeros, &LABELS).backward().unwrap().get(&zeros).unwrap().clone();
    let all = gradient.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    assert!(all.iter().all(|slope| slope.is_finite()));
}
