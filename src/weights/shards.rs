//! Networks in several files in one folder, with an index that names the file of every tensor.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use super::{FileTensor, Listing, WeightsError, WeightsFile};
use crate::files::{self, FileKind};

const FORMAT: &str = "index of a network in several files";

/// Content of an index file.
#[derive(Deserialize)]
struct Index {
    /// Name of the file of every tensor.
    weight_map: BTreeMap<String, String>,
}

/// Open files of one network.
pub(super) struct Shards {
    files: Vec<WeightsFile<'static>>,
    /// Index into `files` of every tensor.
    places: BTreeMap<String, usize>,
}

impl Shards {
    /// Opens the files that the index at `path` names.
    pub fn open(path: &Path, origin: &str) -> Result<(Listing, Shards), WeightsError> {
        let mut shards = Shards { files: Vec::new(), places: BTreeMap::new() };
        let listing = each(path, origin, |shard, name| {
            let file = WeightsFile::single(shard, name)?;
            let listing = file.listing().clone();
            let place = shards.files.len();
            shards.places.extend(listing.keys().map(|tensor| (tensor.clone(), place)));
            shards.files.push(file);
            Ok(listing)
        })?;
        Ok((listing, shards))
    }

    /// Reads one tensor.
    pub fn read(&mut self, name: &str) -> Result<FileTensor, WeightsError> {
        self.files[self.places[name]].read(name)
    }
}

/// Returns the listing of all files of an index, without reading tensors.
pub(super) fn listing(path: &Path, origin: &str) -> Result<Listing, WeightsError> {
    each(path, origin, WeightsFile::index_of_single)
}

/// Returns the files that an index names, as written there.
///
/// # Errors
/// Returns an error if the index cannot be read, or a name leads to another folder.
pub fn shards_of(path: &Path, origin: &str) -> Result<Vec<String>, WeightsError> {
    let mut files: Vec<String> = read(path, origin)?.weight_map.into_values().collect();
    files.sort();
    files.dedup();
    Ok(files)
}

/// Lists every file of an index by `list`, and compares the result with the index.
fn each(
    path: &Path,
    origin: &str,
    mut list: impl FnMut(&Path, &str) -> Result<Listing, WeightsError>,
) -> Result<Listing, WeightsError> {
    let index = read(path, origin)?;
    let mut all = Listing::new();
    for shard in shards_of(path, origin)? {
        let called = sibling(Path::new(origin), &shard).display().to_string();
        let listing = list(&sibling(path, &shard), &called)?;
        let lacks =
            |(tensor, file): &(&String, &String)| **file == shard && !listing.contains_key(*tensor);
        if let Some((tensor, _)) = index.weight_map.iter().find(lacks) {
            let reason = format!("it says that `{tensor}` lies in {shard}, where it is not");
            return Err(WeightsError::malformed(origin, FORMAT, reason));
        }
        for (tensor, listed) in listing {
            if all.insert(tensor.clone(), listed).is_some() {
                let reason = format!("`{tensor}` lies in {shard} and in a file before it");
                return Err(WeightsError::malformed(origin, FORMAT, reason));
            }
        }
    }
    Ok(all)
}

fn read(path: &Path, origin: &str) -> Result<Index, WeightsError> {
    let bytes = files::read(path, FileKind::Manifest)
        .map_err(|source| WeightsError::Unreadable { file: origin.to_owned(), source })?;
    let index: Index = serde_json::from_slice(&bytes)
        .map_err(|error| WeightsError::malformed(origin, FORMAT, error.to_string()))?;
    let inside = |file: &&String| {
        let mut parts = Path::new(file.as_str()).components();
        matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
    };
    match index.weight_map.values().find(|file| !inside(file)) {
        None => Ok(index),
        Some(file) => {
            let reason = format!("its file {file} is not next to it");
            Err(WeightsError::malformed(origin, FORMAT, reason))
        }
    }
}

/// Returns the path of a file in the folder of another one.
fn sibling(path: &Path, name: &str) -> PathBuf {
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use safetensors::tensor::{Dtype, TensorView, serialize};

    /// Files of named single numbers.
    fn write(folder: &Path, files: &[(&str, &[(&str, f32)])]) {
        for (file, tensors) in files {
            let bytes: Vec<[u8; 4]> =
                tensors.iter().map(|(_, value)| value.to_le_bytes()).collect();
            let view = |bytes| TensorView::new(Dtype::F32, vec![1], bytes).unwrap();
            let views = tensors.iter().zip(&bytes).map(|((name, _), bytes)| (*name, view(bytes)));
            std::fs::write(folder.join(file), serialize(views, None).unwrap()).unwrap();
        }
    }

    fn opened(folder: &Path, places: &[(&str, &str)]) -> Result<WeightsFile<'static>, String> {
        let map: BTreeMap<&str, &str> = places.iter().copied().collect();
        let index = serde_json::json!({ "metadata": { "total_size": 8 }, "weight_map": map });
        let path = folder.join("model.safetensors.index.json");
        std::fs::write(&path, index.to_string()).unwrap();
        let text = |error: WeightsError| error.to_string();
        let listed = WeightsFile::index(&path, "the index", None).map_err(text)?;
        let file = WeightsFile::called(&path, "the index", None).map_err(text)?;
        assert_eq!(&listed, file.listing());
        Ok(file)
    }

    #[test]
    fn tensors_are_read_from_the_files_they_lie_in() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        write(folder, &[("1.st", &[("b", 2.0), ("d", 4.0)]), ("2.st", &[("a", 1.0), ("c", 3.0)])]);
        let places = [("a", "2.st"), ("b", "1.st"), ("c", "2.st"), ("d", "1.st")];
        let mut file = opened(folder, &places).unwrap();
        for (name, value) in [("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", 4.0)] {
            assert_eq!(&*file.read(name).unwrap().values, [value], "{name}");
        }
        // What the index does not name is listed all the same: nothing vanishes.
        let file = opened(folder, &[("a", "2.st"), ("b", "1.st")]).unwrap();
        assert_eq!(file.listing().len(), 4);
    }

    #[test]
    fn files_that_lack_something_or_lie_elsewhere_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        write(folder, &[("1.st", &[("a", 1.0)]), ("2.st", &[("a", 1.0)])]);
        let refusal = |places: &[(&str, &str)]| opened(folder, places).err().unwrap();
        assert!(refusal(&[("x", "1.st")]).contains("`x` lies in 1.st, where it is not"));
        assert!(refusal(&[("a", "3.st")]).contains("3.st"));
        for elsewhere in ["../1.st", "/etc/passwd", "a/1.st", ".."] {
            assert!(refusal(&[("a", elsewhere)]).contains("not next to it"), "{elsewhere}");
        }
        let itself = refusal(&[("a", "model.safetensors.index.json")]);
        assert!(itself.contains("an index names it"), "{itself}");
        write(folder, &[("3.st", &[("a", 1.0), ("b", 1.0)])]);
        assert!(refusal(&[("a", "1.st"), ("b", "3.st")]).contains("and in a file before it"));
    }
}
