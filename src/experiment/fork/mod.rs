//! Fork of a run: a new run that continues from the end of a task, with other settings.
//!
//! The new run takes over the states of the server and of clients, and the journal, which is replayed with its original
//! scenario. So its directory is complete: its journal begins with that of the original run, its tables have all
//! rounds, and it is resumed like any other run. Its start is in the folder `fork/`, its origin in its manifest.

mod before;
mod fixed;
mod start;

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

pub(super) use before::before;
pub(crate) use before::text as earlier_scenario;

use super::assemble::{assemble, load};
use super::changes::changed;
use super::checkpoint::{self, CheckpointMark};
use super::directory_error::DirectoryError;
use super::execute::{Begin, Run, default_directory, manifest};
use super::manifest::{Before, Forked, Manifest};
use super::provenance::Provenance;
use super::resume::{ResumeError, ResumeSearch, Resumed, find, same_inputs};
use super::run_directory::{RunDirectory, check_scenario, names, read_manifest};
use super::run_error::RunError;
use super::task_ends::{End, ended, not_ended};
use crate::exit::{CommandError, Exit};
use crate::federation::{Digest, Interrupt, Setup, Snapshot};
use crate::files::{self, Disk, FileKind};
use crate::methods::Registry;
use crate::numerics::streams::{Domain, StreamKey};
use crate::scenario::Scenario;

