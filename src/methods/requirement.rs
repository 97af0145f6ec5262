//! Requirements of methods on a scenario, checked before anything is loaded.
//!
//! A method creates its own with [`Requirement::new`]; functions here create those that several methods share.

use crate::scenario::{
    DataSource, Leftover, OptimizerSection, PartitionKind, Population, RequirementError, Scenario,
};

/// Violations of a requirement by a scenario.
type Check = Box<dyn Fn(&Scenario) -> Vec<RequirementError> + Send + Sync>;

/// Requirement of a method on a scenario.
pub struct Requirement {
    /// Requirement in words; `None` if it depends on numbers of the scenario.
    pub summary: Option<String>,
    /// Part of a method (as in "a prompt") that needs the blocks of a vision transformer, if one does.
    pub in_blocks: Option<&'static str>,
    check: Check,
}

impl Requirement {
    /// Creates a requirement from a function that returns a scenario's violation of it.
    pub fn new(
        violation: impl Fn(&Scenario) -> Option<RequirementError> + Send + Sync + 'static,
    ) -> Requirement {
        let check: Check = Box::new(move |scenario| violation(scenario).into_iter().collect());
        Requirement { summary: None, in_blocks: None, check }
    }

    /// Adds the requirement in words, for `fedcast methods show`.
    pub fn summarized(self, summary: impl Into<String>) -> Requirement {
        Requirement { summary: Some(summary.into()), ..self }
    }

    /// Returns the scenario's violations of the requirement; empty if it is met.
    pub fn violations(&self, scenario: &Scenario) -> Vec<RequirementError> {
        (self.check)(scenario)
    }

    /// Requires a vision transformer for a subject such as "a prompt", which is inserted in its blocks.
    pub fn blocks(subject: &'static str, instead: &'static str) -> Requirement {
        let violation = move |scenario: &Scenario| {
            scenario.backbone.vit().is_none().then(|| {
                let message = format!("{subject} needs the blocks of a vision transformer");
                let label = format!("\"{}\" has none", scenario.backbone.kind());
                let help = format!("set `backbone.kind = \"vit\"`, or {instead}");
                RequirementError::new("backbone.kind", message, label, help)
            })
        };
        let summary = format!("a vision transformer: {subject} needs its blocks (or {instead})");
        Requirement { in_blocks: Some(subject), ..Requirement::new(violation).summarized(summary) }
    }

    /// Requires a backbone that can be trained.
    pub fn trainable_backbone(instead: &'static str) -> Requirement {
        let violation = move |scenario: &Scenario| {
            scenario.backbone.is_frozen_only().then(|| {
                let kind = scenario.backbone.kind();
                let message =
                    format!("the backbone \"{kind}\" only gives features and cannot be trained");
                let help = format!("set {instead}, or choose \"vit\" or \"resnet18\"");
                RequirementError::new("backbone.kind", message, "frozen only", help)
            })
        };
        let summary = format!("a backbone that can be trained, vit or resnet18 (or {instead})");
        Requirement::new(violation).summarized(summary)
    }

    /// Requires images, and a network below the head whose features are compared for generated images.
    pub fn generated_images() -> Requirement {
        let violation = |scenario: &Scenario| {
            if scenario.data.source == DataSource::Play || scenario.data.source.is_rows() {
                let message = "a generator makes images";
                let help = "choose a data set of images";
                return Some(RequirementError::new("data.source", message, "no images", help));
            }
            (scenario.backbone.kind() == "pixels").then(|| {
                let message = "features of pixels do not train";
                let help = "set `backbone.kind = \"resnet18\"`, or \"vit\"";
                RequirementError::new("backbone.kind", message, "no network below the head", help)
            })
        };
        Requirement::new(violation).summarized("images, and a network below the head")
    }

    /// Requires plain gradient steps of clients: a parameter's change is a sum of gradients times rates.
    ///
    /// `subject` is a clause such as "FedDC reads gradients"; `instead` names another way out. `decay` is the setting
    /// to use for a weight decay, if the optimizer's would be wrong.
    pub fn plain_sgd(
        subject: &'static str,
        instead: Option<&'static str>,
        decay: Option<&'static str>,
    ) -> Requirement {
        let check: Check =
            Box::new(move |scenario| optimizer_violations(scenario, subject, instead, decay));
        let summary = Some(format!("plain SGD: {subject} from its steps"));
        Requirement { summary, in_blocks: None, check }
    }

