//! `fedcast report`: page of runs or of a study as one HTML file.

use std::path::{Path, PathBuf};

use clap::Args;

use super::compare::records;
use super::failure::CliError;
use super::{Exit, print};
use crate::experiment::names::MANIFEST;
use crate::experiment::write_atomically;
use crate::methods::Registry;
use crate::page::{FigureFile, PageContent, figure_files, render};
use crate::study::STUDY_FILE;

/// Write an HTML page of a study or of runs: tables, plots, differences, commands
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast report studies/scale
  fedcast report runs/a runs/b runs/c -o comparison.html
  fedcast report studies/scale --baseline method=fedavg
  fedcast report studies/scale --figures paper/figures   every figure as SVG and PDF, numbers as CSV

The page needs no network and no script: its plots are SVG, each with its numbers as a table. Runs
that differ only in their seeds form one arm. For a study, [report] and [compare] of its file choose
the content; for other runs, the keys in which they differ define the arms and the axes of plots.
The same runs give the same file, byte for byte.")]
pub struct ReportArgs {
    /// Run directories, studies, or folders of runs
    #[arg(required = true)]
    pub folders: Vec<PathBuf>,
    /// The file to write [default: report.html in the folder; for a run, RUN-report.html next to it; for several
    /// folders, A+B-report.html next to the first]
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Folder into which each figure is written, too: NAME.svg, NAME.pdf, and NAME.csv with its numbers
    #[arg(long, value_name = "DIR")]
    pub figures: Option<PathBuf>,
    /// Baseline arms, by a value on an axis of the table; may be repeated
    #[arg(long, value_name = "AXIS=VALUE", value_parser = axis)]
    pub baseline: Vec<(String, String)>,
}

fn axis(text: &str) -> Result<(String, String), String> {
    let (axis, value) = text.split_once('=').ok_or("write AXIS=VALUE, such as method=fedavg")?;
    Ok((axis.to_owned(), value.to_owned()))
}

/// Writes the page.
pub fn execute(args: &ReportArgs, methods: &Registry) -> Result<Exit, CliError> {
    // A folder without runs is a typing mistake, unless it is a study without finished cells.
    for folder in &args.folders {
        if !folder.join(STUDY_FILE).is_file() {
            records(folder, methods)?;
        }
    }
    let content = PageContent::gather(&args.folders, &args.baseline, methods)?;
    for (axis, value) in &args.baseline {
        let values = content.values(axis);
        if !values.contains(value) {
            let what = match values.is_empty() {
                true => format!("the table of these runs has no axis `{axis}`"),
                false => {
                    format!("axis `{axis}` has no value `{value}`, only {}", values.join(", "))
                }
            };
            return Err(CliError::Usage(what));
        }
    }
    let out = args.out.clone().unwrap_or_else(|| default_file(&args.folders));
    // A device would be replaced by a file.
    if out.exists() && !out.is_file() {
        let kind = if out.is_dir() { "a folder" } else { "no regular file" };
        let what = format!("{} is {kind}\n  help: name a file with -o", out.display());
        return Err(CliError::Usage(what));
    }
    write_atomically(&out, render(&content).as_bytes())?;
    print(&format!("{}\n", out.display()))?;
    if let Some(folder) = &args.figures {
        write_figures(folder, &figure_files(&content))?;
    }
    Ok(Exit::Done)
}

/// Writes figures into a folder, which is made if it is missing.
fn write_figures(folder: &Path, figures: &[FigureFile]) -> Result<(), CliError> {
    std::fs::create_dir_all(folder).map_err(|error| {
        let path = folder.display();
        CliError::Usage(format!(
            "cannot make the folder {path}: {error}\n  help: choose another --figures"
        ))
    })?;
    for figure in figures {
        let parts =
            [("svg", figure.svg.as_bytes()), ("pdf", &figure.pdf), ("csv", figure.csv.as_bytes())];
        for (extension, bytes) in parts {
            let path = folder.join(format!("{}.{extension}", figure.name));
            write_atomically(&path, bytes)?;
        }
    }
    let count = figures.len();
    let word = if count == 1 { "figure" } else { "figures" };
    print(&format!("{count} {word} in {}\n", folder.display()))
}

/// Length to which names of default files are cut.
const LONGEST: usize = 120;

/// Returns the default file: in a folder of runs, or next to a run, which holds only its own files.
///
/// That of several folders has the names of all of them, so that it replaces no page of other runs.
fn default_file(folders: &[PathBuf]) -> PathBuf {
    let first = &folders[0];
    if folders.len() == 1 && !first.join(MANIFEST).is_file() {
        return first.join("report.html");
    }
    let mut names: Vec<String> = Vec::new();
    for folder in folders {
        let name = name(folder);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut whole = names.join("+");
    let equal = names.len() < folders.len();
    if equal || whole.len() > LONGEST {
        // Folders of one name, or more names than fit, are distinguished by their paths.
        let paths: Vec<String> =
            folders.iter().map(|folder| folder.to_string_lossy().into_owned()).collect();
        let cut = (0..=LONGEST.min(whole.len())).rev().find(|at| whole.is_char_boundary(*at));
        whole.truncate(cut.unwrap_or(0));
        let digest = blake3::hash(paths.join("\n").as_bytes()).to_hex();
        whole = format!("{whole}~{}", &digest[..8]);
    }
    let file = format!("{whole}-report.html");
    match first.file_name() {
        Some(_) => first.with_file_name(file),
        // `.` and `..` have their neighbors in the folder above them.
        None if first == Path::new(".") => Path::new("..").join(file),
        None => first.join("..").join(file),
    }
}

/// Returns the name of a folder, also of one that is given as `.` or `..`.
fn name(folder: &Path) -> String {
    let whole = folder.canonicalize();
    let whole = whole.as_deref().unwrap_or(folder);
    let named = folder.file_name().or(whole.file_name());
    named.map_or_else(|| "runs".to_owned(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folders: &[&str]) -> String {
        let folders: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
        default_file(&folders).display().to_string()
    }

    #[test]
    fn default_files_have_the_names_of_all_folders() {
        assert_eq!(file(&["studies/scale"]), "studies/scale/report.html");
        assert_eq!(file(&["runs/a", "other/b"]), "runs/a+b-report.html");
        assert_ne!(file(&["runs/a", "runs/b"]), file(&["runs/a", "runs/c"]));
        // Of one name, in different folders.
        let [one, other] = ["x/seed-2", "y/seed-2"].map(|second| file(&["seed-1/seed-2", second]));
        assert!(one.starts_with("seed-1/seed-2~") && one != other, "{one} {other}");
        let long = "ä".repeat(100);
        let [one, other] = ["b", "c"].map(|last| file(&[&long, &long, last]));
        assert!(one.len() < 160 && one != other, "{one} {other}");
    }
}
