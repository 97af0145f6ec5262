//! The invariants of STSA and STSA-E, on the federation's smallest engine.

use std::sync::Arc;

use fedcast::data::{ClassPermutation, PartitionRule, Partitioner, Shard};
use fedcast::learning::CacheCounts;
use fedcast::methods::stsa::{
    Estimation, HeadMode, LambdaScale, OneUnit, Payload, Stsa, StsaConfig, UnitCount, Variant,
};
use fedcast::model::FrozenPart;
use fedcast::numerics::projection::Projection;
use fedcast::numerics::ridge::{Penalty, ridge};
use fedcast::numerics::symmetric::{Gram, Symmetric};
use fedcast::policy::{Method, Scope};
use fedcast::wire::{Body, Kind};

use crate::gaussians::apart;
use crate::toys::watched::Engine;
use crate::toys::{CLASSES, config, facts, run_context};

const WIDTH: u32 = 40;

pub fn exact() -> StsaConfig {
    StsaConfig {
        width: WIDTH,
        lambda: 1e-3,
        lambda_scale: LambdaScale::Trace,
        raises: 0,
        head_mode: HeadMode::Cosine,
        payload: Payload::F64,
        variant: Variant::Exact { symmetric: false },
    }
}

pub fn estimated() -> StsaConfig {
    let estimation = Estimation {
        unit_count: UnitCount::Nonempty,
        one_unit: OneUnit::Mean,
        diagnostics: true,
        head_error: false,
    };
    StsaConfig { variant: Variant::Estimated(estimation), ..exact() }
}

/// STSA-E that compares its head with STSA's.
fn compared() -> StsaConfig {
    let Variant::Estimated(estimation) = estimated().variant else { unreachable!() };
    let variant = Variant::Estimated(Estimation { head_error: true, ..estimation });
    StsaConfig { variant, ..exact() }
}

fn figure(engine: &Engine, name: &str) -> f64 {
    let found = engine.server.metrics().into_iter().find(|(found, _)| *found == name);
    found.unwrap_or_else(|| panic!("no figure `{name}`")).1
}

fn engine(config: StsaConfig, tasks: usize, order: ClassPermutation) -> Engine {
    let method: Arc<dyn Method> = Arc::new(Stsa::new(config, &facts()));
    Engine::new(method, facts(), run_context(tasks, order))
}

/// All tasks, partitioned again each.
fn run(config: StsaConfig, kind: PartitionRule, clients: u32) -> Engine {
    let mut engine = engine(config, 2, ClassPermutation::Native);
    let partitioner = Partitioner { min_samples: 0, ..Partitioner::new(kind, clients, 3) };
    for task in 0..2 {
        let by_class = engine.ctx.dataset.train.by_class().to_vec();
        let shards = partitioner.shards(&engine.view(task), &by_class).unwrap();
        engine.task(task, &shards, 1);
    }
    engine
}

fn values(saved: &Body, name: &str) -> Vec<f64> {
    saved.tensor(Kind::Statistics, name).unwrap().as_f64().unwrap().to_vec()
}

fn far(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    norm(&mut a.iter().zip(b).map(|(a, b)| a - b)) / norm(&mut b.iter().copied())
}

/// The seed of a server's random layer.
fn seed(saved: &Body) -> u64 {
    fedcast::wire::MetaReader::new(&saved.meta).u64().unwrap()
}

/// Features of all training samples in the order of head rows, their rows, and the ridge head on
/// them, without any federation.
fn centralized(engine: &Engine) -> Vec<f64> {
    let saved = engine.server.save();
    let layer = Projection::draw(seed(&saved), config().dim, WIDTH as usize);
    let all: Shard = (0..engine.ctx.dataset.train.len() as u32).collect();
    let mut gram = Gram::new(WIDTH as usize);
    let mut sums = vec![0.0; CLASSES * WIDTH as usize];
    for batch in engine.ctx.statistics_loader(&all).in_order(1) {
        let batch = batch.unwrap();
        let pixels = engine.ctx.pixels(&batch).unwrap();
        let feature = engine.ctx.backbone.frozen(&pixels, FrozenPart::Whole).unwrap();
        let feature = feature.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let feature: Vec<f64> = feature.into_iter().map(f64::from).collect();
        let hidden = layer.apply(&feature);
        gram.add(&hidden);
        let row = batch.labels()[0] as usize * WIDTH as usize;
        sums[row..].iter_mut().zip(&hidden).for_each(|(sum, h)| *sum += h);
    }
    ridge(&gram.finish(), &sums, Penalty::Relative(1e-3), 0).unwrap().weights
}

