//! Whether a method's uploads fold to a mean of parameters, where a scenario needs that: found before
//! anything runs.

use crate::policy::AnyMethod;
use crate::scenario::{Complaint, FaultChoice, Scenario};

/// Whether a scenario needs it.
pub(super) fn needed(scenario: &Scenario) -> bool {
    !scenario.federation.fold.is_mean() || has_liars(scenario)
}

fn has_liars(scenario: &Scenario) -> bool {
    scenario.faults.iter().any(|fault| matches!(fault.kind, FaultChoice::Malicious { .. }))
}

/// What a scenario asks of a method that folds something else.
pub(super) fn complaints(scenario: &Scenario, method: &dyn AnyMethod) -> Vec<Complaint> {
    let Some(why) = method.not_averaged() else { return Vec::new() };
    let name = &scenario.method.name;
    let other = "choose a method whose uploads fold to a mean of parameters, such as `fedavg`";
    let complaint = |key, message: String, instead: &str| Complaint {
        key,
        message: format!("{message}: {why}"),
        label: "not with this method".to_owned(),
        help: format!("{instead}, or {other}"),
    };
    let mut complaints = Vec::new();
    if !scenario.federation.fold.is_mean() {
        let message = format!("uploads of `{name}` cannot be folded robustly");
        complaints.push(complaint("federation.fold", message, "set `fold = \"mean\"`"));
    }
    if has_liars(scenario) {
        let message = format!("clients of `{name}` have no update to forge");
        complaints.push(complaint("faults", message, "remove the fault `malicious`"));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::methods::Registry;
    use crate::scenario::Scenario;

    #[test]
    fn a_robust_fold_and_malicious_clients_need_a_mean() {
        let read = |method: &str, more: &str| {
            let text = format!(
                "schema = 1\ndata = {{ source = \"digits\" }}\ntasks = {{ count = 5 }}\n\
                 partition = {{ kind = \"iid\" }}\nmethod = {{ {method} }}\n{more}"
            );
            let loaded = Scenario::from_toml(&text, "s", Path::new("."), &[], &Registry::builtin());
            loaded.map(|_| ()).map_err(|error| error.to_string())
        };
        let median = "federation = { fold = \"median\" }";
        let lie = "faults = [{ kind = \"malicious\", how = \"scaled\", share = 0.2 }]";
        for more in [median, lie] {
            for method in ["\"fedavg\"", "\"adapter\"", "\"hgp\", rebalance = \"none\""] {
                assert_eq!(read(&format!("name = {method}"), more), Ok(()));
            }
            let told = read("name = \"hgp\"", more).unwrap_err();
            assert!(told.contains("the field `gaussians`"), "{told}");
            let told = read("name = \"stsa\"", more).unwrap_err();
            assert!(told.contains("not with this method"), "{told}");
        }
        let secret = "[privacy]\nsecure_aggregation = true";
        let told = read("name = \"fedavg\"", &format!("{median}\n{secret}")).unwrap_err();
        assert!(told.contains("federation.fold") || told.contains("nothing but the sum"), "{told}");
        assert_eq!(read("name = \"fedavg\"", &format!("{lie}\n{secret}")), Ok(()));
    }
}
