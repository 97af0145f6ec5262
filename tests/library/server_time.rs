//! Promise: what a method's server computes by itself takes time on the simulated clock, in a run as in its plan.

use std::path::Path;

use fedcast::experiment::assemble::blueprint;
use fedcast::experiment::plan::{Faults, plan};
use fedcast::methods::Registry;
use fedcast::scenario::{Override, Scenario};

const SCENARIO: &str = r#"
schema = 2
preset = "mobile"
data.source = "digits"
tasks.count = 2
partition.kind = "iid"
backbone.weights = "embedded"
federation = { clients = 4, rounds = 3 }
method = { name = "hepco", pool = 4, prompt_len = 4, n_blocks = 2, generator_steps = 5, prompt_steps = 10, head_steps = 10 }
"#;

/// Virtual seconds of a whole run.
fn seconds(sets: &[&str]) -> f64 {
    let sets: Vec<Override> = sets.iter().map(|set| Override::new(*set)).collect();
    let methods = Registry::builtin();
    let scenario = Scenario::from_toml(SCENARIO, "server", Path::new("."), &sets, &methods);
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}")).scenario;
    let blueprint = blueprint(&scenario, &methods).expect("a blueprint");
    plan(&blueprint, Faults::Off).expect("plans").total.virtual_s
}

#[test]
fn a_server_that_computes_takes_its_time() {
    let [none, one, two] =
        ["0", "1", "2"].map(|slow| seconds(&[&format!("time.server_slowness={slow}")]));
    let (once, twice) = (one - none, two - none);
    assert!(once > 0.1, "{none} {one}");
    assert!((twice - 2.0 * once).abs() < 1e-6, "{once} {twice}");
    assert_eq!(seconds(&[]), seconds(&["time.server_slowness=0.026"]), "beside phones");
    let silo = "time.preset=cross-silo";
    assert_eq!(seconds(&[silo]), seconds(&[silo, "time.server_slowness=1"]));
    // Six rounds of 4 clients, three of them with the last task's server.
    let heads = seconds(&["method.prompt_steps=0", "method.head_steps=0"]);
    assert_eq!(heads, none, "a server without steps");
    let averages = |slow| seconds(&["method={name=\"fedavg\"}", slow]);
    assert_eq!(averages("time.server_slowness=0"), averages("time.server_slowness=9"));
}
