//! HGP's Gaussians by values: which model and which images they are of, how long the server keeps them, and what it
//! draws from them. Everything runs on the engine; what should come of it is worked out here from what travelled.

use std::collections::BTreeMap;
use std::sync::Arc;

use fedcast::data::{ClassPermutation, Normalization, Shard, Transform};
use fedcast::learning::{Classifier, Head, HeadTraining};
use fedcast::methods::class_statistics::{
    ClassGaussian, ClassStatistics, GaussianLifetime, Mixture, Omega, Prototypes, Rebalance,
};
use fedcast::methods::hgp::{Hgp, Learns};
use fedcast::model::{LinearHead, Parameter, ParameterSet};
use fedcast::numerics::gaussian::DiagonalGaussian;
use fedcast::numerics::streams::{Domain, StreamKey};
use fedcast::policy::{Message, RunContext, parameters_of};
use fedcast::quantity::ClientId;
use fedcast::wire::{Body, Kind};

use crate::toys::watched::{Engine, Exchange, SEED};
use crate::toys::{CLASSES, facts, run_context};
use crate::{built, far, hgp_with, small};

/// Mean and deviation of the pixels that models are trained on, and that they are described on.
pub const TRAINED: [f32; 2] = [0.8, 0.4];
pub const DESCRIBED: [f32; 2] = [0.2, 0.6];

/// A world whose pipelines agree in nothing.
pub fn apart() -> RunContext {
    let pipeline = |[mean, deviation]: [f32; 2]| {
        let (mean, deviation) = (vec![mean], vec![deviation]);
        let normalization = Normalization::Explicit { mean, deviation };
        Arc::new(Transform { normalization, ..Transform::default() })
    };
    RunContext {
        train_transform: pipeline(TRAINED),
        statistics_transform: pipeline(DESCRIBED),
        ..run_context(3, ClassPermutation::Native)
    }
}

fn engine(method: Hgp) -> Engine {
    Engine::new(built(method, &facts()), facts(), apart())
}

/// The first samples of classes, a given number of each, after those that others took.
pub fn samples(ctx: &RunContext, taken: &mut [usize; CLASSES], wanted: &[(usize, usize)]) -> Shard {
    let by_class = ctx.dataset.train.by_class();
    let mut own = Vec::new();
    for (class, count) in wanted {
        own.extend(&by_class[*class][taken[*class]..taken[*class] + count]);
        taken[*class] += count;
    }
    own.sort_unstable();
    own.into()
}

/// Two clients with unlike shares of classes 0 and 1: 12 and 3 samples, 4 and 2.
pub fn uneven(ctx: &RunContext) -> Vec<Shard> {
    let mut taken = [0; CLASSES];
    [[(0, 12), (1, 3)], [(0, 4), (1, 2)]].map(|own| samples(ctx, &mut taken, &own)).into()
}

/// Mean and unbiased variance of the features of each class of a shard.
pub fn moments(
    ctx: &RunContext,
    parameters: &ParameterSet,
    shard: &Shard,
    [mean, deviation]: [f32; 2],
) -> BTreeMap<u32, [Vec<f64>; 2]> {
    let network = Classifier::frozen(&ctx.backbone, parameters).unwrap();
    let mut by_class: BTreeMap<u32, Vec<Vec<f32>>> = BTreeMap::new();
    for sample in shard.iter() {
        let image = ctx.dataset.train.image(*sample as usize).unwrap();
        let pixels = image.pixels.iter().map(|v| (f32::from(*v) / 255.0 - mean) / deviation);
        let pixels: Vec<f32> = pixels.collect();
        let pixels = candle_core::Tensor::from_vec(pixels, (1, 1, 8, 8), &ctx.device).unwrap();
        let feature = network.features(&pixels).unwrap().to_vec2::<f32>().unwrap().remove(0);
        by_class.entry(ctx.dataset.train.labels()[*sample as usize]).or_default().push(feature);
    }
    let of = |features: Vec<Vec<f32>>| {
        let n = features.len() as f64;
        let axis = |at: usize| features.iter().map(move |feature| f64::from(feature[at]));
        let mean: Vec<f64> = (0..16).map(|at| axis(at).sum::<f64>() / n).collect();
        let spread = |at: usize| axis(at).map(|v| (v - mean[at]).powi(2)).sum::<f64>() / (n - 1.0);
        let variance = (0..16).map(spread).collect();
        [mean, variance]
    };
    by_class.into_iter().map(|(class, features)| (class, of(features))).collect()
}

