//! One training step of ViT-Tiny on 65 tokens (128 pixels), batch 16, one thread: ours against
//! the same step written with candle's own differentiable ops.
//!
//! * `prefix`: frozen backbone, 100 + 100 prefix vectors in 5 blocks and a 100-way head train;
//! * `full`: every parameter trains;
//! * `lora`: frozen backbone, pairs of rank 4 at queries and values of all blocks and the head train;
//! * `embedded`: the prefix step of the small network that ships with the program (17 tokens).
//!
//! ```text
//! RAYON_NUM_THREADS=1 cargo bench --bench prefix_step
//! ```
//! With `FEDCAST_WEIGHTS` a safetensors file of a ViT-Tiny is used, else random weights; the time is the same. Forward
//! and backward are timed, not the optimizer. Lines that begin with `products` compare the rate of a step's matrix
//! products with the machine's peak in large ones.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "benches compare with other arithmetic"
)]

#[path = "../figures/mod.rs"]
mod figures;
mod stock;

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use candle_core::{Device, Tensor, Var};
use criterion::{Criterion, criterion_group, criterion_main};
use fedcast::learning::PromptShape;
use fedcast::model::vit::Checkpoint;
use fedcast::model::{
    Adaptation, EMBEDDED_CONFIG, LinearHead, LoraPlace, LoraShape, ModelError, ParameterSet,
    Variables, Vit, VitConfig, loras_of, ops,
};
use fedcast::numerics::distributions::fill_normal;
use fedcast::numerics::streams::{Domain, StreamKey};
use figures::Times;
use figures::arithmetic::{Trained, peak, print_share};
use stock::StockVit;

const SIDE: usize = 128;
const BATCH: usize = 16;
const CLASSES: usize = 100;
const PROMPTED: usize = 5;
const PROMPT: usize = 200;
const RANK: usize = 4;

/// Data shared by both steps.
struct Setting {
    config: VitConfig,
    weights: ParameterSet,
    pixels: Tensor,
    labels: Vec<u32>,
    prompts: Vec<Var>,
    /// Low-rank pairs of all blocks.
    pairs: Variables,
    head: LinearHead,
}

fn normal(shape: &[usize], deviation: f64, step: u64) -> Result<Tensor, ModelError> {
    let mut values = vec![0f32; shape.iter().product()];
    fill_normal(&mut StreamKey::new(1, Domain::Drawing).step(step).rng(), &mut values);
    Ok((Tensor::from_vec(values, shape, &Device::Cpu)? * deviation)?)
}

fn key() -> StreamKey {
    StreamKey::new(1, Domain::Init)
}

impl Setting {
    fn tiny() -> Result<Setting, ModelError> {
        match std::env::var_os("FEDCAST_WEIGHTS") {
            Some(path) => {
                let read = Checkpoint::read(Path::new(&path), None)?.at_resolution(SIDE)?;
                Setting::new(read.config, read.parameters)
            }
            None => Setting::random(VitConfig::default().at_resolution(SIDE)),
        }
    }

    fn random(config: VitConfig) -> Result<Setting, ModelError> {
        Setting::new(config, Vit::initial_parameters(&config, key()))
    }

    fn new(config: VitConfig, weights: ParameterSet) -> Result<Setting, ModelError> {
        let places = vec![LoraPlace::Q, LoraPlace::V];
        let shape =
            LoraShape { vit: config, blocks: config.depth, places, rank: RANK, tasks: None };
        let start = LinearHead::initial_parameters(CLASSES, config.dim, key().step(1));
        Ok(Setting {
            config,
            weights,
            pixels: normal(&[BATCH, config.channels, config.image, config.image], 1.0, 0)?,
            labels: (0..BATCH as u32).map(|i| 10 + i % 10).collect(),
            prompts: (0..PROMPTED)
                .map(|j| Ok(Var::from_tensor(&normal(&[PROMPT, config.dim], 0.1, 1 + j as u64)?)?))
                .collect::<Result<_, ModelError>>()?,
            pairs: shape.initial_parameters(key().step(2)).variables(&Device::Cpu)?,
            head: LinearHead::with_trainables(&start)?.0,
        })
    }

    fn ours(&self, vit: &Vit, prompted: bool) -> Result<f32, ModelError> {
        let adaptation = match prompted {
            true => Adaptation::prompts(self.prompts.iter().map(Var::as_tensor))?,
            false => Adaptation::none(),
        };
        self.step(vit, &adaptation)
    }

    fn low_rank(&self, vit: &Vit) -> Result<f32, ModelError> {
        let factor = |(name, var): &(Arc<str>, Var)| (name.clone(), vec![var.as_tensor().clone()]);
        let loras = loras_of(self.pairs.iter().map(factor))?;
        self.step(vit, &Adaptation { loras, ..Adaptation::none() })
    }

