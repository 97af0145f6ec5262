//! Requirements of FedWEIT.

use crate::methods::Requirement;
use crate::scenario::{RequirementError, Scenario, TaskSizes};

/// Requires tasks of one size: rows of a head that is split are those of any task by their place in it.
pub(super) fn equal_tasks() -> Requirement {
    let violation = |scenario: &Scenario| {
        let TaskSizes::Explicit(sizes) = &scenario.tasks.split else { return None };
        sizes.windows(2).any(|pair| pair[0] != pair[1]).then(|| {
            let message = "tasks share the rows of a head that is split, so that all have as many";
            let help = "set sizes that are equal, or `method.train = \"network\"`";
            RequirementError::new("tasks.sizes", message, "sizes differ", help)
        })
    };
    Requirement::new(violation).summarized("tasks of one size, with `train = \"head\"`")
}
