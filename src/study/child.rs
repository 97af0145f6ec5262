//! Child process that runs one cell of a study.
//!
//! The child reads its standard input and stops, resumable, when that closes (see [`LEASH`]). So Ctrl-C in the parent
//! stops it, and a parent that is killed leaves no child running. Its own process group keeps the terminal's Ctrl-C
//! from reaching it a second time.

use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::directory::{CellFailure, StudyDirectory};
use super::execute::ProcessPool;
use super::prepare::PreparedCell;
use crate::experiment::{DirectoryError, is_held};
use crate::federation::Interrupt;
use crate::files::Disk;
use crate::report::Summary;

/// Environment variable that makes a process stop, as on Ctrl-C, when its standard input closes.
pub const LEASH: &str = "FEDCAST_LEASH";

/// Program of the processes and its first arguments; by default this process's own program.
static PROGRAM: OnceLock<(PathBuf, Vec<OsString>)> = OnceLock::new();

/// Sets the program that runs cells, for an interpreter that has loaded this library.
///
/// The program is called with `arguments` before those of `fedcast run`. Only the first call has an effect.
pub fn run_cells_by(program: PathBuf, arguments: Vec<OsString>) {
    let _ = PROGRAM.set((program, arguments));
}

/// Interval at which a parent that waits for a child checks for an interrupt.
const LOOK: Duration = Duration::from_millis(50);

/// Outcome of a cell's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The process ended with exit code 0: the run is complete.
    Done,
    /// The process failed, or could not be started.
    Failed(CellFailure),
    /// The process was stopped and can be resumed.
    Interrupted,
}

/// Longest wait for a process of a killed study.
const PATIENCE: Duration = Duration::from_secs(60);

/// Exit code of a process that was stopped.
const INTERRUPTED: i32 = 130;

/// Runs or resumes a cell whose lock is held. Its cost is in the run's manifest.
///
/// # Errors
/// Fails if the cell's files cannot be written. A failure of the process is an outcome, not an error.
pub(super) fn run(
    prepared: &PreparedCell,
    directory: &StudyDirectory,
    pool: &ProcessPool,
    halt: &Interrupt,
) -> Result<Ended, DirectoryError> {
    let cell = &prepared.cell;
    let (path, log) = (directory.run(cell), directory.log(cell));
    // A complete run that is tried again starts from the beginning.
    let from_start = directory.is_over(cell);
    directory.set_failed(cell, None)?;
    wait_for_orphan(&path, halt);
    let scenario = directory.scenario(cell);
    write(&scenario, &prepared.scenario.to_effective_toml())?;
    let workers = pool.workers.map(|workers| workers.to_string());
    let how = OsStr::new(if from_start { "--force" } else { "--resume" });
    let mut arguments: Vec<&OsStr> = vec!["run".as_ref(), scenario.as_os_str(), how];
    arguments.extend([OsStr::new("--out"), path.as_os_str(), OsStr::new("--quiet")]);
    if let Some(workers) = &workers {
        arguments.extend([OsStr::new("--workers"), workers.as_ref()]);
    }
    if pool.single_task && prepared.scenario.tasks.arrival.has_client_tasks() {
        arguments.push(OsStr::new("--single-task"));
    }
    let started = start(&arguments, &log);
    let failed =
        |exit, error| Ended::Failed(CellFailure { hash: prepared.hash.clone(), exit, error });
    let (child, said) = match started {
        Ok(started) => started,
        Err(error) => {
            let ended = failed(None, format!("cannot start a process: {error}"));
            return settle(directory, prepared, ended);
        }
    };
    let ended = match watch(child, halt) {
        Err(error) => failed(None, format!("cannot wait for the process: {error}")),
        Ok(status) => match status.code() {
            Some(0) => Ended::Done,
            Some(INTERRUPTED) => Ended::Interrupted,
            code => {
                let mut says: Vec<String> = logged_error(&log, said).into_iter().collect();
                if directory.is_over(cell) && directory.trained_nothing(cell) {
                    says.insert(0, Summary::TRAINED_NOTHING.to_owned());
                } else if says.is_empty() {
                    says.push(nothing_said(status));
                }
                failed(code, says.join("\n"))
            }
        },
    };
    settle(directory, prepared, ended)
}

/// Waits while a process of a study that was killed still holds the run; it ends as soon as it notices.
fn wait_for_orphan(run: &Path, halt: &Interrupt) {
    let started = Instant::now();
    while is_held(run) && started.elapsed() < PATIENCE && !halt.is_requested() {
        thread::sleep(Duration::from_millis(20));
    }
}

fn settle(
    directory: &StudyDirectory,
    prepared: &PreparedCell,
    ended: Ended,
) -> Result<Ended, DirectoryError> {
    if let Ended::Failed(failure) = &ended {
        directory.set_failed(&prepared.cell, Some(failure))?;
    }
    Ok(ended)
}

/// Starts the process; returns it and the position in the log at which its messages begin.
fn start(arguments: &[&OsStr], log: &Path) -> io::Result<(Child, u64)> {
    let mut log = OpenOptions::new().create(true).append(true).open(log)?;
    let said = log.seek(SeekFrom::End(0))?;
    let mut command = match PROGRAM.get() {
        Some((program, first)) => {
            let mut command = Command::new(program);
            command.args(first);
            command
        }
        None => Command::new(std::env::current_exe()?),
    };
    command.args(arguments).env(LEASH, "1");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    Ok((command.spawn()?, said))
}

/// Writes the scenario of a cell, without flushing it to the disk.
///
/// The file is written at every start of its cell, so it need not survive a power failure. Flushing would take longer
/// than all other work for a cell.
fn write(scenario: &Path, text: &str) -> Result<(), DirectoryError> {
    let written =
        Disk::default().create(scenario).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| DirectoryError::Write { path: scenario.to_path_buf(), source })
}

/// Waits for the end of a child; closes its standard input on an interrupt.
fn watch(mut child: Child, halt: &Interrupt) -> io::Result<ExitStatus> {
    let mut leash = child.stdin.take();
    let (send, ended) = mpsc::channel();
    // A thread that only waits notices the end at once.
    thread::spawn(move || drop(send.send(child.wait())));
    loop {
        match ended.recv_timeout(LOOK) {
            Ok(status) => return status,
            Err(RecvTimeoutError::Timeout) if halt.is_requested() => leash = None,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("the waiting thread ended"));
            }
        }
        let _held = &leash;
    }
}

/// Returns the error that the process wrote to its log after position `from`, if any.
fn logged_error(log: &Path, from: u64) -> Option<String> {
    let mut file = fs::File::open(log).ok()?;
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim();
    let error = text.lines().position(|line| line.starts_with("error: "));
    let kept: Vec<&str> = text.lines().skip(error.unwrap_or(0)).collect();
    let kept = kept.join("\n");
    let kept = kept.strip_prefix("error: ").unwrap_or(&kept);
    (!kept.is_empty()).then(|| kept.to_owned())
}

fn nothing_said(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        let why = if signal == 9 { "; was memory exhausted?" } else { "" };
        return format!("the process was ended by signal {signal}{why}");
    }
    format!("the process ended with {status} and without a message")
}
