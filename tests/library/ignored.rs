//! Promise: what `fedcast` says a method ignores changes nothing of a run, bit for bit, and what it does not say of the
//! keys that bear on who learns how much changes something.

use std::path::Path;

use fedcast::experiment::assemble::assemble;
use fedcast::federation::{Interrupt, MemorySink, simulate};
use fedcast::methods::Registry;
use fedcast::scenario::{Override, Scenario};

const BASE: &str = include_str!("frozen/base.toml");

/// Keys with a value unlike that of the base.
const CHANGES: [(&str, &str); 4] = [
    ("participation", "participation.fraction=0.5"),
    ("federation.rounds", "federation.rounds=3"),
    ("client", "client.optimizer.lr=0.02"),
    ("client.epochs", "client.epochs=2"),
];

fn scenario(sets: &[&str]) -> Scenario {
    let sets: Vec<Override> = sets.iter().map(|set| Override::new(*set)).collect();
    let read = Scenario::from_toml(BASE, "base", Path::new("."), &sets, &Registry::builtin());
    read.unwrap_or_else(|error| panic!("{error}")).scenario
}

/// Both digests of a run.
fn digests(scenario: &Scenario) -> String {
    let assembly = assemble(scenario, &Registry::builtin(), Some(1)).unwrap();
    let journal = MemorySink::default();
    simulate(assembly.setup, Box::new(journal.clone()), Box::new(()), Interrupt::default())
        .unwrap();
    journal.digests().to_string()
}

/// Of every change whether the method is said to ignore it: not at all, here and there, or always.
fn ignores(sets: &[&str]) -> Vec<&'static str> {
    let before = digests(&scenario(sets));
    let mut words = Vec::new();
    for (key, change) in CHANGES {
        let changed = scenario(&[sets, &[change]].concat());
        let said: Vec<String> = changed.ignored();
        let about = |text: &&String| {
            let what = text.split([' ', ']']).next().unwrap_or_default().trim_start_matches('[');
            what == key
                || what == "client" && key.starts_with("client")
                || key == "participation" && what.starts_with(key)
        };
        let word = match said.iter().find(about) {
            None => "used",
            Some(text) if text.contains("has no effect for") => "ignored",
            Some(_) => "partly",
        };
        let same = digests(&changed) == before;
        assert_eq!(same, word == "ignored", "{sets:?} {change}: {said:?}");
        words.push(word);
    }
    words
}

#[test]
fn a_method_that_trains_every_round_uses_all() {
    let head = ["method={name=\"fedavg\",train=\"head\"}"];
    assert_eq!(ignores(&head), ["used"; 4]);
}

#[test]
fn statistics_ask_all_clients_once_and_train_nothing() {
    let stsa = ["method={name=\"stsa\",width=16,first={name=\"none\"}}"];
    assert_eq!(ignores(&stsa), ["ignored", "ignored", "ignored", "ignored"]);
}

#[test]
fn a_first_method_uses_them_in_the_first_task() {
    let first = "method={name=\"stsa\",width=16,first={name=\"fedavg\",train=\"head\"}}";
    assert_eq!(ignores(&[first]), ["partly", "partly", "partly", "partly"]);
    let own = "method={name=\"stsa\",width=16,first={name=\"fedavg\",train=\"head\",rounds=1}}";
    assert_eq!(ignores(&[own]), ["partly", "ignored", "partly", "partly"]);
}

#[test]
fn a_method_that_counts_its_own_steps_ignores_epochs_alone() {
    let steps = [
        "method={name=\"gradma\",train=\"head\",steps=5,memory_clients=2}",
        "client.optimizer={kind=\"sgd\",lr=0.1}",
    ];
    assert_eq!(ignores(&steps), ["used", "used", "used", "ignored"]);
}

#[test]
fn one_site_samples_no_clients() {
    let joint =
        ["method={name=\"joint\",train=\"head\"}", "federation.clients=1", "tasks={count=1}"];
    assert_eq!(ignores(&joint), ["ignored", "used", "used", "used"]);
}
