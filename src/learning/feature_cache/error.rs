//! Errors of caches in files.

use std::io;
use std::path::{Path, PathBuf};

/// Failed operation on a cache folder or file, for example because the disk is full.
///
/// A damaged file is no error: its content is computed again.
#[derive(Debug, thiserror::Error)]
#[error("feature cache {}: cannot {action}: {source}. {}", path.display(), advice(source))]
pub struct CacheError {
    /// Folder or file.
    pub path: PathBuf,
    /// Attempted action.
    pub action: &'static str,
    /// Cause of the failure.
    pub source: io::Error,
}

impl CacheError {
    pub(super) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> CacheError {
        move |source| CacheError { path: path.to_owned(), action, source }
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "Free space, name a `cache.folder` on another disk, or set `cache.features = \"memory\"`"
        }
        _ => "Check `cache.folder` and its permissions, or set `cache.features = \"memory\"`",
    }
}
