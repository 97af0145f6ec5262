//! Reader of study files; like that of scenarios it is strict and reports positions.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::StudyError;
use super::axes::{Axis, Pick, read_picks};
use super::cell::Point;
use super::cell_settings::{CellSettings, refuse_unmatched};
use super::clash::{refuse_clashes, refuse_seeds};
use super::compare::Compare;
use super::report_section::ReportSection;
use super::run_section::RunSection;
use super::seeds::Replicate;
use crate::files::{self, FileKind, shell_word};
use crate::scenario::migration::schema_help;
use crate::scenario::reader::{
    Catalogue, Keys, Param, TableReader, explore, json_schema, read_document,
};
use crate::scenario::{Changes, ChangesFile, GivenFolder};

/// Schema version of study files, written as `schema = 2`.
pub const SCHEMA: u32 = 2;

/// Many runs, described by one study file.
#[derive(Clone, Debug)]
pub struct Study {
    /// Name of the study and of its default directory.
    pub name: String,
    /// Absolute path of the scenario that cells without one in [`settings`](Self::settings) change.
    ///
    /// Without a base such cells are no part of the grid.
    pub base: Option<PathBuf>,
    /// Changes of all cells.
    pub set: Changes,
    /// Repetitions of every cell.
    pub replicates: Vec<Replicate>,
    /// Axes of the grid, in written order; the last one changes fastest.
    pub axes: Vec<Axis>,
    /// Excluded cells: those of the grid that have all arms of one of these lists.
    pub excluded: Vec<Vec<Pick>>,
    /// Scenarios, changes and published numbers of cells with certain arms, in written order.
    pub settings: Vec<CellSettings>,
    /// Cells in addition to the grid.
    pub extras: Vec<Extra>,
    /// Metrics of the tables, and the baseline of comparisons.
    pub compare: Compare,
    /// Options of executing the cells.
    pub run: RunSection,
    /// Axes and plots of the report.
    pub report: ReportSection,
    /// Study file from which changes were read, for errors.
    pub(super) origin: ChangesFile,
}

/// A cell outside the grid.
#[derive(Clone, Debug, Default, PartialEq, Keys)]
#[keys(check = section.check(table))]
pub struct Extra {
    /// Label in tables and folders.
    #[key(example = "all clients".to_owned())]
    pub label: String,
    /// Changes of the base.
    #[key(default = Changes::default())]
    pub set: Changes,
}

impl Study {
    /// Reads a study file; its base is read with the scenario of a cell.
    ///
    /// # Errors
    /// Fails if the file cannot be read; returns all errors of its content.
    pub fn load(path: &Path) -> Result<Study, StudyError> {
        if let Some(GivenFolder { what, help }) = GivenFolder::at(path, "study") {
            let source = std::io::Error::other(what);
            return Err(StudyError::Unreadable { path: path.to_owned(), source, help });
        }
        let unreadable = |source| {
            let help = "a study is a readable TOML file; `scenarios/studies` has examples";
            StudyError::Unreadable { path: path.to_owned(), source, help: help.to_owned() }
        };
        let text = files::read_text(path, FileKind::Scenario).map_err(unreadable)?;
        let file = std::path::absolute(path).map_err(unreadable)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let stem = stem.strip_suffix(".study").unwrap_or(&stem);
        let folder = file.parent().unwrap_or(Path::new("/")).to_owned();
        Study::from_toml(&text, &path.display().to_string(), stem, &folder)
    }

    /// Reads a text as a file in `folder`; `shown` is its name in errors.
    ///
    /// # Errors
    /// Returns all errors of the text.
    pub fn from_toml(
        text: &str,
        shown: &str,
        name: &str,
        folder: &Path,
    ) -> Result<Study, StudyError> {
        let origin = ChangesFile {
            name: shown.to_owned(),
            text: text.to_owned(),
            folder: folder.to_owned(),
        };
        read_document(text, shown, "the study", |table| refuse_scenario(table, shown))?;
        let read = |table: &mut TableReader<'_>| Study::read(table, name, origin);
        Ok(read_document(text, shown, "the study", read)?)
    }

