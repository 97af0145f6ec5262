//! Cost of the engine itself: a method that learns nothing.
//!
//! * `32kB`, `6.5MB`: 1,000 clients, 100 per round; required on two cores: 700 rounds per second with 32 kB of payload,
//!   25 with 6.5 MB;
//! * `registered`: the same with 99,000 further idle clients; required: less than 300 MB resident;
//! * `population`: 100,000 clients that may all be sampled, 1,000 per round, messages of 32 kB: events and messages per
//!   second, and bytes per client that is not sampled;
//! * `plan`: plans of 100,000 clients of which 1,000 or all are sampled, without computation.
//!
//! ```text
//! cargo bench --bench engine              # or -- 32kB, and so on, for one of them
//! ```
//! Two workers, with the ledger of a run and its journal in a temporary file.

mod echo;
#[path = "../figures/mod.rs"]
mod figures;
mod plans;

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use echo::{Federation, THOUSAND};
use fedcast::federation::{Interrupt, simulate};
use figures::{Asked, Records, Times};

/// Returns the wall time of a run, and the number of its entries.
fn run(case: &Federation) -> (Duration, u64) {
    let setup = case.setup();
    let start = Instant::now();
    let end = simulate(setup, Records::new(), Box::new(()), Interrupt::default());
    (start.elapsed(), end.expect("ends well").entries)
}

/// Measures a case, and returns the times of its runs.
fn measure(criterion: &mut Criterion, name: &str, case: &Federation) -> Times {
    let mut times = Times::default();
    let mut group = criterion.benchmark_group("engine");
    group.sample_size(10).throughput(Throughput::Elements(u64::from(case.rounds)));
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(2));
    group.bench_function(name, |b| b.iter_custom(|n| times.take(n, || run(case).0)));
    group.finish();
    times
}

fn rounds(criterion: &mut Criterion) {
    // Run first, as the process keeps the memory of the others.
    let _ = run(&THOUSAND);
    figures::forget_peak();
    let _ = run(&THOUSAND);
    let before = figures::peak();
    figures::forget_peak();
    let case = Federation { idle: 99_000, ..THOUSAND };
    let times = measure(criterion, "registered", &case);
    times.print_peak("100,000 registered clients", 300.0);
    if let (Some(before), Some(after), Some(_)) = (before, figures::peak(), times.median()) {
        let bytes = (after - before) * 1e6 / f64::from(case.idle);
        figures::print("an idle client", "bytes", Asked::AtMost(3_000.0), bytes);
    }

    let case = Federation { clients: 100_000, asked: 1_000, ..THOUSAND };
    figures::forget_peak();
    let times = measure(criterion, "population", &case);
    times.print_peak("100,000 clients, 1,000 per round", 300.0);
    if times.median().is_some() {
        let (rounds, entries) = (f64::from(case.rounds), run(&case).1 as f64);
        let per_second = |count: f64| move |taken: f64| count / taken;
        let name = "100,000 clients, 1,000 per round";
        times.print(name, "entries/s", Asked::AtLeast(100_000.0), per_second(entries));
        let participants = rounds * f64::from(case.asked);
        let micros = |taken: f64| taken * 1e6 / participants;
        times.print("a client's round of two messages", "us", Asked::AtMost(12.0), micros);
    }

    for (name, floats, rounds, asked) in
        [("32kB", 8_000, 100, 700.0), ("6.5MB", 1_625_000, 25, 25.0)]
    {
        let times = measure(criterion, name, &Federation { floats, rounds, ..THOUSAND });
        let rate = |taken: f64| f64::from(rounds) / taken;
        times.print(&format!("no-op, {name}"), "rounds/s", Asked::AtLeast(asked), rate);
        if let Some(taken) = times.median() {
            let uploads = THOUSAND.asked * rounds;
            let share = 100.0 * hashing(uploads, 4 * floats).as_secs_f64() / taken;
            let name = format!("no-op, {name}: what two threads take to hash the uploads");
            figures::print(&name, "% of it", Asked::Nothing, share);
        }
    }
}

/// Returns the time that two threads take to hash half of the messages each.
///
/// It is a lower bound for every engine that records arrived messages in a journal.
fn hashing(messages: u32, bytes: usize) -> Duration {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let message = vec![1u8; bytes];
                for _ in 0..messages / 2 {
                    std::hint::black_box(blake3::hash(std::hint::black_box(&message)));
                }
            });
        }
    });
    start.elapsed()
}

/// Sets the process up, before threads may read the environment.
fn begin(_: &mut Criterion) {
    figures::begin();
}

criterion_group!(benches, begin, rounds, plans::measure);
criterion_main!(benches);
