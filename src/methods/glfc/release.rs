//! GLFC or LGA: which of the two a `[method]` table is of.

use crate::methods::trainable::TrainableKeys;

/// Method whose release the defaults are of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    Glfc,
    Lga,
}

impl Release {
    /// Returns what a default taken from it has as its source.
    pub fn source(self) -> &'static str {
        match self {
            Release::Glfc => "the release of GLFC",
            Release::Lga => "the release of LGA",
        }
    }

    /// Returns the keys of what trains.
    pub fn fedavg_keys(self) -> TrainableKeys {
        TrainableKeys::FEDAVG.uniform(self.source()).over_all_seen().growing(self.source())
    }
}
