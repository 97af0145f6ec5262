//! Promise: `plan` counts the server's work in the round that causes it, whatever else opens meanwhile.

use serde_json::Value;

use crate::plan_bytes::plan;

fn of_server(plan: &Value) -> Vec<f64> {
    let phases = plan["phases"].as_array().unwrap();
    phases.iter().map(|phase| phase["server_passes"].as_f64().unwrap()).collect()
}

/// MFCL's server trains its generator in the last round of every task but the last: 100 steps of 128 images, each two
/// thirds of a pass and three forward passes of the generator.
#[test]
fn a_generator_is_counted_in_the_last_round_of_its_task() {
    let mfcl = "scenarios/stsa/table1-cifar100-mfcl.toml";
    let expected = of_server(&plan(mfcl, &["--set", "federation.rounds=1"]));
    assert!(expected[..9].iter().all(|&passes| passes == expected[0]), "{expected:?}");
    assert!(expected[0] > 12_800.0 * 2.0 / 3.0, "{expected:?}");
    assert_eq!(expected[9], 0.0);
    for (clients, rounds) in [(4, 2), (5, 3), (17, 10)] {
        let set = [
            "--set",
            &format!("federation.clients={clients}"),
            "--set",
            &format!("federation.rounds={rounds}"),
        ];
        assert_eq!(of_server(&plan(mfcl, &set)), expected, "{clients} clients, {rounds} rounds");
    }
}
