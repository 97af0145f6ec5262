//! Gain of computing queries once: a round of CODA-Prompt with and without the cache.
//!
//! `cargo bench --bench query_cache` prints the ratio of both, run alternately, and criterion's times of each. It uses
//! the embedded transformer, 200 digits at 4 clients, one task of one round with 5 epochs, then an evaluation on 364
//! test images. Without the cache queries are computed at the start of every client's training and of every evaluation,
//! and `augmented` computes them in every step, as the public codes do.

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
method = { name = "coda-prompt", pool = 10 }
federation = { clients = 4, rounds = 1 }
client = { epochs = 5, batch_size = 16 }
devices = { workers = 1 }
"#;

/// Variants that are measured, with their overrides.
const WAYS: [(&str, &[&str]); 3] = [
    ("memory", &["cache.features=memory"]),
    ("off", &["cache.features=off"]),
    // A transform that may flip images is random, so that queries are computed in every step.
    ("augmented", &["method.query=augmented", "data.train.flip=0.000001"]),
];

/// Returns the wall time of a run, from opening the weights to the last evaluation.
fn run(overrides: &[&str]) -> Duration {
    let methods = Registry::builtin();
    let overrides: Vec<Override> = overrides.iter().map(|set| Override::new(*set)).collect();
    let scenario = Scenario::from_toml(SCENARIO, "bench", Path::new("/"), &overrides, &methods);
    let scenario = scenario.expect("the scenario is right").scenario;
    let setup = assemble(&scenario, &methods, None).expect("everything is embedded").setup;
    let start = Instant::now();
    simulate(setup, Box::new(MemorySink::default()), Box::new(()), Interrupt::default())
        .expect("the run ends well");
    start.elapsed()
}

fn bench(criterion: &mut Criterion) {
    let mut best = [Duration::MAX; 3];
    for _ in 0..5 {
        for (best, (_, overrides)) in best.iter_mut().zip(WAYS) {
            *best = run(overrides).min(*best);
        }
    }
    let ratio = |way: usize| best[way].as_secs_f64() / best[0].as_secs_f64();
    println!(
        "round of CODA-Prompt: cached {:.0?}; uncached {:.0?}, {:.2} times as long; augmented queries {:.0?}, \
         {:.2} times as long",
        best[0],
        best[1],
        ratio(1),
        best[2],
        ratio(2)
    );

    let mut group = criterion.benchmark_group("round of CODA-Prompt");
    group.sample_size(10).measurement_time(Duration::from_secs(5));
    for (name, overrides) in WAYS {
        group.bench_function(name, |bencher| bencher.iter(|| run(overrides)));
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
