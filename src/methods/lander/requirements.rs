//! Requirements of LANDER.

use super::Lander;
use super::embeddings::ORTHOGONAL;
use crate::methods::averaging::Requirement;
use crate::scenario::RequirementError;

/// Returns the requirement of an embedding for every class.
///
/// The number of classes must be known without opening the data.
pub(super) fn embeddings(method: &Lander) -> Requirement {
    let method = method.clone();
    Requirement::new(move |scenario| {
        let classes = scenario.data.classes()? as usize;
        let problem = method.table(classes).err()?;
        if method.embeddings == ORTHOGONAL {
            let help = format!("set `method.embedding_width` to at least {classes}");
            let label = format!("less than the {classes} classes");
            return Some(RequirementError::new("method.embedding_width", problem, label, help));
        }
        let help = "give a row per class, or set `method.embedding_width`";
        Some(RequirementError::new("method.embeddings", problem, "no embedding per class", help))
    })
}
