//! Contradictions of client tasks with other settings.

use super::check::Checker;
use super::{ArrivalChoice, PartitionKind, Scenario, TaskIdentity};
use crate::numerics::share::share_of;

/// Largest number of head rows: enough for the largest data sets with client tasks.
const MOST_ROWS: u64 = 1_000_000;

impl Scenario {
    pub(super) fn check_client_tasks(&self, checker: &mut Checker<'_>) {
        let slices = matches!(self.partition.kind, PartitionKind::Slices { .. });
        let ArrivalChoice::ClientTasks { classes_per_client_task, switch_fraction, .. } =
            self.tasks.arrival
        else {
            if slices {
                checker.reject(
                    &["partition.kind"],
                    "partition \"slices\" needs client tasks",
                    "only with `tasks.arrival = \"client-tasks\"`",
                    "use \"dirichlet\" or \"iid\", or set `tasks.arrival = \"client-tasks\"`",
                );
            }
            if self.record.single_task.is_some() {
                checker.reject(
                    &["record.single_task"],
                    "`record.single_task` needs client tasks",
                    "only with `tasks.arrival = \"client-tasks\"`",
                    "remove this line",
                );
            }
            if self.record.client_tasks != TaskIdentity::Both {
                checker.reject(
                    &["record.client_tasks"],
                    "`record.client_tasks` needs client tasks",
                    "only with `tasks.arrival = \"client-tasks\"`",
                    "remove this line",
                );
            }
            return;
        };
        let (clients, stages) = (self.federation.clients, self.tasks.count());
        if !slices {
            checker.reject(
                &["partition.kind"],
                "client tasks need partition \"slices\"",
                "not with `tasks.arrival = \"client-tasks\"`",
                "set `partition = { kind = \"slices\", fraction = 0.2 }`",
            );
        }
        if stages > 1 && share_of(clients as usize, switch_fraction) == 0 {
            checker.reject(
                &["tasks.switch_fraction", "tasks.arrival"],
                &format!(
                    "`switch_fraction = {switch_fraction}` of {clients} clients is 0, rounded down"
                ),
                "no client would begin a second task",
                "raise it, or `federation.clients`",
            );
        }
        let rows = u64::from(clients) * u64::from(stages) * u64::from(classes_per_client_task);
        if rows > MOST_ROWS {
            checker.reject(
                &["tasks.classes_per_client_task", "tasks.arrival"],
                &format!(
                    "the head has {rows} rows: one per class of {stages} client tasks of {clients} clients"
                ),
                "too many",
                "use fewer clients, stages or classes per client task",
            );
        }
        self.check_slices(checker);
    }

    /// Reports slices that are empty, as far as the sizes of classes are known.
    fn check_slices(&self, checker: &mut Checker<'_>) {
        let ArrivalChoice::ClientTasks { classes_per_client_task, .. } = self.tasks.arrival else {
            return;
        };
        let Some(sizes) = self.data.sizes() else { return };
        if classes_per_client_task > sizes.classes {
            checker.reject(
                &["tasks.classes_per_client_task", "tasks.arrival"],
                &format!(
                    "client tasks have {classes_per_client_task} classes, but the data set has only {}",
                    sizes.classes
                ),
                "more than there are",
                &format!("set `classes_per_client_task` to at most {}", sizes.classes),
            );
        }
        let PartitionKind::Slices { fraction, .. } = self.partition.kind else { return };
        let each = sizes.train / sizes.classes.max(1);
        if fraction * f64::from(each) < 1.0 {
            checker.reject(
                &["partition.fraction", "partition.kind"],
                &format!(
                    "`fraction = {fraction}` of the {each} training images of a class is 0, rounded down"
                ),
                "too small",
                "raise it, or `data.subset`",
            );
        }
    }
}
