//! Whether a method of one site gets all data, found before anything runs.

use crate::scenario::{Complaint, PartitionKind, Rest, Scenario};

/// What a scenario asks of one site that would hold the samples of a single owner.
pub(super) fn complaint(scenario: &Scenario) -> Option<Complaint> {
    let PartitionKind::Natural { rest: Rest::Drop } = scenario.partition.kind else { return None };
    Some(Complaint {
        key: "partition.kind",
        message: "one site has all data, and a natural partition gives it those of one owner"
            .to_owned(),
        label: "the others are left out".to_owned(),
        help: "set `partition.rest = \"merge\"`, or `partition.kind = \"iid\"`".to_owned(),
    })
}
