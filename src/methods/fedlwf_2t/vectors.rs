//! Cross-entropy with both teachers against reference vectors.

use super::*;
use crate::golden::Golden;
use crate::learning::PackBatch;
use crate::model::ops::SampleGroups;
use crate::model::{Backbone, LinearHead, Parameter, PixelShape};

fn head(golden: &Golden, name: &str) -> ParameterSet {
    let of = |part: &str| {
        let name = format!("lwf2t.{name}{part}");
        Parameter { shape: golden.shape(&name), values: golden.f32(&name).into() }
    };
    [(LinearHead::WEIGHT, of("weight")), (LinearHead::BIAS, of("bias"))].into_iter().collect()
}

#[test]
fn golden_own_loss_of_two_teachers() {
    let golden = Golden::own("losses");
    let backbone = Arc::new(Backbone::Pixels(PixelShape { channels: 2, image: 1 }));
    let teacher = |name, share, outputs| {
        let teacher = Teacher::new(&backbone, &head(&golden, name), 0..outputs, None).unwrap();
        WeightedTeacher { teacher, share }
    };
    let teachers = vec![teacher("own.", 0.5, 3), teacher("server.", 0.3, 5)];
    let model = Classifier::trainable(&backbone, &head(&golden, ""), 0..5).unwrap();
    let labels = golden.labels("lwf2t.labels");
    let (rows, shape) = (labels.len(), golden.shape("lwf2t.x"));
    let values = golden.f32("lwf2t.x");
    let batch = Batch::Features { values, shape, labels, samples: vec![0; rows] };
    let step = PackBatch { groups: SampleGroups::one(rows), batch, steps: vec![0] };
    let pass = TrainingStep { model: &model, step: &step, device: &Device::Cpu, dropout: None };
    let loss = FedLwf2tObjective { share: 0.2, columns: 3..5, teachers }.losses(&pass).unwrap();
    let weight = model.variables().iter().find(|(name, _)| &**name == LinearHead::WEIGHT);
    golden.assert_loss("lwf2t", &loss, &weight.expect("it trains").1);
}

/// Features that are unit vectors, so that a head's weights are logits.
#[test]
fn golden_losses_of_two_teachers() {
    let Some(golden) = Golden::open("losses") else { return };
    let shape = golden.shape("z");
    let (samples, classes) = (shape[0], shape[1]);
    let head = |name: &str| -> ParameterSet {
        let logits = golden.f64(name);
        let at = |place: usize| logits[place % samples * classes + place / samples] as f32;
        let values: Vec<f32> = (0..samples * classes).map(at).collect();
        let weight = Parameter { shape: vec![classes, samples], values: values.into() };
        let bias = Parameter { shape: vec![classes], values: vec![0.0; classes].into() };
        [(LinearHead::WEIGHT, weight), (LinearHead::BIAS, bias)].into_iter().collect()
    };
    let backbone = Arc::new(Backbone::Pixels(PixelShape { channels: samples, image: 1 }));
    let teacher = |name, share| {
        let teacher = Teacher::new(&backbone, &head(name), 0..classes, None).unwrap();
        WeightedTeacher { teacher, share }
    };
    let teachers = vec![teacher("t", 0.33), teacher("t2", 0.34)];
    let model = Classifier::trainable(&backbone, &head("z"), 0..classes).unwrap();
    let values = (0..samples * samples).map(|at| f32::from(u8::from(at % (samples + 1) == 0)));
    let batch = Batch::Features {
        values: values.collect(),
        shape: vec![samples, samples],
        labels: golden.labels("labels"),
        samples: vec![0; samples],
    };
    let step = PackBatch { groups: SampleGroups::one(samples), batch, steps: vec![0] };
    let pass = TrainingStep { model: &model, step: &step, device: &Device::Cpu, dropout: None };
    let loss =
        FedLwf2tObjective { share: 0.33, columns: 0..classes, teachers }.losses(&pass).unwrap();
    golden.assert_close_f32("flwf2t", &[loss.to_scalar::<f32>().unwrap()]);
    let weight = model.variables().iter().find(|(name, _)| &**name == LinearHead::WEIGHT);
    let gradients = loss.backward().unwrap();
    let slope = gradients.get(&weight.expect("it trains").1).unwrap().t().unwrap();
    let slope = slope.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    golden.assert_close_f32("flwf2t.grad_z", &slope);
}
