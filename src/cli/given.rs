//! Errors for paths that are no run directory: description of the path and advice.

use std::path::{Path, PathBuf};

use super::failure::CliError;
use crate::experiment::names;
use crate::files::{FileKind, read_text, shell_word};

/// Content of a path that is no run directory.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Given {
    Nothing,
    Scenario,
    Study,
    /// A file of the run in this directory.
    FileOfRun(PathBuf),
    File,
    /// A folder with this run directory below it.
    FolderOfRuns(PathBuf),
    Folder,
}

/// Checks that a path is a run directory.
///
/// # Errors
/// Describes the path and names a path to use instead.
pub(super) fn run_directory(path: &Path) -> Result<(), CliError> {
    // A damaged manifest is reported when it is read.
    if path.join(names::MANIFEST).exists() {
        return Ok(());
    }
    Err(refusal(path, "a run directory"))
}

/// Returns true if a path is a study file.
pub(super) fn is_study(path: &Path) -> bool {
    Given::at(path) == Given::Study
}

/// Checks that a path is no file: a run directory, a study or a folder of runs may follow.
///
/// # Errors
/// Describes the file and names a path to use instead.
pub(super) fn check_folder_of_runs(path: &Path) -> Result<(), CliError> {
    match path.is_file() {
        true => Err(refusal(path, "a run directory, a study or a folder of runs")),
        false => Ok(()),
    }
}

fn refusal(path: &Path, wanted: &str) -> CliError {
    let shown = shell_word(path);
    let help = match Given::at(path) {
        Given::Nothing => {
            "no such file or folder; `fedcast runs` lists the runs below this folder".into()
        }
        Given::Scenario => format!("it is a scenario; run it first: `fedcast run {shown}`"),
        Given::Study => format!("it is a study; run it first: `fedcast study {shown}`"),
        Given::FileOfRun(run) => {
            format!("it is a file of a run; name its directory: {}", run.display())
        }
        Given::File => "it is a file; name the folder that `fedcast run` wrote".into(),
        Given::FolderOfRuns(run) => format!(
            "it is a folder of runs; name one of them, such as {}; `fedcast runs ls {shown}` lists them",
            run.display()
        ),
        Given::Folder => format!(
            "it is a folder without a {}; `fedcast runs` lists the runs below this folder",
            names::MANIFEST
        ),
    };
    CliError::Usage(format!("{shown} is not {wanted}\n  help: {help}"))
}

impl Given {
    fn at(path: &Path) -> Given {
        if path.is_dir() {
            return first_run(path, DEPTH).map_or(Given::Folder, Given::FolderOfRuns);
        }
        if !path.exists() {
            return Given::Nothing;
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        if folder.join(names::MANIFEST).is_file() {
            let here = folder.as_os_str().is_empty();
            return Given::FileOfRun(if here { PathBuf::from(".") } else { folder.to_owned() });
        }
        let text = read_text(path, FileKind::Scenario).unwrap_or_default();
        let table: toml::Table = text.parse().unwrap_or_default();
        let has = |keys: &[&str]| keys.iter().any(|key| table.contains_key(*key));
        match () {
            // A key that belongs to the other kind of file alone may be a mistake in this one.
            () if has(&["base", "cell"])
                && has(&["axes", "extra", "seeds", "replicates", "compare"]) =>
            {
                Given::Study
            }
            () if has(&["method", "federation", "data", "tasks", "extends"]) => Given::Scenario,
            () if has(&["base"]) => Given::Study,
            () => Given::File,
        }
    }
}

/// Depth of the search; runs of a study are two folders below the study's folder.
const DEPTH: u32 = 3;

/// Returns the first run directory below a folder, by name; links are not followed.
fn first_run(folder: &Path, depth: u32) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let is_folder = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|of| of.is_dir());
    let mut folders: Vec<PathBuf> = entries.filter(is_folder).map(|entry| entry.path()).collect();
    folders.sort_unstable();
    folders.into_iter().find_map(|below| match below.join(names::MANIFEST).is_file() {
        true => Some(below),
        false if depth > 1 => first_run(&below, depth - 1),
        false => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_run_is_known_by_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| {
            std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            std::fs::write(at(name), text).unwrap();
        };
        write("a.toml", "schema = 2\n[method]\nname = \"hgp\"\n");
        write("over.toml", "extends = \"a.toml\"\n");
        write("b.study.toml", "schema = 2\nbase = \"a.toml\"\n[axes.method]\n");
        write("d.study.toml", "schema = 2\n[axes]\n[[cell]]\nscenario = \"a.toml\"\n");
        write("notes.toml", "title = 1\n");
        write("c.csv", "round\n1\n");
        write("studies/x/hgp/seed-1/manifest.json", "{}");
        write("studies/x/hgp/seed-1/rounds.csv", "");
        write("data/train/cat/1.png", "");
        let run = at("studies/x/hgp/seed-1");
        for (name, given) in [
            ("a.toml", Given::Scenario),
            ("over.toml", Given::Scenario),
            ("b.study.toml", Given::Study),
            ("d.study.toml", Given::Study),
            ("notes.toml", Given::File),
            ("c.csv", Given::File),
            ("nowhere", Given::Nothing),
            ("studies/x/hgp/seed-1/rounds.csv", Given::FileOfRun(run.clone())),
            ("studies/x", Given::FolderOfRuns(run.clone())),
            ("studies", Given::FolderOfRuns(run.clone())),
            ("data", Given::Folder),
        ] {
            assert_eq!(Given::at(&at(name)), given, "{name}");
        }
        assert!(run_directory(&run).is_ok() && run_directory(&at("studies")).is_err());
        assert!(
            check_folder_of_runs(&at("studies")).is_ok()
                && check_folder_of_runs(&at("a.toml")).is_err()
        );
    }
}
