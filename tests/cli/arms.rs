//! A few runs to be compared: two methods, each with the same seeds.

use std::path::Path;

use crate::command::{run_fedcast, tiny};

/// Trains a head and nothing else: a moment.
pub const HEAD: &str = "method={name=\"fedavg\",train=\"head\"}";
/// One exchange of sums and no training.
pub const STSA: &str = "method={name=\"stsa\",width=16,first={name=\"none\"}}";

/// Runs the tiny scenario with a method into `folder/<out>`; partition and class order have the run's seed.
pub fn run(folder: &Path, out: &str, method: &str, seed: u64, more: &[&str]) {
    let (tiny, seed) = (tiny(), seed.to_string());
    let mut arguments = vec!["run", tiny.to_str().unwrap(), "-q", "-o", out];
    arguments.extend(["--set", method, "--seed", &seed]);
    arguments.extend(more);
    let output = run_fedcast(folder, &arguments);
    assert_eq!(output.code, 0, "{}", output.err);
}

/// `fedavg/seed-S` and `stsa/seed-S` for these seeds.
pub fn two_methods(folder: &Path, seeds: &[u64]) {
    for seed in seeds {
        run(folder, &format!("fedavg/seed-{seed}"), HEAD, *seed, &[]);
        run(folder, &format!("stsa/seed-{seed}"), STSA, *seed, &[]);
    }
}

/// The number at a place of a run's `summary.json`.
pub fn figure(run: &Path, pointer: &str) -> f64 {
    let text = crate::command::read(run.join("summary.json"));
    let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
    summary.pointer(pointer).and_then(serde_json::Value::as_f64).unwrap()
}
