//! Check before a run that the method supports the engine's capabilities a scenario requests.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::model::backbone_config;
use crate::policy::{Capability, Method, ModelFacts, WireForm, check_capability, upload_layouts};
use crate::scenario::{Close, FaultKind, RequirementError, Scenario};

/// Returns facts that suffice to ask a method for its message specifications.
///
/// The aggregation of tensors does not depend on the number of classes.
pub(super) fn facts(scenario: &Scenario) -> ModelFacts {
    ModelFacts {
        backbone: backbone_config(scenario),
        classes: 4,
        tasks: 2,
        clients: 1,
        form: WireForm::Full,
        auxiliary: None,
    }
}

/// Requested capability, with the error texts for a method that does not support it.
struct CapabilityRequest {
    service: Capability,
    key: Cow<'static, str>,
    /// Error message; `{}` stands for the method's name.
    refused: &'static str,
    label: &'static str,
    /// Advice for doing without the capability.
    help: &'static str,
    /// Description of the methods that support it.
    instead: &'static str,
}

const DIFFERENCES: &str = "whose uploads are differences, such as `fedavg`";
const MEANS: &str = "whose uploads are averaged, such as `fedavg`";

/// Returns the capabilities that a scenario requests.
fn requested_capabilities(scenario: &Scenario) -> Vec<CapabilityRequest> {
    const OTHER: &str = "not with this method";
    let mut requests = Vec::new();
    if scenario.privacy.secure_aggregation {
        requests.push(CapabilityRequest {
            service: Capability::SecureAggregation,
            key: "privacy.secure_aggregation".into(),
            refused: "the uploads of `{}` cannot be summed by secure aggregation",
            label: "its uploads are not plain sums",
            help: "set `privacy.secure_aggregation = false`",
            instead: "whose uploads add up",
        });
    }
    if scenario.round.aggregates_late() {
        let (key, help) = match scenario.round.close {
            Close::Buffer => ("round.close", "choose another `round.close`"),
            _ => ("round.late", "set `round.late = \"drop\"`"),
        };
        let (service, refused) =
            (Capability::LateUpdates, "late uploads of `{}` cannot be aggregated");
        requests.push(CapabilityRequest {
            service,
            key: key.into(),
            refused,
            label: OTHER,
            help,
            instead: DIFFERENCES,
        });
    }
    if !scenario.tasks.arrival.is_global() {
        requests.push(CapabilityRequest {
            service: Capability::MixedTasks,
            key: "tasks.arrival".into(),
            refused: "clients of `{}` cannot work on different tasks in one round",
            label: OTHER,
            help: "set `arrival = \"global\"`",
            instead: "that takes a mean over all clients, such as `fedavg`",
        });
    }
    if !scenario.federation.aggregation.is_mean() {
        requests.push(CapabilityRequest {
            service: Capability::RobustAggregation,
            key: "federation.aggregation".into(),
            refused: "uploads of `{}` cannot be aggregated robustly",
            label: OTHER,
            help: "set `aggregation = \"mean\"`",
            instead: MEANS,
        });
    }
    let lies = |kind: &FaultKind| matches!(kind, FaultKind::Malicious { .. });
    if let Some(key) = scenario.fault_key("kind", |fault| lies(&fault.kind)) {
        requests.push(CapabilityRequest {
            service: Capability::MaliciousClients,
            key: key.into(),
            refused: "clients of `{}` have no update to forge",
            label: OTHER,
            help: "remove the fault `malicious`",
            instead: MEANS,
        });
    }
    requests
}

/// Returns true if a scenario requests anything that a method may not support.
pub(super) fn wanted(scenario: &Scenario) -> bool {
    scenario.privacy.noise.is_some() || !requested_capabilities(scenario).is_empty()
}

/// Returns an error for every request that the scenario's method, built of [`facts`], does not support.
pub(super) fn violations(
    scenario: &Scenario,
    method: &dyn Method,
    facts: &ModelFacts,
) -> Vec<RequirementError> {
    let name = &scenario.method.name;
    let mut violations = Vec::new();
    for wish in requested_capabilities(scenario) {
        let message = wish.refused.replace("{}", name);
        let (message, label) = match check_capability(method, facts, wish.service) {
            Some(why) => (format!("{message}: {why}"), wish.label),
            None if wish.service == Capability::SecureAggregation
                && !method.profile().uses_network =>
            {
                (format!("`{name}` sends no uploads over a network"), "no effect here")
            }
            None => continue,
        };
        let help = format!("{}, or choose a method {}", wish.help, wish.instead);
        violations.push(RequirementError { key: wish.key, message, label: label.to_owned(), help });
    }
    violations.extend(noise_violations(scenario, method, facts));
    violations
}

/// Returns an error for every kind or tensor in `privacy.noise.on` that no upload of the method has.
fn noise_violations(
    scenario: &Scenario,
    method: &dyn Method,
    facts: &ModelFacts,
) -> Vec<RequirementError> {
    let Some(noise) = &scenario.privacy.noise else { return Vec::new() };
    let mut names = BTreeSet::new();
    for layout in upload_layouts(method, facts) {
        for place in layout.tensor_specs() {
            names.insert(place.kind.name().to_owned());
            names.insert(place.name.to_string());
        }
    }
    let unknown = noise.on.iter().filter(|word| !names.contains(*word));
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let violation = |word: &String| RequirementError {
        key: "privacy.noise.on".into(),
        message: format!("no upload of `{}` holds `{word}`", scenario.method.name),
        label: "nothing to add noise to".to_owned(),
        help: format!("there are {}", known.join(", ")),
    };
    unknown.map(violation).collect()
}

#[cfg(test)]
mod tests;