/// Returns what an upload reports of its classes.
pub fn said(exchange: &Exchange) -> Vec<Arc<ClassStatistics>> {
    let upload = exchange.up.as_ref().unwrap();
    let message = Message::from_body(upload, &[]).unwrap();
    let mut control = message.fields();
    control.u64().unwrap();
    let rows = control.u32s().unwrap();
    let Ok(counts) = upload.tensor(Kind::Prototypes, "counts") else { return Vec::new() };
    let counts = counts.as_u32().unwrap();
    let values = |name: &str, at: usize| -> Vec<f64> {
        let all = upload.tensor(Kind::Prototypes, name).unwrap().as_f32().unwrap();
        all[at * 16..(at + 1) * 16].iter().map(|v| f64::from(*v)).collect()
    };
    let class = |(at, row): (usize, &u32)| {
        let (mean, variance) = (values("means", at), values("variances", at));
        let gaussian = DiagonalGaussian { count: u64::from(counts[at]), mean, variance };
        Arc::new(ClassStatistics { row: *row, gaussian: ClassGaussian::Diagonal(gaussian) })
    };
    rows.iter().enumerate().map(class).collect()
}

fn apart_by(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// A class is described by the model as it was just trained, not as it was received, on images of the statistics
/// pipeline, not of training; variances divide by n - 1.
#[test]
fn a_class_is_described_by_the_trained_model_on_statistics_images() {
    for train in [Learns::Prompt, Learns::All] {
        let mut run = engine(small(|c| c.train = train));
        let shards = uneven(&run.ctx);
        run.task(0, &shards, 1);
        for (exchange, shard) in run.exchanges.iter().zip(&shards) {
            let trained = parameters_of(exchange.up.as_ref().unwrap()).unwrap();
            let received = parameters_of(&exchange.down).unwrap();
            let right = moments(&run.ctx, &trained, shard, DESCRIBED);
            let wrong = [
                ("as received", moments(&run.ctx, &received, shard, DESCRIBED)),
                ("on training images", moments(&run.ctx, &trained, shard, TRAINED)),
            ];
            let classes = said(exchange);
            assert_eq!(classes.iter().map(|class| class.row).collect::<Vec<_>>(), [0, 1]);
            for class in classes {
                let ClassGaussian::Diagonal(found) = &class.gaussian else { panic!("diagonal") };
                let [mean, variance] = &right[&class.row];
                assert!(apart_by(&found.mean, mean) < 1e-4, "{train:?}: mean");
                assert!(apart_by(&found.variance, variance) < 1e-4, "{train:?}: variance");
                // The test would see any of these.
                for (what, wrong) in &wrong {
                    let [mean, variance] = &wrong[&class.row];
                    assert!(apart_by(&found.mean, mean) > 1e-2, "{train:?} {what}: mean");
                    assert!(apart_by(&found.variance, variance) > 1e-3, "{train:?} {what}");
                }
            }
        }
    }
}

/// The samples behind a row, or one and the same for all.
pub type Weighing = fn(&Prototypes, u32) -> f64;

pub fn evenly(_: &Prototypes, _: u32) -> f64 {
    1.0
}

fn by_share(all: &Prototypes, row: u32) -> f64 {
    all.of(row..row + 1).flat_map(|(_, cells)| cells.values()).map(|c| c.gaussian.count()).sum()
}

/// Computes the server's result of the last `clients` uploads.
///
/// It is the mean of heads by samples, trained on features drawn from these Gaussians.
pub fn rebalanced(
    run: &Engine,
    clients: usize,
    cells: &[(ClientId, Arc<ClassStatistics>)],
    weighing: Weighing,
    scale: f64,
) -> Vec<f32> {
    let round = &run.exchanges[run.exchanges.len() - clients..];
    let samples = |upload: &Body| {
        let count = upload.tensor(Kind::Statistics, "samples").unwrap().as_u32().unwrap()[0];
        f64::from(count)
    };
    let mean = |name: &str| -> Vec<f32> {
        let mut sum = vec![0.0; 0];
        let mut total = 0.0;
        for exchange in round {
            let upload = exchange.up.as_ref().unwrap();
            let values = parameters_of(upload).unwrap().get(name).unwrap().values.to_vec();
            sum.resize(values.len(), 0.0);
            sum.iter_mut().zip(&values).for_each(|(s, v)| *s += samples(upload) * f64::from(*v));
            total += samples(upload);
        }
        sum.iter().map(|s| (s / total) as f32).collect()
    };
    let mut head = Head { weight: mean(LinearHead::WEIGHT), bias: mean(LinearHead::BIAS) };
    let task = round[0].task;
    let seen = run.view(task).seen();
    let mut all = Prototypes::default();
    for (client, cell) in cells {
        all.update(&[(*client, vec![Arc::clone(cell)])], false);
    }
    let omega = |row: u32| weighing(&all, row);
    let mixture = Mixture::new(&all, 0..seen as u32, omega, scale).unwrap().unwrap();
    let key = StreamKey::new(SEED, Domain::Rebalance).task(task as u32).round(run.round - 1);
    let key = key.client(u32::MAX);
    // 64 features a class that has a Gaussian.
    let batches = (64 * all.totals(0..seen as u32).len()).div_ceil(32);
    HeadTraining::default()
        .run(&mut head, 0..seen, batches, 32, |epoch, batch, features, labels| {
            let mut rng = key.step((u64::from(epoch) << 32) | batch as u64).rng();
            mixture.draw(&mut rng, features, labels);
        })
        .unwrap();
    [head.weight, head.bias].concat()
}

/// The server's head.
pub fn kept(run: &Engine) -> Vec<f32> {
    let saved = parameters_of(&run.server.save()).unwrap();
    let values = |name: &str| saved.get(name).map(|p: &Parameter| p.values.to_vec()).unwrap();
    [values(LinearHead::WEIGHT), values(LinearHead::BIAS)].concat()
}

/// Every Gaussian that the last `clients` uploads hold.
pub fn cells(run: &Engine, clients: usize) -> Vec<(ClientId, Arc<ClassStatistics>)> {
    let round = &run.exchanges[run.exchanges.len() - clients..];
    let of =
        |e: &Exchange| said(e).into_iter().map(|c| (e.participant.client, c)).collect::<Vec<_>>();
    round.iter().flat_map(of).collect()
}

/// Features are drawn with three times the variance, classes as often as omega says, clients by their samples.
#[test]
fn features_are_drawn_as_the_keys_say() {
    assert_eq!(Hgp::default().cov_scale, 3.0);
    let weighings: [(Omega, Weighing); 2] = [(Omega::Uniform, evenly), (Omega::Share, by_share)];
    for (omega, weighing) in weighings {
        let mut run = engine(small(|c| c.rebalancing.omega = omega));
        let shards = uneven(&run.ctx);
        run.task(0, &shards, 1);
        let (found, cells) = (kept(&run), cells(&run, 2));
        let of = |weighing, scale| rebalanced(&run, 2, &cells, weighing, scale);
        assert!(
            far(&found, &of(weighing, 3.0)) < 1e-4,
            "{omega:?}: {}",
            far(&found, &of(weighing, 3.0))
        );
        assert!(far(&found, &of(weighing, 1.0)) > 1e-3, "{omega:?}: the variances matter");
        let other = weighings.map(|(_, weighing)| far(&found, &of(weighing, 3.0)));
        assert!(other.iter().any(|gap| *gap > 1e-3), "{omega:?}: classes have unlike counts");
    }
    // A factor of one's own is passed on, too.
    let mut run = engine(small(|c| c.cov_scale = 0.5));
    let shards = uneven(&run.ctx);
    run.task(0, &shards, 1);
    assert!(far(&kept(&run), &rebalanced(&run, 2, &cells(&run, 2), evenly, 0.5)) < 1e-4);
}

/// `round`: a client that describes a class again replaces all that was said of it in the task, and a class that no
/// client describes again keeps what it had. `task`: only a client's own word is replaced. `cohort`: of the task there
/// is what the last round said, and earlier tasks keep theirs. What is drawn follows.
#[test]
fn gaussians_last_for_a_round_or_a_task_or_while_their_cohort_is_asked() {
    let counts =
        |saved: &Body| saved.tensor(Kind::Prototypes, "counts").unwrap().as_u32().unwrap().to_vec();
    for (memory, kept_counts) in [
        (GaussianLifetime::Round, vec![8, 7, 5, 3]),
        (GaussianLifetime::Task, vec![8, 7, 4, 5, 3]),
        (GaussianLifetime::Cohort, vec![8, 7]),
    ] {
        let mut run = engine(small(|c| c.gaussian_lifetime = memory));
        let mut taken = [0; CLASSES];
        let first = samples(&run.ctx, &mut taken, &[(0, 8)]);
        let none = Shard::from([]);
        run.task(0, &[first, none.clone()], 1);
        let old = cells(&run, 2);
        // Both describe classes 2 and 3; then the first client describes class 2 alone.
        let early = [[(2, 6), (3, 5)], [(2, 4), (3, 3)]];
        let early = early.map(|own| samples(&run.ctx, &mut taken, &own));
        run.task(1, &early, 1);
        let before = cells(&run, 2);
        let late = samples(&run.ctx, &mut [0; CLASSES], &[(2, 7)]);
        run.task(1, &[late, none], 1);
        assert_eq!(counts(&run.server.save()), kept_counts, "{memory:?}");
        let now = cells(&run, 2);
        let replaced = |(client, cell): &(ClientId, Arc<ClassStatistics>)| {
            let restarted =
                cell.row == 2 && (memory == GaussianLifetime::Round || *client == ClientId(0));
            restarted || memory == GaussianLifetime::Cohort
        };
        let still = before.iter().filter(|cell| !replaced(cell)).cloned();
        let mut all: Vec<_> = old.iter().cloned().chain(still).chain(now.iter().cloned()).collect();
        all.sort_by_key(|(client, cell)| (cell.row, *client));
        assert_eq!(all.len(), kept_counts.len());
        let gap = |cells: &[_]| far(&kept(&run), &rebalanced(&run, 2, cells, evenly, 3.0));
        assert!(gap(&all) < 1e-4, "{memory:?}: {}", gap(&all));
        let everything: Vec<_> = old.iter().chain(&before).chain(&now).cloned().collect();
        assert_eq!(gap(&everything) > 1e-3, memory != GaussianLifetime::Task, "{memory:?}");
    }
}

/// FT+CR of figure 3: the whole network trains and is averaged, the server rebalances its head and nothing below.
#[test]
fn the_whole_network_is_averaged_and_its_head_rebalanced() {
    let after = |over: Rebalance| {
        let method = hgp_with(|c| (c.train, c.rebalancing.over) = (Learns::All, over));
        let run = crate::engine(method, 3).run(2, 1);
        parameters_of(&run.server.save()).unwrap()
    };
    let plain = after(Rebalance::None);
    // Without rebalancing it is FedAvg on the whole network.
    let fedavg = crate::engine(crate::fedavg_of(fedcast::methods::fedavg::Train::All), 3).run(2, 1);
    assert_eq!(parameters_of(&fedavg.server.save()).unwrap().digest(), plain.digest());

    // Of the first task nothing but the rows of the head is moved.
    let of_task = |over: Rebalance| {
        let method = hgp_with(|c| (c.train, c.rebalancing.over) = (Learns::All, over));
        let mut run = crate::engine(method, 3);
        let shards = uneven(&run.ctx);
        run.task(0, &shards, 1);
        parameters_of(&run.server.save()).unwrap()
    };
    let (plain, both) = (of_task(Rebalance::None), of_task(Rebalance::Both));
    let start = parameters_of(&crate::engine(hgp_with(|c| c.train = Learns::All), 3).server.save());
    let start = start.unwrap();
    for ((name, plain), (_, both)) in plain.iter().zip(both.iter()) {
        let moved = plain.values != both.values;
        assert_eq!(moved, name.starts_with("head."), "{name}");
        assert_ne!(Some(plain), start.get(name), "{name} trains");
    }
    let rows = |set: &ParameterSet| set.get(LinearHead::WEIGHT).unwrap().values[2 * 16..].to_vec();
    assert_eq!(rows(&plain), rows(&both), "rows of tasks to come");
}
