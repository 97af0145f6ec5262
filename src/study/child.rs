//! One cell as a process of the program itself, on a leash.
//!
//! The child reads its standard input and ends, resumable, when that closes (see [`LEASH`]). So it hears of Ctrl-C by
//! its parent letting go, and a parent that is killed leaves no child behind. A group of its own keeps the terminal's
//! Ctrl-C from reaching it twice.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::directory::{Failure, LEARNT_NOTHING, StudyDirectory};
use super::execute::ProcessPool;
use super::prepare::Prepared;
use crate::experiment::DirectoryError;
use crate::federation::Interrupt;
use crate::files::Disk;

/// The variable that tells a process to end, as on Ctrl-C, when its standard input closes.
pub const LEASH: &str = "FEDCAST_LEASH";

/// How often a process that waits for a child looks whether it was asked to end.
const LOOK: Duration = Duration::from_millis(50);

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Done,
    Failed(Failure),
    /// It was told to stop, and goes on another time.
    Interrupted,
}

/// The exit code of a process that was told to stop.
const INTERRUPTED: i32 = 130;

/// Runs or resumes a cell that is held. What it took stands in the run's manifest.
///
/// # Errors
/// Its files cannot be written. What goes wrong in the process is an answer.
pub(super) fn run(
    prepared: &Prepared,
    directory: &StudyDirectory,
    crew: &ProcessPool,
    halt: &Interrupt,
) -> Result<Ended, DirectoryError> {
    let cell = &prepared.cell;
    let (path, log) = (directory.run(cell), directory.log(cell));
    // What came to its end and is tried again all the same begins again.
    let anew = directory.is_over(cell);
    directory.set_failed(cell, None)?;
    let scenario = directory.scenario(cell);
    write(&scenario, &prepared.scenario.to_effective_toml())?;
    let workers = crew.workers.map(|workers| workers.to_string());
    let how = OsStr::new(if anew { "--force" } else { "--resume" });
    let mut arguments: Vec<&OsStr> = vec!["run".as_ref(), scenario.as_os_str(), how];
    arguments.extend([OsStr::new("--out"), path.as_os_str(), OsStr::new("--quiet")]);
    if let Some(workers) = &workers {
        arguments.extend([OsStr::new("--workers"), workers.as_ref()]);
    }
    if crew.direct && prepared.scenario.tasks.arrival.has_slots() {
        arguments.push(OsStr::new("--direct"));
    }
    let started = start(&arguments, &log);
    let failed = |exit, error| Ended::Failed(Failure { hash: prepared.hash.clone(), exit, error });
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
                let mut says: Vec<String> = told(&log, said).into_iter().collect();
                if directory.is_over(cell) && directory.learnt_nothing(cell) {
                    says.insert(0, LEARNT_NOTHING.to_owned());
                } else if says.is_empty() {
                    says.push(nothing_said(status));
                }
                failed(code, says.join("\n"))
            }
        },
    };
    settle(directory, prepared, ended)
}

fn settle(
    directory: &StudyDirectory,
    prepared: &Prepared,
    ended: Ended,
) -> Result<Ended, DirectoryError> {
    if let Ended::Failed(failure) = &ended {
        directory.set_failed(&prepared.cell, Some(failure))?;
    }
    Ok(ended)
}

/// The process, and where in the log it begins to speak.
fn start(arguments: &[&OsStr], log: &Path) -> io::Result<(Child, u64)> {
    let mut log = OpenOptions::new().create(true).append(true).open(log)?;
    let said = log.seek(SeekFrom::End(0))?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).env(LEASH, "1");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    Ok((command.spawn()?, said))
}

/// The file is written whenever its cell begins or goes on, so it need not outlive a power cut: to make sure of that
/// would take longer than all else that is done for a cell.
fn write(scenario: &Path, text: &str) -> Result<(), DirectoryError> {
    let written =
        Disk::default().create(scenario).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| DirectoryError::Write { path: scenario.to_path_buf(), source })
}

/// Waits for the end; lets go of the leash when asked to.
fn watch(mut child: Child, halt: &Interrupt) -> io::Result<ExitStatus> {
    let mut leash = child.stdin.take();
    let (send, ended) = mpsc::channel();
    // A thread that only waits knows of the end at once.
    thread::spawn(move || drop(send.send(child.wait())));
    loop {
        match ended.recv_timeout(LOOK) {
            Ok(status) => return status,
            Err(RecvTimeoutError::Timeout) if halt.is_requested() => leash = None,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("nobody waits")),
        }
        let _held = &leash;
    }
}

/// What the process said of its error.
fn told(log: &Path, from: u64) -> Option<String> {
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
        let why = if signal == 9 { "; was memory short?" } else { "" };
        return format!("the process was ended by signal {signal}{why}");
    }
    format!("the process ended with {status} and said nothing")
}
