//! Continuation of a run that was killed, interrupted or failed.
//!
//! The newest intact checkpoint is taken, the journal cut where it was written, and everything before it replayed to
//! the simulation instead of computed (see [`RecordedRun`]). So tables and summary are written as ever, and a resumed
//! run ends with the files of an undisturbed one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use super::assemble::{assemble_by, load};
use super::checkpoint::{self, CheckpointMark};
use super::directory_error::DirectoryError;
use super::execute::{Begin, Run};
use super::fork::before;
use super::input_places::{NotInputPlace, check_input_places};
use super::journal_file::JournalReader;
use super::machine::{ARITHMETIC, BY_CPU};
use super::manifest::{Manifest, Source, Status};
use super::ranks::ComputeResources;
use super::run_directory::{RunDirectory, check_scenario, names, read_manifest};
use super::run_error::RunError;
use crate::exit::{CommandError, Exit};
use crate::federation::RecordedRun;
use crate::files::Disk;
use crate::methods::Registry;
use crate::scenario::Scenario;

/// Reason why a run cannot be resumed.
#[derive(Debug, Error)]
pub enum ResumeError {
    /// Run that is complete.
    #[error("{0} is complete; there is nothing to resume")]
    Complete(PathBuf),
    /// The run's scenario is missing.
    #[error(
        "{path} lost its {file}, which is needed to resume it\n  help: restore the file, or call `fedcast run --resume` \
         with the scenario, --set and --seed of this run, which writes it again",
        path = .0.display(), file = names::SCENARIO
    )]
    NoScenario(PathBuf),
    /// Forked run that lost its start.
    #[error(
        "{path} was forked and lost its start ({path}/{folder})\n  help: fork it again",
        path = .0.display(), folder = names::FORK
    )]
    NoFork(PathBuf),
    /// Data or weights have changed.
    #[error(
        "{0} has changed since the run began\n  help: resume it with the same data and weights"
    )]
    OtherInputs(String),
    /// A change that could change results.
    #[error(transparent)]
    NoPlace(NotInputPlace),
    /// Version or arithmetic of the program are not those that began the run.
    #[error(
        "the run was started by {then}, this is {now}: numbers would differ\n  \
                 help: resume it with that version, or resume anyway with --force"
    )]
    OtherProgram {
        /// Version and arithmetic that began it.
        then: String,
        /// Version and arithmetic of this program.
        now: String,
    },
    /// The run, its inputs or its directory are invalid.
    #[error("{0}")]
    Run(#[source] RunError),
}

impl<E: Into<RunError>> From<E> for ResumeError {
    fn from(error: E) -> ResumeError {
        ResumeError::Run(error.into())
    }
}

impl CommandError for ResumeError {
    fn exit_code(&self) -> Exit {
        match self {
            ResumeError::Complete(_) => Exit::NothingToDo,
            ResumeError::OtherProgram { .. } | ResumeError::NoPlace(_) => Exit::Usage,
            ResumeError::OtherInputs(_) => Exit::Inputs,
            ResumeError::NoScenario(_) | ResumeError::NoFork(_) => Exit::Recording,
            ResumeError::Run(error) => error.exit_code(),
        }
    }
}

/// A run that is resumed.
pub struct Resumed {
    /// Run that continues, ready to be executed.
    pub run: Run,
    /// Scenario of the run; that of a fork has its changes.
    pub scenario: Scenario,
    /// Notices for the user: the place from which it is resumed, and damaged checkpoints.
    pub notices: Vec<String>,
    /// Entries that are replayed instead of computed.
    pub replayed: u64,
}

/// Options of a resumption.
#[derive(Clone, Debug, Default)]
pub struct ResumeOptions {
    /// Worker threads and other processes.
    pub resources: ComputeResources,
    /// Resumes even if a program of another version or arithmetic started the run.
    pub force: bool,
    /// Other places of inputs, as `data.path=...`, `backbone.weights=...` or `cache.folder=...`.
    pub places: Vec<String>,
}

/// Prepares the run at `path` to continue after its newest intact checkpoint.
///
/// # Errors
/// Returns a [`ResumeError`], also for a directory in use and for errors of the scenario and its inputs.
pub fn resume(
    path: &Path,
    methods: &Registry,
    options: ResumeOptions,
) -> Result<Resumed, ResumeError> {
    resume_on(&Disk::default(), path, methods, options)
}

/// Prepares a run on a disk that may fail during the run; see [`resume`].
///
/// # Errors
/// Those of [`resume`].
pub fn resume_on(
    disk: &Disk,
    path: &Path,
    methods: &Registry,
    options: ResumeOptions,
) -> Result<Resumed, ResumeError> {
    check_input_places(&options.places).map_err(ResumeError::NoPlace)?;
    read_manifest(path)?;
    let directory = RunDirectory::reopen_on(disk, path)?;
    let manifest = read_manifest(path)?;
    if manifest.status == Status::Done {
        return Err(ResumeError::Complete(path.to_path_buf()));
    }
    let file = path.join(names::SCENARIO);
    if !file.exists() {
        return Err(ResumeError::NoScenario(path.to_path_buf()));
    }
    let scenario = load(&file, &[], methods)?;
    check_scenario(&file, &scenario, &manifest.scenario.hash)?;
    if !options.force {
        same_program(&manifest)?;
    }
    let inputs = match options.places.as_slice() {
        [] => scenario.clone(),
        places => load(&file, places, methods)?,
    };
    let mut assembly = assemble_by(&inputs, methods, &options.resources)?;
    same_inputs(&manifest.data, &assembly.data)?;
    same_inputs(&manifest.backbone, &assembly.backbone)?;
    assembly.setup.before = before(path, &manifest, &assembly.setup, methods)?;
    let (begin, notices, replayed) = match find(path, &manifest, u32::MAX)? {
        ResumeSearch {
            intact: Some(Intact { mark, recorded, place, .. }), mut notices, ..
        } => {
            notices.push(format!("resuming after {place}, entry {}", mark.entries));
            assembly.setup.recorded = Some(Arc::new(recorded));
            let replayed = mark.entries;
            (Begin::After(mark), notices, replayed)
        }
        ResumeSearch { intact: None, .. } if manifest.forked.is_some() => {
            return Err(ResumeError::NoFork(path.to_path_buf()));
        }
        ResumeSearch { intact: None, mut notices, .. } => {
            notices.push(
                "there is no intact checkpoint: the run starts from the beginning".to_string(),
            );
            (Begin::Fresh, notices, 0)
        }
    };
    let run = Run::again(directory, manifest, &scenario, assembly, begin)?;
    Ok(Resumed { run, scenario, notices, replayed })
}

