//! What the page shows: of a study as its `study.effective.toml` says, of other runs as they suggest.

use std::path::{Path, PathBuf};

use crate::results::{Metric, ResultsError, RunRecord, Sheet};
use crate::study::{Axis, Baseline, CellState, Pick, Plot, STUDY_FILE, Study, StudyError};

/// What a study wants to see, and what became of its cells.
#[derive(Clone, Debug, Default)]
pub struct ReportOptions {
    /// Its name.
    pub study: Option<String>,
    /// The axis along the bottom.
    pub x: Option<String>,
    /// The axis with a line for each arm.
    pub series: Option<String>,
    /// What the others are compared with: arms on axes.
    pub against: Vec<(String, String)>,
    /// The extra cell that the others are compared with.
    pub against_label: Option<String>,
    /// Columns of the table; the page's own choice where there are none.
    pub metrics: Vec<Metric>,
    /// Noted where arms differ in one of these.
    pub unequal: Vec<Metric>,
    /// What is drawn; the page's own choice where there is nothing.
    pub plots: Vec<Plot>,
    /// The cells of the study.
    pub cells: Vec<Cell>,
}

/// A cell of the study, and what `cells.csv` says became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Where it lies, below the study.
    pub path: PathBuf,
    /// Its arms on the axes, in their order.
    pub axes: Vec<(String, String)>,
    /// As messages call it; an extra cell has no other name.
    pub label: String,
    pub status: String,
    pub error: String,
}

/// Noted where arms differ in them, unless somebody wants something else.
const UNEQUAL: [&str; 2] = ["seats", "sample_passes"];
/// The file of a study.
const CELLS: &str = "cells.csv";

impl ReportOptions {
    /// Of a folder: those of its study, where it is one.
    ///
    /// # Errors
    /// A file of the study is damaged.
    pub fn of(root: &Path) -> Result<ReportOptions, StudyError> {
        let path = root.join(STUDY_FILE);
        if !path.exists() {
            return Ok(ReportOptions::unasked()?);
        }
        let study = Study::load(&path)?;
        let found = Sheet::read(&root.join(CELLS))?;
        let arms = |picks: &[Pick]| {
            let arm = |pick: &Pick| {
                let axis = &study.axes[pick.axis];
                (axis.name.clone(), axis.arms[pick.arm].label.clone())
            };
            picks.iter().map(arm).collect()
        };
        let (against, against_label) = match &study.compare.against {
            Some(Baseline::Arms(picks)) => (arms(picks), None),
            Some(Baseline::Extra(label)) => (Vec::new(), Some(label.clone())),
            None => (Vec::new(), None),
        };
        Ok(ReportOptions {
            against,
            against_label,
            cells: cells(&study, found.as_ref()),
            study: Some(study.name),
            x: study.report.x,
            series: study.report.series,
            metrics: study.compare.metrics,
            unequal: study.compare.warn_if_unequal,
            plots: study.report.plots,
        })
    }

    /// Where nobody said anything.
    pub fn unasked() -> Result<ReportOptions, ResultsError> {
        let unequal = UNEQUAL.iter().map(|name| Metric::parse(name)).collect::<Result<_, _>>()?;
        Ok(ReportOptions { unequal, ..ReportOptions::default() })
    }

    /// The cell of a run.
    pub fn cell(&self, root: &Path, run: &RunRecord) -> Option<&Cell> {
        let below = run.path.strip_prefix(root).ok()?;
        self.cells.iter().find(|cell| cell.path == below)
    }
}

fn cells(study: &Study, found: Option<&Sheet>) -> Vec<Cell> {
    let cell = |cell: crate::study::Cell| {
        let arm = |(at, axis): (usize, &Axis)| {
            Some((axis.name.clone(), study.arm(&cell.point, at)?.label.clone()))
        };
        let told = |column: &str| {
            let sheet = found?;
            let (path, column) = (sheet.column("path")?, sheet.column(column)?);
            let row = sheet.rows.iter().find(|row| Path::new(&row[path]) == cell.path)?;
            Some(row[column].clone())
        };
        Cell {
            axes: study.axes.iter().enumerate().filter_map(arm).collect(),
            label: study.label(&cell.point),
            // Before its tables are written.
            status: told("status").unwrap_or_else(|| CellState::Waiting.word().to_owned()),
            error: told("error").unwrap_or_default(),
            path: cell.path,
        }
    };
    study.cells().into_iter().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = r#"schema = 1
study = "scale"
base = "base.toml"
[axes.clients]
key = "federation.clients"
values = [10]
[axes.method]
hgp = { method = { name = "hgp" } }
stsa = { method = { name = "stsa" } }
[[extra]]
label = "lone"
[compare]
against = { method = "hgp" }
metrics = ["faa"]
warn_if_unequal = []
[report]
x = "method"
series = "clients"
plots = ["faa"]
"#;

    #[test]
    fn a_study_says_what_it_wants_and_its_cells_have_their_axes_in_order() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(STUDY_FILE), WRITTEN).unwrap();
        let cells = "status,path,error\nfailed,lone/seed-1,\"no, really\"\n\
                     done,\"clients=10,method=hgp/seed-1\",\n";
        std::fs::write(folder.path().join(CELLS), cells).unwrap();
        let wishes = ReportOptions::of(folder.path()).unwrap();
        assert_eq!(wishes.study.as_deref(), Some("scale"));
        assert_eq!(
            (wishes.x.as_deref(), wishes.series.as_deref()),
            (Some("method"), Some("clients"))
        );
        assert_eq!(wishes.against, [("method".to_owned(), "hgp".to_owned())]);
        assert!(wishes.unequal.is_empty() && wishes.metrics.len() == 1 && wishes.plots.len() == 1);
        let axes: Vec<&str> = wishes.cells[1].axes.iter().map(|(_, arm)| arm.as_str()).collect();
        assert_eq!(axes, ["10", "stsa"]);
        let told: Vec<(&str, &str)> =
            wishes.cells.iter().map(|cell| (cell.status.as_str(), cell.error.as_str())).collect();
        assert_eq!(told, [("done", ""), ("waiting", ""), ("failed", "no, really")]);
        assert_eq!((wishes.cells[2].label.as_str(), wishes.cells[2].axes.len()), ("lone", 0));
        let none = ReportOptions::of(&folder.path().join("nowhere")).unwrap();
        assert_eq!((none.unequal.len(), none.study), (2, None));
        std::fs::write(folder.path().join(STUDY_FILE), WRITTEN.replace("schema = 1", "")).unwrap();
        assert!(ReportOptions::of(folder.path()).is_err(), "what is no study is said");
    }
}
