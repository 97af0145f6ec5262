//! The invariants of adapters, the first stage of STSA.

use std::sync::Arc;

use fedcast::data::ClassPermutation;
use fedcast::learning::Classifier;
use fedcast::methods::adapter::adapters;
use fedcast::methods::averaging::ClientWeighting;
use fedcast::methods::fedavg::FedAvg;
use fedcast::model::CosineHead;
use fedcast::policy::{Method, parameters_of};
use fedcast::wire::Kind;

use crate::gradients::every_variable_has_a_gradient;
use crate::toys::{CLASSES, deal, facts, rows_of, run_context};
use crate::{built, engine, mean_of};

fn adapter_of(change: impl Fn(&mut FedAvg)) -> Arc<dyn Method> {
    let mut method = FedAvg { bottleneck: 4, ..adapters() };
    change(&mut method);
    built(method, &facts())
}

pub fn adapter() -> Arc<dyn Method> {
    adapter_of(|_| ())
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
    let shards = deal(&first.ctx, &view, 2);
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
    let ctx = run_context(3, ClassPermutation::Native);
    let mut run = engine(adapter(), 3);
    let view = run.view(0);
    let shards = deal(&ctx, &view, 2);
    run.task(0, &shards, 1);
    let received = parameters_of(&run.server.save()).unwrap();
    let model = Classifier::trainable(&ctx.backbone, &received, view.rows.clone()).unwrap();
    let batch = ctx.train_loader(&shards[0]).in_order(16).next().unwrap().unwrap();
    let loss = model.masked_loss(&ctx.pixels(&batch).unwrap(), batch.labels()).unwrap();
    assert_eq!(model.variables().len(), received.len());
    every_variable_has_a_gradient(&model, &loss);
}

#[test]
fn dropout_is_drawn_from_the_run_and_is_off_in_evaluation() {
    let digest = |dropout| {
        let method = adapter_of(|c| c.dropout = dropout);
        engine(method, 2).run(2, 2).server.save().digest()
    };
    assert_eq!(digest(0.1), digest(0.1));
    assert_ne!(digest(0.1), digest(0.0));
    let run = engine(adapter(), 2).run(1, 1);
    let predictor = run.server.predictor(&run.ctx).unwrap();
    let shard = deal(&run.ctx, &run.view(0), 1).remove(0);
    let batch = run.ctx.train_loader(&shard).in_order(8).next().unwrap().unwrap();
    let pixels = run.ctx.pixels(&batch).unwrap();
    let features = || predictor.features(&pixels).unwrap().to_vec2::<f32>().unwrap();
    assert_eq!(features(), features());
    let plain = run.ctx.backbone.features(&pixels, &fedcast::model::Adaptation::none()).unwrap();
    assert_ne!(features(), plain.to_vec2::<f32>().unwrap(), "the adapters answer");
}

/// A method on these features ships the adapters and nothing else.
#[test]
fn the_features_are_the_adapters() {
    let run = engine(adapter(), 2);
    let state = run.server.predictor(&run.ctx).unwrap().feature_state();
    let names = parameters_of(&state).unwrap();
    assert!(!names.is_empty() && names.iter().all(|(name, _)| name.starts_with("adapter.")));
}

/// The public code of STSA takes the plain mean of state dicts.
#[test]
fn a_client_counts_once_or_by_its_samples() {
    let mean = |weights: ClientWeighting| {
        let method = adapter_of(|c| c.client_weighting = weights);
        let mean = mean_of(&*method, 0.5, &[(1.0, 30), (4.0, 10), (100.0, 0)]);
        mean.get(CosineHead::SIGMA).unwrap().values[0]
    };
    assert!((mean(ClientWeighting::Uniform) - 2.5).abs() < 1e-6);
    assert!((mean(ClientWeighting::BySamples) - 1.75).abs() < 1e-6);
}
