//! Requirements of tabular data, and settings that have no meaning for them.

use super::Checker;
use crate::scenario::{BackboneSection, DataSource, Scenario};

impl Scenario {
    /// Reports networks and transforms: rows go to heads as they are.
    pub(super) fn check_rows(&self, checker: &mut Checker<'_>) {
        if self.data.source != DataSource::Table {
            return;
        }
        if self.backbone != BackboneSection::Pixels {
            let kind = self.backbone.kind();
            checker.reject(
                &["backbone.kind", "backbone", "data.source"],
                &format!(
                    "the backbone \"{kind}\" cannot read a table: its samples are rows of numbers"
                ),
                "does not read these data",
                "set `backbone.kind = \"pixels\"`: rows are the features",
            );
        }
        let help = "remove it; rows are neither resized nor normalized";
        self.refuse_transforms(checker, "the samples of a table are rows of numbers", help);
    }
}
