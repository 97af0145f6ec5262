//! Promise: every method answers to every service. A scenario that asks for one loads, or it is refused in the words
//! of the method's own refusal.

use std::path::Path;

use fedcast::methods::Registry;
use fedcast::model::VitConfig;
use fedcast::policy::{Capability, ModelFacts, WireForm, check_capability};
use fedcast::scenario::{Scenario, ScenarioError};

/// Numbers of clients and tasks with which methods are tried.
const PLACES: [(u32, u32); 3] = [(20, 5), (1, 5), (1, 1)];

fn read(
    method: &str,
    (clients, tasks): (u32, u32),
    service: Option<Capability>,
) -> Result<Scenario, ScenarioError> {
    let (mut arrival, mut more) = ("", "");
    match service {
        Some(Capability::LateUpdates) => {
            more = "round = { close = \"quorum\", quorum = 0.5, late = \"aggregate\" }";
        }
        Some(Capability::MixedTasks) => arrival = ", arrival = \"paced\"",
        Some(Capability::RobustAggregation) => more = "federation.aggregation = \"median\"",
        Some(Capability::SecureAggregation) => more = "privacy.secure_aggregation = true",
        Some(Capability::MaliciousClients) => {
            more = "faults = [{ kind = \"malicious\", how = \"scaled\", fraction = 0.2 }]";
        }
        None => {}
    }
    // Plain SGD is for all of them, and some read gradients off its steps. As many keys as the network that ships with the program is wide.
    let keys = if ["coda-prompt", "fed-cprompt"].contains(&method) { ", pool = 60" } else { "" };
    let text = format!(
        "schema = 2\ndata = {{ source = \"digits\", auxiliary = {{ fraction = 0.2 }} }}\ntasks = {{ count = {tasks}{arrival} }}\n\
         partition = {{ kind = \"iid\" }}\nmethod = {{ name = \"{method}\"{keys} }}\n\
         client.optimizer = {{ kind = \"sgd\", lr = 0.1 }}\n\
         federation.clients = {clients}\n{more}\n"
    );
    let loaded = Scenario::from_toml(&text, "s", Path::new("."), &[], &Registry::builtin());
    loaded.map(|loaded| loaded.scenario)
}

#[test]
fn every_method_answers_to_every_service() {
    let registry = Registry::builtin();
    let facts = ModelFacts {
        backbone: VitConfig::default().into(),
        classes: 10,
        tasks: 5,
        clients: 1,
        form: WireForm::Full,
        auxiliary: None,
    };
    let (mut allowed, mut refused) = (0, 0);
    for entry in registry.all() {
        let home = PLACES.into_iter().find(|place| read(entry.name, *place, None).is_ok());
        let Some(home) = home else { panic!("`{}` is at home nowhere", entry.name) };
        let section = read(entry.name, home, None).unwrap().method;
        let method = registry.build(&section, &facts).unwrap();
        for service in Capability::ALL {
            let message =
                read(entry.name, home, Some(service)).err().map(|error| error.to_string());
            let case = format!("{}, {}", entry.name, service.word());
            match (check_capability(&*method, &facts, service), message) {
                (None, None) => allowed += 1,
                (Some(why), Some(message)) => {
                    assert!(message.contains(&why.to_string()), "{case}: {why}\n{message}");
                    assert!(message.contains("s.toml:"), "{case}: {message}");
                    refused += 1;
                }
                (why, message) => panic!("{case}: {why:?}, yet {message:?}"),
            }
        }
    }
    assert!(allowed > 0 && refused > 0, "{allowed} allowed, {refused} refused");
}
