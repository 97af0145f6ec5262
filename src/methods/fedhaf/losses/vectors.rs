//! Losses of the module against reference vectors.

use candle_core::{Device, Var};

use super::super::NetworkShape;
use super::*;
use crate::golden::Golden;
use crate::model::{ByBatch, Trains};
use crate::numerics::streams::{Domain, StreamKey};

/// Returns a previous network without a module, which leaves features as they are.
fn previous() -> FedHafNetwork {
    let shape = NetworkShape { features: 4, module: None, head_hidden: 3, classes: 4 };
    let parameters = shape.initial_parameters(StreamKey::new(1, Domain::Init));
    FedHafNetwork::new(&shape, &parameters, Trains::NOTHING, 0..4, ByBatch::NOTHING, &Device::Cpu)
        .unwrap()
}

#[test]
fn golden_own_losses_of_the_module() {
    let golden = Golden::own("losses");
    let (features, labels) = (golden.tensor("haf.features"), golden.labels("haf.labels"));
    let (adjusted, previous) = (golden.variable("haf.adjusted"), previous());
    let seen = LossBatch { features: &features, labels: &labels, rows: 2..4 };
    for (name, lambda_fd, lambda_fb, squares) in [
        ("haf.fd", 1.0, 0.0, Squares::Sum),
        ("haf.fb", 0.0, 1.0, Squares::Sum),
        ("haf.module.mean", 2.0, 0.5, Squares::Mean),
    ] {
        let config = FedHaf { lambda_fd, lambda_fb, squares, ..FedHaf::default() };
        let loss = of_module(&config, &adjusted, &seen, Some(&previous)).unwrap();
        golden.assert_loss(name, &loss, &adjusted);
    }
}

#[test]
fn golden_losses_of_the_module() {
    let Some(golden) = Golden::open("losses") else { return };
    let read = |name: &str| {
        let values: Vec<f32> = golden.f64(name).into_iter().map(|v| v as f32).collect();
        Var::from_vec(values, golden.shape(name), &Device::Cpu).unwrap()
    };
    let check = |name: &str, slope: &str, loss: &Tensor, of: &Var| {
        golden.assert_close_f32(name, &[loss.to_scalar::<f32>().unwrap()]);
        let gradient = loss.backward().unwrap().get(of).unwrap().flatten_all().unwrap();
        golden.assert_close_f32(slope, &gradient.to_vec1::<f32>().unwrap());
    };
    let config = |lambda_fd, lambda_fb| FedHaf {
        lambda_fd,
        lambda_fb,
        squares: Squares::Sum,
        ..FedHaf::default()
    };
    let shape = NetworkShape { features: 5, module: None, head_hidden: 3, classes: 4 };
    let parameters = shape.initial_parameters(StreamKey::new(1, Domain::Init));
    let previous = FedHafNetwork::new(
        &shape,
        &parameters,
        Trains::NOTHING,
        0..4,
        ByBatch::NOTHING,
        &Device::Cpu,
    );
    let (new, old) = (read("haf.new"), read("haf.old"));
    let seen = LossBatch { features: &old, labels: &[0, 1, 1, 0, 1, 1], rows: 2..4 };
    let loss = of_module(&config(1.0, 0.0), &new, &seen, Some(&previous.unwrap())).unwrap();
    check("haf.fd", "haf.fd.grad_new", &loss, &new);

    let (x, labels) = (read("haf.x"), golden.labels("haf.class"));
    let seen = LossBatch { features: &x, labels: &labels, rows: 2..4 };
    let loss = of_module(&config(0.0, 1.0), &x, &seen, None).unwrap();
    check("haf.fb", "haf.fb.grad_x", &loss, &x);
}
