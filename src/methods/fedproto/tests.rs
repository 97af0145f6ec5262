//! The objective and the server's prototypes against vectors, and what keeps them.

use std::sync::Arc;

use super::*;
use crate::data::Batch;
use crate::golden::Golden;
use crate::learning::PackBatch;
use crate::methods::averaged::weight_of;
use crate::model::ops::{self, Groups};
use crate::model::{Backbone, LinearHead, Parameter, PixelShape};
use crate::policy::ParameterAverage;
use crate::quantity::TaskId;
use candle_core::{Device, Var};

fn narrow(values: Vec<f64>) -> Vec<f32> {
    values.into_iter().map(|v| v as f32).collect()
}

fn view() -> TaskView {
    TaskView { task: TaskId(1), rows: 3..8, classes: (3..8).collect() }
}

/// Rows of a stored table whose flag is set, by head row.
fn flagged(golden: &Golden, table: &str, flags: &str) -> BTreeMap<u32, Vec<f32>> {
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
    let step = PackBatch { groups: Groups::one(samples), batch, steps: vec![0] };
    let FedProto { weight, distance, .. } = FedProto::default();
    let proto: ClassPrototypes = flagged(&golden, "proto", "known").into_iter().collect();
    let learn = |known: ClassPrototypes| {
        let model = Classifier::trainable(&backbone, &head, 3..8).unwrap();
        let pass = Pass { model: &model, step: &step, device: &Device::Cpu, dropout: None };
        let losses = Drawn { weight, distance, known }.losses(&pass).unwrap();
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

#[test]
fn golden_fedproto_server() {
    let Some(golden) = Golden::open("fedproto") else { return };
    let mut server = Prototypes { known: flagged(&golden, "before", "before.known"), dim: 6 };
    let (counts, local) = (golden.i64("n"), golden.f64("local"));
    let reports = counts.iter().zip(local.chunks(6)).enumerate();
    let report = |(at, (count, mean)): (usize, (&i64, &[f64]))| ClassMean {
        row: 3 + (at % 5) as u32,
        count: *count as u64,
        mean: mean.to_vec(),
    };
    server.take(&reports.map(report).collect::<Vec<_>>());
    golden.assert_close_f32("after", &server.table(&view()));
    let flags = server.flags(&view());
    let known: Vec<f64> = (0..5).map(|at| f64::from(flags[0] >> at & 1)).collect();
    golden.assert_close("after.known", &known);

    // The plain mean over clients that have a sample.
    let (sizes, theta) = (golden.i64("sizes"), narrow(golden.f64("theta")));
    let set = |values: &[f32]| -> ParameterSet {
        let parameter = Parameter { shape: vec![values.len()], values: values.into() };
        [("theta", parameter)].into_iter().collect()
    };
    let base = set(&[0.0; 4]);
    let weight = weight_of(&FedProto::default(), "theta");
    let parts = theta.chunks(4).zip(sizes).map(|(own, size)| {
        ParameterAverage::one(weight.of(size as f64), &base, &set(own)).unwrap()
    });
    let mean = parts.reduce(ParameterAverage::merge).unwrap().apply(&base);
    golden.assert_close_f32("mean_theta", &mean.get("theta").unwrap().values);
}

fn report(row: u32, rows: &[[f64; 2]]) -> ClassMean {
    let Diagonal { count, mean, .. } = Diagonal::fit(2, rows.iter());
    ClassMean { row, count, mean }
}

fn taken(reports: &[ClassMean]) -> BTreeMap<u32, Vec<f32>> {
    let mut server = Prototypes { known: BTreeMap::new(), dim: 2 };
    server.take(reports);
    server.known
}

/// FedProto card, invariants 2 and 5: the prototype is the mean of all features together, however clients divide them
/// and in whichever order they come; of clients that say the same it is what they say.
#[test]
fn a_prototype_is_the_mean_of_all_features() {
    let rows = [[1.0, 0.0], [2.0, -4.0], [6.0, 1.0], [-1.0, 9.0], [0.5, 0.25]];
    let whole = taken(&[report(4, &rows)]);
    assert_eq!(whole[&4], [1.7, 1.25]);
    for cuts in [[1, 2], [2, 4], [1, 4]] {
        let mut parts = vec![
            report(4, &rows[..cuts[0]]),
            report(4, &rows[cuts[0]..cuts[1]]),
            report(4, &rows[cuts[1]..]),
        ];
        for _ in 0..2 {
            for (found, wanted) in taken(&parts)[&4].iter().zip(&whole[&4]) {
                assert!((found - wanted).abs() < 1e-6, "{cuts:?}");
            }
            parts.reverse();
        }
    }
    let same = report(4, &rows);
    assert_eq!(taken(&[same.clone(), same.clone(), same]), whole);
}

/// Section 6: whoever reports a class replaces its prototype, and a class that nobody reports keeps what it had.
#[test]
fn a_class_that_nobody_reports_keeps_its_prototype() {
    let mut server = Prototypes { known: BTreeMap::new(), dim: 2 };
    server.take(&[report(3, &[[1.0, 1.0]]), report(6, &[[2.0, 0.0]])]);
    let nobody = ClassMean { row: 7, count: 0, mean: vec![0.0; 2] };
    server.take(&[report(6, &[[4.0, 4.0]]), nobody]);
    assert_eq!(server.flags(&view()), [0b01001]);
    let table = [[1.0, 1.0], [0.0; 2], [0.0; 2], [4.0, 4.0], [0.0; 2]].concat();
    assert_eq!(server.table(&view()), table);

    let mut body = Body::default();
    server.save_into(&mut body);
    assert_eq!(Prototypes::load_from(&body).unwrap().0, server);
    body.meta.pop();
    assert!(Prototypes::load_from(&body).is_err());
}

/// What is told is what is heard, of more classes than a byte has bits.
#[test]
fn flags_say_which_classes_have_a_prototype() {
    let wide = TaskView { task: TaskId(0), rows: 20..31, classes: (20..31).collect() };
    let mut server = Prototypes { known: BTreeMap::new(), dim: 2 };
    server.take(&[20, 27, 28, 30].map(|row| report(row, &[[f64::from(row), 1.0]])));
    let table = NamedTensor::f32(PROTOTYPES, [11, 2], server.table(&wide)).unwrap();
    let down = Message {
        control: server.flags(&wide),
        extra: vec![Section::new(Kind::Prototypes, vec![table])],
        ..Message::default()
    };
    let wanted = server.known.clone().into_iter().collect::<ClassPrototypes>();
    assert_eq!(heard(&down, &wide).unwrap(), wanted);
    assert!(heard(&Message::default(), &wide).unwrap().is_empty());
    assert!(heard(&Message { control: vec![0], ..down }, &wide).is_err());
}
