//! Eight clients one after the other against one pack of them, on one thread, for batches of 1 to 16
//! images: HGP's step (a prompt and a head on the network that ships with the program) and the linear
//! probe's (a head on cached features of that network).
//!
//! ```text
//! export RAYON_NUM_THREADS=1 MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=268435456
//! cargo bench --bench packs
//! ```
//! Both give the same bits (see `tests/methods/packs.rs`); the printed ratio is the gain or loss of packing on this
//! CPU. The thresholds make glibc keep freed memory: without them it returns the larger tensors of a pack to the system
//! at every step, and the pack takes up to twice as long.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use candle_core::Device;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use fedcast::data::{ClassPermutation, Loader, TaskSequence, TaskSizes, digits};
use fedcast::learning::{
    Classifier, FeatureCache, LearningError, MemberData, OptimizerConfig, PromptShape,
    TrainingPlan, train_pack,
};
use fedcast::model::{
    Backbone, EMBEDDED_CONFIG, FrozenPart, LinearHead, ParameterSet, embedded_vit,
};
use fedcast::numerics::streams::{Domain, StreamKey};

const CLIENTS: usize = 8;
const CLASSES: usize = 10;

/// Parameters that the clients train.
#[derive(Clone, Copy)]
enum Task {
    Prompt,
    Head,
}

impl Task {
    fn name(self) -> &'static str {
        match self {
            Task::Prompt => "prompt and head",
            Task::Head => "head on cached features",
        }
    }

    /// Returns the number of steps of a client, enough for a reliable time.
    fn steps(self) -> usize {
        match self {
            Task::Prompt => 2,
            Task::Head => 10,
        }
    }
}

struct Setting {
    task: Task,
    backbone: Arc<Backbone>,
    received: ParameterSet,
    loaders: Vec<Loader>,
    plan: TrainingPlan,
}

fn key() -> StreamKey {
    StreamKey::new(1, Domain::Init)
}

/// Returns the samples as their features.
fn cached(backbone: &Backbone, loader: Loader) -> Loader {
    let cache = FeatureCache::default();
    let store = cache.store(backbone, loader.split(), loader.transform(), FrozenPart::Whole);
    let store = store.expect("opens").expect("the transform draws nothing");
    store.fill(backbone, &Device::Cpu, loader.shard()).expect("computes");
    loader.with_rows(store)
}

impl Setting {
    fn new(task: Task, batch: usize) -> Setting {
        let digits = digits::embedded().expect("embedded");
        let task_sequence =
            TaskSequence::new(CLASSES, &ClassPermutation::Native, &TaskSizes::Even(1));
        let (task_sequence, transform) =
            (Arc::new(task_sequence.expect("divides")), Arc::default());
        let backbone = Arc::new(embedded_vit().expect("embedded").into());
        let samples = (task.steps() * batch) as u32;
        let loader = |client: u32| {
            let shard = (0..samples).map(|i| (client * samples + i) % digits.train.len() as u32);
            let (split, transform) = (Arc::clone(&digits.train), Arc::clone(&transform));
            Loader::new(split, shard.collect(), Arc::clone(&task_sequence), transform)
        };
        let dim = EMBEDDED_CONFIG.dim;
        let mut received = LinearHead::initial_parameters(CLASSES, dim, key());
        let mut loaders: Vec<Loader> = (0..CLIENTS as u32).map(loader).collect();
        match task {
            Task::Prompt => {
                let shape = PromptShape { blocks: 5, length: 200, dim };
                for (name, prompt) in shape.initial_parameters(0.02, key()).iter() {
                    received.insert(Arc::clone(name), prompt.clone());
                }
            }
            Task::Head => {
                loaders = loaders.into_iter().map(|loader| cached(&backbone, loader)).collect();
            }
        }
        Setting {
            task,
            backbone,
            received,
            loaders,
            plan: TrainingPlan {
                epochs: 1,
                batch,
                optimizer: OptimizerConfig::adamw(3e-3),
                ..TrainingPlan::default()
            },
        }
    }

    /// Trains all clients in packs of this size, one pack after the other.
    fn train(&self, pack: usize) -> Result<(), LearningError> {
        for loaders in self.loaders.chunks(pack) {
            let received = vec![self.received.clone(); loaders.len()];
            let model = Classifier::pack(&self.backbone, received, 0..CLASSES)?;
            let courses: Vec<MemberData<'_>> = (loaders.iter().zip(0..))
                .map(|(loader, client)| MemberData { loader, key: key().client(client) })
                .collect();
            let rule = self.plan.optimizer.clone();
            let mut optimizer = rule.over_pack(model.vars(), model.members());
            let reports =
                train_pack(&self.plan, &mut optimizer, model.variables(), &courses, |step| {
                    model.pack_losses(step, &Device::Cpu, None)
                })?;
            black_box(reports);
        }
        Ok(())
    }

    /// Prints the best times of several alternating repetitions.
    fn compare(&self) -> Result<(), LearningError> {
        let timed = |pack| -> Result<Duration, LearningError> {
            let start = Instant::now();
            self.train(pack)?;
            Ok(start.elapsed())
        };
        let mut best = [Duration::MAX; 2];
        for _ in 0..9 {
            best = [best[0].min(timed(1)?), best[1].min(timed(CLIENTS)?)];
        }
        let ratio = best[0].as_secs_f64() / best[1].as_secs_f64();
        println!(
            "{}, batches of {}: eight alone {:.1?}, one pack {:.1?}: {ratio:.2} times as fast",
            self.task.name(),
            self.plan.batch,
            best[0],
            best[1]
        );
        Ok(())
    }
}

fn run(criterion: &mut Criterion) {
    for task in [Task::Prompt, Task::Head] {
        let mut group = criterion.benchmark_group(format!("eight clients, {}", task.name()));
        group.sample_size(10).measurement_time(Duration::from_secs(2));
        for batch in [1, 2, 4, 16] {
            let setting = Setting::new(task, batch);
            setting.compare().expect("trains");
            for pack in [1, CLIENTS] {
                let id = BenchmarkId::new(format!("pack of {pack}"), format!("batches of {batch}"));
                group.bench_function(id, |b| b.iter(|| setting.train(pack).expect("trains")));
            }
        }
        group.finish();
    }
}

criterion_group!(benches, run);
criterion_main!(benches);
