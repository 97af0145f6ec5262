//! Options of a page: those in `study.effective.toml` of a study, defaults for other runs.

use std::path::{Path, PathBuf};

use crate::results::{Metric, ResultsError, RunRecord, Sheet};
use crate::study::tables::{PublishedGrids, TABLE_FILE};
use crate::study::{Axis, Baseline, CellState, Pick, Plot, STUDY_FILE, Study, StudyError};

/// Report section of a study, and the states of its cells.
#[derive(Clone, Debug, Default)]
pub struct ReportOptions {
    /// Name of the study.
    pub study: Option<String>,
    /// Axis shown horizontally.
    pub x: Option<String>,
    /// Axis with one line per arm.
    pub series: Option<String>,
    /// Baseline of the comparison, by arms on axes.
    pub against: Vec<(String, String)>,
    /// Axes whose arms are compared with each other; `None` without a study.
    pub compared: Option<Vec<String>>,
    /// Extra cell that is the baseline of the comparison.
    pub against_label: Option<String>,
    /// Columns of the main table; empty for the default ones.
    pub metrics: Vec<Metric>,
    /// Metrics for which a note is shown if arms differ.
    pub unequal: Vec<Metric>,
    /// Plots to draw; empty for the default ones.
    pub plots: Vec<Plot>,
    /// Grids of published and measured numbers, if the study has any.
    pub grids: PublishedGrids,
    /// Names in print of arms, by label.
    pub names: Vec<(String, String)>,
    /// Cells of the study.
    pub cells: Vec<CellRecord>,
}

/// Cell of the study, with its state in `cells.csv`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellRecord {
    /// Path of the cell below the study.
    pub path: PathBuf,
    /// Arms of the cell on the axes, in their order.
    pub axes: Vec<(String, String)>,
    /// Label of the cell; an extra cell has no other name.
    pub label: String,
    /// Status of the cell; `waiting` before the tables of the study are written.
    pub status: String,
    /// First line of the failure, or the name of a foreign run; empty in other states.
    pub error: String,
}

/// Default metrics for which a note is shown if arms differ.
const UNEQUAL: [&str; 2] = ["participants", "sample_passes"];
/// File of a study's cells.
const CELLS: &str = "cells.csv";

impl ReportOptions {
    /// Reads the options of a folder: those of its study if it has one, else the defaults.
    ///
    /// # Errors
    ///
    /// Fails if a file of the study is damaged.
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
        let (against, against_label) = match &study.compare.baseline {
            Some(Baseline::Arms(picks)) => (arms(picks), None),
            Some(Baseline::Extra(label)) => (Vec::new(), Some(label.clone())),
            None => (Vec::new(), None),
        };
        let all: Vec<usize> = (0..study.axes.len()).collect();
        let compared = Some(study.compared_axes()).filter(|axes| !axes.is_empty()).unwrap_or(all);
        Ok(ReportOptions {
            compared: Some(compared.iter().map(|axis| study.axes[*axis].name.clone()).collect()),
            against,
            against_label,
            cells: cells(&study, found.as_ref()),
            grids: PublishedGrids::read(&study, &root.join(TABLE_FILE))?,
            study: Some(study.name),
            x: study.report.x,
            series: study.report.series,
            metrics: study.compare.metrics,
            unequal: study.compare.warn_if_unequal,
            plots: study.report.plots,
            names: study.report.names,
        })
    }

    /// Returns the default options.
    pub fn unasked() -> Result<ReportOptions, ResultsError> {
        let unequal = UNEQUAL.iter().map(|name| Metric::parse(name)).collect::<Result<_, _>>()?;
        Ok(ReportOptions { unequal, ..ReportOptions::default() })
    }

    /// Returns the cell of a run.
    pub fn cell(&self, root: &Path, run: &RunRecord) -> Option<&CellRecord> {
        let below = run.path.strip_prefix(root).ok()?;
        self.cells.iter().find(|cell| cell.path == below)
    }
}

fn cells(study: &Study, found: Option<&Sheet>) -> Vec<CellRecord> {
    let cell = |cell: crate::study::Cell| {
        let arm = |(at, axis): (usize, &Axis)| {
            Some((axis.name.clone(), study.arm(&cell.point, at)?.label.clone()))
        };
        let value = |column: &str| {
            let sheet = found?;
            let (path, column) = (sheet.column("path")?, sheet.column(column)?);
            let row = sheet.rows.iter().find(|row| Path::new(&row[path]) == cell.path)?;
            Some(row[column].clone())
        };
        CellRecord {
            axes: study.axes.iter().enumerate().filter_map(arm).collect(),
            label: study.label(&cell.point),
            // The cell's state before the tables of the study are written.
            status: value("status").unwrap_or_else(|| CellState::Waiting.word().to_owned()),
            error: value("error").unwrap_or_default(),
            path: cell.path,
        }
    };
    study.cells().into_iter().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = r#"schema = 2
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
baseline = { method = "hgp" }
metrics = ["faa"]
warn_if_unequal = []
[report]
x = "method"
series = "clients"
plots = ["faa"]
names = { stsa = "Ours" }
"#;

    #[test]
    fn a_study_says_what_it_wants_and_its_cells_have_their_axes_in_order() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(STUDY_FILE), WRITTEN).unwrap();
        let cells = "status,path,error\nfailed,lone/seed-1,\"no, really\"\n\
                     done,\"clients=10,method=hgp/seed-1\",\n";
        std::fs::write(folder.path().join(CELLS), cells).unwrap();
        let options = ReportOptions::of(folder.path()).unwrap();
        assert_eq!(options.study.as_deref(), Some("scale"));
        assert_eq!(
            (options.x.as_deref(), options.series.as_deref()),
            (Some("method"), Some("clients"))
        );
        assert_eq!(options.against, [("method".to_owned(), "hgp".to_owned())]);
        assert_eq!(options.names, [("stsa".to_owned(), "Ours".to_owned())]);
        assert!(
            options.unequal.is_empty() && options.metrics.len() == 1 && options.plots.len() == 1
        );
        let axes: Vec<&str> = options.cells[1].axes.iter().map(|(_, arm)| arm.as_str()).collect();
        assert_eq!(axes, ["10", "stsa"]);
        let outcomes: Vec<(&str, &str)> =
            options.cells.iter().map(|cell| (cell.status.as_str(), cell.error.as_str())).collect();
        assert_eq!(outcomes, [("done", ""), ("waiting", ""), ("failed", "no, really")]);
        assert_eq!((options.cells[2].label.as_str(), options.cells[2].axes.len()), ("lone", 0));
        let none = ReportOptions::of(&folder.path().join("nowhere")).unwrap();
        assert_eq!((none.unequal.len(), none.study), (2, None));
        std::fs::write(folder.path().join(STUDY_FILE), WRITTEN.replace("schema = 2", "")).unwrap();
        assert!(ReportOptions::of(folder.path()).is_err(), "what is no study is said");
    }
}