    fn step(&self, vit: &Vit, adaptation: &Adaptation) -> Result<f32, ModelError> {
        let logits = self.head.logits(&vit.features(&self.pixels, adaptation)?)?;
        let loss = ops::cross_entropy(&logits, &self.labels, 10..20)?;
        black_box(loss.backward()?);
        Ok(loss.to_scalar()?)
    }

    fn stock(&self, vit: &StockVit, prompted: bool) -> Result<f32, ModelError> {
        let prompts: &[Var] = if prompted { &self.prompts } else { &[] };
        let features = vit.features(&self.pixels, prompts)?;
        let logits = features.matmul(&self.head.weight.t()?)?.broadcast_add(&self.head.bias)?;
        let labels: Vec<u32> = self.labels.iter().map(|y| y - 10).collect();
        let labels = Tensor::new(labels, &Device::Cpu)?;
        let loss =
            candle_nn::loss::cross_entropy(&logits.narrow(1, 10, 10)?.contiguous()?, &labels)?;
        black_box(loss.backward()?);
        Ok(loss.to_scalar()?)
    }
}

/// Prints the best times of several alternating repetitions, and their ratio.
fn compare(
    name: &str,
    ours: impl Fn() -> Result<f32, ModelError>,
    stock: impl Fn() -> Result<f32, ModelError>,
) -> Result<(), ModelError> {
    let timed =
        |step: &dyn Fn() -> Result<f32, ModelError>| -> Result<(f32, Duration), ModelError> {
            let start = Instant::now();
            let loss = step()?;
            Ok((loss, start.elapsed()))
        };
    let mut best = [Duration::MAX; 2];
    for _ in 0..7 {
        let (a, own) = timed(&ours)?;
        let (b, other) = timed(&stock)?;
        assert!((a - b).abs() < 1e-3 * b.abs(), "{name}: the losses differ: {a} and {b}");
        best = [best[0].min(own), best[1].min(other)];
    }
    let ratio = best[1].as_secs_f64() / best[0].as_secs_f64();
    println!("{name}: ours {:.0?}, stock candle {:.0?}: {ratio:.2} times faster", best[0], best[1]);
    Ok(())
}

fn steps(criterion: &mut Criterion) -> Result<(), ModelError> {
    let setting = Setting::tiny()?;
    let frozen = Vit::from_parameters(setting.config, &setting.weights)?;
    let trained = Vit::with_trainables(setting.config, &setting.weights)?;
    let stock_frozen = StockVit::new(setting.config, &setting.weights, false)?;
    let stock_trained = StockVit::new(setting.config, &setting.weights, true)?;
    compare("prefix step", || setting.ours(&frozen, true), || setting.stock(&stock_frozen, true))?;
    compare(
        "full step",
        || setting.ours(&trained, false),
        || setting.stock(&stock_trained, false),
    )?;
    let small = Setting::random(EMBEDDED_CONFIG)?;
    let embedded = Vit::from_parameters(small.config, &small.weights)?;
    let stock_embedded = StockVit::new(small.config, &small.weights, false)?;
    compare(
        "embedded step",
        || small.ours(&embedded, true),
        || small.stock(&stock_embedded, true),
    )?;

    let mut group = criterion.benchmark_group("vit-tiny, 65 tokens, batch 16");
    group.sample_size(10).measurement_time(Duration::from_secs(5));
    let peak = peak(1);
    let mut measure = |name, trained: Trained, step: &dyn Fn() -> Result<f32, ModelError>| {
        let mut times = Times::default();
        group.bench_function(name, |b| {
            b.iter_custom(|n| {
                times.take(n, || {
                    let start = Instant::now();
                    black_box(step().expect("the step runs"));
                    start.elapsed()
                })
            });
        });
        let Some(seconds) = times.median() else { return };
        let image = trained.forward(&setting.config) + trained.backward(&setting.config);
        print_share(name, BATCH as f64 * image, seconds, peak);
    };
    let prompt = PromptShape { blocks: PROMPTED, length: PROMPT, dim: setting.config.dim };
    measure("prefix step", Trained::Prefixes(prompt), &|| setting.ours(&frozen, true));
    measure("full step", Trained::Everything, &|| setting.ours(&trained, false));
    measure("lora step", Trained::LowRank { rank: RANK }, &|| setting.low_rank(&frozen));
    group.bench_function("prefix step, stock candle", |b| {
        b.iter(|| setting.stock(&stock_frozen, true));
    });
    group.bench_function("embedded step", |b| b.iter(|| small.ours(&embedded, true)));
    group.bench_function("features", |b| {
        b.iter(|| frozen.features(&setting.pixels, &Adaptation::none()));
    });
    group.finish();
    Ok(())
}

fn run(criterion: &mut Criterion) {
    figures::begin();
    steps(criterion).expect("the steps run");
}

criterion_group!(benches, run);
criterion_main!(benches);
