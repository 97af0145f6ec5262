//! The objective and the mean of parameters against vectors.

use std::sync::Arc;

use super::*;
use crate::data::Batch;
use crate::golden::Golden;
use crate::learning::PackBatch;
use crate::methods::parts::AveragingMethod;
use crate::model::ops::{self, SampleGroups};
use crate::model::{Backbone, LinearHead, Parameter, PixelShape};
use crate::policy::ParameterAverage;
use candle_core::{Device, Var};

fn narrow(values: Vec<f64>) -> Vec<f32> {
    values.into_iter().map(|v| v as f32).collect()
}

/// Rows of a stored table whose flag is set, by head row.
fn flagged(golden: &Golden, table: &str, flags: &str) -> ClassPrototypes {
    let (rows, flags) = (narrow(golden.f64(table)), golden.i64(flags));
    let known = (3..8).zip(rows.chunks(6)).zip(flags).filter(|(_, flag)| *flag == 1);
    known.map(|((row, values), _)| (row, values.to_vec())).collect()
}

#[test]
fn golden_fedproto_client() {
    let Some(golden) = Golden::open("fedproto") else { return };
    let parameter = |name: &str| Parameter {
        shape: golden.shape(name),
        values: narrow(golden.f64(name)).into(),
    };
    let head: ParameterSet =
        [(LinearHead::WEIGHT, parameter("W")), (LinearHead::BIAS, parameter("b"))]
            .into_iter()
            .collect();
    let (features, labels) = (narrow(golden.f64("f")), golden.labels("labels"));
    let backbone = Arc::new(Backbone::Pixels(PixelShape { channels: 6, image: 1 }));
    let samples = labels.len();
    let batch = Batch::Features {
        values: features.clone(),
        shape: vec![samples, 6],
        labels: labels.clone(),
        samples: vec![0; samples],
    };
    let step = PackBatch { groups: SampleGroups::one(samples), batch, steps: vec![0] };
    let FedProto { weight, distance, .. } = FedProto::default();
    let proto = flagged(&golden, "proto", "known");
    let learn = |known: ClassPrototypes| {
        let model = Classifier::trainable(&backbone, &head, 3..8).unwrap();
        let pass = TrainingStep { model: &model, step: &step, device: &Device::Cpu, dropout: None };
        let losses = FedProtoObjective { weight, distance, known }.losses(&pass).unwrap();
        let gradients = losses.sum_all().unwrap().backward().unwrap();
        let slope = |name: &str| {
            let variable = model.variables().iter().find(|(known, _)| &**known == name).unwrap();
            let slope = gradients.get(&variable.1).unwrap().flatten_all().unwrap();
            slope.to_vec1::<f32>().unwrap()
        };
        let [weight, bias] = [LinearHead::WEIGHT, LinearHead::BIAS].map(slope);
        (losses.to_vec1::<f32>().unwrap(), weight, bias)
    };
    let (loss, weights, biases) = learn(proto.clone());
    golden.assert_close_f32("loss", &loss);
    golden.assert_close_f32("grad_W", &[vec![0.0; 18], weights, vec![0.0; 12]].concat());
    golden.assert_close_f32("grad_b", &[vec![0.0; 3], biases, vec![0.0; 2]].concat());
    golden.assert_close_f32("first", &learn(ClassPrototypes::default()).0);

    let variable = Var::from_slice(&features, (samples, 6), &Device::Cpu).unwrap();
    let of = |name: &str| parameter(name).tensor(&Device::Cpu).unwrap();
    let logits = variable.matmul(&of("W").t().unwrap()).unwrap().broadcast_add(&of("b")).unwrap();
    let ce = ops::cross_entropy(&logits, &labels, 3..8).unwrap();
    let pull = proto.pull(&variable, &labels, distance).unwrap();
    golden.assert_close_f32("ce", &[ce.to_scalar::<f32>().unwrap()]);
    golden.assert_close_f32("pull", &[pull.to_scalar::<f32>().unwrap()]);
    let gradients = (ce + (pull * weight).unwrap()).unwrap().backward().unwrap();
    let slope = gradients.get(&variable).unwrap().flatten_all().unwrap();
    golden.assert_close_f32("grad_f", &slope.to_vec1::<f32>().unwrap());
}

/// The plain mean over clients that have a sample.
#[test]
fn golden_fedproto_mean() {
    let Some(golden) = Golden::open("fedproto") else { return };
    let (sizes, theta) = (golden.i64("sizes"), narrow(golden.f64("theta")));
    let set = |values: &[f32]| -> ParameterSet {
        let parameter = Parameter { shape: vec![values.len()], values: values.into() };
        [("theta", parameter)].into_iter().collect()
    };
    let base = set(&[0.0; 4]);
    let weight = FedProto::default().parts().weight_of("theta");
    let parts = theta.chunks(4).zip(sizes).map(|(own, size)| {
        ParameterAverage::one(weight.of(size as f64), &base, &set(own)).unwrap()
    });
    let mean = parts.reduce(ParameterAverage::merge).unwrap().apply(&base);
    golden.assert_close_f32("mean_theta", &mean.get("theta").unwrap().values);
}
