//! `[tasks]`: number and sizes of tasks, their class order, and their arrival at clients ([`ArrivalChoice`]).

use clap::ValueEnum;
use serde::Serialize;

use super::ArrivalChoice;
use super::reader::{Choice, Param, TableReader};

/// Division of classes into tasks, and their arrival.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TasksSection {
    /// Number of tasks `count = 5` or sizes `sizes = [50, 10, 10]`; one of them is required.
    #[serde(flatten)]
    pub split: TaskSizes,
    /// Order of classes. Default `native`; no effect if clients have their own tasks.
    pub order: ClassOrder,
    /// Arrival of tasks at clients. Default `global`.
    #[serde(flatten, skip_serializing_if = "ArrivalChoice::is_global")]
    pub arrival: ArrivalChoice,
}

/// Number of classes per task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum TaskSizes {
    /// Number of tasks, each of `ceil(classes / count)` classes; the last has the rest.
    #[serde(rename = "count")]
    Even(u32),
    /// Classes per task; their sum is the number of classes.
    #[serde(rename = "sizes")]
    Explicit(Vec<u32>),
}

impl TaskSizes {
    /// Returns the classes per task of a data set with `classes` classes; `None` if they do not fit.
    ///
    /// 196 classes in 10 tasks: nine of 20 and one of 16.
    pub fn of(&self, classes: u32) -> Option<Vec<u32>> {
        let sizes = match self {
            TaskSizes::Even(0) => return None,
            TaskSizes::Even(count) => {
                let even = classes.div_ceil(*count);
                let before = even.checked_mul(count - 1)?;
                let last = classes.checked_sub(before)?;
                (1..*count).map(|_| even).chain([last]).collect()
            }
            TaskSizes::Explicit(sizes) => sizes.clone(),
        };
        let sum: u64 = sizes.iter().map(|size| u64::from(*size)).sum();
        let fits = sum == u64::from(classes) && !sizes.contains(&0);
        (fits && sizes.len() <= usize::from(u16::MAX)).then_some(sizes)
    }
}

/// Order of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum ClassOrder {
    /// As numbered by the data set (HGP's benchmark).
    Native,
    /// Shuffled by `seed.class_order`.
    Seeded,
}

impl TasksSection {
    /// Returns the number of tasks.
    pub fn count(&self) -> u32 {
        match &self.split {
            TaskSizes::Even(count) => *count,
            TaskSizes::Explicit(sizes) => sizes.len() as u32,
        }
    }

    /// Returns the classes per task of a data set with `classes` classes; `None` if they do not fit.
    ///
    /// If clients have their own tasks, every stage has the size of one client task.
    pub fn sizes(&self, classes: u32) -> Option<Vec<u32>> {
        if let ArrivalChoice::ClientTasks { classes_per_client_task, .. } = self.arrival {
            return (classes_per_client_task <= classes)
                .then(|| vec![classes_per_client_task; self.count() as usize]);
        }
        self.split.of(classes)
    }
}

impl TasksSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> TasksSection {
        let sizes = Param::<Vec<u32>>::unset("sizes", "classes of every task").at_least(1.0);
        let sizes = table.optional(&sizes);
        if sizes.as_ref().is_some_and(|sizes| sizes.len() > 10_000) {
            table.reject(
                "sizes",
                "`tasks.sizes` has more than 10000 entries",
                "too many",
                "join some of them",
            );
        }
        if sizes.as_ref().is_some_and(Vec::is_empty) {
            table.reject(
                "sizes",
                "`tasks.sizes` is empty: expected one entry per task",
                "no task",
                "write the number of classes of each task",
            );
        }
        let count = "number of tasks of equal size; the last has the rest";
        let split = match (sizes, table.given("count")) {
            (Some(sizes), false) => TaskSizes::Explicit(sizes),
            (None, false) if table.given("sizes") => TaskSizes::Even(1),
            (sizes, _) => {
                if sizes.is_some() {
                    table.reject(
                        "sizes",
                        "`tasks.count` and `tasks.sizes` cannot both be given",
                        "second of the two",
                        "remove one of the two",
                    );
                }
                let count = Param::required("count", 5, count).at_least(1.0).at_most(10_000.0);
                TaskSizes::Even(table.get(&count))
            }
        };
        table.foreign(&["count"], "sizes");
        let arrival = ArrivalChoice::read(table);
        if arrival.has_client_tasks() && matches!(split, TaskSizes::Explicit(_)) {
            table.reject(
                "sizes",
                "`tasks.sizes` has no effect: all client tasks have `classes_per_client_task` classes",
                "no effect on client tasks",
                "give the number of stages as `count`, and `classes_per_client_task`",
            );
        }
        let order = Param::new("order", ClassOrder::Native, "order of classes");
        let order = table.get(&order);
        if arrival.has_client_tasks() && order == ClassOrder::Seeded {
            table.reject(
                "order",
                "`tasks.order` has no effect: the classes of client tasks are drawn",
                "no effect on client tasks",
                "remove it; `seed.class_order` draws them",
            );
        }
        TasksSection { split, order, arrival }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(split: TaskSizes, classes: u32) -> Option<Vec<u32>> {
        TasksSection { split, order: ClassOrder::Native, arrival: ArrivalChoice::Global }
            .sizes(classes)
    }

    #[test]
    fn the_last_task_takes_what_is_left() {
        assert_eq!(sizes(TaskSizes::Even(5), 10), Some(vec![2; 5]));
        let cars = sizes(TaskSizes::Even(10), 196).unwrap();
        assert_eq!((cars.len(), cars[8], cars[9]), (10, 20, 16));
    }

    #[test]
    fn tasks_that_do_not_fit_are_refused() {
        assert_eq!(sizes(TaskSizes::Even(7), 10), None); // 2 each: nothing left for two of them
        assert_eq!(sizes(TaskSizes::Even(0), 10), None);
        assert_eq!(sizes(TaskSizes::Explicit(vec![5, 4]), 10), None);
        assert_eq!(sizes(TaskSizes::Explicit(vec![u32::MAX, 2]), 1), None);
    }
}
