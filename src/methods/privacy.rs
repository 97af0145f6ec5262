//! What of `[privacy]` a method cannot work with, found before anything runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::data::TaskView;
use crate::model::backbone_config;
use crate::policy::{AnyMethod, ClassCounts, ModelFacts, Period, SketchFacts, WireForm};
use crate::quantity::TaskId;
use crate::scenario::{Complaint, PrivacySection, Scenario};
use crate::wire::Kind;

/// Facts that are enough to ask a method about its fields and names; the number of classes is
/// not known here, and no name depends on it.
pub(super) fn facts(scenario: &Scenario) -> ModelFacts {
    let backbone = backbone_config(scenario);
    ModelFacts { backbone, classes: CLASSES, tasks: 1, form: WireForm::Full }
}

const CLASSES: usize = 2;

/// Whether a scenario uses any of it.
pub(super) fn used(section: &PrivacySection) -> bool {
    section.secure_aggregation || section.noise.is_some()
}

/// Everything of `[privacy]` that the method of a scenario, built of [`facts`], cannot do.
pub(super) fn complaints(
    scenario: &Scenario,
    method: &dyn AnyMethod,
    facts: &ModelFacts,
) -> Vec<Complaint> {
    let name = &scenario.method.name;
    let mut complaints = Vec::new();
    if scenario.privacy.secure_aggregation {
        let help =
            "set `privacy.secure_aggregation = false`, or choose a method whose uploads add up";
        let mut refuse = |message: String, label: &str| {
            complaints.push(Complaint {
                key: "privacy.secure_aggregation",
                message,
                label: label.to_owned(),
                help: help.to_owned(),
            });
        };
        if let Some(why) = method.not_a_sum() {
            let message = format!("the uploads of `{name}` cannot be added in secret: {why}");
            refuse(message, "its uploads are not plain sums");
        } else if !method.charged() {
            refuse(format!("no upload of `{name}` crosses a network"), "nothing to hide it from");
        }
    }
    if let Some(noise) = &scenario.privacy.noise {
        let names = upload_names(method, facts, scenario.federation.rounds);
        for word in noise.on.iter().filter(|word| !names.contains(*word)) {
            let known: Vec<&str> = names.iter().map(String::as_str).collect();
            complaints.push(Complaint {
                key: "privacy.noise.on",
                message: format!("no upload of `{name}` holds `{word}`"),
                label: "nothing to add noise to".to_owned(),
                help: format!("there are {}", known.join(", ")),
            });
        }
    }
    complaints
}

/// Names of all float and count tensors of uploads in the first task, and of their kinds.
fn upload_names(method: &dyn AnyMethod, facts: &ModelFacts, rounds: u32) -> BTreeSet<String> {
    let (task, rows) = (TaskId(0), 0..CLASSES);
    let view = Arc::new(TaskView { task, rows, classes: (0..CLASSES as u32).collect() });
    let period = Period::of(Arc::clone(&view), 1);
    let counts: ClassCounts = (0..CLASSES as u32).map(|row| (row, 8)).collect();
    let mut names = BTreeSet::new();
    for phase in 0..method.phases(&period, rounds).len() {
        let facts =
            SketchFacts { model: facts, view: &view, phase, round_in_phase: 0, counts: &counts };
        for section in method.sketch(&facts).up.sections {
            names.insert(Kind::name(section.kind).to_owned());
            names.extend(section.tensors.iter().map(|tensor| tensor.name.to_string()));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::methods::Registry;
    use crate::scenario::{Override, Scenario};

    fn read(lines: &str) -> Result<Scenario, String> {
        let text = format!(
            "schema = 1\ndata = {{ source = \"digits\" }}\ntasks = {{ count = 5 }}\n\
             partition = {{ kind = \"iid\" }}\n{lines}"
        );
        let none: [Override; 0] = [];
        Scenario::from_toml(&text, "s", Path::new("."), &none, &Registry::builtin())
            .map(|loaded| loaded.scenario)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_method_that_keeps_a_field_is_refused_by_the_fields_name() {
        let secure = "[privacy]\nsecure_aggregation = true";
        let error = read(&format!("method = {{ name = \"hgp\" }}\n{secure}")).unwrap_err();
        assert!(error.contains("`hgp`") && error.contains("field `gaussians`"), "{error}");
        assert!(error.contains("s.toml:7:22"), "{error}");
        let plain = "method = { name = \"hgp\", rebalance = \"none\" }";
        assert!(read(&format!("{plain}\n{secure}")).is_ok());
        assert!(read(&format!("method = {{ name = \"fedavg\" }}\n{secure}")).is_ok());
    }

    #[test]
    fn noise_needs_something_to_be_added_to() {
        let noise = |on: &str| {
            let table = format!("[privacy.noise]\nscale = 0.1\non = [\"{on}\"]");
            read(&format!("method = {{ name = \"fedavg\", train = \"head\" }}\n{table}"))
        };
        for on in ["head", "head.weight", "samples", "statistics"] {
            assert!(noise(on).is_ok(), "{on}");
        }
        let error = noise("gram").unwrap_err();
        assert!(error.contains("no upload of `fedavg` holds `gram`"), "{error}");
        assert!(error.contains("there are head, head.bias, head.weight, samples"), "{error}");
    }

    #[test]
    fn what_no_method_could_do_is_refused_too() {
        let secure = |more: &str| {
            let table = "[privacy]\nsecure_aggregation = true";
            read(&format!("method = {{ name = \"fedavg\" }}\n{more}\n{table}")).unwrap_err()
        };
        let error = secure("[federation]\nclients = 1");
        assert!(error.contains("two clients a round"), "{error}");
        let error = secure("[wire.up]\ncodec = \"int8\"");
        assert!(error.contains("no codec makes them smaller"), "{error}");
    }
}
