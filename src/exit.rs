//! Exit codes. The numbers are part of the interface: scripts may rely on them.

use std::error::Error;
use std::process::ExitCode;

/// Exit code of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The command did its work.
    Done = 0,
    /// Any error without its own code.
    Unexpected = 1,
    /// The command line is wrong, or names a run directory that may not be used.
    Usage = 2,
    /// The scenario or study is invalid, or asks for more than the data can give.
    Scenario = 3,
    /// There was nothing to do: the run exists already, or another process runs the rest of a study.
    NothingToDo = 4,
    /// Cells of a study failed; the others are done.
    CellsFailed = 5,
    /// Data or weights are missing, truncated or of the wrong shape.
    Inputs = 6,
    /// Training gave no usable result: no update was ever aggregated, a bad one ended the run because of
    /// `federation.on_bad_update = "abort"`, or a number of the server is not finite.
    Training = 7,
    /// A verified replay found a different event or number, or an exported model differs.
    Diverged = 10,
    /// A compared group of runs is worse than `--fail-if-worse` tolerates.
    Regressed = 11,
    /// The recording is incomplete or damaged (full disk, read-only directory, truncated journal).
    Recording = 12,
    /// A device failed, memory ran out, or the processes of a run cannot compute together.
    Device = 20,
    /// The simulation waits for an event that cannot happen.
    Deadlock = 21,
    /// Interrupted; the journal is valid, and `fedcast resume` continues the run.
    Interrupted = 130,
}

impl Exit {
    /// Returns the code as a number.
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// An error that ends a command.
pub trait CommandError: Error {
    /// Returns the exit code of a command that ends with this error.
    fn exit_code(&self) -> Exit;
}

/// Table of exit codes in `fedcast --help`, one per line; the guide has the same words.
pub const TABLE: &str = "\
Exit codes:
    0  done
    1  unexpected
    2  wrong usage
    3  scenario or study invalid, or more than the data can give
    4  nothing to do: the run is there already
    5  cells of a study failed; the others are done
    6  data or weights missing, truncated or wrong
    7  training gave nothing to use: no update was ever aggregated, or bad numbers ended the run
   10  replay, export or fork diverged
   11  comparison regressed
   12  recording incomplete or damaged
   20  device or memory failure, or processes of a run that differ
   21  simulation deadlock
  130  interrupted, resumable";

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Exit; 14] = [
        Exit::Done,
        Exit::Unexpected,
        Exit::Usage,
        Exit::Scenario,
        Exit::NothingToDo,
        Exit::CellsFailed,
        Exit::Inputs,
        Exit::Training,
        Exit::Diverged,
        Exit::Regressed,
        Exit::Recording,
        Exit::Device,
        Exit::Deadlock,
        Exit::Interrupted,
    ];

    #[test]
    fn every_code_is_listed_with_the_words_of_the_guide() {
        let guide = include_str!("guide/running.md");
        let codes = TABLE.lines().skip(1).map(|line| {
            let (code, words) = line.trim().split_once("  ").unwrap();
            let row = format!("| {code} | {words} |");
            assert!(guide.contains(&row), "{row}");
            code.parse::<u8>().unwrap()
        });
        assert_eq!(codes.collect::<Vec<_>>(), ALL.map(Exit::code));
        let rows = guide.split_once("## Exit codes").unwrap().1.split_once("\n## ").unwrap().0;
        assert_eq!(rows.matches("\n|").count(), ALL.len() + 2, "a head, a rule and the codes");
    }
}