    /// Requires clients that take part again: a fixed population.
    pub fn returning_clients(reason: &'static str, instead: Option<&'static str>) -> Requirement {
        let violation = move |scenario: &Scenario| {
            (scenario.participation.population == Population::Fresh).then(|| {
                let help = alternatives("`participation.population = \"fixed\"`", instead);
                let key = "participation.population";
                RequirementError::new(key, reason, "its clients never come back", help)
            })
        };
        let summary = "clients that come back: participation.population = \"fixed\"";
        Requirement::new(violation).summarized(summary)
    }

    /// Requires client tasks (`tasks.arrival = "client-tasks"`); `key` is the setting that needs them.
    pub fn own_client_tasks(
        key: &'static str,
        reason: &'static str,
        instead: &'static str,
    ) -> Requirement {
        let violation = move |scenario: &Scenario| {
            (!scenario.tasks.arrival.has_client_tasks()).then(|| {
                let help = format!("{instead}, or `tasks.arrival = \"client-tasks\"`");
                RequirementError::new(
                    key,
                    reason,
                    "only with `tasks.arrival = \"client-tasks\"`",
                    help,
                )
            })
        };
        Requirement::new(violation).summarized("client tasks: tasks.arrival = \"client-tasks\"")
    }

    /// Requires a single client that has all data.
    pub fn one_site(subject: &'static str, instead: &'static str) -> Requirement {
        let several = move |scenario: &Scenario| {
            let clients = scenario.federation.clients;
            (clients != 1).then(|| {
                let message = format!("{subject} has one site, not {clients}");
                let help = format!("set `federation.clients = 1`, or {instead}");
                RequirementError::new("federation.clients", message, "must be 1", help)
            })
        };
        let check: Check = Box::new(move |scenario| {
            several(scenario).into_iter().chain(single_owner(scenario)).collect()
        });
        let summary = Some("one site: federation.clients = 1".to_owned());
        Requirement { summary, in_blocks: None, check }
    }
}

/// Returns advice to set `what`, or the alternative.
fn alternatives(what: &str, instead: Option<&str>) -> String {
    match instead {
        Some(instead) => format!("set {what}, or {instead}"),
        None => format!("set {what}"),
    }
}

/// Returns errors for an optimizer that does more than plain gradient steps.
fn optimizer_violations(
    scenario: &Scenario,
    subject: &str,
    instead: Option<&str>,
    decay: Option<&str>,
) -> Vec<RequirementError> {
    let error = |key, label: &str, help: String| {
        RequirementError::new(key, format!("{subject} from steps of plain SGD"), label, help)
    };
    let mut violations = Vec::new();
    match scenario.client.optimizer {
        OptimizerSection::Adamw { .. } => violations.push(error(
            "client.optimizer.kind",
            "not plain SGD",
            alternatives("`client.optimizer = { kind = \"sgd\", lr = ... }`", instead),
        )),
        OptimizerSection::Sgd { momentum, weight_decay, .. } => {
            if momentum > 0.0 {
                violations.push(error(
                    "client.optimizer.momentum",
                    "momentum counts a gradient several times",
                    alternatives("`client.optimizer.momentum = 0`", instead),
                ));
            }
            if let (true, Some(decay)) = (weight_decay > 0.0, decay) {
                violations.push(error(
                    "client.optimizer.weight_decay",
                    "decay without the method's knowledge",
                    format!("set `client.optimizer.weight_decay = 0` and {decay}"),
                ));
            }
        }
    }
    violations
}