/// Writes the effective scenario of an unfinished run again if it is missing.
///
/// # Errors
/// Returns an error if the directory is in use or cannot be written.
pub fn restore_scenario(path: &Path, scenario: &Scenario) -> Result<(), DirectoryError> {
    if path.join(names::SCENARIO).exists() {
        return Ok(());
    }
    let directory = RunDirectory::reopen(path)?;
    directory.write(names::SCENARIO, scenario.to_effective_toml().as_bytes())
}

/// Checks that this program has the version and arithmetic that began the run.
///
/// Machines do not matter: the same version and arithmetic have the same bits on all of them.
fn same_program(manifest: &Manifest) -> Result<(), ResumeError> {
    let program = |version: &str, arithmetic: &str| match arithmetic {
        BY_CPU => format!("fedcast {version} with numbers that depend on the CPU"),
        _ => format!("fedcast {version} with arithmetic {arithmetic}"),
    };
    let then = program(&manifest.fedcast, &manifest.machine.arithmetic);
    let now = program(env!("CARGO_PKG_VERSION"), ARITHMETIC);
    if then == now { Ok(()) } else { Err(ResumeError::OtherProgram { then, now }) }
}

pub(super) fn same_inputs(then: &Option<Source>, now: &Source) -> Result<(), ResumeError> {
    match then {
        Some(then) if then.digest != now.digest => Err(ResumeError::OtherInputs(now.name.clone())),
        _ => Ok(()),
    }
}

/// A checkpoint that can be used.
pub(super) struct Intact {
    pub mark: CheckpointMark,
    pub recorded: RecordedRun,
    /// Point of the run at which it was taken, in words.
    pub place: String,
}

/// Result of a search for a run's checkpoints.
#[derive(Default)]
pub(super) struct ResumeSearch {
    pub intact: Option<Intact>,
    /// Notices for the user about damaged checkpoints.
    pub notices: Vec<String>,
}

/// Finds the newest intact checkpoint of a run whose last round is at most `round`, counted from 0.
pub(super) fn find(
    path: &Path,
    manifest: &Manifest,
    round: u32,
) -> Result<ResumeSearch, DirectoryError> {
    // A forked run began with one.
    find_in(&[names::CHECKPOINTS, names::FORK], path, manifest, round)
}

/// Finds the checkpoint that a forked run began with.
pub(super) fn find_start(path: &Path, manifest: &Manifest) -> Result<ResumeSearch, DirectoryError> {
    find_in(&[names::FORK], path, manifest, u32::MAX)
}

fn find_in(
    folders: &[&str],
    path: &Path,
    manifest: &Manifest,
    round: u32,
) -> Result<ResumeSearch, DirectoryError> {
    let mut files = Vec::new();
    for folder in folders {
        let folder = path.join(folder);
        let found = checkpoint::list(&folder);
        files.extend(found.map_err(|source| DirectoryError::Read { path: folder, source })?);
    }
    let mut notices = Vec::new();
    for file in files {
        match open(path, &file, manifest) {
            Ok((mark, snapshot, recorded)) if snapshot.round.0 <= round => {
                let place = snapshot.place.to_string();
                let recorded = recorded.until(snapshot);
                return Ok(ResumeSearch {
                    intact: Some(Intact { mark, recorded, place }),
                    notices,
                });
            }
            Ok(_) => {}
            Err(why) => {
                let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                notices
                    .push(format!("checkpoint {name} is damaged ({why}); trying the one before"));
            }
        }
    }
    Ok(ResumeSearch { intact: None, notices })
}

type Opened = (CheckpointMark, crate::federation::Snapshot, RecordedRun);

/// Reads a checkpoint and the journal up to it.
fn open(path: &Path, file: &Path, manifest: &Manifest) -> Result<Opened, String> {
    let (mark, snapshot) = checkpoint::read(file)?;
    if mark.scenario != manifest.scenario.hash {
        return Err("it belongs to another scenario".into());
    }
    let mut reader =
        JournalReader::open(&path.join(names::EVENTS)).map_err(|error| error.to_string())?;
    // Without this check a journal that was cut off would be read in vain.
    let there = std::fs::metadata(path.join(names::EVENTS)).map_or(0, |meta| meta.len());
    if there < mark.position {
        return Err("the journal ends before it".into());
    }
    let mut recorded = RecordedRun::default();
    while reader.entries() < mark.entries {
        match reader.next_entry() {
            Ok(Some(entry)) => recorded.read(&entry)?,
            Ok(None) => return Err("the journal ends before it".into()),
            Err(error) => return Err(error.to_string()),
        }
    }
    if reader.digests() != mark.digests {
        return Err("the journal before it is of another run".into());
    }
    Ok((mark, snapshot, recorded))
}
