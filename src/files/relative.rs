//! Paths relative to a file.

use std::path::{Component, Path, PathBuf};

/// Returns `path` as written in a file in `folder`.
///
/// It is relative if both are in one tree, which can then be moved as a whole, else absolute.
pub fn relative(folder: &Path, path: &Path) -> PathBuf {
    let (Ok(path), Ok(folder)) = (std::path::absolute(path), std::path::absolute(folder)) else {
        return path.to_owned();
    };
    let (path, folder) = (cleaned(&path), cleaned(&folder));
    let shared = path.components().zip(folder.components()).take_while(|(a, b)| a == b).count();
    // Only the root is shared.
    if shared < 2 {
        return path;
    }
    let up = folder.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(path.components().skip(shared)).collect()
}

/// Returns the path without `.` and `..`; the component before a `..` must not be a link.
pub fn cleaned(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => _ = clean.pop(),
            part => clean.push(part),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_within_a_tree() {
        let of = |folder: &str, path: &str| relative(Path::new(folder), Path::new(path));
        assert_eq!(of("/home/me/fl", "/home/me/birds"), Path::new("../birds"));
        assert_eq!(of("/home/me", "/home/me/data/birds"), Path::new("data/birds"));
        assert_eq!(of("/home/me", "/mnt/birds"), Path::new("/mnt/birds"));
        assert_eq!(of("/home/me/a/../fl", "/home/me/birds"), Path::new("../birds"));
    }
}
