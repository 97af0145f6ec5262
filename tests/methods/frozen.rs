//! Promise: what is frozen is computed once per sample, whichever client, round or phase asks.

use std::sync::Arc;

use candle_core::{Device, Tensor};
use fedcast::data::{Batch, Loader, Shard, Step, Transform};
use fedcast::learning::{CacheCounts, FeatureCache, QueryView, Storage};
use fedcast::model::{Adaptation, FrozenPart, Prefix};
use fedcast::policy::RunContext;

use super::*;

fn all(ctx: &RunContext) -> Shard {
    (0..ctx.dataset.train.len() as u32).collect()
}

fn batches(loader: &Loader) -> Vec<Batch> {
    loader.in_order(10).map(Result::unwrap).collect()
}

fn values(tensor: &Tensor) -> Vec<Vec<f32>> {
    tensor.to_vec2().unwrap()
}

fn uncached(ctx: &RunContext) -> RunContext {
    RunContext { cache: Arc::new(FeatureCache::new(Storage::Off, 0, false)), ..ctx.clone() }
}

/// A prompt in block 1 leaves block 0 as it is: its output is kept, and what follows is the same.
#[test]
fn the_stream_below_the_first_adapted_block_is_computed_once() {
    let ctx = run_context(1, ClassPermutation::Native);
    let rows: Vec<f32> = (0..64).map(|i| (i as f32 / 9.0).sin()).collect();
    let prompt = Tensor::from_vec(rows, (4, 16), &ctx.device).unwrap();
    let prefix = vec![None, Some(Prefix::halves(&prompt).unwrap())];
    let adaptation = Adaptation { prefix, ..Adaptation::none() };
    let first = adaptation.first_adapted_block().unwrap();
    let part = FrozenPart::Below(first);
    let whole = ctx.statistics_loader(&all(&ctx));
    let kept = ctx.with_frozen_features(whole.clone(), part).unwrap();
    for _ in 0..3 {
        for (batch, images) in batches(&kept).iter().zip(batches(&whole)) {
            let Batch::Features { values: rows, shape, .. } = batch else { panic!("not kept") };
            let tokens = Tensor::from_slice(rows, shape.as_slice(), &ctx.device).unwrap();
            let pixels = ctx.pixels(&images).unwrap();
            let fresh = ctx.backbone.frozen(&pixels, part).unwrap();
            let features = |tokens| ctx.backbone.features_from(tokens, first, &adaptation).unwrap();
            assert_eq!(values(&features(&tokens)), values(&features(&fresh)));
            let plain = ctx.backbone.frozen(&pixels, FrozenPart::Whole).unwrap();
            assert_ne!(values(&features(&tokens)), values(&plain), "the prompt does something");
        }
    }
    let samples = ctx.dataset.train.len() as u64;
    let CacheCounts { computed, read, .. } = ctx.cache.counts();
    assert_eq!((computed, read), (samples, 3 * samples));
}

/// The queries that a loader brings, batch by batch.
fn brought(loader: &Loader) -> Vec<Vec<Vec<f32>>> {
    let of = |batch: &Batch| values(&batch.queries(&Device::Cpu).unwrap().expect("queried"));
    batches(loader).iter().map(of).collect()
}

#[test]
fn queries_are_computed_once_and_are_features_of_the_unprompted_backbone() {
    let ctx = run_context(1, ClassPermutation::Native);
    let loader = ctx.statistics_loader(&all(&ctx));
    let whole = |batch: &Batch| {
        values(&ctx.backbone.frozen(&ctx.pixels(batch).unwrap(), FrozenPart::Whole).unwrap())
    };
    let expected: Vec<Vec<Vec<f32>>> = batches(&loader).iter().map(whole).collect();
    for _ in 0..2 {
        assert_eq!(brought(&ctx.with_queries(loader.clone(), QueryView::Clean).unwrap()), expected);
    }
    let computed = uncached(&ctx).with_queries(loader.clone(), QueryView::Augmented).unwrap();
    assert_eq!(brought(&computed), expected);
    // Features are found there.
    ctx.with_frozen_features(loader, FrozenPart::Whole).unwrap();
    assert_eq!(ctx.cache.counts().computed, ctx.dataset.train.len() as u64);
}

#[test]
fn queries_of_augmented_images_are_clean_and_kept_or_none() {
    let mut ctx = run_context(1, ClassPermutation::Native);
    let steps = vec![Step::Flip { probability: 0.5 }];
    ctx.train_transform = Arc::new(Transform { steps, ..Transform::default() });
    let (augmented, plain) = (ctx.train_loader(&all(&ctx)), ctx.statistics_loader(&all(&ctx)));
    let clean = ctx.with_queries(augmented.clone(), QueryView::Clean).unwrap();
    let of_plain = brought(&ctx.with_queries(plain, QueryView::Clean).unwrap());
    assert_eq!(brought(&clean), of_plain);
    assert_eq!(ctx.cache.counts().computed, ctx.dataset.train.len() as u64);
    let own = ctx.with_queries(augmented, QueryView::Augmented).unwrap();
    for batch in batches(&own) {
        assert!(batch.queries(&Device::Cpu).unwrap().is_none(), "a classifier computes them");
    }
}