/// Invariant 1: any partition over any number of clients gives the head of all data together.
#[test]
fn the_head_is_that_of_centralized_ridge_for_every_partition() {
    let one = run(exact(), PartitionRule::Iid, 1);
    let central = centralized(&one);
    for clients in [1, 5, 50] {
        for beta in [1.0, 0.1, 0.05] {
            let other = run(exact(), PartitionRule::Dirichlet { beta }, clients);
            let gap = far(&values(&other.server.save(), "weights"), &central);
            assert!(gap < 1e-9, "{clients} clients, beta {beta}: {gap}");
            assert_eq!(other.tally(CLASSES), one.tally(CLASSES));
        }
    }
    assert!(one.accuracy(CLASSES) > 0.5, "it learns: {}", one.accuracy(CLASSES));
}

/// Statistics are of the images as they describe, not as a first stage would train on them.
#[test]
fn statistics_are_of_the_images_that_describe() {
    let method: Arc<dyn Method> = Arc::new(Stsa::new(exact(), &facts()));
    let engine = Engine::new(method, facts(), apart()).run(3, 1);
    let central = centralized(&engine);
    assert!(far(&values(&engine.server.save(), "weights"), &central) < 1e-9);
}

/// Rows of the cache have no pixels: reading them uses no network.
#[test]
fn every_sample_passes_the_backbone_once_whatever_the_clients_and_runs() {
    let first = engine(exact(), 3, ClassPermutation::Native).run(5, 1);
    let again = Arc::new(Stsa::new(estimated(), &facts()));
    let second = Engine::new(again, facts(), first.ctx.clone()).run(2, 1);
    let samples = second.ctx.dataset.train.len() as u64;
    let CacheCounts { computed, read, .. } = second.ctx.cache.counts();
    assert_eq!(computed, samples, "each once");
    // The diagnostics of STSA-E are a pass of their own.
    assert_eq!(read, 3 * samples, "both methods read nothing but rows");
}

/// In four bytes a number what is left is the rounding of the wire.
#[test]
fn in_f32_only_the_rounding_of_the_wire_is_left() {
    let config = StsaConfig { payload: Payload::F32, ..exact() };
    let one = values(&run(config, PartitionRule::Iid, 1).server.save(), "sums");
    let many =
        values(&run(config, PartitionRule::Dirichlet { beta: 0.1 }, 5).server.save(), "sums");
    assert!(far(&many, &one) < 1e-6 && far(&many, &one) > 0.0, "{}", far(&many, &one));
}

/// Invariant 2: two tasks or one, in either order, end with the same rows.
#[test]
fn merging_or_turning_tasks_round_changes_no_row() {
    let weights = |order: ClassPermutation, tasks: usize| {
        let engine = engine(exact(), tasks, order).run(3, 1);
        let all = values(&engine.server.save(), "weights");
        let row = |class: u32| {
            let row = engine.ctx.task_sequence.row_of(class) as usize * WIDTH as usize;
            all[row..row + WIDTH as usize].to_vec()
        };
        (0..CLASSES as u32).flat_map(row).collect::<Vec<f64>>()
    };
    let two = weights(ClassPermutation::Native, 2);
    assert!(far(&weights(ClassPermutation::Native, 1), &two) < 1e-9);
    assert!(far(&weights(ClassPermutation::Seeded(8), 3), &two) < 1e-9);
}

/// Invariant 4 through the messages: one sample per client is a unit of one sample.
#[test]
fn one_sample_per_unit_makes_both_variants_equal() {
    let head = |config: StsaConfig| {
        let mut engine = engine(config, 2, ClassPermutation::Native);
        for task in 0..2 {
            let view = engine.view(task);
            let train = &engine.ctx.dataset.train;
            let held = |i: &u32| view.classes.contains(&train.labels()[*i as usize]);
            let shards: Vec<Shard> =
                (0..train.len() as u32).filter(held).map(|i| Shard::from([i])).collect();
            engine.task(task, &shards, 1);
        }
        (values(&engine.server.save(), "weights"), engine)
    };
    let ((exact, _), (estimate, engine)) = (head(exact()), head(compared()));
    assert!(far(&estimate, &exact) < 1e-9, "{}", far(&estimate, &exact));
    for name in ["gram_error", "head_error", "gram_expected"] {
        let error = figure(&engine, name);
        assert!(error < 1e-9, "the diagnostics say so: {name} {error}");
    }
    assert!((figure(&engine, "gram_trace") - 1.0).abs() < 1e-9);
}

/// More units, smaller error; the diagnostics measure it.
#[test]
fn the_estimate_comes_closer_with_more_units() {
    let error = |clients: u32| figure(&run(estimated(), PartitionRule::Iid, clients), "gram_error");
    let (few, many) = (error(3), error(40));
    assert!(many < 0.5 * few && many > 0.0, "{few} with 3 units, {many} with 40");
}

