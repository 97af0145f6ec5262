//! `[seed]`: three seeds that are equal unless set apart, so that a partition can stay fixed while training is
//! repeated.
//!
//! Public code seeds its generators once: classes, clients' samples and training all change with that seed, and
//! standard deviations over `--seed` have the same meaning here.

use serde::Serialize;

use super::reader::{Keys, TableReader};

/// Seeds of all random numbers of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Keys)]
pub struct SeedsSection {
    /// Seed of initial values, cohorts, batches, links and faults.
    #[key(default = 1)]
    pub run: u64,
    /// Seed of the division of samples among clients; default: `run` if that is given, else 0.
    ///
    /// It also draws held-out samples. `run` is given in the file or by `--seed`.
    #[key(default = follow_run(table, run))]
    pub partition: u64,
    /// Seed of the class order; default: `run` if that is given, else 0.
    ///
    /// It is used with `tasks.order = "seeded"`, and draws classes and moves of client tasks with `tasks.arrival =
    /// "client-tasks"`.
    #[key(default = follow_run(table, run))]
    pub class_order: u64,
}

/// Returns the default of a seed that follows the one of the run.
fn follow_run(table: &TableReader<'_>, run: u64) -> u64 {
    if table.given("run") { run } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::reader::read_text;

    #[test]
    fn seeds_follow_the_run_unless_they_are_set_apart() {
        for (text, run, partition, class_order) in [
            ("", 1, 0, 0),
            ("run = 7", 7, 7, 7),
            ("run = 1", 1, 1, 1),
            ("run = 7\npartition = 0", 7, 0, 7),
            ("run = 7\nclass_order = 3", 7, 7, 3),
            ("partition = 5", 1, 5, 0),
        ] {
            let read = read_text(text, "example", SeedsSection::read).unwrap();
            assert_eq!(read, SeedsSection { run, partition, class_order }, "{text}");
        }
    }
}
