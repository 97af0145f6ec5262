//! A federation from Rust: FedAvg on digits in two tasks, in memory, to the table that `fedcast run` prints.
//!
//! ```text
//! cargo run --release --example fedavg
//! ```

use std::error::Error;
use std::path::Path;

use fedcast::prelude::*;

const SCENARIO: &str = r#"
    schema = 2
    name = "fedavg on digits"
    data = { source = "digits", subset = 40 }
    tasks = { sizes = [5, 5] }
    partition = { kind = "dirichlet", beta = 0.5, min_samples = 2 }
    method = { name = "fedavg", train = "head" }
    federation = { clients = 5, rounds = 3 }
    client = { epochs = 2, batch_size = 16 }
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let methods = Registry::builtin();
    let overrides: [Override; 0] = [];
    let scenario =
        Scenario::from_toml(SCENARIO, "fedavg.toml", Path::new("."), &overrides, &methods)?
            .scenario;

    let setup = assemble(&scenario, &methods, Some(2))?.setup;
    let journal = MemorySink::default();
    simulate(setup, Box::new(journal.clone()), Box::new(()), Interrupt::default())?;

    // Every table of fedcast is made from the same entries; the summary is one more consumer of them.
    let mut summary = Summary::about(&scenario);
    for entry in journal.entries() {
        summary.record(&entry)?;
    }
    print!("{}", final_table(&summary));
    println!("{} entries, digests {:?}", journal.entries().len(), journal.digests());
    Ok(())
}