/// The simulator reports, with the estimate, the distance to STSA's head, which is below the bound.
///
/// It is reported after both tasks, not the last one alone.
#[test]
fn the_head_s_error_is_the_distance_to_stsa_s_own_head() {
    let kind = || PartitionRule::Dirichlet { beta: 1.0 };
    let (few, plain) = (run(compared(), kind(), 4), run(estimated(), kind(), 4));
    let ours = values(&few.server.save(), "weights");
    assert_eq!(ours, values(&plain.server.save(), "weights"), "looking changes nothing");
    let theirs = values(&run(exact(), kind(), 4).server.save(), "weights");
    let wanted = far(&ours, &theirs);
    let found = figure(&few, "head_error");
    assert!(wanted > 1e-3 && (found / wanted - 1.0).abs() < 1e-6, "{found} and not {wanted}");
    assert!(figure(&few, "head_bound") > found);
    let head = values(&few.server.save(), "exact.sums");
    assert!(far(&head, &values(&run(exact(), kind(), 4).server.save(), "sums")) < 1e-9);
    let many = run(compared(), kind(), 40);
    assert!(figure(&many, "head_error") < 0.7 * found, "more units, smaller error");
    assert!(figure(&many, "gram_expected") < 0.7 * figure(&few, "gram_expected"));
    let ratio = figure(&few, "gram_expected") / figure(&few, "gram_error");
    assert!((0.3..3.0).contains(&ratio), "expected and found are of one scale: {ratio}");
    let none = run(estimated(), kind(), 4);
    assert!(none.server.metrics().iter().all(|(name, _)| !name.starts_with("head")));
}

/// A client with a single sample of a class has that sample.
#[test]
fn the_expected_error_counts_every_holder() {
    let expected = |first: usize| {
        let mut engine = engine(compared(), 1, ClassPermutation::Native);
        let by_class = engine.ctx.dataset.train.by_class().to_vec();
        let part = |of: fn(&[u32], usize) -> &[u32]| -> Shard {
            by_class.iter().flat_map(|class| of(class, first).to_vec()).collect()
        };
        let shards = [part(|class, first| &class[..first]), part(|class, first| &class[first..])];
        engine.task(0, &shards, 1);
        figure(&engine, "gram_expected")
    };
    assert_eq!(expected(1), expected(2));
}

/// Invariant 3, `D = d`: plain ridge on the features themselves, of either sign.
#[test]
fn the_backbone_s_own_width_switches_the_layer_off() {
    let width = config().dim;
    let engine = run(StsaConfig { width: width as u32, ..exact() }, PartitionRule::Iid, 2);
    let all: Shard = (0..engine.ctx.dataset.train.len() as u32).collect();
    let mut gram = vec![0.0; width * width];
    let mut sums = vec![0.0; CLASSES * width];
    for batch in engine.ctx.statistics_loader(&all).in_order(1) {
        let batch = batch.unwrap();
        let pixels = engine.ctx.pixels(&batch).unwrap();
        let feature = engine.ctx.backbone.frozen(&pixels, FrozenPart::Whole).unwrap();
        let feature = feature.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let row = batch.labels()[0] as usize * width;
        for (i, h) in feature.iter().enumerate() {
            sums[row + i] += f64::from(*h);
            for (j, other) in feature.iter().enumerate() {
                gram[i * width + j] += f64::from(*h) * f64::from(*other);
            }
        }
    }
    let saved = engine.server.save();
    assert!(far(&values(&saved, "sums"), &sums) < 1e-12);
    let gram = Symmetric::from_full(width, &gram).unwrap();
    assert!(far(&values(&saved, "gram"), gram.packed()) < 1e-12);
    let head = ridge(&gram, &sums, Penalty::Relative(1e-3), 0).unwrap().weights;
    assert!(far(&values(&saved, "weights"), &head) < 1e-9);
    assert!(sums.iter().filter(|sum| **sum < 0.0).count() > sums.len() / 10, "no ReLU");
}

/// Rows of a task are some of all; rows that no task had are refused.
#[test]
fn the_head_answers_for_the_rows_that_it_has() {
    let done = run(exact(), PartitionRule::Iid, 2);
    let predictor = done.server.predictor(&done.ctx).unwrap();
    let images: Shard = (0..10).collect();
    let batch = done.ctx.statistics_loader(&images).in_order(10).next().unwrap().unwrap();
    let scores = |scope: Scope| predictor.batch_scores(&batch, &done.ctx.device, &scope);
    let of = |scope| scores(scope).unwrap().to_vec2::<f32>().unwrap();
    let (first, all) = (of(Scope::Task(0..3)), of(Scope::Seen(CLASSES)));
    assert!(first.iter().zip(&all).all(|(first, all)| first[..] == all[..3]));
    assert!(scores(Scope::Seen(CLASSES + 1)).is_err());
}

#[test]
fn a_server_read_back_from_its_checkpoint_is_the_same() {
    for config in [exact(), StsaConfig { head_mode: HeadMode::Linear, ..estimated() }, compared()] {
        let done = run(config, PartitionRule::Dirichlet { beta: 0.5 }, 4);
        let saved = done.server.save();
        let mut other = engine(config, 2, ClassPermutation::Native);
        assert_ne!(other.server.save().digest(), saved.digest());
        other.server.load(&saved).unwrap();
        assert_eq!(other.server.save().digest(), saved.digest());
        assert_eq!(other.tally(CLASSES), done.tally(CLASSES));
    }
}
