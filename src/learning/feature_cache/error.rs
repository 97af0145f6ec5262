//! Errors of a cache in a file.

use std::io;
use std::path::{Path, PathBuf};

/// A cache folder or file that the operating system refuses, for example because the disk is full. A
/// damaged file is no error: what it held is computed again.
#[derive(Debug, thiserror::Error)]
#[error("feature cache {}: cannot {action}: {source}. {}", path.display(), advice(source))]
pub struct CacheError {
    /// The folder or file.
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
