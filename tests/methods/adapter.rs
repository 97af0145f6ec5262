//! The invariants of adapters, the first stage of STSA.

use std::sync::Arc;

use fedcast::data::ClassOrder;
use fedcast::learning::Classifier;
use fedcast::methods::adapter::{AdapterConfig, AdapterMethod};
use fedcast::methods::fedavg::{Down, Up, Weights};
use fedcast::model::{CosineHead, Parameter, ParameterSet};
use fedcast::policy::{Method, Part, UpMeta, erase, parameters_of};
use fedcast::quantity::Round;
use fedcast::wire::Kind;

use crate::engine;
use crate::gradients::every_variable_has_a_gradient;
use crate::toys::{CLASSES, deal, facts, lab, rows_of};

fn method(change: impl Fn(&mut AdapterConfig)) -> AdapterMethod {
    let mut config = AdapterConfig { bottleneck: 4, ..AdapterConfig::default() };
    change(&mut config);
    AdapterMethod::new(config, &facts())
}

pub fn adapter() -> Arc<dyn Method> {
    erase(method(|_| ()))
}

#[test]
fn everything_trains_but_the_rows_of_other_tasks() {
    let before = engine(adapter(), 3).server.save();
    let run = engine(adapter(), 3).run(2, 2);
    let (old, new) = (parameters_of(&before).unwrap(), parameters_of(&run.server.save()).unwrap());
    for ((name, old), (_, new)) in old.iter().zip(new.iter()) {
        assert_ne!(old.values, new.values, "{name} never moved");
    }
    // Task 1 alone moves the rows of its own classes.
    let mut first = engine(adapter(), 3);
    let view = first.view(0);
    let shards = deal(&first.lab, &view, 2);
    first.task(0, &shards, 1);
    let rows = |saved, rows| rows_of(saved, Kind::Head, CosineHead::WEIGHT, rows);
    let after = first.server.save();
    assert_ne!(rows(&after, view.rows.clone()), rows(&before, view.rows.clone()));
    let others = view.rows.end..CLASSES;
    assert_eq!(rows(&after, others.clone()), rows(&before, others));
}

/// From the second round on: at first `W_up` is zero, and nothing below it has a gradient.
#[test]
fn every_trainable_has_a_gradient() {
    let lab = lab(3, ClassOrder::Native);
    let mut run = engine(adapter(), 3);
    let view = run.view(0);
    let shards = deal(&lab, &view, 2);
    run.task(0, &shards, 1);
    let received = parameters_of(&run.server.save()).unwrap();
    let model = Classifier::trainable(&lab.backbone, &received, view.rows.clone()).unwrap();
    let batch = lab.train_loader(&shards[0]).in_order(16).next().unwrap().unwrap();
    let loss = model.masked_loss(&lab.pixels(&batch).unwrap(), batch.labels()).unwrap();
    assert_eq!(model.variables().len(), received.len());
    every_variable_has_a_gradient(&model, &loss);
}

#[test]
fn dropout_is_drawn_from_the_run_and_is_off_in_evaluation() {
    let digest = |dropout| {
        let method = erase(method(|config| config.dropout = dropout));
        engine(method, 2).run(2, 2).server.save().digest()
    };
    assert_eq!(digest(0.1), digest(0.1));
    assert_ne!(digest(0.1), digest(0.0));
    let run = engine(adapter(), 2).run(1, 1);
    let predictor = run.server.predictor(&run.lab).unwrap();
    let shard = deal(&run.lab, &run.view(0), 1).remove(0);
    let batch = run.lab.train_loader(&shard).in_order(8).next().unwrap().unwrap();
    let pixels = run.lab.pixels(&batch).unwrap();
    let features = || predictor.features(&pixels).unwrap().to_vec2::<f32>().unwrap();
    assert_eq!(features(), features());
    let plain = run.lab.backbone.features(&pixels, &fedcast::model::Adaptation::none()).unwrap();
    assert_ne!(features(), plain.to_vec2::<f32>().unwrap(), "the adapters answer");
}

/// What a method upon these features has to ship: the adapters and nothing else.
#[test]
fn the_features_are_the_adapters() {
    let run = engine(adapter(), 2);
    let state = run.server.predictor(&run.lab).unwrap().feature_state();
    let names = parameters_of(&state).unwrap();
    assert!(!names.is_empty() && names.iter().all(|(name, _)| name.starts_with("adapter.")));
}

/// The public code of STSA takes the plain mean of state dicts.
#[test]
fn a_client_counts_once_or_by_its_samples() {
    let mean = |weights: Weights| {
        let method = method(|config| config.weights = weights);
        let run = engine(erase(method.clone()), 2);
        let view = run.view(0);
        let start = parameters_of(&run.server.save()).unwrap();
        let down = Down::cut(&start, view.rows.clone()).unwrap();
        let up = |value: f32, samples: usize| {
            let filled = |p: &Parameter| Parameter {
                shape: p.shape.clone(),
                values: vec![value; p.values.len()].into(),
            };
            let set: ParameterSet =
                down.parameters.iter().map(|(name, p)| (name.clone(), filled(p))).collect();
            Up::cut(&set, view.rows.clone(), samples).unwrap()
        };
        let seat = engine(adapter(), 2).run(1, 1).exchanges.remove(0).seat;
        let meta = UpMeta::timely(seat, Round(0));
        let parts = [up(1.0, 30), up(4.0, 10), up(100.0, 0)]
            .map(|up| method.lift(&down, up, &meta).unwrap());
        let [a, b, c] = parts;
        let mean = a.merge(b).merge(c).apply(&down.parameters);
        mean.get(CosineHead::SIGMA).unwrap().values[0]
    };
    assert!((mean(Weights::Uniform) - 2.5).abs() < 1e-6);
    assert!((mean(Weights::BySamples) - 1.75).abs() < 1e-6);
}
