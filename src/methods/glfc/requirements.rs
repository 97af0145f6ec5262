//! Requirements of GLFC.

use crate::methods::averaging::Requirement;
use crate::scenario::{DataSource, EpochSchedule, RequirementError, Scenario};

/// Requires images, which the proxy server reconstructs.
pub(super) fn images() -> Requirement {
    let instead = "`method.old_model = \"task-end\"`";
    let violation = move |scenario: &Scenario| {
        let is_other = scenario.data.source == DataSource::Play || scenario.data.source.is_rows();
        is_other.then(|| {
            let message = "a proxy server reconstructs images";
            let help = format!("set {instead}");
            RequirementError::new("method.old_model", message, "the data are not images", help)
        })
    };
    Requirement::new(violation).summarized(format!("images, not text (or {instead})"))
}

/// Refuses an epoch schedule in `[client]` together with the method's own schedule.
pub(super) fn require_one_schedule(scenario: &Scenario) -> Option<RequirementError> {
    (scenario.client.epoch_schedule != EpochSchedule::Constant).then(|| {
        let message = "`method.lr_schedule` contradicts `client.epoch_schedule`";
        let help =
            "set `client.epoch_schedule = \"constant\"`, or `method.lr_schedule = \"client\"`";
        RequirementError::new(
            "client.epoch_schedule",
            message,
            "second schedule of the same rate",
            help,
        )
    })
}
