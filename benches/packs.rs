//! Eight clients that train a prompt and a head on the network that ships with the program: one after
//! the other against one pack, on one thread, for batches of 1 to 16 images.
//!
//! ```text
//! RAYON_NUM_THREADS=1 cargo bench --bench packs
//! ```
//! Both give the same bits (see `tests/method_invariants/packs.rs`); the printed ratio says what packing
//! costs or saves on this CPU.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use candle_core::Device;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use fedcast::data::{ClassOrder, Curriculum, Loader, TaskSizes, Transform, digits};
use fedcast::learning::{
    Classifier, Course, LearningError, OptimiserConfig, PromptShape, TrainingPlan, train_pack,
};
use fedcast::model::{Backbone, EMBEDDED_CONFIG, LinearHead, ParameterSet, embedded_vit};
use fedcast::numerics::streams::{Domain, StreamKey};

const CLIENTS: usize = 8;
const STEPS: usize = 2;
const CLASSES: usize = 10;

struct Setting {
    backbone: Arc<Backbone>,
    received: ParameterSet,
    loaders: Vec<Loader>,
    plan: TrainingPlan,
}

fn key() -> StreamKey {
    StreamKey::new(1, Domain::Init)
}

impl Setting {
    /// Every client has two batches.
    fn new(batch: usize) -> Setting {
        let digits = digits::embedded().expect("embedded");
        let curriculum = Curriculum::new(CLASSES, &ClassOrder::Native, &TaskSizes::Even(1));
        let (curriculum, transform) = (Arc::new(curriculum.expect("divides")), Arc::default());
        let samples = (STEPS * batch) as u32;
        let loader = |client: u32| {
            let shard = (client * samples..(client + 1) * samples).collect();
            let transform: &Arc<Transform> = &transform;
            Loader::new(digits.train.clone(), shard, Arc::clone(&curriculum), transform.clone())
        };
        let dim = EMBEDDED_CONFIG.dim;
        let prompt = PromptShape { blocks: EMBEDDED_CONFIG.depth.min(5), length: 200, dim };
        let prompt = prompt.initial_parameters(0.02, key());
        let head = LinearHead::initial_parameters(CLASSES, dim, key());
        let both = prompt.iter().chain(head.iter());
        Setting {
            backbone: Arc::new(embedded_vit().expect("embedded").into()),
            received: both.map(|(name, p)| (Arc::clone(name), p.clone())).collect(),
            loaders: (0..CLIENTS as u32).map(loader).collect(),
            plan: TrainingPlan {
                epochs: 1,
                batch,
                optimiser: OptimiserConfig::adamw(3e-3),
                ..TrainingPlan::default()
            },
        }
    }

    /// Trains all clients in packs of this size, one pack after the other.
    fn train(&self, pack: usize) -> Result<(), LearningError> {
        for loaders in self.loaders.chunks(pack) {
            let received = vec![self.received.clone(); loaders.len()];
            let model = Classifier::pack(&self.backbone, received, 0..CLASSES)?;
            let courses: Vec<Course<'_>> = (loaders.iter().zip(0..))
                .map(|(loader, client)| Course { loader, key: key().client(client) })
                .collect();
            let rule = self.plan.optimiser.clone();
            let mut optimiser = rule.over_pack(model.vars(), model.members());
            let reports =
                train_pack(&self.plan, &mut optimiser, model.variables(), &courses, |step| {
                    model.pack_losses(step, &Device::Cpu)
                })?;
            black_box(reports);
        }
        Ok(())
    }

    /// The best of several alternating repetitions.
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
            "batches of {}: eight alone {:.1?}, one pack {:.1?}: the pack is {ratio:.2} times as fast",
            self.plan.batch, best[0], best[1]
        );
        Ok(())
    }
}

fn run(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("eight clients");
    group.sample_size(10).measurement_time(Duration::from_secs(2));
    for batch in [1, 2, 4, 16] {
        let setting = Setting::new(batch);
        setting.compare().expect("trains");
        for pack in [1, CLIENTS] {
            let id = BenchmarkId::new(format!("pack of {pack}"), format!("batches of {batch}"));
            group.bench_function(id, |b| b.iter(|| setting.train(pack).expect("trains")));
        }
    }
    group.finish();
}

criterion_group!(benches, run);
criterion_main!(benches);
