//! Run directories read back: one line a run, and the spread of the final average accuracy over all of them.
//!
//! ```text
//! fedcast run scenarios/quickstart.toml --out runs/one
//! cargo run --release --example read_run -- runs
//! ```

use std::error::Error;

use fedcast::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "runs".to_owned());
    let metrics = [Metric::parse("faa")?, Metric::parse("forgetting")?, Metric::parse("bytes_up")?];
    let runs = RunRecord::find(folder.as_ref())?;
    for run in &runs {
        let shown = metrics.iter().map(|metric| match run.figure(metric) {
            Some(value) => format!("{} {}", metric.name(), metric.show(value)),
            None => format!("{} -", metric.name()),
        });
        println!("{}: {}", run.path.display(), shown.collect::<Vec<_>>().join(", "));
    }
    let faa: Vec<f64> = runs.iter().filter_map(|run| run.figure(&metrics[0])).collect();
    match Spread::of(&faa) {
        Some(Spread { n, mean, .. }) => {
            println!("{} of {n} runs: {}", metrics[0].title(), metrics[0].show(mean));
        }
        None => println!("no run in {folder}; make one: fedcast run scenarios/quickstart.toml"),
    }
    Ok(())
}
