//! Requirements of tabular data, and settings that have no meaning for them.

use super::Checker;
use crate::scenario::{BackboneSection, Scenario};

impl Scenario {
    /// Reports networks and transforms: rows go to heads as they are.
    pub(super) fn check_rows(&self, checker: &mut Checker<'_>) {
        if !self.data.source.is_rows() {
            return;
        }
        if self.backbone != BackboneSection::Pixels {
            let kind = self.backbone.kind();
            checker.reject(
                &["backbone.kind", "backbone", "data.source"],
                &format!(
                    "the backbone \"{kind}\" cannot read rows of numbers, the samples of these data"
                ),
                "does not read these data",
                "set `backbone.kind = \"pixels\"`: rows are the features",
            );
        }
        let help = "remove it; rows are neither resized nor normalized";
        self.refuse_transforms(checker, "the samples of these data are rows of numbers", help);
    }
}
