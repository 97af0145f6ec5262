//! Requirements of LANDER.

use super::Lander;
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

/// Requires an embedding for every class.
///
/// The number of classes must be known without opening the data.
pub(super) fn embeddings(method: &Lander) -> Requirement {
    let method = method.clone();
    Requirement::new(move |scenario| {
        let classes = scenario.data.classes()? as usize;
        let problem = method.table(classes).err()?;
        let help = "give a row per class, or set `method.embedding_width`";
        Some(RequirementError::new("method.embeddings", problem, "no embedding per class", help))
    })
}
