//! Labels of a task's samples in the loss and the Fisher information of the methods of HGP's benchmark.

use std::ops::Range;

use clap::ValueEnum;

use crate::scenario::reader::Choice;

/// Head row that a sample of the task trains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum TaskLabels {
    /// Row of the sample's own class.
    #[default]
    Own,
    /// The row's number modulo the number of the task's classes, counted from the task's first row.
    ///
    /// An error of fed-mammoth. Both choices are equal while all tasks have equally many classes; in the last task of
    /// Cars-196, which has 16 classes instead of 20, labels are rotated by four.
    Modulo,
}

/// Source of the default.
pub(super) const LABELS_SOURCE: &str = "fed-mammoth has modulo";

impl TaskLabels {
    /// Returns the row that a sample of the class at `row` trains, in a task with these rows.
    pub(super) fn row(self, row: u32, task: &Range<usize>) -> u32 {
        match self {
            TaskLabels::Own => row,
            TaskLabels::Modulo => task.start as u32 + row % (task.len().max(1) as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// fed-mammoth on Cars-196: tasks of 20 classes keep their labels, class `180 + j` of the last one is trained as
    /// row `180 + (j + 4) mod 16`.
    #[test]
    fn the_last_task_of_cars_196_is_rotated_by_four() {
        let row = |row: u32, task: Range<usize>| TaskLabels::Modulo.row(row, &task);
        assert!((160..180).all(|class| row(class, 160..180) == class));
        for j in 0..16 {
            assert_eq!(row(180 + j, 180..196), 180 + (j + 4) % 16);
            assert_eq!(TaskLabels::Own.row(180 + j, &(180..196)), 180 + j);
        }
    }
}
