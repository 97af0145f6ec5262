//! What methods ask of a backbone, said before anything is loaded: blocks to live in, or to be trained.

use crate::scenario::{Complaint, Scenario};

/// What is wrong with a scenario where `what` needs the blocks of a vision transformer; `instead`
/// says how to do without.
pub(super) fn needs_blocks(scenario: &Scenario, what: &str, instead: &str) -> Option<Complaint> {
    let kind = scenario.backbone.kind();
    scenario.backbone.vit().is_none().then(|| Complaint {
        key: "backbone.kind",
        message: format!("{what} lives in the blocks of a vision transformer"),
        label: format!("\"{kind}\" has none"),
        help: format!("set `backbone.kind = \"vit\"`, or {instead}"),
    })
}

/// What is wrong with a scenario that trains a backbone which gives features only; `instead` says what
/// to train.
pub(super) fn needs_training(scenario: &Scenario, instead: &str) -> Option<Complaint> {
    let kind = scenario.backbone.kind();
    scenario.backbone.is_frozen_only().then(|| Complaint {
        key: "backbone.kind",
        message: format!("the backbone \"{kind}\" gives features and cannot be trained"),
        label: "frozen only".to_owned(),
        help: format!("set {instead}, or choose \"vit\" or \"resnet18\""),
    })
}
