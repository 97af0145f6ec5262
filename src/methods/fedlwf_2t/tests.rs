//! Tests of the teachers that the settings request and the clients receive.

use super::*;
use crate::model::{Backbone, BatchNormMode, LinearHead, Parameter, PixelShape};
use candle_core::Var;

const WEIGHT: [f32; 6] = [0.5, -1.0, 2.0, 0.0, 0.3, 0.1];

fn head(weight: [f32; 6]) -> ParameterSet {
    let weight = Parameter { shape: vec![3, 2], values: weight.into() };
    let bias = Parameter { shape: vec![3], values: [0.1, 0.2, -0.3].into() };
    [(LinearHead::WEIGHT, weight), (LinearHead::BIAS, bias)].into_iter().collect()
}

/// Features of width 2, as a cache hands them over.
fn batch(values: &[f32]) -> Batch {
    let rows = values.len() / 2;
    let (values, shape) = (values.to_vec(), vec![rows, 2]);
    Batch::Features { values, shape, labels: vec![2; rows], samples: vec![0; rows] }
}

/// On two pixels as they are.
fn backbone() -> Arc<Backbone> {
    Arc::new(Backbone::Pixels(PixelShape { channels: 2, image: 1 }))
}

fn logits(model: &Classifier, batch: &Batch) -> Tensor {
    model.logits(&model.batch_features(batch, &Device::Cpu).unwrap()).unwrap()
}

/// A teacher over variables, as those with batch norms are.
fn weighted_teacher(share: f64, outputs: usize) -> WeightedTeacher {
    let norms = Some(BatchNormMode::Batch);
    WeightedTeacher {
        teacher: Teacher::new(&backbone(), &head(WEIGHT), 0..outputs, norms).unwrap(),
        share,
    }
}

/// Invariant 5.
#[test]
fn no_gradient_reaches_a_teacher() {
    let student = Classifier::trainable(&backbone(), &head([0.2; 6]), 0..3).unwrap();
    let (batch, weighted_teacher) = (batch(&[1.0, -0.5, 0.2, 0.8]), weighted_teacher(0.5, 3));
    let loss = weighted_teacher.loss(&logits(&student, &batch), &batch, &Device::Cpu).unwrap();
    let gradients = loss.backward().unwrap();
    let teacher = weighted_teacher.teacher.model();
    assert_eq!((student.variables().len(), teacher.variables().len()), (2, 2));
    for (name, variable) in student.variables() {
        let pull = gradients.get(variable).unwrap_or_else(|| panic!("{name}"));
        let pull = pull.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert!(pull.iter().any(|g| *g != 0.0), "{name}");
    }
    for (name, variable) in teacher.variables() {
        assert!(gradients.get(variable).is_none(), "{name} of the teacher");
    }
}

/// Section 5: the divergence of the student from the teacher at temperature 2, the mean over the batch, without
/// the factor 4; with fewer outputs the others take no part (subtlety 6).
#[test]
fn a_teacher_counts_as_the_card_says() {
    let batch = batch(&[1.0, -0.5, 0.2, 0.8]);
    let own = [0.4f32, 0.0, -1.0, 0.3, 0.9, 2.0];
    let teacher =
        logits(weighted_teacher(1.0, 3).teacher.model(), &batch).to_vec2::<f32>().unwrap();
    let softmax = |logits: &[f32]| -> Vec<f64> {
        let powers: Vec<f64> = logits.iter().map(|z| libm::exp(f64::from(*z) / 2.0)).collect();
        powers.iter().map(|p| p / powers.iter().sum::<f64>()).collect()
    };
    for outputs in [2, 3] {
        let by_hand: f64 = teacher
            .iter()
            .zip(own.chunks(3))
            .flat_map(|(teacher, own)| {
                softmax(&teacher[..outputs]).into_iter().zip(softmax(&own[..outputs]))
            })
            .map(|(q, p)| q * libm::log(q / p))
            .sum();
        let variable = Var::from_slice(&own, (2, 3), &Device::Cpu).unwrap();
        let loss = weighted_teacher(0.25, outputs).loss(&variable, &batch, &Device::Cpu).unwrap();
        let expected = 0.25 * by_hand / 2.0;
        assert!((f64::from(loss.to_scalar::<f32>().unwrap()) - expected).abs() < 1e-7);
        let gradients = loss.backward().unwrap();
        let pull = gradients.get(&variable).unwrap().to_vec2::<f32>().unwrap();
        assert!(pull.iter().all(|row| (row[2] == 0.0) == (outputs == 2)), "{pull:?}");
    }
}

/// Subtlety 4: a client that seldom takes part learns from its last model of an earlier task.
#[test]
fn the_latest_model_of_an_earlier_task_teaches() {
    let (one, other) = (head([1.0; 6]), head([2.0; 6]));
    let mut kept = OwnModels::default();
    let entering = |kept: &mut OwnModels, task: u16| {
        kept.enter(TaskId(task));
        *kept = OwnModels::load(&kept.save()).unwrap();
        kept.teacher.clone()
    };
    assert_eq!(entering(&mut kept, 0), None);
    kept.last = Some((TaskId(0), one.clone()));
    assert_eq!(entering(&mut kept, 0), None, "the task is not over");
    // Tasks 1 and 2 went by without it.
    assert_eq!(entering(&mut kept, 3), Some(one.clone()));
    kept.last = Some((TaskId(3), other.clone()));
    assert_eq!(entering(&mut kept, 3), Some(one));
    assert_eq!(entering(&mut kept, 4), Some(other));
}

fn distil(own: &Tensor, teacher: &[f32]) -> Tensor {
    distillation(own, teacher, 0..3, TEMPERATURE, Distillation::Kl).unwrap()
}

/// Invariants 1 and 3: nothing pulls a student to itself; the loss is never negative, and blind to a constant
/// added to all logits of either side.
#[test]
fn a_teacher_asks_for_differences_of_logits() {
    let (own, teacher) = ([0.5f32, -1.0, 2.0, 0.0, 0.3, 0.1], [1.0f32, 0.0, -2.0, 0.4, 0.1, 0.0]);
    let variable = Var::from_slice(&own, (2, 3), &Device::Cpu).unwrap();
    let itself = distil(&variable, &own);
    let gradients = itself.backward().unwrap();
    let pull = gradients.get(&variable).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
    assert!(itself.to_scalar::<f32>().unwrap().abs() < 1e-7);
    assert!(pull.iter().all(|g| g.abs() < 1e-7), "{pull:?}");
    let shifted = |values: &[f32], by: f32| values.iter().map(|v| v + by).collect::<Vec<_>>();
    let loss = |own: &[f32], teacher: &[f32]| {
        let own = Tensor::from_slice(own, (2, 3), &Device::Cpu).unwrap();
        distil(&own, teacher).to_scalar::<f32>().unwrap()
    };
    let one = loss(&own, &teacher);
    assert!(one > 0.0);
    for other in [loss(&shifted(&own, 3.0), &teacher), loss(&own, &shifted(&teacher, -2.0))] {
        assert!((one - other).abs() < 1e-6, "{one} {other}");
    }
}
