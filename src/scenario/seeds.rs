//! `[seed]`: three seeds, which move together unless they are set apart, so that a partition can be kept while
//! training is repeated.
//!
//! Public codes seed their generators once: classes, clients' samples and training all change with that seed, and
//! deviations over `--seed` mean the same here.

use serde::Serialize;

use super::reader::{Param, TableReader, defaults};

/// Where all randomness of a run comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Seeds {
    /// Initial values, cohorts, batches, augmentation, links, faults. Default 1.
    pub run: u64,
    /// Which client holds which sample, and which are held out. Default: `run` where that is written or given by
    /// `--seed`, otherwise 0.
    pub partition: u64,
    /// The order of classes where `tasks.order = "seeded"`, and who has which tasks when with
    /// `tasks.arrival = "powder"`. Default: as of `partition`.
    pub class_order: u64,
}

impl Seeds {
    pub(super) fn read(table: &mut TableReader<'_>) -> Seeds {
        let run = Param::new("run", 1, "initial values, cohorts, batches, links, faults");
        let followed = table.given("run");
        let run = table.get(&run);
        let default = if followed { run } else { 0 };
        let partition = "which client holds which sample; follows `run` where that is given";
        let class_order = "classes of a seeded order; follows `run` where that is given";
        Seeds {
            run,
            partition: table.get(&Param::new("partition", default, partition)),
            class_order: table.get(&Param::new("class_order", default, class_order)),
        }
    }
}

impl Default for Seeds {
    fn default() -> Self {
        defaults(Self::read)
    }
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
