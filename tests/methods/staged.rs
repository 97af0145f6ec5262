//! STSA on what another method learned in the first task: after it nothing trains, and what is
//! frozen is computed once.

use std::sync::Arc;

use fedcast::data::{ClassPermutation, Shard};
use fedcast::methods::fedavg::Train;
use fedcast::model::{FrozenPart, ParameterSet};
use fedcast::policy::{Composed, Method, parameters_of};

use crate::adapter::adapter;
use crate::toys::watched::Engine;
use crate::toys::{CLASSES, deal, facts, run_context};
use crate::{fedavg_of, hgp_with};

fn engine(first: Arc<dyn Method>, then: Arc<dyn Method>) -> Engine {
    let method: Arc<dyn Method> = Arc::new(Composed::new(first, then));
    Engine::new(method, facts(), run_context(3, ClassPermutation::Native))
}

fn stsa() -> Arc<dyn Method> {
    Arc::new(fedcast::methods::stsa::Stsa::new(crate::stsa::exact(), &facts()))
}

/// Every number of the network, as bits: the backbone's, what the first method added, and what all of it
/// makes of test images.
fn network(engine: &Engine) -> (String, u64, Vec<u32>) {
    let predictor = engine.server.predictor(&engine.ctx).unwrap();
    let images: Shard = (0..20).collect();
    let batch = engine.ctx.statistics_loader(&images).in_order(20).next().unwrap().unwrap();
    let features = predictor.features(&engine.ctx.pixels(&batch).unwrap()).unwrap();
    let features = features.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    (
        engine.ctx.backbone.digest().unwrap().to_hex().to_string(),
        engine
            .server
            .metrics()
            .iter()
            .find(|(name, _)| *name == "features_hash")
            .unwrap()
            .1
            .to_bits(),
        features.into_iter().map(f32::to_bits).collect(),
    )
}

fn task(engine: &mut Engine, task: usize) {
    let shards = deal(&engine.ctx, &engine.view(task), 3);
    engine.task(task, &shards, 2);
}

/// The card's invariant 7.
#[test]
fn after_the_first_task_no_parameter_changes_whatever_was_first() {
    let firsts = [
        adapter(),
        fedavg_of(Train::All),
        fedavg_of(Train::Prompt),
        fedavg_of(Train::Head),
        hgp_with(|_| {}),
    ];
    let mut hashes = Vec::new();
    for first in firsts {
        let mut engine = engine(first, stsa());
        task(&mut engine, 0);
        let frozen = network(&engine);
        for later in 1..3 {
            task(&mut engine, later);
            assert_eq!(network(&engine), frozen, "after task {later}");
        }
        let phases: Vec<&str> = engine.exchanges.iter().map(|exchange| exchange.phase).collect();
        assert_eq!(phases.iter().filter(|phase| **phase == "statistics").count(), 3 * 3);
        assert!(engine.accuracy(CLASSES) > 0.5, "it learns: {}", engine.accuracy(CLASSES));
        hashes.push(frozen.1);
    }
    hashes.dedup();
    assert_eq!(hashes.len(), 5, "each first method leaves another network");
}

/// The first method learns the same as without a second: its components begin, too.
#[test]
fn the_first_task_is_that_of_the_first_method_alone() {
    let first = crate::prompts::beginning;
    let uploads = |mut engine: Engine| -> Vec<ParameterSet> {
        task(&mut engine, 0);
        let trained = engine.exchanges.iter().filter(|exchange| exchange.phase != "statistics");
        trained.map(|exchange| parameters_of(exchange.up.as_ref().unwrap()).unwrap()).collect()
    };
    let alone = uploads(Engine::new(first(), facts(), run_context(3, ClassPermutation::Native)));
    assert_eq!(alone.len(), 3 * 2);
    assert!(uploads(engine(first(), stsa())) == alone);
}

/// Every sample is passed through the adapted network once, also where its estimate is compared with
/// the truth.
#[test]
fn features_of_the_first_stage_are_computed_once_per_sample() {
    let then = Arc::new(fedcast::methods::stsa::Stsa::new(crate::stsa::estimated(), &facts()));
    let mut engine = engine(fedavg_of(Train::All), then);
    (0..3).for_each(|at| task(&mut engine, at));
    let predictor = engine.server.predictor(&engine.ctx).unwrap();
    assert!(matches!(predictor.frozen_part(), FrozenPart::Adapted(_)));
    let all: Shard = (0..engine.ctx.dataset.train.len() as u32).collect();
    assert_eq!(engine.ctx.cache.counts().computed, all.len() as u64);
    // What is kept is what the network gives, to the bit.
    let kept =
        engine.ctx.with_features_for(engine.ctx.statistics_loader(&all), &*predictor).unwrap();
    let plain = engine.ctx.statistics_loader(&all);
    for (kept, plain) in kept.in_order(16).zip(plain.in_order(16)) {
        let kept = predictor.batch_features(&kept.unwrap(), &engine.ctx.device).unwrap();
        let plain = predictor.batch_features(&plain.unwrap(), &engine.ctx.device).unwrap();
        let bits = |t: candle_core::Tensor| -> Vec<u32> {
            let values = t.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            values.into_iter().map(f32::to_bits).collect()
        };
        assert_eq!(bits(kept), bits(plain));
    }
    let computed = engine.ctx.cache.counts().computed;
    assert_eq!(computed, all.len() as u64, "asking again computes nothing");
}

/// Features that nothing adapted are the backbone's own, and are shared with all users of those.
#[test]
fn a_first_method_that_adapts_nothing_shares_the_backbone_s_features() {
    let mut engine = engine(fedavg_of(Train::Head), stsa());
    task(&mut engine, 0);
    let predictor = engine.server.predictor(&engine.ctx).unwrap();
    assert_eq!(predictor.frozen_part(), FrozenPart::Whole);
}
