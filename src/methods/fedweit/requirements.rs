//! Requirements of FedWEIT.

use crate::methods::Requirement;
use crate::scenario::{RequirementError, Scenario, TaskSizes};

/// Requires tasks of equal size: the rows of a split head are shared by all tasks, by their index in the task.
pub(super) fn equal_tasks() -> Requirement {
    let violation = |scenario: &Scenario| {
        let message = "tasks share the rows of a head that is split, so that all have as many";
        let differ = |sizes: &[u32]| sizes.windows(2).any(|pair| pair[0] != pair[1]);
        match &scenario.tasks.split {
            TaskSizes::Explicit(sizes) => differ(sizes).then(|| {
                let help = "set sizes that are equal, or `method.train = \"network\"`";
                RequirementError::new("tasks.sizes", message, "sizes differ", help)
            }),
            TaskSizes::Even(_) => {
                let classes = scenario.data.classes()?;
                let sizes = scenario.tasks.sizes(classes).filter(|sizes| differ(sizes))?;
                let last = sizes.last()?;
                let label = format!("{} classes each leave {last} for the last", sizes[0]);
                let help = format!(
                    "set a number of tasks that divides {classes}, or `method.train = \"network\"`"
                );
                Some(RequirementError::new("tasks.count", message, label, help))
            }
        }
    };
    Requirement::new(violation).summarized("tasks of one size, with `train = \"head\"`")
}
