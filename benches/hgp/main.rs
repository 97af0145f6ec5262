//! HGP on ViT-Tiny at 224 pixels, batches of 16: the cost of an image, and the gain of a second worker.
//!
//! Two clients of 16 images train two epochs in one round, describe their classes, and 32 images are tested. Required
//! on two cores: at most 25 ms per training image and 15 ms per tested one, both cores together, and two workers at
//! least 1.7 times as fast as one. A training image is one image in one epoch, including its part of the pass that
//! describes the classes afterwards. The last line compares the rate of operations in training with the machine's peak
//! in large matrix products. The same is measured with products in `bf16`, for CPUs that multiply them faster.
//!
//! ```text
//! cargo bench --bench hgp
//! ```

#![allow(clippy::disallowed_methods, reason = "benches compare with other arithmetic")]

#[path = "../figures/mod.rs"]
mod figures;
mod setting;

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fedcast::federation::{Interrupt, JobKind, simulate};
use fedcast::model::ops::Precision;
use figures::arithmetic::{Trained, peak, print_share};
use figures::{Asked, Records, Times};
use setting::{EPOCHS, Setting, Spent, TESTED, TRAINED};

/// Returns the wall time of a run.
fn run(setting: &Setting, workers: usize, spent: &Spent) -> Duration {
    let setup = setting.setup(workers);
    let start = Instant::now();
    simulate(setup, Records::new(), Box::new(spent.clone()), Interrupt::default())
        .expect("ends well");
    start.elapsed()
}

/// Times of runs with two workers, and the time of both workers in training and tests.
#[derive(Default)]
struct Measured {
    wall: Times,
    training: Times,
    testing: Times,
}

impl Measured {
    fn of(criterion: &mut Criterion, name: &str, setting: &Setting) -> Measured {
        let Measured { mut wall, mut training, mut testing } = Measured::default();
        let mut group = criterion.benchmark_group("hgp");
        group.sample_size(10).throughput(Throughput::Elements(u64::from(TRAINED * EPOCHS)));
        group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(2));
        group.bench_function(name, |b| {
            b.iter_custom(|n| {
                wall.take(n, || {
                    let spent = Spent::default();
                    let wall = run(setting, 2, &spent);
                    // Half of the time that both workers spent together.
                    training.take(1, || spent.of(JobKind::Train) / 2);
                    testing.take(1, || spent.of(JobKind::Evaluate) / 2);
                    wall
                })
            });
        });
        group.finish();
        Measured { wall, training, testing }
    }

    /// Returns the median time of a training image, in milliseconds.
    fn image(&self) -> Option<f64> {
        self.training.median().map(per(TRAINED * EPOCHS))
    }
}

/// Returns a conversion from seconds of `images` images to milliseconds per image.
fn per(images: u32) -> impl Fn(f64) -> f64 {
    move |taken| 1e3 * taken / f64::from(images)
}

fn figures(criterion: &mut Criterion) {
    figures::begin();
    let setting = Setting::new(Precision::F32);
    let full = Measured::of(criterion, "vit-tiny, 224 pixels, 2 workers", &setting);
    let trained = TRAINED * EPOCHS;
    full.training.print("HGP, training", "ms per image", Asked::AtMost(25.0), per(trained));
    full.testing.print("HGP, testing", "ms per image", Asked::AtMost(15.0), per(TESTED));

    let half = Setting::new(Precision::Bf16);
    let half = Measured::of(criterion, "vit-tiny, 224 pixels, 2 workers, bf16", &half);
    half.training.print("HGP in bf16, training", "ms per image", Asked::Nothing, per(trained));
    half.testing.print("HGP in bf16, testing", "ms per image", Asked::Nothing, per(TESTED));
    let (Some(two), Some(image)) = (full.wall.median(), full.image()) else { return };
    if let Some(half) = half.image() {
        let name = "HGP, training in bf16 instead of f32";
        figures::print(name, "times as fast", Asked::AtLeast(1.5), image / half);
    }

    let mut alone = Times::default();
    alone.take(3, || run(&setting, 1, &Spent::default()));
    let gain = alone.median().unwrap_or(0.0) / two;
    figures::print("HGP, two workers instead of one", "times", Asked::AtLeast(1.7), gain);

    // A training image includes its part of one more forward pass after the last epoch.
    let trained = Trained::Prefixes(setting.prompt);
    let forward = trained.forward(&setting.config) * (1.0 + 1.0 / f64::from(EPOCHS));
    let work = forward + trained.backward(&setting.config);
    print_share("HGP, a training image on two threads", work, image / 1e3, peak(2));
}

criterion_group!(benches, figures);
criterion_main!(benches);