/// Reason why a run cannot be forked there.
#[derive(Debug, Error)]
pub enum ForkError {
    /// The run has not ended such a task.
    #[error("{run} {}", not_ended(*task, *ended))]
    NoTask {
        /// Directory of the run.
        run: PathBuf,
        /// Task that was asked for, from 1; 0 is none.
        task: u32,
        /// Number of tasks that have ended.
        ended: usize,
    },
    /// The scenario has no such task.
    #[error("{run} has no task {task}, only {tasks}\n  help: {help}", help = earlier_task(*tasks))]
    Beyond {
        /// Directory of the run.
        run: PathBuf,
        /// Task that was asked for, from 1.
        task: u32,
        /// Number of tasks of the run.
        tasks: u32,
    },
    /// Nothing comes after its last task.
    #[error("task {0} is the last one: nothing comes after it\n  help: {help}", help = earlier_task(*.0))]
    Last(u32),
    /// No checkpoint is there.
    #[error(
        "there is no checkpoint of the end of task {task}\n  help: --recompute computes it again; runs keep one per task \
         with record.checkpoint.every = \"task\", record.checkpoint.keep = 99 and record.checkpoint.max_time_fraction = 1.0"
    )]
    NotKept {
        /// Task after which the run was to be forked, from 1.
        task: u32,
    },
    /// State from which the run began, computed by another run.
    #[error(
        "the run was itself forked after task {forked} and has no state from before\n  help: fork the original run \
                 ({from})"
    )]
    Earlier {
        /// Task after which the run itself was forked, from 1.
        forked: u32,
        /// Name and hash of the original run's scenario.
        from: String,
    },
    /// State whose recomputation differs.
    #[error(
        "the recomputed state of the server has digest {computed}, the recorded one {recorded}: another program or class \
                 of CPU computed the run\n  help: fork it with that program or CPU"
    )]
    Different {
        /// Digest of the recomputed state of the server.
        computed: Digest,
        /// Digest at the task's end in the journal.
        recorded: Digest,
    },
    /// Uploads in transit.
    #[error(
        "{participants} updates are still in transit when task {task} ends\n  help: fork the run after a task that ends without any"
    )]
    UnderWay {
        /// Task after which the run was to be forked, from 1.
        task: u32,
        /// Number of participants whose update is in transit or not yet used.
        participants: usize,
    },
    /// Nothing is changed.
    #[error(
        "nothing is changed: the fork would equal the recorded run\n  help: use --set PATH=VALUE or --seed"
    )]
    Same,
    /// Key that earlier results depend on.
    #[error(
        "`{key}` cannot change in the middle of a run: {reason}\n  help: leave it as it is, or run the changed scenario \
         from the beginning"
    )]
    Fixed {
        /// Section or key of the scenario, such as `seed.partition`.
        key: &'static str,
        /// Reason why it cannot change.
        reason: &'static str,
    },
    /// The state is of another form.
    #[error(
        "with these changes the method cannot use the recorded state: {0}\n  help: change only keys that keep the \
                 shapes of the model and of client states"
    )]
    OtherState(String),
    /// The directory of the fork is that of the run itself.
    #[error("a run cannot be forked into its own folder\n  help: name another folder with --out")]
    Itself,
    /// The recorded run cannot be resumed.
    #[error("{0}")]
    Resume(#[from] ResumeError),
    /// The run, its inputs or its directory are invalid.
    #[error("{0}")]
    Run(#[source] RunError),
}

impl<E: Into<RunError>> From<E> for ForkError {
    fn from(error: E) -> ForkError {
        ForkError::Run(error.into())
    }
}

impl CommandError for ForkError {
    fn exit_code(&self) -> Exit {
        match self {
            ForkError::NoTask { .. }
            | ForkError::Beyond { .. }
            | ForkError::Last(_)
            | ForkError::NotKept { .. }
            | ForkError::Earlier { .. }
            | ForkError::UnderWay { .. }
            | ForkError::Same
            | ForkError::Fixed { .. }
            | ForkError::OtherState(_)
            | ForkError::Itself => Exit::Usage,
            ForkError::Different { .. } => Exit::Diverged,
            ForkError::Resume(error) => error.exit_code(),
            ForkError::Run(error) => error.exit_code(),
        }
    }
}

/// Returns the advice on a task after which a run of `tasks` tasks can be forked.
fn earlier_task(tasks: u32) -> String {
    match tasks {
        0 | 1 => "a run of one task cannot be forked; run the changed scenario".to_owned(),
        2 => "--after-task 1".to_owned(),
        tasks => format!("--after-task 1 to {}", tasks - 1),
    }
}

/// Options of a fork.
#[derive(Clone, Debug, Default)]
pub struct ForkOptions {
    /// Task after which the run is forked, from 1.
    pub after_task: u32,
    /// Changes of the scenario, as `path=value`.
    pub overrides: Vec<String>,
    /// The directory; by default that of the changed scenario with the task behind it.
    pub out: Option<PathBuf>,
    /// Recompute a state that was not kept.
    pub recompute: bool,
    /// Replace an existing run in the directory.
    pub force: bool,
    /// Worker threads; the scenario's by default.
    pub workers: Option<u32>,
    /// Origin of the run, for the manifest.
    pub provenance: Provenance,
}

/// Makes the directory of a fork of the run at `path`. Returns the new run, ready to be executed.
///
/// # Errors
/// Returns a [`ForkError`], also for errors of the run, the scenario and its inputs.
pub fn fork(
    path: &Path,
    methods: &Registry,
    options: &ForkOptions,
    interrupt: Interrupt,
) -> Result<Resumed, ForkError> {
    let recorded = read_manifest(path)?;
    let file = path.join(names::SCENARIO);
    let held = load(&file, &[], methods)?;
    check_scenario(&file, &held, &recorded.scenario.hash)?;
    let end = end_of(path, options.after_task, held.tasks.count())?;
    let scenario = changed(path, &held, &options.overrides, methods)?;
    if scenario.hash() == held.hash() {
        return Err(ForkError::Same);
    }
    fixed::compare(&held, &scenario)?;
    if let Some(Forked { after_task: forked, scenario, .. }) = &recorded.forked
        && *forked > options.after_task
    {
        let (forked, from) = (*forked, format!("{}, {}", scenario.name, scenario.hash));
        return Err(ForkError::Earlier { forked, from });
    }
    let out = options.out.clone().unwrap_or_else(|| directory_of(&scenario, options.after_task));
    if is_same(path, &out) {
        return Err(ForkError::Itself);
    }
    let mut assembly = assemble(&scenario, methods, options.workers)?;
    same_inputs(&recorded.data, &assembly.data)?;
    same_inputs(&recorded.backbone, &assembly.backbone)?;
    let (mark, snapshot) = start::start(path, &recorded, &held, methods, options, end, interrupt)?;
    if !snapshot.out.is_empty() {
        let (task, participants) = (options.after_task, snapshot.out.len());
        return Err(ForkError::UnderWay { task, participants });
    }
    check_state(&assembly.setup, &snapshot)?;
    let forked = forked(&recorded, &mark, options.after_task);
    let directory =
        RunDirectory::claim_on(&Disk::default(), &out, &scenario.hash(), options.force)?;
    let own = CheckpointMark { scenario: scenario.hash(), ..mark.clone() };
    take_over(path, &directory, &held, &forked, (&own, &snapshot))?;
    let manifest = Manifest {
        forked: Some(forked),
        ..manifest(&scenario, &assembly, options.provenance.clone())
    };
    directory.write(names::SCENARIO, scenario.to_effective_toml().as_bytes())?;
    directory.write_manifest(&manifest)?;
    assembly.setup.before = before(&out, &manifest, &assembly.setup, methods)?;
    let ResumeSearch { intact: Some(intact), notices } = find(&out, &manifest, u32::MAX)? else {
        return Err(ResumeError::NoFork(out).into());
    };
    assembly.setup.recorded = Some(Arc::new(intact.recorded));
    let replayed = intact.mark.entries;
    let begin = Begin::After(intact.mark);
    let run = Run::new(directory, manifest, &scenario, assembly, begin);
    Ok(Resumed { run, scenario, notices, replayed })
}

/// Returns the end of a task that is not the last.
fn end_of(path: &Path, task: u32, tasks: u32) -> Result<End, ForkError> {
    if task >= tasks {
        let run = path.to_path_buf();
        return Err(match task == tasks {
            true => ForkError::Last(task),
            false => ForkError::Beyond { run, task, tasks },
        });
    }
    let ended = ended(path)?;
    let end = task.checked_sub(1).and_then(|place| ended.get(place as usize)).copied();
    end.ok_or_else(|| ForkError::NoTask { run: path.to_path_buf(), task, ended: ended.len() })
}

/// Returns the default directory of a fork after a task.
///
/// Its name has the task, because forks after different tasks have one scenario, and so one hash.
fn directory_of(scenario: &Scenario, task: u32) -> PathBuf {
    let mut path = default_directory(scenario).into_os_string();
    path.push(format!("-after-task-{task}"));
    path.into()
}

fn is_same(a: &Path, b: &Path) -> bool {
    matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

/// Checks that the changed method can take over the state.
fn check_state(setup: &Setup, snapshot: &Snapshot) -> Result<(), ForkError> {
    let other = |why: String| ForkError::OtherState(why);
    let init = StreamKey::new(setup.rules.seed, Domain::Init);
    let server = setup.method.server(&setup.ctx, init);
    let mut server = server.map_err(|error| other(error.to_string()))?;
    server.load(&snapshot.server).map_err(|error| other(error.to_string()))?;
    let kept = snapshot.clients.iter().find(|(_, state)| !state.sections.is_empty());
    if let Some((client, _)) = kept.filter(|_| setup.method.profile().stateless) {
        return Err(other(format!(
            "{client} has a state, and with these changes clients have none"
        )));
    }
    for (client, state) in &snapshot.clients {
        let checked = setup.method.state_bytes(state);
        checked.map_err(|error| other(format!("state of {client}: {error}")))?;
    }
    Ok(())
}

/// Returns the origin of a run that is forked after a task.
fn forked(recorded: &Manifest, mark: &CheckpointMark, after_task: u32) -> Forked {
    let earlier = recorded.forked.iter().flat_map(|forked| &forked.before);
    let mut before: Vec<Before> = earlier.cloned().collect();
    // If the run was itself forked after this task, its own scenario never held.
    if before.last().is_none_or(|last| last.until_task < after_task) {
        before.push(Before { until_task: after_task, hash: recorded.scenario.hash.clone() });
    }
    Forked {
        scenario: recorded.scenario.clone(),
        after_task,
        events: mark.entries,
        digests: mark.digests.clone(),
        before,
    }
}

/// Writes the start of the run: the earlier scenarios, a checkpoint, the journal up to it.
fn take_over(
    path: &Path,
    directory: &RunDirectory,
    held: &Scenario,
    forked: &Forked,
    (mark, snapshot): (&CheckpointMark, &Snapshot),
) -> Result<(), ForkError> {
    for before in &forked.before {
        let text = match before.hash == held.hash() {
            true => held.to_effective_toml(),
            false => before::text(path, before)?,
        };
        directory.write(&before::name(before), text.as_bytes())?;
    }
    let content = checkpoint::encode(mark, snapshot).map_err(|why| {
        let path = directory.path().join(names::FORK);
        DirectoryError::Write { path, source: io::Error::other(why) }
    })?;
    directory.write(&format!("{}/task-{:02}.ckpt", names::FORK, forked.after_task), &content)?;
    let from = path.join(names::EVENTS);
    let read = |source| DirectoryError::Read { path: from.clone(), source };
    let mut part = files::open(&from, FileKind::Journal).map_err(read)?.take(mark.position);
    let mut journal = directory.append(names::EVENTS)?;
    let to = directory.path().join(names::EVENTS);
    let wrote = |source| DirectoryError::Write { path: to.clone(), source };
    io::copy(&mut part, &mut journal).map_err(wrote)?;
    journal.sync_data().map_err(wrote)?;
    Ok(())
}
