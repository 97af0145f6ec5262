use std::path::Path;

use crate::methods::Registry;
use crate::scenario::Scenario;

/// Five tasks of digits over twenty clients with this method and these lines.
fn read(method: &str, more: &str) -> Result<(), String> {
    read_tasks(method, "count = 5", &format!("federation.clients = 20\n{more}"))
}

fn read_tasks(method: &str, tasks: &str, more: &str) -> Result<(), String> {
    let text = format!(
        "schema = 2\ndata = {{ source = \"digits\" }}\ntasks = {{ {tasks} }}\n\
         partition = {{ kind = \"iid\" }}\nmethod = {{ {method} }}\n{more}"
    );
    let loaded = Scenario::from_toml(&text, "s", Path::new("."), &[], &Registry::builtin());
    loaded.map(|_| ()).map_err(|error| error.to_string())
}

/// Averages nothing but parameters.
const AVERAGED: [&str; 9] = [
    "name = \"fedavg\"",
    "name = \"fedprox\"",
    "name = \"adapter\"",
    "name = \"fedhaf\"",
    "name = \"fedavg-prompt\"",
    "name = \"l2p\"",
    "name = \"coda-prompt\", pool = 60",
    "name = \"oracle\", site = \"clients\"",
    "name = \"hgp\", rebalance = \"none\"",
];

#[test]
fn robust_aggregation_and_malicious_clients_need_a_mean() {
    let median = "federation.aggregation = \"median\"";
    let lie = "faults = [{ kind = \"malicious\", how = \"scaled\", fraction = 0.2 }]";
    for method in AVERAGED {
        assert_eq!(read(method, median), Ok(()), "{method}");
        assert_eq!(read(method, lie), Ok(()), "{method}");
    }
    let message = read("name = \"hgp\"", median).unwrap_err();
    assert!(message.contains("the server keeps `counts`"), "{message}");
    for more in [median, lie] {
        let message = read("name = \"stsa\", first = { name = \"none\" }", more).unwrap_err();
        assert!(message.contains("not with this method"), "{message}");
    }
    let secret = "[privacy]\nsecure_aggregation = true";
    let message = read("name = \"fedavg\"", &format!("{median}\n{secret}")).unwrap_err();
    assert!(
        message.contains("federation.aggregation")
            || message.contains("only shows the server the sum"),
        "{message}"
    );
    assert_eq!(read("name = \"fedavg\"", &format!("{lie}\n{secret}")), Ok(()));
}

#[test]
fn late_uploads_count_where_they_are_differences() {
    let buffer = "round = { close = \"buffer\", buffer_size = 5 }";
    let late = "round = { close = \"quorum\", quorum = 0.5, late = \"aggregate\" }";
    for round in [buffer, late] {
        for method in AVERAGED {
            assert_eq!(read(method, round), Ok(()), "{method}");
        }
        let message = read("name = \"hgp\"", round).unwrap_err();
        assert!(message.contains("late uploads of `hgp`"), "{message}");
    }
    for method in ["stsa", "stsa-e"] {
        let message = read(&format!("name = \"{method}\""), late).unwrap_err();
        assert!(message.contains("late uploads") && message.contains("round.late"), "{message}");
    }
}

#[test]
fn tasks_may_mix_where_a_round_is_not_about_one_task() {
    let paced = |method: &str| read_tasks(method, "count = 5, arrival = \"paced\"", "");
    for method in AVERAGED.into_iter().filter(|method| !method.contains("fedhaf")) {
        assert_eq!(paced(method), Ok(()), "{method}");
    }
    for (method, why) in [
        ("name = \"hgp\"", "balances old classes"),
        ("name = \"hepco\"", "one task"),
        ("name = \"fedhaf\"", "of one task"),
        ("name = \"stsa\"", "which of two methods"),
    ] {
        let message = paced(method).unwrap_err();
        assert!(message.contains("on different tasks") && message.contains(why), "{message}");
    }
}

#[test]
fn a_sum_in_secret_needs_uploads_that_add_up() {
    let secure = "[privacy]\nsecure_aggregation = true";
    for method in AVERAGED {
        assert_eq!(read(method, secure), Ok(()), "{method}");
    }
    let message = read("name = \"hgp\"", secure).unwrap_err();
    assert!(message.contains("`hgp`") && message.contains("keeps `counts`"), "{message}");
    assert!(message.contains("s.toml:"), "{message}");
    let error = |more: &str| read_tasks("name = \"fedavg\"", "count = 5", more).unwrap_err();
    let message = error("federation.clients = 1\n[privacy]\nsecure_aggregation = true");
    assert!(message.contains("at least 2 clients per round"), "{message}");
    let message = error("wire.up.codec = \"int8\"\n[privacy]\nsecure_aggregation = true");
    assert!(message.contains("which no codec makes smaller"), "{message}");
}

#[test]
fn noise_needs_something_to_be_added_to() {
    let noise = |on: &str| {
        let table = format!("[privacy.noise]\nscale = 0.1\non = [\"{on}\"]");
        read("name = \"fedavg\", train = \"head\"", &table)
    };
    for on in ["head", "head.weight", "samples", "statistics"] {
        assert!(noise(on).is_ok(), "{on}");
    }
    let message = noise("gram").unwrap_err();
    assert!(message.contains("no upload of `fedavg` holds `gram`"), "{message}");
    assert!(message.contains("there are head, head.bias, head.weight, samples"), "{message}");
}
