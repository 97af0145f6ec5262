//! Rounds of federated averaging where only a linear head trains, so that the backbone costs nothing.
//!
//! * `logistic`: 3,072 pixels -> 100 classes, 1,000 clients of 10 samples, 10 per round, batches of 10, one epoch;
//!   required on two cores: 200 rounds per second in less than 150 MB;
//! * `cached/N`: a head on cached features of width 192, 10 tasks of 10 classes, 5 rounds per task, N clients of 10
//!   samples per task, 10 per round, tested after every task; required: 200 rounds per second for N = 100, 1,000 and
//!   10,000. The features are computed before the first measured run;
//! * `population`: the same head among 100,000 clients, 1,000 per round, a round per task: trained clients per second,
//!   and the part of the time of both workers and of the event loop that is not learning, testing or waiting.
//! * `fedhaf`: FedHAF with its own widths on the same features, 300 clients with their exemplars, 30 per round, 10
//!   tasks of a round each; without a requirement.
//!
//! ```text
//! cargo bench --bench heads               # or -- logistic, -- cached, -- fedhaf
//! ```
//! Two workers, with the ledger of a run and its journal in a temporary file.

#[path = "../figures/mod.rs"]
mod figures;
mod setting;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use fedcast::federation::{Interrupt, JobKind, ProfileSink, Setup, Span, simulate};
use fedcast::methods::averaging::Averager;
use fedcast::methods::fedhaf::FedHaf;
use figures::{Asked, Records, Times};

/// Returns the wall time of a run.
fn run(setup: Setup) -> Duration {
    let start = Instant::now();
    simulate(setup, Records::new(), Box::new(()), Interrupt::default()).expect("ends well");
    start.elapsed()
}

/// Measures runs of this number of rounds, prints their figure, and returns their durations.
fn measure(
    criterion: &mut Criterion,
    (name, rounds): (&str, u32),
    setup: impl Fn() -> Setup,
) -> Times {
    let mut times = Times::default();
    let mut group = criterion.benchmark_group("heads");
    group.sample_size(10).throughput(Throughput::Elements(u64::from(rounds)));
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(2));
    group.bench_function(name, |b| b.iter_custom(|n| times.take(n, || run(setup()))));
    group.finish();
    times.print(name, "rounds/s", Asked::AtLeast(200.0), |taken| f64::from(rounds) / taken);
    times
}

fn rounds(criterion: &mut Criterion) {
    figures::begin();
    figures::forget_peak();
    let logistic = setting::Logistic::new();
    let times = measure(criterion, ("logistic", 100), || logistic.setup(100));
    times.print_peak("logistic", 150.0);
    drop(logistic);

    let cached = setting::Cached::new();
    for clients in [100, 1_000, 10_000] {
        measure(criterion, (&format!("cached/{clients}"), 50), || cached.setup(clients, 10, 5));
    }
    population(criterion, &cached);
    fedhaf(criterion, &cached);
}

/// Measures ten rounds of 30 of 300 clients.
fn fedhaf(criterion: &mut Criterion, cached: &setting::Cached) {
    figures::forget_peak();
    let mut times = Times::default();
    let mut group = criterion.benchmark_group("heads");
    // A run takes seconds, so each sample is one run, after one to warm up.
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(1)).measurement_time(Duration::from_secs(1));
    let measured = || {
        let setup = cached.setup(300, 30, 1);
        let method = Arc::new(Averager::new(FedHaf::default(), &setup.facts));
        run(Setup { method, ..setup })
    };
    group.bench_function("fedhaf", |b| b.iter_custom(|n| times.take(n, measured)));
    group.finish();
    times.print("fedhaf, 30 of 300 clients", "rounds/s", Asked::Nothing, |taken| 10.0 / taken);
    if let (Some(_), Some(peak)) = (times.median(), figures::peak()) {
        figures::print("fedhaf, resident memory", "MB", Asked::Nothing, peak);
    }
}

/// Measures ten rounds of 1,000 of 100,000 clients.
fn population(criterion: &mut Criterion, cached: &setting::Cached) {
    let (mut times, spent) = (Times::default(), Spent::default());
    let mut group = criterion.benchmark_group("heads");
    group.sample_size(10);
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(5));
    let measured = || {
        let setup = cached.setup(100_000, 1_000, 1);
        let start = Instant::now();
        let profile = Box::new(spent.clone());
        simulate(setup, Records::new(), profile, Interrupt::default()).expect("ends well");
        start.elapsed()
    };
    group.bench_function("population", |b| b.iter_custom(|n| times.take(n, measured)));
    group.finish();
    let rate = |taken: f64| 10_000.0 / taken;
    times.print("population", "client rounds/s", Asked::AtLeast(5_000.0), rate);
    if let Some(share) = spent.engine() {
        let name = "population, the engine's share of the time at work";
        figures::print(name, "%", Asked::Nothing, 100.0 * share);
    }
}

/// Nanoseconds of learning and testing, and of everything except waiting.
#[derive(Clone, Default)]
struct Spent(Arc<Mutex<(u64, u64)>>);

impl Spent {
    fn engine(&self) -> Option<f64> {
        let (learning, all) = *self.0.lock().expect("no holder panics");
        (all > 0).then(|| 1.0 - learning as f64 / all as f64)
    }
}

impl ProfileSink for Spent {
    fn record(&mut self, span: &Span) {
        let mut spent = self.0.lock().expect("no holder panics");
        match span.job {
            JobKind::Idle => return,
            JobKind::Train | JobKind::Evaluate => spent.0 += span.wall,
            _ => {}
        }
        spent.1 += span.wall;
    }
}

criterion_group!(benches, rounds);
criterion_main!(benches);
