//! Contradictions of client tasks with other settings.

use super::check::Checker;
use super::{ArrivalChoice, PartitionKind, Scenario, TaskIdentity};
use crate::numerics::share::share_of;

/// Largest number of head rows: enough for the largest data sets with client tasks.
const MOST_ROWS: u64 = 1_000_000;

impl Scenario {
    pub(super) fn check_slots(&self, checker: &mut Checker<'_>) {
        let slices = matches!(self.partition.kind, PartitionKind::Slices { .. });
        let ArrivalChoice::Powder { slot_classes, moving, .. } = self.tasks.arrival else {
            if slices {
                checker.reject(
                    &["partition.kind"],
                    "partition \"slices\" needs client tasks",
                    "only with `tasks.arrival = \"powder\"`",
                    "use \"dirichlet\" or \"iid\", or set `tasks.arrival = \"powder\"`",
                );
            }
            if self.record.direct.is_some() {
                checker.reject(
                    &["record.direct"],
                    "`record.direct` needs client tasks",
                    "only with `tasks.arrival = \"powder\"`",
                    "remove this line",
                );
            }
            if self.record.slots != TaskIdentity::Both {
                checker.reject(
                    &["record.slots"],
                    "`record.slots` needs client tasks",
                    "only with `tasks.arrival = \"powder\"`",
                    "remove this line",
                );
            }
            return;
        };
        let (clients, periods) = (self.federation.clients, self.tasks.count());
        if !slices {
            checker.reject(
                &["partition.kind"],
                "client tasks need partition \"slices\"",
                "not with `tasks.arrival = \"powder\"`",
                "set `partition = { kind = \"slices\", share = 0.2 }`",
            );
        }
        if periods > 1 && share_of(clients as usize, moving) == 0 {
            checker.reject(
                &["tasks.moving", "tasks.arrival"],
                &format!("`moving = {moving}` of {clients} clients is 0, rounded down"),
                "no client would begin a second task",
                "raise it, or `federation.clients`",
            );
        }
        let rows = u64::from(clients) * u64::from(periods) * u64::from(slot_classes);
        if rows > MOST_ROWS {
            checker.reject(
                &["tasks.slot_classes", "tasks.arrival"],
                &format!(
                    "the head has {rows} rows: one per class of {periods} client tasks of {clients} clients"
                ),
                "too many",
                "use fewer clients, periods or classes per client task",
            );
        }
        self.check_slices(checker);
    }

    /// Reports slices that are empty, as far as the sizes of classes are known.
    fn check_slices(&self, checker: &mut Checker<'_>) {
        let ArrivalChoice::Powder { slot_classes, .. } = self.tasks.arrival else { return };
        let Some(sizes) = self.data.sizes() else { return };
        if slot_classes > sizes.classes {
            checker.reject(
                &["tasks.slot_classes", "tasks.arrival"],
                &format!(
                    "client tasks have {slot_classes} classes, but the data set has only {}",
                    sizes.classes
                ),
                "more than there are",
                &format!("set `slot_classes` to at most {}", sizes.classes),
            );
        }
        let PartitionKind::Slices { share, .. } = self.partition.kind else { return };
        let each = sizes.train / sizes.classes.max(1);
        if share * f64::from(each) < 1.0 {
            checker.reject(
                &["partition.share", "partition.kind"],
                &format!(
                    "`share = {share}` of the {each} training images of a class is 0, rounded down"
                ),
                "too small",
                "raise it, or `data.subset`",
            );
        }
    }
}
