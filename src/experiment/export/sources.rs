//! Sources of models.

use std::path::Path;

use super::ExportError;
use crate::experiment::directory_error::DirectoryError;
use crate::experiment::run_directory::names;
use crate::experiment::task_ends::End;
use crate::experiment::{model_file, models};
use crate::wire::Body;

/// Returns the model that the run kept after a task: the bytes of the file and the state in it.
///
/// `None` if no model was kept.
///
/// # Errors
/// Returns an error if the file cannot be read, or is of another run or task.
pub(super) fn in_models(path: &Path, end: End) -> Result<Option<(Vec<u8>, Body)>, ExportError> {
    let file = path.join(names::MODELS).join(models::file_name(end.task));
    let bytes = match std::fs::read(&file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|source| DirectoryError::Read { path: file.clone(), source })?,
    };
    let unreadable = |why| ExportError::Unreadable { path: file.clone(), why };
    let state = model_file::decode(&bytes).map_err(unreadable)?;
    let said = model_file::metadata(&bytes).map_err(unreadable)?;
    match said.get("digest") {
        Some(digest) if *digest == end.digest.to_string() => Ok(Some((bytes, state))),
        _ => Err(unreadable("it is of another run or task".to_string())),
    }
}
