//! Set of weights that a run reads, of several in a file, for notes and manifests.

use crate::fetch::Settings;
use crate::scenario::BackboneSection;
use crate::weights::{Sets, WeightsFile, named};

/// Returns the sets in the file of a backbone; empty if there is no such file, or it cannot be read.
pub(super) fn of(backbone: &BackboneSection) -> Sets {
    let sets = backbone.weights_file().and_then(|name| {
        let path = Settings::from_env().weights_at(name).ok()?;
        WeightsFile::sets(&path, &name.display().to_string(), backbone.part()).ok()
    });
    sets.unwrap_or_default()
}

/// Returns a note on the sets that are read and not read, if there are several and none was chosen.
pub(super) fn note(backbone: &BackboneSection, sets: &Sets) -> Option<String> {
    let (file, read) = (backbone.weights_file()?, sets.read.as_ref()?);
    if sets.others.is_empty() || backbone.part().is_some() {
        return None;
    }
    Some(format!(
        "{} holds several sets of weights: `{read}` is read, {} not; choose another with backbone.part",
        file.display(),
        named(&sets.others, 4)
    ))
}
