//! What the page shows: of a study as its `study.effective.toml` says, of other runs as they suggest.

use std::path::{Path, PathBuf};

use toml::Table;

use crate::results::{Metric, ResultsError, RunRecord, Sheet};

/// What a study wants to see, and what became of its cells.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// Its name.
    pub study: Option<String>,
    /// The axis along the bottom.
    pub x: Option<String>,
    /// What the others are compared with: arms on axes.
    pub against: Vec<(String, String)>,
    /// The extra cell that the others are compared with.
    pub against_label: Option<String>,
    /// Columns of the table; the page's own choice where there are none.
    pub metrics: Vec<Metric>,
    /// Noted where arms differ in one of these.
    pub unequal: Vec<Metric>,
    /// Words of `[report] plots`; the page's own choice where there are none.
    pub plots: Vec<String>,
    /// The cells of the study.
    pub cells: Vec<Cell>,
}

/// A row of `cells.csv`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Where it lies, below the study.
    pub path: PathBuf,
    /// Its arms on the axes, in their order.
    pub axes: Vec<(String, String)>,
    /// As messages call it; an extra cell has no other name.
    pub label: String,
    pub seed: String,
    pub status: String,
    pub error: String,
}

/// Noted where arms differ in them, unless somebody wants something else.
const UNEQUAL: [&str; 2] = ["seats", "sample_passes"];
/// The file of a study.
const STUDY: &str = "study.effective.toml";
const CELLS: &str = "cells.csv";

impl Wishes {
    /// Of a folder: those of its study, where it is one.
    ///
    /// # Errors
    /// A file of the study is damaged.
    pub fn of(root: &Path) -> Result<Wishes, ResultsError> {
        let path = root.join(STUDY);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Wishes::unasked();
            }
            Err(source) => return Err(ResultsError::Read { path, source }),
        };
        let study: Table = text.parse().map_err(|error: toml::de::Error| {
            ResultsError::Damaged { path: path.clone(), why: error.message().to_owned() }
        })?;
        let names: Vec<String> = study
            .get("axes")
            .and_then(toml::Value::as_table)
            .map_or_else(Vec::new, |axes| axes.keys().cloned().collect());
        let cells =
            Sheet::read(&root.join(CELLS))?.map_or_else(Vec::new, |cells| rows(&cells, &names));
        let compare = study.get("compare").and_then(toml::Value::as_table);
        let report = study.get("report").and_then(toml::Value::as_table);
        let against = compare.and_then(|compare| compare.get("against")?.as_table());
        let said = |value: &toml::Value| match value {
            toml::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let arms = against.into_iter().flatten().map(|(axis, arm)| (axis.clone(), said(arm)));
        let mut wishes = Wishes {
            study: study.get("study").map(said),
            x: report.and_then(|report| report.get("x")).map(said),
            against: arms.filter(|(axis, _)| names.contains(axis)).collect(),
            against_label: None,
            metrics: metrics(&words(compare, "metrics"))?,
            unequal: metrics(&words(compare, "warn_if_unequal"))?,
            plots: words(report, "plots"),
            cells,
        };
        if wishes.against.is_empty() {
            wishes.against_label = against.and_then(|against| against.get("label")).map(said);
        }
        Ok(wishes)
    }

    /// Where nobody said anything.
    pub fn unasked() -> Result<Wishes, ResultsError> {
        let unequal = UNEQUAL.iter().map(|name| Metric::parse(name)).collect::<Result<_, _>>()?;
        Ok(Wishes { unequal, ..Wishes::default() })
    }

    /// The cell of a run.
    pub fn cell(&self, root: &Path, run: &RunRecord) -> Option<&Cell> {
        let below = run.path.strip_prefix(root).ok()?;
        self.cells.iter().find(|cell| cell.path == below)
    }
}

fn words(table: Option<&Table>, key: &str) -> Vec<String> {
    let list = table.and_then(|table| table.get(key)?.as_array());
    list.into_iter().flatten().filter_map(|word| word.as_str().map(str::to_owned)).collect()
}

fn metrics(names: &[String]) -> Result<Vec<Metric>, ResultsError> {
    names.iter().map(|name| Metric::parse(name)).collect()
}

fn rows(cells: &Sheet, axes: &[String]) -> Vec<Cell> {
    // The order of axes is that of columns.
    let axes: Vec<usize> =
        (0..cells.columns.len()).filter(|at| axes.contains(&cells.columns[*at])).collect();
    let row = |row: &Vec<String>| {
        let of = |name: &str| cells.column(name).map_or_else(String::new, |at| row[at].clone());
        let arms = axes.iter().map(|at| (cells.columns[*at].clone(), row[*at].clone()));
        Cell {
            path: PathBuf::from(of("path")),
            axes: arms.filter(|(_, arm)| !arm.is_empty()).collect(),
            label: of("label"),
            seed: of("seed"),
            status: of("status"),
            error: of("error"),
        }
    };
    cells.rows.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_study_says_what_it_wants_and_its_cells_have_their_axes_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let study = "study = \"scale\"\n[axes.method.hgp]\n[axes.clients]\nkey = \"k\"\n\
                     [compare]\nagainst = { method = \"hgp\" }\nmetrics = [\"faa\"]\n\
                     warn_if_unequal = []\n[report]\nx = \"clients\"\nplots = [\"faa\"]\n";
        std::fs::write(folder.path().join(STUDY), study).unwrap();
        let cells = "label,clients,method,seed,status,path,error\n\
                     ,10,hgp,1,done,a/seed-1,\nlone,,,2,failed,b/seed-2,\"no, really\"\n";
        std::fs::write(folder.path().join(CELLS), cells).unwrap();
        let wishes = Wishes::of(folder.path()).unwrap();
        assert_eq!(wishes.study.as_deref(), Some("scale"));
        assert_eq!(wishes.against, [("method".to_owned(), "hgp".to_owned())]);
        assert!(wishes.unequal.is_empty() && wishes.metrics.len() == 1);
        let names: Vec<&str> = wishes.cells[0].axes.iter().map(|(axis, _)| axis.as_str()).collect();
        assert_eq!(names, ["clients", "method"]);
        assert_eq!((wishes.cells[1].label.as_str(), wishes.cells[1].axes.len()), ("lone", 0));
        assert_eq!(wishes.cells[1].error, "no, really");
        let none = Wishes::of(&folder.path().join("nowhere")).unwrap();
        assert_eq!((none.unequal.len(), none.study), (2, None));
    }
}
