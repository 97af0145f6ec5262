//! Which Parquet files are a part of a data set.

use std::path::{Path, PathBuf};

use super::DataError;

/// The Parquet files of a part, sorted: those whose name, or whose folder's name, is `word` or goes on behind it with
/// `-` or `.` (`train_extra-0.parquet` is another part than `train`).
///
/// # Errors
/// A folder that cannot be read; such files in two places, which would be two copies of the same samples.
pub(super) fn files_of(folder: &Path, word: &str) -> Result<Vec<PathBuf>, DataError> {
    let is_named = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let rest = name.strip_prefix(word);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']))
    };
    let is_table = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "parquet");
    let mut places: Vec<Vec<PathBuf>> = Vec::new();
    for place in [folder.to_owned(), folder.join("data"), folder.join("default")] {
        if !place.is_dir() {
            continue;
        }
        let (mut files, mut in_folders) = (Vec::new(), Vec::new());
        for path in entries(&place)?.into_iter().filter(|path| is_named(path)) {
            match path.is_dir() {
                true => in_folders.extend(entries(&path)?.into_iter().filter(is_table)),
                false if is_table(&path) => files.push(path),
                false => {}
            }
        }
        places.extend([files, in_folders].into_iter().filter(|found| !found.is_empty()));
    }
    places.iter_mut().for_each(|found| found.sort_unstable());
    if let [one, other, ..] = places.as_slice() {
        return Err(DataError::unfit(
            format!("{} and {} are both there", one[0].display(), other[0].display()),
            "take one of the two copies away, or name the folder of one in data.path",
        ));
    }
    Ok(places.into_iter().next().unwrap_or_default())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let failed = |e| DataError::io(folder, "a folder of Parquet files", e);
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    entries.map(|entry| Ok(entry.map_err(failed)?.path())).collect()
}
