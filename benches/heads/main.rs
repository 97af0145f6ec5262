//! Rounds of federated averaging where only a linear head trains: what is left when the backbone costs
//! nothing.
//!
//! * `logistic`: 3,072 pixels -> 100 classes, 1,000 clients of 10 samples, 10 per round, batches of 10, one
//!   epoch; asked on two cores: 200 rounds per second in less than 150 MB;
//! * `cached/N`: a head on cached features of width 192, 10 tasks of 10 classes, 5 rounds per task, N clients of
//!   10 samples per task, 10 per round, tested after every task; asked: 200 rounds per second for N = 100,
//!   1,000 and 10,000. The features are computed before the first measured run.
//!
//! ```text
//! cargo bench --bench heads               # or -- logistic, -- cached
//! ```
//! Two workers, with the ledger of a run and its journal in a temporary file.

#[path = "../figures/mod.rs"]
mod figures;
mod setting;

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fedcast::federation::{Interrupt, Setup, simulate};
use figures::{Asked, Records, Times};

/// Wall time of a run.
fn run(setup: Setup) -> Duration {
    let begun = Instant::now();
    simulate(setup, Records::new(), Box::new(()), Interrupt::default()).expect("ends well");
    begun.elapsed()
}

/// Measures runs of so many rounds, prints their figure, and answers what they took.
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
        measure(criterion, (&format!("cached/{clients}"), 50), || cached.setup(clients));
    }
}

criterion_group!(benches, rounds);
criterion_main!(benches);