    fn read(table: &mut TableReader<'_>, name: &str, origin: ChangesFile) -> Study {
        let schema = table.get(&Param::required("schema", SCHEMA, "version of the file format"));
        if schema != SCHEMA {
            let help = schema_help(schema);
            let message = format!("this program reads schema {SCHEMA}");
            table.reject("schema", &message, "another format", help);
        }
        let doc =
            "name of the study and of the directory of its results [default: the file's name]";
        let name = table.get(&Param::new("study", name.to_owned(), doc));
        let base = "scenario that all cells change, relative to this file";
        let base = match table.given("cell") {
            true => table.optional(&Param::<String>::unset("base", base)),
            false => table.require(&Param::required("base", "base.toml".to_owned(), base)),
        };
        let set = table.get(&Param::new("set", Changes::default(), "changes of all cells"));
        let replicates = Replicate::read_all(table);
        let axes = table.table("axes", Axis::read_all);
        let excluded = table.tables("exclude", Vec::new(), |table| read_picks(table, &axes));
        refuse_clashes(table, &axes, &excluded);
        refuse_seeds(table, "set", &set);
        let folder = &origin.folder;
        let settings =
            table.tables("cell", Vec::new(), |table| CellSettings::read(table, &axes, folder));
        let extras = table.tables("extra", Vec::new(), Extra::read);
        let labels: Vec<String> = extras.iter().map(|extra| extra.label.clone()).collect();
        let study = Study {
            name,
            base: base.map(|base| origin.folder.join(base)),
            set,
            replicates,
            excluded: excluded.into_iter().filter(|picks| !picks.is_empty()).collect(),
            compare: table.table("compare", |table| Compare::read(table, &axes, &labels)),
            run: table.table("run", RunSection::read),
            report: table.table("report", |table| ReportSection::read(table, &axes)),
            axes,
            settings,
            extras,
            origin,
        };
        study.refuse_same_labels(table);
        refuse_unmatched(table, &study.settings, &study.axes, &study.grid());
        study.refuse_cells_without_scenario(table);
        if study.points().is_empty() && table.given("exclude") {
            let help = "remove the [[exclude]] of a cell that is to run, or add an [[extra]]";
            table.reject("exclude", "every cell of the grid is excluded", "all cells", help);
        }
        study
    }

    /// Rejects a study without a base whose extra cells, or all cells, have no scenario. `table` is the whole file.
    fn refuse_cells_without_scenario(&self, table: &mut TableReader<'_>) {
        if self.base.is_some() || !table.given("cell") {
            return;
        }
        let help = "write `base`, or `scenario` in a [[cell]]";
        if self.settings.iter().all(|entry| entry.scenario.is_none()) {
            table.reject("cell", "no cell of this study has a scenario", "none here", help);
        } else if !self.extras.is_empty() {
            let message = "an [[extra]] cell changes the `base`, which this study lacks";
            table.reject_item("extra", 0, message, "of no scenario", help);
        }
    }

    /// Rejects two cells with the same label in tables. `table` is the whole file.
    fn refuse_same_labels(&self, table: &mut TableReader<'_>) {
        let points = self.points().into_iter().filter(|point| matches!(point, Point::Grid(_)));
        let mut labels: Vec<String> = points.map(|point| self.label(&point)).collect();
        for (place, Extra { label, .. }) in self.extras.iter().enumerate() {
            if labels.contains(label) {
                let message = format!("another cell has the label `{label}`, too");
                let help = "give every [[extra]] a unique label that no cell of the grid has";
                table.reject_item("extra", place, &message, "the same label", help);
            }
            labels.push(label.clone());
        }
    }

    /// Returns every key that a study file may have.
    ///
    /// Names of axes and arms, and the changes of an arm, are free.
    pub fn catalogue() -> Catalogue {
        let (name, text, folder) = (String::new(), String::new(), PathBuf::new());
        let origin = ChangesFile { name, text, folder };
        explore(|table| Study::read(table, "", origin.clone()))
    }

    /// Returns the file format as JSON Schema.
    pub fn json_schema() -> serde_json::Value {
        let catalogue = Study::catalogue();
        let required = ["schema"];
        let mut schema = json_schema(&catalogue, "a study of fedcast", &required, None);
        // Names of axes, arms and changes are free.
        let own = json!({ "type": "object" });
        schema["anyOf"] = json!([{ "required": ["base"] }, { "required": ["cell"] }]);
        schema["properties"]["axes"] = json!({ "type": "object", "additionalProperties": own });
        schema["properties"]["exclude"] = json!({ "type": "array", "items": own });
        schema["properties"]["compare"]["properties"]["baseline"] = own;
        schema
    }

    /// Returns `studies/<name>`, below the current folder.
    pub fn default_directory(&self) -> PathBuf {
        default_directory(&self.name)
    }
}

/// Returns the default directory of a study by its name.
///
/// Characters other than `._-`, letters and digits become hyphens.
pub fn default_directory(name: &str) -> PathBuf {
    let keep = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = name.chars().map(keep).collect();
    Path::new("studies").join(name.trim_start_matches('.'))
}

/// Rejects a scenario with one clear error, instead of an unknown key for each of its keys.
fn refuse_scenario(table: &mut TableReader<'_>, shown: &str) {
    table.accept_rest();
    let found = ["method", "federation", "data", "tasks"].into_iter().find(|key| table.given(key));
    let is_study = ["base", "axes", "cell"].into_iter().any(|key| table.given(key));
    if let Some(key) = found.filter(|_| !is_study) {
        let shown = shell_word(shown);
        let help = format!("run it with `fedcast run {shown}`, or name it as `base` in a study");
        table.reject(key, "this is a scenario, not a study", "belongs in a scenario", &help);
    }
}

impl Extra {
    fn check(&self, table: &mut TableReader<'_>) {
        if self.label.trim().is_empty() {
            table.reject("label", "the label is empty", "empty", "write what is different");
        }
        refuse_seeds(table, "set", &self.set);
    }
}

#[cfg(test)]
mod tests;
