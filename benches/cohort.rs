//! Memory of a cohort of large models: 1,000 clients with ResNet-18, of which 10 or 100 are sampled in one round.
//!
//! A model has 11.2 million values (44.7 MB), and a cohort's uploads have 4.5 GB together. Required: memory for the
//! uploads in progress only, that is two workers and the sums that wait for their neighbors, whatever the speeds of the
//! clients are.
//!
//! ```text
//! cargo bench --bench cohort              # or -- phones, and so on, for cases with this word
//! ```
//! Images are the embedded digits of 8 pixels, so that activations are small next to the models. Each case runs in a
//! separate process, because freed memory stays with a process. Two workers, with journal and ledger.

#[path = "figures/mod.rs"]
mod figures;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use fedcast::experiment::assemble::assemble;
use fedcast::federation::{Interrupt, simulate};
use fedcast::methods::Registry;
use fedcast::scenario::{Override, Scenario};
use figures::{Asked, Records};

const SCENARIO: &str = r#"
schema = 2
data = { source = "digits", test_subset = 5 }
tasks = { count = 1 }
partition = { kind = "dirichlet", beta = 0.5, min_samples = 0 }
backbone = { kind = "resnet18" }
method = { name = "fedavg" }
federation = { clients = 1000, rounds = 1 }
client = { epochs = 1, batch_size = 16, optimizer = { kind = "sgd", lr = 0.01, momentum = 0.9 } }
"#;

/// Cohort, speeds of its clients, and required memory in MB.
struct Case {
    name: &'static str,
    asked: u32,
    overrides: &'static [&'static str],
    megabytes: f64,
}

const EQUAL: &[&str] = &[];
const PHONES: &[&str] = &["time.preset=\"mobile\""];
const PHONES_AND_LINKS: &[&str] = &["time.preset=\"mobile\"", "links.preset=\"mobile\""];

const CASES: [Case; 4] = [
    Case { name: "few, equal", asked: 10, overrides: EQUAL, megabytes: 1_400.0 },
    Case { name: "equal", asked: 100, overrides: EQUAL, megabytes: 1_400.0 },
    Case { name: "phones", asked: 100, overrides: PHONES, megabytes: 1_400.0 },
    Case {
        name: "phones, their links",
        asked: 100,
        overrides: PHONES_AND_LINKS,
        megabytes: 1_400.0,
    },
];

/// Environment variable with the case, for the process that runs it.
const CASE: &str = "FEDCAST_BENCH_CASE";

fn main() {
    figures::begin();
    if let Ok(name) = std::env::var(CASE) {
        return CASES.iter().filter(|case| case.name == name).for_each(measure);
    }
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let this = std::env::current_exe().expect("a bench is a program");
    for case in &CASES {
        if wanted.is_empty() || wanted.iter().any(|word| case.name.contains(word.as_str())) {
            let ended = Command::new(&this).env(CASE, case.name).status().expect("starts");
            assert!(ended.success(), "{}: {ended}", case.name);
        }
    }
}

/// Runs a case, and prints its figures.
fn measure(case: &Case) {
    let mut overrides = vec![Override::new(format!("participation.count={}", case.asked))];
    overrides.extend(case.overrides.iter().map(|set| Override::new(*set)));
    let methods = Registry::builtin();
    let read = Scenario::from_toml(SCENARIO, "cohort", Path::new("."), &overrides, &methods);
    let scenario = read.unwrap_or_else(|error| panic!("{error}")).scenario;
    let setup = assemble(&scenario, &methods, Some(2)).expect("assembles").setup;
    let start = Instant::now();
    simulate(setup, Records::new(), Box::new(()), Interrupt::default()).expect("ends well");
    let name = format!("ResNet-18, {} of 1,000 clients ({})", case.asked, case.name);
    let seconds = start.elapsed().as_secs_f64();
    figures::print(&format!("{name}, a round"), "s", Asked::Nothing, seconds);
    if let Some(peak) = figures::peak() {
        let asked = Asked::AtMost(case.megabytes);
        figures::print(&format!("{name}, resident memory"), "MB", asked, peak);
    }
}
