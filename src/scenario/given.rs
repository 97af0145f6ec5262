//! Folder given in place of a scenario or study file.

use std::path::{Path, PathBuf};

use crate::files::shell_word;

/// Name of the effective scenario in the directory of a run.
pub const EFFECTIVE_SCENARIO: &str = "scenario.effective.toml";

/// Name of the effective study in the directory of a study.
pub const EFFECTIVE_STUDY: &str = "study.effective.toml";

/// Description of a folder that was given in place of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenFolder {
    /// Sentence about the path that names the kind of folder.
    pub what: String,
    /// Advice on what to give instead.
    pub help: String,
}

impl GivenFolder {
    /// Returns the folder at a path given as a `wanted` ("scenario", "study"); `None` if it is no folder.
    pub fn at(path: &Path, wanted: &str) -> Option<GivenFolder> {
        if !path.is_dir() {
            return None;
        }
        let (run, study) = (path.join(EFFECTIVE_SCENARIO), path.join(EFFECTIVE_STUDY));
        let shown = shell_word(path);
        let (what, help) = match (run.is_file(), study.is_file(), first_toml(path)) {
            (true, ..) => (
                "it is the directory of a run",
                format!(
                    "its scenario is {}; `fedcast replay {shown}` prints its results",
                    run.display()
                ),
            ),
            (_, true, _) => (
                "it is the directory of a study",
                format!(
                    "its study is {}; `fedcast report {shown}` shows its results",
                    study.display()
                ),
            ),
            (.., Some(file)) => {
                ("it is a folder", format!("name a file in it, such as {}", file.display()))
            }
            _ => {
                let help = format!("a {wanted} is a text in TOML; `fedcast new` writes a scenario");
                ("it is a folder", help)
            }
        };
        Some(GivenFolder { what: what.to_owned(), help })
    }
}

/// Returns the first TOML file of a folder, by name.
fn first_toml(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let toml = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "toml");
    entries.filter(|path| toml(path) && path.is_file()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_named_by_what_lies_in_them() {
        let folder = tempfile::tempdir().unwrap();
        let refusal = |files: &[&str]| {
            let place = tempfile::tempdir_in(folder.path()).unwrap();
            files.iter().for_each(|file| std::fs::write(place.path().join(file), "").unwrap());
            let GivenFolder { what, help } = GivenFolder::at(place.path(), "scenario").unwrap();
            format!("{what}; {help}").replace(&place.path().display().to_string(), "x")
        };
        assert!(refusal(&[EFFECTIVE_SCENARIO]).ends_with(
            "of a run; its scenario is x/scenario.effective.toml; `fedcast replay x` prints its results"
        ));
        assert!(refusal(&[EFFECTIVE_STUDY]).contains("of a study; its study is x/study.effective"));
        assert!(refusal(&["b.toml", "a.toml", "a.csv"]).ends_with("such as x/a.toml"));
        assert!(refusal(&["a.csv"]).contains("a scenario is a text in TOML"));
        let file = folder.path().join("a.toml");
        std::fs::write(&file, "").unwrap();
        assert_eq!(GivenFolder::at(&file, "scenario"), None);
    }
}
