//! Whether a method's uploads may be folded into a later round, found before anything runs.

use crate::policy::AnyMethod;
use crate::scenario::{Close, Complaint, Scenario};

/// What a scenario that folds late updates asks of a method that cannot.
pub(super) fn complaint(scenario: &Scenario, method: &dyn AnyMethod) -> Option<Complaint> {
    let why = method.not_late().filter(|_| scenario.round.folds_late())?;
    let name = &scenario.method.name;
    let (key, help) = match scenario.round.close {
        Close::Buffer => ("round.close", "close rounds in another way"),
        _ => ("round.late", "set `round.late = \"drop\"`"),
    };
    Some(Complaint {
        key,
        message: format!("late uploads of `{name}` cannot be folded: {why}"),
        label: "not with this method".to_owned(),
        help: format!("{help}, or choose a method whose uploads are differences, such as `fedavg`"),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::methods::Registry;
    use crate::scenario::Scenario;

    #[test]
    fn a_method_says_whether_late_uploads_count() {
        let read = |method: &str, round: &str| {
            let text = format!(
                "schema = 1\ndata = {{ source = \"digits\" }}\ntasks = {{ count = 5 }}\n\
                 partition = {{ kind = \"iid\" }}\nfederation = {{ clients = 20 }}\n\
                 method = {{ {method} }}\nround = {{ {round} }}"
            );
            let loaded = Scenario::from_toml(&text, "s", Path::new("."), &[], &Registry::builtin());
            loaded.map(|_| ()).map_err(|error| error.to_string())
        };
        let buffer = "close = \"buffer\", buffer = 5";
        let fold = "close = \"quorum\", quorum = 0.5, late = \"fold\"";
        for round in [buffer, fold] {
            assert_eq!(read("name = \"fedavg\"", round), Ok(()));
            assert_eq!(read("name = \"hgp\", rebalance = \"none\"", round), Ok(()));
            let told = read("name = \"hgp\"", round).unwrap_err();
            assert!(told.contains("late uploads of `hgp`") && told.contains("Gaussians"), "{told}");
        }
        for method in ["stsa", "stsa-e"] {
            let told = read(&format!("name = \"{method}\""), fold).unwrap_err();
            assert!(told.contains("late uploads") && told.contains("round.late"), "{told}");
        }
    }
}
