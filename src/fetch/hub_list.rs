//! List of the files of a data set of the hub, written before they are fetched.
//!
//! Without it a folder of images looks complete when half of them are there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::FetchError;
use crate::files::{self, Disk, FileKind};

/// All files of a data set at one commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HubList {
    files: BTreeSet<String>,
}

/// Part of a data set that is on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// No file.
    Absent,
    /// All files of its list, in this folder.
    Whole(PathBuf),
    /// Some files, in this folder, and the reason why they are not known to be all.
    Part(PathBuf, String),
}

impl HubList {
    pub fn new(files: &[String]) -> HubList {
        HubList { files: files.iter().cloned().collect() }
    }

    /// Returns the path of the list of a commit.
    ///
    /// It is in the repository's folder of the cache, next to the client's own list of files.
    fn place(repository: &Path, commit: &str) -> PathBuf {
        repository.join("fedcast").join(format!("{commit}.json"))
    }

    /// Writes the list.
    pub fn keep(&self, repository: &Path, commit: &str) -> Result<(), FetchError> {
        let path = HubList::place(repository, commit);
        let folder = path.parent().unwrap_or(repository);
        std::fs::create_dir_all(folder).map_err(FetchError::disk(folder))?;
        let mut text = serde_json::to_vec_pretty(self).expect("a list of texts");
        text.push(b'\n');
        Disk::default().replace(&path, &text).map_err(FetchError::disk(&path))
    }

    /// Compares the folder of a commit with its list; with `within`, only that folder of it.
    pub fn extent(
        repository: &Path,
        commit: &str,
        folder: PathBuf,
        within: Option<&str>,
    ) -> Extent {
        let wanted = within.map_or(folder.clone(), |within| folder.join(within));
        if !wanted.is_dir() {
            return Extent::Absent;
        }
        let text = files::read_text(&HubList::place(repository, commit), FileKind::Table);
        let list = text.ok().and_then(|text| serde_json::from_str::<HubList>(&text).ok());
        let Some(HubList { files }) = list else {
            let why = "there is no list of its files (another program fetched them)";
            return Extent::Part(wanted, why.to_owned());
        };
        let files: Vec<&String> =
            files.iter().filter(|file| within.is_none_or(|within| lies_in(file, within))).collect();
        let mut missing = files.iter().filter(|file| !folder.join(file).is_file());
        match missing.next() {
            None => Extent::Whole(wanted),
            Some(first) => {
                let count = 1 + missing.count();
                let why =
                    format!("{count} of its {} files are missing, {first} first", files.len());
                Extent::Part(wanted, why)
            }
        }
    }
}

/// Returns true for a file below a folder of the repository.
pub(super) fn lies_in(file: &str, folder: &str) -> bool {
    file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_whole_with_all_files_of_its_list_only() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let folder = root.join("snapshots/c0ffee");
        let extent = || HubList::extent(root, "c0ffee", folder.clone(), None);
        assert_eq!(extent(), Extent::Absent);
        std::fs::create_dir_all(folder.join("train")).unwrap();
        std::fs::write(folder.join("train/1.png"), "1").unwrap();
        assert!(matches!(extent(), Extent::Part(_, why) if why.contains("no list")));
        let list = HubList::new(&["train/1.png".to_owned(), "train/2.png".to_owned()]);
        list.keep(root, "c0ffee").unwrap();
        let Extent::Part(_, why) = extent() else { panic!("a part") };
        assert_eq!(why, "1 of its 2 files are missing, train/2.png first");
        std::fs::write(folder.join("train/2.png"), "2").unwrap();
        assert_eq!(extent(), Extent::Whole(folder.clone()));
        // The list of another commit does not count.
        assert!(matches!(HubList::extent(root, "beef", folder.clone(), None), Extent::Part(..)));
    }

    #[test]
    fn a_folder_of_a_configuration_is_whole_without_the_others() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let folder = root.join("snapshots/c0ffee");
        let files = ["mnist/train.parquet", "mnist/test.parquet", "mnist2/train.parquet"];
        HubList::new(&files.map(str::to_owned)).keep(root, "c0ffee").unwrap();
        let extent = |within| HubList::extent(root, "c0ffee", folder.clone(), Some(within));
        std::fs::create_dir_all(folder.join("mnist")).unwrap();
        std::fs::write(folder.join("mnist/train.parquet"), "1").unwrap();
        assert_eq!(extent("mnist2"), Extent::Absent);
        let Extent::Part(_, why) = extent("mnist") else { panic!("a part") };
        assert_eq!(why, "1 of its 2 files are missing, mnist/test.parquet first");
        std::fs::write(folder.join("mnist/test.parquet"), "2").unwrap();
        assert_eq!(extent("mnist"), Extent::Whole(folder.join("mnist")));
    }
}
