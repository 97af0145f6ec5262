//! Plans of 100,000 clients: the engine without computation, and the draw of the partition.

use std::path::Path;
use std::time::{Duration, Instant};

use criterion::Criterion;
use fedcast::experiment::assemble::blueprint;
use fedcast::experiment::plan::{Faults, plan};
use fedcast::methods::Registry;
use fedcast::scenario::{Override, Scenario};

use crate::figures::{self, Asked, Times};

/// HGP on CIFAR-100, whose uploads depend in size on the samples of clients. The data need not be present.
const FILE: &str = "scenarios/hgp/cifar100-beta0.5.toml";

/// Returns the wall time of a plan of ten tasks.
fn time(rounds_per_task: u32, participation: &str) -> Duration {
    let methods = Registry::builtin();
    let overrides = [
        "federation.clients=100000".to_owned(),
        "partition.min_samples=0".to_owned(),
        format!("federation.rounds={rounds_per_task}"),
        format!("participation={participation}"),
    ];
    let overrides = overrides.map(Override::new);
    let scenario = Scenario::load(Path::new(FILE), &overrides, &methods).expect("is shipped");
    let blueprint = blueprint(&scenario.scenario, &methods).expect("is possible");
    let start = Instant::now();
    let planned = plan(&blueprint, Faults::Off).expect("ends well");
    assert_eq!(planned.total.rounds, 10 * u64::from(rounds_per_task));
    start.elapsed()
}

/// Measures plans in which a thousand of the clients or all of them are sampled.
pub fn measure(criterion: &mut Criterion) {
    for (case, rounds_per_task, participation, limit_s, limit_mb) in [
        ("1,000 of 100,000 clients", 10, "{kind=\"count\",count=1000}", 2.0, 200.0),
        ("all of 100,000 clients", 1, "{kind=\"all\"}", 20.0, 1_000.0),
    ] {
        let mut times = Times::default();
        figures::forget_peak();
        let mut group = criterion.benchmark_group("plan");
        group.sample_size(10).warm_up_time(Duration::from_millis(1));
        group.bench_function(case, |b| {
            b.iter_custom(|n| times.take(n, || time(rounds_per_task, participation)))
        });
        group.finish();
        let name = format!("a plan of {} rounds, {case}", 10 * rounds_per_task);
        times.print_peak(&name, limit_mb);
        times.print(&name, "s", Asked::AtMost(limit_s), |taken| taken);
    }
}
