//! Rounds of federated averaging where only a linear head trains: what is left when the backbone costs nothing.
//!
//! * `logistic`: 3,072 pixels -> 100 classes, 1,000 clients of 10 samples, 10 per round, batches of 10, one epoch.
//!   Asked on two cores: 200 rounds per second in less than 150 MB.
//!
//! ```text
//! cargo bench --bench heads -- logistic
//! ```
//! Criterion's throughput is rounds per second on two workers, ledger and journal on; the peak of resident
//! memory is printed once at the end, so ask for one benchmark at a time.

#[path = "../records/mod.rs"]
mod records;

use std::sync::Arc;

use candle_core::Device;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use fedcast::data::{ClassOrder, Curriculum, Dataset, Shard, Split, TaskSizes, Transform};
use fedcast::experiment::keep_freed_memory;
use fedcast::federation::{
    Coding, Curve, Interrupt, Participation, Rules, Setup, ShardSource, Share, Workforce, simulate,
};
use fedcast::learning::{OptimiserConfig, TrainingPlan};
use fedcast::methods::fedavg::{FedAvg, FedAvgConfig, Train};
use fedcast::model::{Backbone, BackboneConfig, PixelShape};
use fedcast::numerics::streams::{Domain, StreamKey};
use fedcast::policy::{Lab, ModelFacts, WireForm, erase};
use rand::RngCore;
use records::Records;

const CLASSES: usize = 100;
const CLIENTS: u32 = 1_000;
const SAMPLES: u32 = 10;
const ROUNDS: u32 = 100;

/// Images of noise, every class equally often.
fn noise(samples: u32) -> Split {
    let shape = [3, 32, 32];
    let mut bytes = vec![0; samples as usize * 3_072];
    StreamKey::new(1, Domain::Drawing).rng().fill_bytes(&mut bytes);
    let labels = (0..samples).map(|i| i % CLASSES as u32).collect();
    Split::from_buffer(bytes, shape, labels, CLASSES).expect("fits")
}

fn logistic() -> Setup {
    let dataset = Dataset {
        name: "noise".to_string(),
        class_names: (0..CLASSES).map(|class| class.to_string()).collect(),
        train: Arc::new(noise(CLIENTS * SAMPLES)),
        test: Arc::new(noise(CLASSES as u32)),
    };
    let tasks = TaskSizes::Even(1);
    let curriculum = Curriculum::new(CLASSES, &ClassOrder::Native, &tasks).expect("divides");
    let shard = |client: u32| -> Shard { (client * SAMPLES..(client + 1) * SAMPLES).collect() };
    let shape = PixelShape { channels: 3, image: 32 };
    let backbone = BackboneConfig::Pixels(shape);
    let facts = ModelFacts { backbone, classes: CLASSES, form: WireForm::Full };
    let config = FedAvgConfig { train: Train::Head, ..FedAvgConfig::default() };
    let transform = Arc::new(Transform::default());
    let participation = Participation { share: Share::Count(10), ..Participation::default() };
    Setup {
        rules: Rules {
            clients: CLIENTS,
            rounds: ROUNDS,
            participation,
            curve: Curve::Never,
            ..Rules::default()
        },
        name: "fedavg".to_string(),
        method: erase(FedAvg::new(config, &facts)),
        lab: Lab {
            device: Device::Cpu,
            backbone: Arc::new(Backbone::Pixels(shape)),
            dataset: Arc::new(dataset),
            curriculum: Arc::new(curriculum),
            train_transform: Arc::clone(&transform),
            statistics_transform: Arc::clone(&transform),
            training: TrainingPlan {
                epochs: 1,
                batch: SAMPLES as usize,
                optimiser: OptimiserConfig::sgd(0.01),
                clip: None,
                ..TrainingPlan::default()
            },
            evaluation_batch: 64,
            staged: None,
        },
        test_transform: transform,
        shards: ShardSource::Drawn(vec![(0..CLIENTS).map(shard).collect()]),
        facts,
        coding: Coding::default(),
        charged: true,
        workers: Workforce::Cpu(2),
        shaker: None,
    }
}

fn rounds(criterion: &mut Criterion) {
    keep_freed_memory();
    let mut group = criterion.benchmark_group("heads");
    group.sample_size(10).throughput(Throughput::Elements(u64::from(ROUNDS)));
    group.bench_function("logistic", |bencher| {
        let run = |setup| {
            simulate(setup, Records::new(), Box::new(()), Interrupt::default()).expect("ends well")
        };
        bencher.iter_batched(logistic, run, BatchSize::PerIteration);
    });
    group.finish();
    if let Some(peak) = records::peak_resident() {
        println!("peak of resident memory: {peak} kB");
    }
}

criterion_group!(benches, rounds);
criterion_main!(benches);
