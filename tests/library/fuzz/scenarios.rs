//! Scenario texts, overrides, and the CSV tables that scenarios name.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::cases;
use super::damage::damaged;
use fedcast::methods::Registry;
use fedcast::scenario::{Override, Scenario, ScenarioError};

fn corpus() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shipped = ["tests/scenarios/tiny.toml", "scenarios/quickstart.toml"];
    let mut texts: Vec<Vec<u8>> =
        shipped.iter().map(|path| fs::read(root.join(path)).unwrap()).collect();
    texts.push(
        br#"schema = 2
data = { source = "digits", subset = 12 }
tasks = { count = 3, arrival = "per-client", lag_s = { dist = "pareto", median = 3, alpha = 1.5, max = 9 } }
partition = { kind = "extended", beta = 0.3, min_samples = 1 }
backbone = { kind = "pixels" }
method = { name = "fedavg" }
federation = { clients = 30, rounds = 15, aggregation = "trimmed-mean", trim_fraction = 0.2, load_clients = 3, idle_clients = 4 }
participation = { kind = "count", count = 8 }
availability = { kind = "diurnal", stay_s = inf }
round = { close = "deadline", deadline_s = 5, late = "aggregate" }
time = { preset = "mobile", slowness = { dist = "log-normal", median = 1, sigma = 0.6 } }
links = { preset = "mobile", server_up_mb_per_s = 10 }
wire = { up = { codec = "f16" } }
[[faults]]
kind = "crash"
rate = 0.05
[[faults]]
kind = "malicious"
fraction = 0.1
how = "sign-flipped"
"#
        .to_vec(),
    );
    texts
}

/// Errors have bounds, and places that are there.
fn judge(error: &ScenarioError) -> Result<(), TestCaseError> {
    let message = error.to_string();
    prop_assert!(message.len() < 400_000, "{} bytes of errors", message.len());
    let odd = message.chars().find(|c| c.is_control() && !"\n\t".contains(*c));
    prop_assert!(odd.is_none(), "{odd:?} reaches the terminal");
    for found in error.diagnostics() {
        prop_assert!(!found.message.is_empty());
        prop_assert!(found.place.is_none_or(|place| place.line > 0 && place.column > 0));
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn any_text_is_a_scenario_or_an_error(bytes in damaged(corpus())) {
        let text = String::from_utf8_lossy(&bytes);
        let read = Scenario::from_toml(&text, "a", Path::new("/nowhere"), &[], &Registry::builtin());
        match read {
            Ok(loaded) => {
                // What is valid says so again as it is written out.
                let whole = loaded.scenario.to_effective_toml();
                let again =
                    Scenario::from_toml(&whole, "a", Path::new("/nowhere"), &[], &Registry::builtin());
                prop_assert_eq!(again.unwrap().scenario.hash(), loaded.scenario.hash());
            }
            Err(error) => judge(&error)?,
        }
    }

    #[test]
    fn any_override_is_a_value_or_an_error(bytes in damaged(vec![
        b"links={preset=\"mobile\",rtt_ms={dist=\"uniform\",low=1,high=2}}".to_vec(),
        b"federation.clients=100".to_vec(),
        b"data.train.normalize=half".to_vec(),
    ])) {
        let change = Override::new(String::from_utf8_lossy(&bytes));
        let text = String::from_utf8(corpus().swap_remove(0)).unwrap();
        let read =
            Scenario::from_toml(&text, "a", Path::new("/nowhere"), &[change], &Registry::builtin());
        if let Err(error) = read {
            judge(&error)?;
        }
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn any_table_is_read_or_refused(
        trace in damaged(vec![b"client,time_s,state\n0,0,up\n1,2.5,down\n0,7,down\n".to_vec()]),
        values in damaged(vec![b"# speeds\nid,ms\n0,12.5\n1,3e2\n".to_vec()]),
        arrivals in damaged(vec![b"client,task,time_s\n0,2,5\n2,2,1.5\n".to_vec()]),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let files = [("trace.csv", &trace), ("values.csv", &values), ("arrivals.csv", &arrivals)];
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        let text = r#"schema = 2
data = { source = "digits", subset = 12 }
tasks = { count = 2, arrival = "per-client", file = "arrivals.csv" }
partition = { kind = "iid" }
backbone = { kind = "pixels" }
method = { name = "fedavg" }
federation = { clients = 3 }
availability = { kind = "trace", file = "trace.csv" }
time = { slowness = { dist = "empirical", file = "values.csv", column = "ms" } }
"#;
        let read = Scenario::from_toml(text, "a", folder.path(), &[], &Registry::builtin());
        if let Err(error) = read {
            judge(&error)?;
        }
    }
}
