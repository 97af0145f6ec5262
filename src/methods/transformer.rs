//! Methods that reach into the blocks of a transformer say so before anything is loaded.

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
