//! Earlier scenarios of a forked run, in its folder `fork/`.

use std::path::Path;
use std::sync::Arc;

use crate::experiment::assemble::{load, terms};
use crate::experiment::directory_error::DirectoryError;
use crate::experiment::manifest::{Before, Manifest};
use crate::experiment::resume::ResumeError;
use crate::experiment::run_directory::{check_scenario, names};
use crate::federation::{Rules, RunSegment, RunSpec, Setup};
use crate::files::{self, FileKind};
use crate::methods::Registry;
use crate::quantity::TaskId;

/// Returns the name of the file of an earlier scenario, such as `fork/until-task-02.toml`.
pub fn name(before: &Before) -> String {
    format!("{}/until-task-{:02}.toml", names::FORK, before.until_task)
}

/// Returns the text of an earlier scenario, of a run that has it.
pub fn text(path: &Path, before: &Before) -> Result<String, DirectoryError> {
    let path = path.join(name(before));
    let text = files::read_text(&path, FileKind::Scenario);
    text.map_err(|source| DirectoryError::Read { path, source })
}

/// Returns the segments of the run at `path` before its own scenario held; empty if it was not forked.
///
/// # Errors
/// Returns an error if a scenario is not there any more, or is another.
pub fn before(
    path: &Path,
    manifest: &Manifest,
    setup: &Setup,
    methods: &Registry,
) -> Result<Vec<RunSegment>, ResumeError> {
    let before = manifest.forked.iter().flat_map(|forked| &forked.before);
    before.map(|before| stretch(path, before, setup, methods)).collect()
}

fn stretch(
    path: &Path,
    before: &Before,
    setup: &Setup,
    methods: &Registry,
) -> Result<RunSegment, ResumeError> {
    let file = path.join(name(before));
    if !file.exists() {
        return Err(ResumeError::NoFork(path.to_path_buf()));
    }
    let scenario = load(&file, &[], methods)?;
    check_scenario(&file, &scenario, &before.hash)?;
    let known = (setup.facts.backbone, setup.facts.auxiliary);
    let terms = terms(&scenario, known, Arc::clone(&setup.ctx.task_sequence), methods)?;
    let rules = Rules { pack: setup.rules.pack, ..terms.rules };
    let until = before.until_task.checked_sub(1).and_then(|task| u16::try_from(task).ok());
    let until = TaskId(until.ok_or_else(|| ResumeError::NoFork(path.to_path_buf()))?);
    Ok(RunSegment { until, terms: RunSpec { rules, ..terms } })
}
