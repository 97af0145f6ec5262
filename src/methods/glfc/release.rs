//! GLFC or LGA: the method of a `[method]` table, which determines defaults.

use crate::methods::trainable::TrainableKeys;

/// Method from whose release the defaults are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    Glfc,
    Lga,
}

impl Release {
    /// Returns the source of defaults from this release.
    pub fn source(self) -> &'static str {
        match self {
            Release::Glfc => "the release of GLFC",
            Release::Lga => "the release of LGA",
        }
    }

    /// Returns the keys for trained parameters and their aggregation, with this release's defaults.
    pub fn fedavg_keys(self) -> TrainableKeys {
        TrainableKeys::FEDAVG.uniform(self.source()).over_all_seen().growing(self.source())
    }
}
