//! `fedcast check`: validates scenario and study files and reports their errors.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::failure::{CliError, color};
use super::stderr::print_styled;
use super::{Exit, OutputFormat, given, print, print_json};
use crate::data::DataError;
use crate::document::Document;
use crate::experiment::assemble::{AssembleError, DrawnPartitions, divide};
use crate::methods::Registry;
use crate::scenario::reader::Diagnostic;
use crate::scenario::{AbsentInput, Loaded, Override, Scenario, ScenarioError};
use crate::study::{
    Invalid, PreparedCell, Study, StudyDirectory, StudyError, first_errors, merge_findings, notes,
    overrides, prepare,
};

/// Check scenario and study files without running them, for editors and CI
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast check scenarios/quickstart.toml
  fedcast check scenarios/hgp/*.toml --format json
  fedcast check scenarios/studies/*.study.toml

Every file is checked; the exit code is 3 if one of them is invalid. Keys that have no effect on a
file's method or run are printed as notes, and so are data and weights that are not on this machine,
each with the command that fetches it: such a file is valid. Where class sizes are known, the
partition is drawn. Of a study all cells are checked. Data files are not opened. Of a weights file
only the list of tensors is read, and only where `backbone.architecture` is not set. `fedcast plan`
needs neither data nor weights.")]
pub struct CheckArgs {
    /// Scenario or study files
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Override a key in every file; may be repeated
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Format of results on stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Checked files as JSON.
#[derive(Serialize, Document)]
pub(super) struct CheckedFiles<'a> {
    /// Files, in the given order.
    files: &'a [Checked<'a>],
}

#[derive(Serialize, Document)]
struct Checked<'a> {
    /// Path as given.
    file: &'a PathBuf,
    /// True if the file has no errors.
    valid: bool,
    /// Scenario hash, part of the name of the default run directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    /// Number of runs of a study.
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<usize>,
    /// Errors of an invalid file.
    errors: Vec<Diagnostic>,
    /// Notes on a valid file: keys without effect in all or a part of its run, and inputs that this machine lacks.
    notes: Vec<Diagnostic>,
}

/// Checks every file.
pub fn execute(args: &CheckArgs, methods: &Registry) -> Result<Exit, CliError> {
    let mut checked = Vec::new();
    for file in &args.files {
        if given::is_study(file) {
            checked.push(checked_study(file, args, methods)?);
            continue;
        }
        let overrides: Vec<Override> = args.set.iter().map(Override::new).collect();
        let human = args.format == OutputFormat::Human;
        let loaded = match checked_scenario(file, &overrides, methods) {
            Ok(loaded) => loaded,
            Err(error) => {
                checked.push(refused(file, &error, human));
                continue;
            }
        };
        let mut notes = loaded.notes();
        notes.extend(loaded.absent_inputs());
        if human {
            print(&format!("{}: valid\n", file.display()))?;
            show(&notes);
        }
        let hash = Some(loaded.scenario.hash());
        checked.push(Checked { file, valid: true, hash, runs: None, errors: Vec::new(), notes });
    }
    if args.format == OutputFormat::Json {
        print_json(&CheckedFiles { files: &checked })?;
    }
    let valid = checked.iter().all(|file| file.valid);
    Ok(if valid { Exit::Done } else { Exit::Scenario })
}

/// Reads a study and the scenarios of its cells.
fn checked_study<'a>(
    file: &'a PathBuf,
    args: &CheckArgs,
    methods: &Registry,
) -> Result<Checked<'a>, CliError> {
    let human = args.format == OutputFormat::Human;
    let study = match Study::load(file) {
        Ok(study) => study,
        Err(StudyError::Scenario(error)) => return Ok(refused(file, &error, human)),
        Err(error) => return Err(error.into()),
    };
    let directory = StudyDirectory::new(study.default_directory());
    let overrides = match overrides(&study, &args.set) {
        Ok(overrides) => overrides,
        Err(clash) => {
            return Ok(refused(file, &ScenarioError::Invalid(vec![clash.diagnostic()]), human));
        }
    };
    let (cells, invalid) = prepare(&study, &directory, &overrides, methods);
    let error =
        first_errors(&study, invalid).or_else(|| undrawn(&study, &cells, &overrides, methods));
    if let Some(error) = error {
        return Ok(refused(file, &error, human));
    }
    let mut notes = notes(&study, &cells);
    notes.extend(absent_inputs(&study, &cells));
    if human {
        let runs = if cells.len() == 1 { "run" } else { "runs" };
        print(&format!("{}: valid, {} {runs}\n", file.display(), cells.len()))?;
        show(&notes);
    }
    let errors = Vec::new();
    Ok(Checked { file, valid: true, hash: None, runs: Some(cells.len()), errors, notes })
}

/// Draws the partition of every cell, equal ones once, and returns the errors.
fn undrawn(
    study: &Study,
    cells: &[PreparedCell],
    overrides: &[Override],
    methods: &Registry,
) -> Option<ScenarioError> {
    let mut drawn = DrawnPartitions::default();
    let mut invalid = Vec::new();
    for PreparedCell { cell, scenario, .. } in cells {
        let Err(error) = drawn.draw(scenario) else { continue };
        // Read again for the places of its keys.
        let error = match study.scenario(cell, overrides, methods) {
            Ok(loaded) => undivided(&loaded, error),
            Err(error) => error,
        };
        invalid.push(Invalid { cell: cell.clone(), error });
    }
    first_errors(study, invalid)
}

/// Returns notes on inputs of the cells that this machine lacks.
fn absent_inputs(study: &Study, cells: &[PreparedCell]) -> Vec<Diagnostic> {
    let note = |AbsentInput { message, help, .. }| Diagnostic {
        message,
        place: None,
        label: String::new(),
        help: Some(help),
    };
    let of = |PreparedCell { cell, scenario, .. }: &PreparedCell| {
        let absent = scenario.absent_inputs().into_iter();
        absent.map(|input| (cell.clone(), note(input))).collect::<Vec<_>>()
    };
    merge_findings(study, cells.iter().flat_map(of))
}

fn show(notes: &[Diagnostic]) {
    notes.iter().for_each(|note| print_styled(&note.render_note(color())));
}

/// Returns a file as invalid and, for people, prints why.
fn refused<'a>(file: &'a PathBuf, error: &ScenarioError, human: bool) -> Checked<'a> {
    if human {
        print_styled(&error.render(color()));
    }
    let (errors, notes) = (error.diagnostics(), Vec::new());
    Checked { file, valid: false, hash: None, runs: None, errors, notes }
}

/// Reads a scenario and draws its partition, where the sizes of classes are known without the data.
fn checked_scenario(
    file: &Path,
    overrides: &[Override],
    methods: &Registry,
) -> Result<Loaded, ScenarioError> {
    let loaded = Scenario::load(file, overrides, methods)?;
    match divide(&loaded.scenario) {
        Ok(()) => Ok(loaded),
        Err(error) => Err(undivided(&loaded, error)),
    }
}

/// Returns the error of data that cannot be divided, located at the key that it is about.
///
/// Without a key it is located at `[partition]`.
fn undivided(loaded: &Loaded, error: DataError) -> ScenarioError {
    AssembleError::from(error).place(loaded).unwrap_or_else(|error| {
        let help = "check [data] and [partition]";
        loaded.error_at("partition", &error.to_string(), "cannot be drawn", help)
    })
}
