//! Architecture of a transformer, inferred from the tensors of its file.

use std::path::Path;

use super::{Architecture, BackboneSection, VitSection, VitShape, Weights};
use crate::scenario::reader::message_and_help;
use crate::weights::{InferredVit, NameMap, Network, WeightsError, WeightsFile, heads_of_width};

/// Reason why the architecture is unknown: key, message, label and help.
pub(in crate::scenario) type Unknown = (&'static str, String, &'static str, String);

impl BackboneSection {
    /// Infers the architecture from the file of weights if the scenario does not state it.
    ///
    /// `find` returns the place of the file with this name.
    ///
    /// # Errors
    /// Fails if the file is absent or holds another network, and if the number of heads cannot be inferred.
    pub(in crate::scenario) fn infer(
        &mut self,
        find: impl Fn(&Path) -> Result<std::path::PathBuf, Unknown>,
    ) -> Result<(), Unknown> {
        let BackboneSection::Vit(section) = self else { return Ok(()) };
        let (Weights::File(name), None) = (&section.weights, section.architecture) else {
            return Ok(());
        };
        let shape =
            shape_in_file(&find(name)?, name, section.part.as_deref()).map_err(unreadable)?;
        let InferredVit { image, patch, channels, dim, depth, mlp } = shape;
        let Some(heads) = section.heads.or(heads_of_width(dim).map(|heads| heads as u32)) else {
            return Err((
                "backbone.heads",
                format!("the number of heads cannot be inferred from weights of width {dim}"),
                "no `heads` here",
                "add `heads = ...` to [backbone], as the model card says".to_owned(),
            ));
        };
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        section.architecture = Some(Architecture::of(VitShape {
            image: number(image),
            patch: number(patch),
            channels: number(channels),
            dim: number(dim),
            depth: number(depth),
            heads,
            mlp: number(mlp),
        }));
        check_dimensions(section)
    }
}

/// Reads the architecture from the tensors of a file.
fn shape_in_file(
    path: &Path,
    name: &Path,
    part: Option<&str>,
) -> Result<InferredVit, WeightsError> {
    let origin = name.display().to_string();
    let listing = WeightsFile::index(path, &origin, part)?;
    let map = NameMap::of(&origin, &listing)?;
    if map.family.network != Network::Vit {
        return Err(WeightsError::Other {
            file: origin,
            what: format!("{} ({})", map.family.network.word(), map.family.name),
            advice: "set `backbone.kind` to this network, or name another file".to_owned(),
        });
    }
    InferredVit::of(&origin, &map)
}

fn unreadable(error: WeightsError) -> Unknown {
    let text = error.to_string();
    let (message, help) = message_and_help(&text);
    let help = match error {
        WeightsError::Unreadable { .. } => {
            "check the path, or state `architecture`: then only `run` needs the file".to_owned()
        }
        _ => help.to_owned(),
    };
    ("backbone.weights", message.to_owned(), "gives no architecture", help)
}

fn check_dimensions(section: &VitSection) -> Result<(), Unknown> {
    match section.misfits().into_iter().next() {
        None => Ok(()),
        Some(("heads", message, help)) => Err(("backbone.heads", message, "does not fit", help)),
        Some((_, message, help)) => Err(("backbone.resolution", message, "does not fit", help)),
    }
}
