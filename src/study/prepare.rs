//! Scenarios of all cells, read before anything runs.

use super::{Cell, SetClash, Study, StudyDirectory};
use crate::methods::Registry;
use crate::scenario::reader::Diagnostic;
use crate::scenario::{Changes, Override, Scenario, ScenarioError, Written};

/// A cell with its scenario.
#[derive(Clone, Debug)]
pub struct PreparedCell {
    /// Cell of the study.
    pub cell: Cell,
    /// Scenario of the cell: its file with all changes, seeds and overrides.
    pub scenario: Scenario,
    /// Hash of the scenario, which identifies an existing run of this cell.
    pub hash: String,
    /// Notes on keys without an effect in the cell's run.
    pub notes: Vec<Diagnostic>,
}

/// A cell whose base and changes give no valid scenario.
#[derive(Debug)]
pub struct Invalid {
    /// Cell of the study.
    pub cell: Cell,
    /// Error of its scenario, with all problems found.
    pub error: ScenarioError,
}

/// Reads the scenarios of all cells, with the `overrides` of the command line.
pub fn prepare(
    study: &Study,
    directory: &StudyDirectory,
    overrides: &[Override],
    methods: &Registry,
) -> (Vec<PreparedCell>, Vec<Invalid>) {
    let (mut valid, mut invalid) = (Vec::new(), Vec::new());
    for cell in study.cells() {
        match study.scenario(&cell, overrides, methods) {
            Ok(loaded) => {
                let notes = loaded.notes();
                let mut scenario = loaded.scenario;
                study.share(&mut scenario, directory.features());
                valid.push(PreparedCell { cell, hash: scenario.hash(), scenario, notes });
            }
            Err(error) => invalid.push(Invalid { cell, error }),
        }
    }
    (valid, invalid)
}

/// Parses overrides for all cells from the command line.
///
/// # Errors
/// Fails if an override sets a key of an axis or a seed, so that labels of cells would be wrong.
pub fn overrides(study: &Study, texts: &[String]) -> Result<Vec<Override>, SetClash> {
    for text in texts {
        let key = text.split('=').next().unwrap_or_default().trim();
        // The value of the key does not matter for the check.
        let changes = Changes::at(key, &Written::from(toml::Value::Boolean(true)));
        let over = |before: &Changes| changes.as_ref().and_then(|changes| changes.clash(before));
        let refused =
            |why: String, help: &str| Err(SetClash::new(format!("--set {text}: {why}"), help));
        for axis in &study.axes {
            if let Some(key) = axis.arms.iter().find_map(|arm| over(&arm.changes)) {
                let name = &axis.name;
                let help =
                    format!("change the axis, or run some of its arms with --only {name}=...");
                return refused(format!("the axis `{name}` sets `{key}`"), &help);
            }
        }
        if let Some((label, key)) =
            study.extras.iter().find_map(|extra| Some((&extra.label, over(&extra.set)?)))
        {
            let why = format!("the extra cell `{label}` sets `{key}`");
            return refused(why, "change it in the file");
        }
        if let Some(key) = study.settings.iter().find_map(|entry| over(&entry.set)) {
            return refused(format!("a [[cell]] sets `{key}`"), "change it in the file");
        }
        if key == "seed" || key.starts_with("seed.") {
            let why = "a study sets the seeds of its runs".to_owned();
            return refused(why, "write `replicates` or `seeds` in its file");
        }
    }
    Ok(texts.iter().map(Override::new).collect())
}

/// Returns the errors of all cells, each once, as [`merge_findings`] does.
pub fn first_errors(study: &Study, invalid: Vec<Invalid>) -> Option<ScenarioError> {
    let mut found: Vec<(Cell, Diagnostic)> = Vec::new();
    for Invalid { cell, error } in invalid {
        let ScenarioError::Invalid(diagnostics) = error else { return Some(error) };
        found.extend(diagnostics.into_iter().map(|diagnostic| (cell.clone(), diagnostic)));
    }
    let merged = merge_findings(study, found);
    (!merged.is_empty()).then_some(ScenarioError::Invalid(merged))
}

/// Returns findings in cells, each once, with the first cell that has it and the number of others.
///
/// A finding in every cell of the study is one in its base, and names none.
pub fn merge_findings(
    study: &Study,
    findings: impl IntoIterator<Item = (Cell, Diagnostic)>,
) -> Vec<Diagnostic> {
    let mut found: Vec<(Diagnostic, Vec<Cell>)> = Vec::new();
    for (cell, diagnostic) in findings {
        match found.iter_mut().find(|(known, _)| *known == diagnostic) {
            Some((_, cells)) => cells.push(cell),
            None => found.push((diagnostic, vec![cell])),
        }
    }
    let whole = study.cells().len();
    let named = |(mut diagnostic, cells): (Diagnostic, Vec<Cell>)| {
        if cells.len() < whole {
            let name = study.names(&cells);
            diagnostic.message = format!("{name}: {}", diagnostic.message);
        }
        diagnostic
    };
    found.into_iter().map(named).collect()
}

/// Returns the notes on keys without an effect in cells; see [`merge_findings`].
pub fn notes(study: &Study, cells: &[PreparedCell]) -> Vec<Diagnostic> {
    let of = |prepared: &PreparedCell| {
        let notes = prepared.notes.clone().into_iter();
        notes.map(|note| (prepared.cell.clone(), note)).collect::<Vec<_>>()
    };
    merge_findings(study, cells.iter().flat_map(of))
}

impl Study {
    /// Returns the name of the first of some cells, with its seed, and the number of others.
    fn names(&self, cells: &[Cell]) -> String {
        let name =
            |cell: &Cell| format!("{}, seed {}", self.label(&cell.point), cell.replicate.label);
        let first = cells.first().map(name).unwrap_or_default();
        match cells.len() {
            0 | 1 => format!("cell {first}"),
            2 => format!("cell {first}, and 1 other"),
            count => format!("cell {first}, and {} others", count - 1),
        }
    }
}
