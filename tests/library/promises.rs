//! Promises about who the clients are: their order changes nothing, and many that are alike are one.
//!
//! Elsewhere: any number of workers, shuffled completions and idle clients (`determinism`), load clients and
//! units (`cli/dummy_clients`), one client and central training (`methods/joint`), faults (`faults`,
//! `malicious`), 10,000 clients (`memory`), bytes (`cli/plan_bytes`), replay (`cli/replay`), files and
//! commands (`every_scenario_checks`, `cli/readme`).

use std::path::Path;

use fedcast::data::Shard;
use fedcast::experiment::assemble::assemble;
use fedcast::federation::{Digest, Interrupt, MemorySink, Setup, ShardSource, simulate};
use fedcast::methods::Registry;
use fedcast::scenario::{Override, Scenario};

/// Logistic regression, two tasks; whose shards are given by the test. One sample per client needs no shuffling.
const BASE: &str = r#"
    schema = 2
    data = { source = "digits" }
    tasks = { count = 2 }
    partition = { kind = "iid", min_samples = 1 }
    backbone = { kind = "pixels" }
    method = { name = "fedavg" }
    federation = { clients = 8, rounds = 3 }
    client = { epochs = 2, batch_size = 1, optimizer = { kind = "sgd", lr = 0.05 } }
"#;

fn setup(overrides: &[&str], shard: impl Fn(u32, u32) -> Shard) -> Setup {
    let overrides: Vec<_> = overrides.iter().map(|text| Override::new(*text)).collect();
    let methods = Registry::builtin();
    let read = Scenario::from_toml(BASE, "promises", Path::new("."), &overrides, &methods);
    let scenario = read.expect("is right").scenario;
    let setup = assemble(&scenario, &methods, Some(2)).expect("assembles").setup;
    let clients = scenario.federation.clients;
    let of_task = |task| (0..clients).map(|client| shard(task, client)).collect();
    Setup { shards: ShardSource::Drawn((0..2).map(of_task).collect()), ..setup }
}

/// Digests of the server's weights after every round.
fn weights(setup: Setup) -> Vec<Digest> {
    let memory = MemorySink::default();
    simulate(setup, Box::new(memory.clone()), Box::new(()), Interrupt::default()).expect("ends");
    let entries = memory.entries();
    let closed = entries.iter().filter(|entry| entry.event.name() == "round_closed");
    closed.filter_map(|entry| entry.numbers.as_ref()?.digest).collect()
}

/// The sample of a place: the `n`-th of a class of the task.
fn sample(setup: &Setup, task: u32, place: u32) -> u32 {
    let class = 5 * task + place % 5;
    setup.ctx.dataset.train.by_class()[class as usize][place as usize]
}

#[test]
fn permuting_the_clients_changes_no_weight() {
    let data = setup(&[], |_, _| [0].into());
    let with = |turn: u32, overrides: &[&str]| {
        let shard = |task, client| [sample(&data, task, (3 * client + turn) % 8)].into();
        weights(setup(overrides, shard))
    };
    for overrides in
        [&[][..], &["federation.aggregation=median"], &["method.client_weighting=uniform"]]
    {
        let straight = with(0, overrides);
        assert_eq!(straight.len(), 6);
        for turn in 1..4 {
            assert_eq!(with(turn, overrides), straight, "{overrides:?}");
        }
    }
}

#[test]
fn identical_clients_are_one_client() {
    let data = setup(&[], |_, _| [0].into());
    let same = |task, _| -> Shard { [sample(&data, task, 0)].into() };
    let one = weights(setup(&["federation.clients=1"], same));
    for fold in ["mean", "median", "trimmed-mean"] {
        let fold = format!("federation.aggregation={fold}");
        assert_eq!(weights(setup(&[&fold], same)), one, "{fold}");
    }
}

/// FedLwF.MC's card, invariant 5: clients that keep the teacher and clients that get it in every round learn the same.
#[test]
fn a_teacher_that_is_kept_teaches_as_one_that_is_sent() {
    let data = setup(&[], |_, _| [0].into());
    for method in ["lwf", "fedlwf-mc"] {
        let method = format!("method={{name=\"{method}\"}}");
        let of = |cache: &str| {
            let shard = |task, client| [sample(&data, task, client % 8)].into();
            weights(setup(&[&method, cache], shard))
        };
        let sent = of("wire.asset_cache=none");
        assert_eq!(sent.len(), 6);
        for kept in ["wire.asset_cache=task", "wire.asset_cache=run"] {
            assert_eq!(of(kept), sent, "{method} {kept}");
        }
    }
}
