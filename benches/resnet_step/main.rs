//! One training step (forward and backward) of ResNet-18 with the 3 x 3 stem on 32 x 32 pixels, one
//! thread: ours against the same network written with candle's own layers.
//!
//! ```text
//! RAYON_NUM_THREADS=1 cargo bench --bench resnet_step
//! ```
//! Forward and backward are timed, not the optimizer. It takes a minute, half of it one step of candle's.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "benches compare with other arithmetic"
)]

mod stock;

use std::hint::black_box;
use std::time::{Duration, Instant};

use candle_core::{Device, Result, Tensor, Var};
use fedcast::experiment::keep_freed_memory;
use fedcast::model::{ParameterSet, ResNet, ResNetConfig, ops};
use fedcast::numerics::distributions::fill_normal;
use fedcast::numerics::streams::{Domain, StreamKey};
use stock::StockResNet;

const BATCH: usize = 128;
const CLASSES: usize = 10;

fn normal(shape: &[usize], deviation: f64, step: u64) -> Result<Tensor> {
    let mut values = vec![0f32; shape.iter().product()];
    fill_normal(&mut StreamKey::new(1, Domain::Drawing).step(step).rng(), &mut values);
    Tensor::from_vec(values, shape, &Device::Cpu)? * deviation
}

/// Data shared by both steps.
struct Setting {
    config: ResNetConfig,
    weights: ParameterSet,
    head: Tensor,
    pixels: Tensor,
    labels: Vec<u32>,
}

impl Setting {
    fn new() -> Result<Setting> {
        let config = ResNetConfig::default();
        let key = StreamKey::new(1, Domain::Init);
        Ok(Setting {
            config,
            weights: ResNet::initial_parameters(&config, key),
            head: normal(&[CLASSES, config.dim()], 0.05, 0)?,
            pixels: normal(&[BATCH, config.channels, config.image, config.image], 1.0, 1)?,
            labels: (0..BATCH).map(|i| (i % CLASSES) as u32).collect(),
        })
    }
}

fn step(loss: Result<Tensor>) -> Result<f32> {
    let loss = loss?;
    black_box(loss.backward()?);
    loss.to_scalar()
}

/// Times candle's step between two of ours, so that other load on the machine affects both.
fn compare(ours: impl Fn() -> Result<f32>, stock: impl Fn() -> Result<f32>) -> Result<()> {
    let timed = |step: &dyn Fn() -> Result<f32>| -> Result<(f32, Duration)> {
        let start = Instant::now();
        Ok((step()?, start.elapsed()))
    };
    // The first step finds cold pages and caches.
    ours()?;
    let (loss, before) = timed(&ours)?;
    let (other_loss, other) = timed(&stock)?;
    let (_, after) = timed(&ours)?;
    assert!((loss - other_loss).abs() < 1e-3 * other_loss, "losses: {loss} and {other_loss}");
    let own = (before + after) / 2;
    let ratio = other.as_secs_f64() / own.as_secs_f64();
    println!("{before:.1?} and {after:.1?} against {other:.1?}: {ratio:.2} times faster");
    Ok(())
}

fn main() -> Result<()> {
    keep_freed_memory();
    let setting = Setting::new()?;
    let network = ResNet::with_trainables(setting.config, &setting.weights);
    let network = network.map_err(candle_core::Error::wrap)?;
    let head = Var::from_tensor(&setting.head)?;
    let ours = || {
        let features = network.features(&setting.pixels).map_err(candle_core::Error::wrap)?;
        let logits = ops::linear(&features, &head, None)?;
        step(ops::cross_entropy(&logits, &setting.labels, 0..CLASSES))
    };
    let stock = StockResNet::new(&setting.config, &setting.weights, &setting.head)?;
    let labels = Tensor::new(setting.labels.as_slice(), &Device::Cpu)?;
    compare(ours, || step(stock.loss(&setting.pixels, &labels)))
}
