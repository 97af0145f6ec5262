//! Whether seats of one round may learn different tasks, found before anything runs.

use crate::policy::AnyMethod;
use crate::scenario::{Complaint, Scenario};

/// What a scenario whose tasks reach clients at different times asks of a method that cannot.
pub(super) fn complaint(scenario: &Scenario, method: &dyn AnyMethod) -> Option<Complaint> {
    let why = method.not_mixed().filter(|_| !scenario.tasks.arrival.is_global())?;
    let name = &scenario.method.name;
    Some(Complaint {
        key: "tasks.arrival",
        message: format!("clients of `{name}` cannot work on different tasks in one round: {why}"),
        label: "not with this method".to_owned(),
        help: "set `arrival = \"global\"`, or choose a method that takes a mean over all clients, such \
               as `fedavg`"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::methods::Registry;
    use crate::scenario::Scenario;

    #[test]
    fn a_method_says_whether_tasks_may_mix() {
        let read = |method: &str| {
            let text = format!(
                "schema = 1\ndata = {{ source = \"digits\" }}\n\
                 tasks = {{ count = 5, arrival = \"paced\" }}\n\
                 partition = {{ kind = \"iid\" }}\nmethod = {{ {method} }}"
            );
            let loaded = Scenario::from_toml(&text, "s", Path::new("."), &[], &Registry::builtin());
            loaded.map(|_| ()).map_err(|error| error.to_string())
        };
        for method in
            ["\"fedavg\"", "\"adapter\", head = \"fixed\"", "\"hgp\", rebalance = \"none\""]
        {
            assert_eq!(read(&format!("name = {method}")), Ok(()));
        }
        for (method, why) in [
            ("name = \"hgp\"", "balances old classes"),
            ("name = \"fedavg\", head = \"growing\"", "rows of classes seen so far"),
            ("name = \"adapter\"", "rows of classes seen so far"),
            ("name = \"stsa\"", "which of two methods"),
        ] {
            let told = read(method).unwrap_err();
            assert!(told.contains("on different tasks") && told.contains(why), "{told}");
        }
    }
}
