//! Requirements of CFed: samples that belong to no client.

use crate::methods::averaging::Requirement;
use crate::scenario::{DataSource, RequirementError, Scenario};

/// Requires auxiliary samples, on which reviewers train.
pub(super) fn auxiliary() -> Requirement {
    let instead = "`method.reviewers = 0`";
    let violation = move |scenario: &Scenario| {
        scenario.data.auxiliary.is_none().then(|| {
            let help = format!("add `[data.auxiliary]` with `fraction = 0.1`, or set {instead}");
            let message = "reviewers distill on samples that belong to no client";
            RequirementError::new("data.auxiliary", message, "there are none", help)
        })
    };
    Requirement::new(violation)
        .summarized(format!("samples that belong to no client: [data.auxiliary] (or {instead})"))
}

/// Requires auxiliary images of one size, as downloads carry the shards of reviewers.
pub(super) fn images_of_one_size() -> Requirement {
    Requirement::new(|scenario: &Scenario| {
        let section = scenario.data.auxiliary.as_ref()?;
        let data = section.as_data(&scenario.data).unwrap_or_else(|| scenario.data.clone());
        let are_unsized = !data.is_square() || data.source == DataSource::Play;
        are_unsized.then(|| {
            let message = "only images of one size can be sent";
            let help = "set `method.surrogate = \"held\"`, or a square `data.stored_size`";
            RequirementError::new("method.surrogate", message, "each has its own size", help)
        })
    })
}

/// Requires a shard of auxiliary samples for the server.
pub(super) fn auxiliary_of_server() -> Requirement {
    let violation = |scenario: &Scenario| {
        let has_shard = scenario.data.auxiliary.as_ref().is_some_and(|section| section.server);
        (!has_shard).then(|| {
            let message = "the server distills on samples that belong to no client, but has none";
            let help = "set `data.auxiliary.server = true`, or `method.server_distils = false`";
            RequirementError::new("data.auxiliary.server", message, "no shard for the server", help)
        })
    };
    Requirement::new(violation)
        .summarized("such samples at the server: data.auxiliary.server = true")
}
