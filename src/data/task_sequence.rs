//! Sequence of tasks: their classes, and the head row of each class.
//!
//! The order of classes is the data set's own or a seeded shuffle; tasks are consecutive slices of that
//! order. A class's place in the order is its **head row**, so the rows of task `t` are contiguous and the
//! classes seen so far are always the rows `0..seen`.
//!
//! ```
//! use fedcast::data::{ClassPermutation, TaskSequence, TaskSizes};
//! let cars = TaskSequence::new(196, &ClassPermutation::Native, &TaskSizes::Even(10))?;
//! assert_eq!(cars.tasks[0].rows, 0..20);
//! assert_eq!(cars.tasks[9].rows, 180..196); // the last task is smaller
//! assert_eq!(cars.tasks[9].seen(), 196);
//! # Ok::<(), fedcast::data::DataError>(())
//! ```

use std::ops::Range;
use std::sync::Arc;

use super::{ClientTask, ClientTasks, DataError, Dataset};
use crate::numerics::distributions::shuffle;
use crate::numerics::streams::{Domain, StreamKey};
use crate::quantity::{ClientId, TaskId};
pub use crate::scenario::TaskSizes;

/// The order in which classes arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassPermutation {
    /// Order of the data set's class ids, as in the HGP benchmark.
    Native,
    /// Shuffled with this seed, from a stream that nothing else uses.
    Seeded(u64),
}

/// Class order and tasks of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskSequence {
    /// Class id of every head row.
    pub order: Vec<u32>,
    /// The tasks, in the order they arrive.
    pub tasks: Vec<Arc<TaskView>>,
    /// Client tasks, if clients have their own. A task is then a stage with all its client tasks.
    pub client_tasks: Option<Arc<ClientTasks>>,
    rows: Vec<u32>,
}

/// One task: its head rows and the classes at those rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskView {
    /// Number of the task.
    pub task: TaskId,
    /// Head rows that are new in this task.
    pub rows: Range<usize>,
    /// The data set's class ids at those rows.
    pub classes: Vec<u32>,
}

impl TaskView {
    /// Returns `K_t`, the number of classes seen up to and including this task. Their head rows are `0..K_t`.
    pub fn seen(&self) -> usize {
        self.rows.end
    }
}

impl TaskSequence {
    /// Divides `classes` classes into tasks.
    ///
    /// # Errors
    /// Returns an error if there are no classes, a task is empty, or sizes do not add up.
    pub fn new(
        classes: usize,
        order: &ClassPermutation,
        sizes: &TaskSizes,
    ) -> Result<TaskSequence, DataError> {
        let sizes = sizes_of(sizes, classes)?;
        let mut ids: Vec<u32> = (0..classes as u32).collect();
        if let ClassPermutation::Seeded(seed) = *order {
            shuffle(&mut StreamKey::new(seed, Domain::ClassOrder).rng(), &mut ids);
        }
        let mut rows = vec![0; classes];
        for (row, &class) in ids.iter().enumerate() {
            rows[class as usize] = row as u32;
        }
        let mut start = 0;
        let tasks = sizes.iter().enumerate().map(|(t, &size)| {
            let rows = start..start + size as usize;
            start = rows.end;
            let classes = ids[rows.clone()].to_vec();
            Arc::new(TaskView { task: TaskId(t as u16), rows, classes })
        });
        Ok(TaskSequence { tasks: tasks.collect(), order: ids, client_tasks: None, rows })
    }

    /// Returns the stages of client tasks as tasks, over the data set whose class ids are head rows.
    pub fn of_client_tasks(client_tasks: Arc<ClientTasks>) -> TaskSequence {
        let rows: Vec<u32> = (0..client_tasks.rows() as u32).collect();
        let stages = (0..client_tasks.rules().stages as u16).map(TaskId);
        let tasks = stages.map(|stage| Arc::new(client_tasks.stage_view(stage))).collect();
        TaskSequence { order: rows.clone(), tasks, client_tasks: Some(client_tasks), rows }
    }

    /// Returns a client's view of a task: the whole task, or its own client task.
    pub fn view_of(&self, task: TaskId, client: ClientId) -> &Arc<TaskView> {
        match &self.client_tasks {
            None => &self.tasks[task.index()],
            Some(client_tasks) => client_tasks.view(ClientTask { stage: task, client }),
        }
    }

    /// Returns the data set to which the class ids refer: the original, or that of the client tasks.
    ///
    /// # Errors
    /// Returns an error if the client tasks were drawn for another data set.
    pub fn dataset(&self, original: Dataset) -> Result<Dataset, DataError> {
        match &self.client_tasks {
            None => Ok(original),
            Some(client_tasks) => original.for_client_tasks(client_tasks),
        }
    }

