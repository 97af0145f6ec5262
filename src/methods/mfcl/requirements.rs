//! Requirements of MFCL.

use crate::methods::averaging::Requirement;
use crate::scenario::{DataSource, RequirementError, Scenario};

/// Requires images and a network below the head: the generator makes images whose features are compared.
pub(super) fn images() -> Requirement {
    let violation = |scenario: &Scenario| {
        if scenario.data.source == DataSource::Play || scenario.data.source.is_rows() {
            let message = "a generator makes images";
            let help = "choose a data set of images";
            return Some(RequirementError::new("data.source", message, "no images", help));
        }
        (scenario.backbone.kind() == "pixels").then(|| {
            let message = "features of pixels do not train";
            let help = "set `backbone.kind = \"resnet18\"`, or \"vit\"";
            RequirementError::new("backbone.kind", message, "no network below the head", help)
        })
    };
    Requirement::new(violation).summarized("images, and a network below the head")
}
