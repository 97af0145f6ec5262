//! Exit codes. The numbers are part of the interface: scripts may rely on them.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Done = 0,
    /// Something no other code describes.
    Unexpected = 1,
    /// The command line is wrong, or names a run directory that may not be used.
    Usage = 2,
    /// The scenario is invalid.
    Scenario = 3,
    /// There was nothing to do, or what is left of a study another process does.
    NothingToDo = 4,
    /// Cells of a study failed; the others are done.
    CellsFailed = 5,
    /// Data or weights are missing, truncated or of the wrong shape.
    Inputs = 6,
    /// Training gave nothing to use: no update was ever aggregated, or a bad one ended the run as
    /// `federation.on_bad_update = "abort"` asks.
    Training = 7,
    /// A verified replay met a different event or number.
    Diverged = 10,
    /// A compared group of runs is worse than `--fail-if-worse` tolerates.
    Regressed = 11,
    /// The recording is incomplete or damaged (full disk, read-only directory, truncated journal).
    Recording = 12,
    /// A device failed or memory ran out.
    Device = 20,
    /// The simulation waits for something that can never happen.
    Deadlock = 21,
    /// Interrupted; the journal is valid as far as it goes, and `fedcast resume` goes on.
    Interrupted = 130,
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// The codes as `fedcast --help` prints them.
pub const TABLE: &str = "\
Exit codes:
  0 done                      10 replay diverged
  1 unexpected                11 comparison regressed
  2 wrong usage               12 recording incomplete or damaged
  3 scenario invalid          20 device or memory failure
  4 nothing to do             21 simulation deadlock
  5 cells of a study failed  130 interrupted, resumable
  6 data or weights missing, truncated or wrong
  7 training gave nothing to use: every update failed or was refused";