    /// Returns the number of training samples of each class id, from that of the original data set.
    pub fn class_sizes(&self, original: Vec<usize>) -> Vec<usize> {
        match &self.client_tasks {
            None => original,
            Some(client_tasks) => client_tasks.class_sizes(&original),
        }
    }

    /// Returns the class ids at the rows of a task.
    ///
    /// With client tasks these are the original data set's, not those of [`TaskView::classes`].
    pub fn classes_of(&self, view: &TaskView) -> Vec<u32> {
        match &self.client_tasks {
            None => view.classes.clone(),
            Some(client_tasks) => view.rows.clone().map(|row| client_tasks.class_at(row)).collect(),
        }
    }

    /// Returns the head row of a class id.
    ///
    /// # Panics
    /// Panics if the data set has no such class.
    pub fn row_of(&self, class: u32) -> u32 {
        self.rows[class as usize]
    }

    /// Returns the number of classes, which is the number of head rows.
    pub fn classes(&self) -> usize {
        self.order.len()
    }
}

/// Returns the size of every task for this many classes.
fn sizes_of(tasks: &TaskSizes, classes: usize) -> Result<Vec<u32>, DataError> {
    let unfit = |what, advice| Err(DataError::unfit(what, advice));
    match (u32::try_from(classes).ok().and_then(|classes| tasks.of(classes)), tasks) {
        (Some(sizes), _) => Ok(sizes),
        (None, TaskSizes::Explicit(sizes)) => {
            let total: u64 = sizes.iter().map(|size| u64::from(*size)).sum();
            unfit(
                format!(
                    "task sizes {sizes:?} add up to {total}, but the data set has {classes} classes"
                ),
                format!("give at least one class to every task and {classes} in total"),
            )
        }
        (None, TaskSizes::Even(tasks)) if (1..=classes).contains(&(*tasks as usize)) => {
            let size = classes.div_ceil(*tasks as usize);
            unfit(
                format!(
                    "{classes} classes in {tasks} even tasks of {size} leave the last tasks empty"
                ),
                format!("choose {} tasks or list the size of every task", classes.div_ceil(size)),
            )
        }
        (None, TaskSizes::Even(tasks)) => unfit(
            format!("{classes} classes cannot be divided into {tasks} tasks"),
            format!("choose between 1 and {classes} tasks"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(task_sequence: &TaskSequence) -> Vec<u32> {
        task_sequence.tasks.iter().map(|t| t.classes.len() as u32).collect()
    }

    #[test]
    fn explicit_sizes_are_kept() {
        let want = vec![50, 10, 10, 10, 10, 10];
        let made =
            TaskSequence::new(100, &ClassPermutation::Native, &TaskSizes::Explicit(want.clone()))
                .unwrap();
        assert_eq!(sizes(&made), want);
        assert_eq!(made.tasks[1].rows, 50..60);
        assert_eq!(made.tasks[1].seen(), 60);
    }

    #[test]
    fn uneven_sizes_follow_the_papers() {
        let cars = TaskSequence::new(196, &ClassPermutation::Native, &TaskSizes::Even(10)).unwrap();
        assert_eq!(sizes(&cars), [20, 20, 20, 20, 20, 20, 20, 20, 20, 16]);
    }

    #[test]
    fn a_seeded_order_is_a_permutation_and_depends_on_its_seed_only() {
        let of = |seed| {
            TaskSequence::new(10, &ClassPermutation::Seeded(seed), &TaskSizes::Even(5)).unwrap()
        };
        let (a, b) = (of(1), of(2));
        assert_eq!(a, of(1));
        assert_ne!(a.order, b.order);
        let mut sorted = a.order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..10).collect::<Vec<u32>>());
        for (row, &class) in a.order.iter().enumerate() {
            assert_eq!(a.row_of(class), row as u32);
        }
        let other =
            TaskSequence::new(10, &ClassPermutation::Seeded(1), &TaskSizes::Even(2)).unwrap();
        assert_eq!(a.order, other.order, "the order does not depend on the tasks");
    }

    #[test]
    fn impossible_divisions_say_what_to_do() {
        let even = |classes, tasks| {
            TaskSequence::new(classes, &ClassPermutation::Native, &TaskSizes::Even(tasks))
                .unwrap_err()
                .to_string()
        };
        assert!(even(10, 6).contains("choose 5 tasks"), "{}", even(10, 6));
        assert!(even(10, 0).contains("between 1 and 10"), "{}", even(10, 0));
        let explicit =
            TaskSequence::new(10, &ClassPermutation::Native, &TaskSizes::Explicit(vec![5, 6]))
                .unwrap_err();
        assert!(explicit.to_string().contains("add up to 11"), "{explicit}");
    }
}