/// Returns an error if the only site would have the samples of a single owner.
fn single_owner(scenario: &Scenario) -> Option<RequirementError> {
    let PartitionKind::Natural { leftover: rest } = scenario.partition.kind else { return None };
    (rest == Leftover::Drop).then(|| {
        let message =
            "one site must have all data, but a natural partition gives it those of one owner only";
        let help = "set `partition.leftover = \"merge\"`, or `partition.kind = \"iid\"`";
        RequirementError::new("partition.kind", message, "drops the other owners", help)
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Requirement;
    use crate::methods::Registry;
    use crate::scenario::{Leftover, PartitionKind, Scenario};

    /// Returns the errors of a scenario of five tasks of digits with this method; empty where all is well.
    fn refusal(method: &str) -> String {
        let text = format!(
            "schema = 2\ndata = {{ source = \"digits\" }}\ntasks = {{ count = 5 }}\n\
             partition = {{ kind = \"iid\" }}\nmethod = {{ {method} }}\nfederation.clients = 4\n"
        );
        let loaded = Scenario::from_toml(&text, "s", Path::new("."), &[], &Registry::builtin());
        loaded.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn inconsistent_counts_are_refused_with_the_remedy() {
        let refused = [
            ("name = \"l2p\", top = 6, pool = 5", "6 prompts cannot be chosen from a pool of 5"),
            ("name = \"l2p\", pool = 4", "choose at most 4, or set a larger `method.pool`"),
            ("name = \"dualprompt\", g_blocks = 99", "no block is left for experts"),
            ("name = \"coda-prompt\", pool = 4", "4 components are too few for 5 tasks"),
            ("name = \"fed-cprompt\", pool = 4", "set `method.pool` to at least 5"),
            ("name = \"coda-prompt\", pool = 65", "65 keys of width 64 cannot be orthogonal"),
        ];
        for (method, why) in refused {
            let message = refusal(method);
            assert!(message.contains(why), "{method}: {message}");
        }
        for method in ["name = \"l2p\", pool = 5", "name = \"coda-prompt\", pool = 64"] {
            assert_eq!(refusal(method), "", "{method}");
        }
    }

    /// Steps of Adam, momentum, and a decay that comes behind a projection; and how to do without each.
    #[test]
    fn what_reads_gradients_needs_plain_sgd() {
        let of = |method: &str, optimizer: &str| {
            let kind = if optimizer.is_empty() { "adamw" } else { "sgd" };
            refusal(&format!(
                "name = {method}, train = \"head\" }}\n\
                 client.optimizer = {{ kind = \"{kind}\", lr = 0.1{optimizer}"
            ))
        };
        let (plain, momentum, decay) =
            (", momentum = 0.0", ", momentum = 0.9", ", weight_decay = 0.1");
        for name in ["\"scaffold\"", "\"feddc\"", "\"gradma\""] {
            let adam = of(name, "");
            assert!(adam.contains("set `client.optimizer = { kind = \"sgd\""), "{name}: {adam}");
            let moved = of(name, momentum);
            assert!(moved.contains("set `client.optimizer.momentum = 0`"), "{name}: {moved}");
            assert_eq!(of(name, plain), "", "{name}");
        }
        let other = of("\"scaffold\"", "");
        assert!(other.contains("or `method.option = \"I\"`"), "{other}");
        assert_eq!(of("\"scaffold\", option = \"I\"", ""), "");
        assert_eq!(of("\"gradma\", project = \"server\"", ""), "");
        assert_eq!(of("\"scaffold\"", decay), "");
        let decayed = of("\"gradma\"", decay);
        assert!(decayed.contains("weight_decay = 0` and `method.decay`"), "{decayed}");
        let both = of("\"scaffold\", option = \"I\", variates = \"server\"", "");
        assert!(both.contains("cannot compute the gradient"), "{both}");
        let fresh = "name = \"feddc\" }\nparticipation = { population = \"fresh\"";
        assert!(
            refusal(fresh).contains("fresh clients have no earlier rounds"),
            "{}",
            refusal(fresh)
        );
    }

    #[test]
    fn fresh_clients_have_no_teacher_of_their_own() {
        let of = |more: &str| {
            refusal(&format!(
                "name = \"fedlwf-2t\"{more} }}\nparticipation = {{ population = \"fresh\""
            ))
        };
        let own = of("");
        assert!(own.contains("fresh clients have none"), "{own}");
        assert!(own.contains("or `method.first_teacher = \"server\"`"), "{own}");
        for else_taught in [", first_teacher = \"server\"", ", beta = 0.0"] {
            assert!(!of(else_taught).contains("fresh clients have none"), "{else_taught}");
        }
    }

    /// Only what a natural partition drops is missing at one site.
    #[test]
    fn one_site_wants_the_samples_of_all_owners() {
        let text = "schema = 2\ndata.source = \"digits\"\ntasks.count = 1\n\
                    partition.kind = \"iid\"\nmethod.name = \"joint\"\nfederation.clients = 1\n";
        let loaded = Scenario::from_toml(text, "s", Path::new("."), &[], &Registry::builtin());
        let mut scenario = loaded.unwrap().scenario;
        let site = Requirement::one_site("joint training", "another way");
        let mut refused = |kind: PartitionKind| -> Vec<String> {
            scenario.partition.kind = kind;
            let violations = site.violations(&scenario).into_iter();
            violations.map(|violation| violation.key.into_owned()).collect()
        };
        assert_eq!(
            refused(PartitionKind::Natural { leftover: Leftover::Drop }),
            ["partition.kind"]
        );
        assert!(refused(PartitionKind::Natural { leftover: Leftover::Merge }).is_empty());
        assert!(refused(PartitionKind::Iid).is_empty());
    }

    #[test]
    fn what_lives_in_blocks_needs_a_transformer() {
        for name in ["l2p", "dualprompt", "coda-prompt", "fed-cprompt", "adapter"] {
            let message =
                refusal(&format!("name = \"{name}\" }}\nbackbone = {{ kind = \"pixels\""));
            assert!(
                message.contains("needs the blocks of a vision transformer"),
                "{name}: {message}"
            );
        }
    }
}
