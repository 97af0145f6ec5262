//! Architecture of a vision transformer, read from its weights file.

use std::path::Path;

use crate::cli::failure::CliError;
use crate::cli::weights::architecture;
use crate::fetch::Settings;
use crate::model::VitConfig;
use crate::weights::{InferredVit, NameMap, Network, WeightsFile, heads_of_width};

/// Returns the value of `backbone.architecture` for these weights; `None` if the file is not here.
pub(super) fn architecture_of(weights: &Path) -> Result<Option<String>, CliError> {
    let Some(path) = Settings::from_env().weights_at(weights).ok().filter(|path| path.is_file())
    else {
        return Ok(None);
    };
    let file = weights.display().to_string();
    let of = || {
        let map = NameMap::of(&file, &WeightsFile::index(&path, &file, None)?)?;
        let vit = (map.family.network == Network::Vit).then(|| InferredVit::of(&file, &map));
        vit.transpose()
    };
    let Some(vit) = of().map_err(|error| CliError::Usage(error.to_string()))? else {
        return Err(CliError::Usage(format!(
            "{file} holds no vision transformer\n  help: `fedcast weights {file}` prints the [backbone] section for it"
        )));
    };
    let InferredVit { image, patch, channels, dim, depth, mlp } = vit;
    let Some(heads) = heads_of_width(dim) else {
        return Err(CliError::Usage(format!(
            "{file}: the number of attention heads does not follow from the width {dim}\n  help: set it: --architecture \
             '{{ image = {image}, patch = {patch}, channels = {channels}, dim = {dim}, depth = {depth}, heads = ..., mlp = {mlp} }}'"
        )));
    };
    let vit = VitConfig { image, patch, channels, dim, depth, heads, mlp, ..VitConfig::default() };
    Ok(Some(architecture(&vit)))
}
