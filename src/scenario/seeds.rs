//! `[seed]`: three seeds, never one, so that a partition can be kept while training is repeated.

use serde::Serialize;

use super::reader::{Param, TableReader, defaults};

/// Where all randomness of a run comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Seeds {
    /// Initial values, cohorts, batches, augmentation, links, faults. Default 1.
    pub run: u64,
    /// Which client holds which sample. Default 0.
    pub partition: u64,
    /// The order of classes where `tasks.order = "seeded"`, and who has which tasks when with
    /// `tasks.arrival = "powder"`. Default 0.
    pub class_order: u64,
}

impl Seeds {
    pub(super) fn read(table: &mut TableReader<'_>) -> Seeds {
        Seeds {
            run: table.get(&Param::new(
                "run",
                1,
                "initial values, cohorts, batches, links, faults",
            )),
            partition: table.get(&Param::new("partition", 0, "which client holds which sample")),
            class_order: table.get(&Param::new("class_order", 0, "classes of a seeded order")),
        }
    }
}

impl Default for Seeds {
    fn default() -> Self {
        defaults(Self::read)
    }
}
