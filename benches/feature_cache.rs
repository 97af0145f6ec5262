//! Gain of computing frozen features once: a head-only federation with and without the cache.
//!
//! `cargo bench --bench feature_cache` prints the ratio of both, run alternately, and criterion's times of
//! each. FedAvg trains the head on the embedded transformer: 200 digits at 4 clients, one task of 3
//! rounds with 5 epochs, evaluated after every round on 364 test images.

use std::path::Path;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use fedcast::experiment::assemble::assemble;
use fedcast::federation::{Interrupt, MemorySink, simulate};
use fedcast::methods::Registry;
use fedcast::scenario::{Override, Scenario};

const SCENARIO: &str = r#"
schema = 2
data = { source = "digits", subset = 20 }
tasks = { count = 1 }
partition = { kind = "iid" }
method = { name = "fedavg", train = "head" }
federation = { clients = 4, rounds = 3 }
client = { epochs = 5, batch_size = 16 }
devices = { workers = 1 }
"#;

/// Returns the wall time of a run, from opening the weights to the last evaluation.
fn run(features: &str) -> Duration {
    let methods = Registry::builtin();
    let place = [Override::new(format!("cache.features={features}"))];
    let scenario = Scenario::from_toml(SCENARIO, "bench", Path::new("/"), &place, &methods);
    let scenario = scenario.expect("the scenario is right").scenario;
    let setup = assemble(&scenario, &methods, None).expect("everything is embedded").setup;
    let start = Instant::now();
    simulate(setup, Box::new(MemorySink::default()), Box::new(()), Interrupt::default())
        .expect("the run ends well");
    start.elapsed()
}

fn bench(criterion: &mut Criterion) {
    let mut best = [Duration::MAX; 2];
    for _ in 0..5 {
        for (best, features) in best.iter_mut().zip(["memory", "off"]) {
            *best = run(features).min(*best);
        }
    }
    let ratio = best[1].as_secs_f64() / best[0].as_secs_f64();
    println!(
        "head-only run: cached {:.0?}, uncached {:.0?}: {ratio:.1} times faster",
        best[0], best[1]
    );

    let mut group = criterion.benchmark_group("head-only run");
    group.sample_size(10).measurement_time(Duration::from_secs(5));
    for features in ["memory", "off"] {
        group.bench_function(features, |bencher| bencher.iter(|| run(features)));
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
