//! `[seed]`: three seeds, never one, so that a partition can be kept while training is repeated.

use serde::Serialize;

/// Where all randomness of a run comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Seeds {
    /// Initial values, cohorts, batches, augmentation, links, faults. Default 1.
    pub run: u64,
    /// Which client holds which sample. Default 0.
    pub partition: u64,
    /// The order of classes where `tasks.order = "seeded"`. Default 0.
    pub class_order: u64,
}
