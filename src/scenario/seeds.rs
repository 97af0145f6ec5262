//! `[seed]`: three seeds, which move together unless they are set apart, so that a partition can be kept while
//! training is repeated.
//!
//! Public codes seed their generators once: classes, clients' samples and training all change with that seed, and
//! deviations over `--seed` mean the same here.

use serde::Serialize;

use super::reader::{Keys, TableReader};

/// Where all randomness of a run comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Keys)]
pub struct Seeds {
    /// Initial values, cohorts, batches, links, faults.
    #[key(default = 1)]
    pub run: u64,
    /// Which client holds which sample; follows `run` where that is given.
    ///
    /// Also which samples are held out. `run` is given in the file or by `--seed`; otherwise this is 0.
    #[key(default = follow_run(table, run))]
    pub partition: u64,
    /// Classes of a seeded order; follows `run` where that is given.
    ///
    /// With `tasks.order = "seeded"`, and who has which tasks when with `tasks.arrival = "powder"`.
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
            let read = read_text(text, "example", Seeds::read).unwrap();
            assert_eq!(read, Seeds { run, partition, class_order }, "{text}");
        }
    }
}
