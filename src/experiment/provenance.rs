//! Origin and cost of a run: command line, scenario file as written, build, times, memory.
//!
//! No result depends on them. They are in the manifest and in no digest.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::document::Document;
use crate::files::{self, FileKind};

/// Command and files that a run was started with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Document)]
pub struct Provenance {
    /// Command line as given, without the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Values of `--set` and `--seed`, as `path=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<String>,
    /// The scenario file as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Object outside the directory that any computation of the run needs, such as a rule in Python.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires: Option<String>,
}

/// A scenario file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Document)]
pub struct Origin {
    /// Name of the scenario file as it was given, without folders.
    pub file: String,
    /// Content of that file.
    ///
    /// Files that it extends are in the effective scenario only.
    pub text: String,
}

impl Origin {
    /// Reads the file again; `None` if it no longer exists, which is no reason for a run to fail.
    pub fn of(path: &std::path::Path) -> Option<Origin> {
        let text = files::read_text(path, FileKind::Scenario).ok()?;
        Some(Origin { file: path.file_name()?.to_string_lossy().into_owned(), text })
    }
}

/// Time at which a run was computed, and its cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Document)]
pub struct Cost {
    /// Start of the run, UTC, as `2026-01-31T12:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// End of the run's last process, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Wall time of the processes that ended regularly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_s: Option<f64>,
    /// Largest resident memory of its processes, where the system reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory_mb: Option<f64>,
}

impl Cost {
    /// Returns the cost of a run that begins now.
    pub(super) fn started_now() -> Cost {
        Cost { started: Some(now()), ..Cost::default() }
    }

    /// Returns the cost of a process that ends now and took `took`.
    pub(super) fn ended(self, took: Duration) -> Cost {
        Cost {
            started: self.started,
            ended: Some(now()),
            wall_s: Some(self.wall_s.unwrap_or(0.0) + took.as_secs_f64()),
            peak_memory_mb: peak_memory_mb()
                .into_iter()
                .chain(self.peak_memory_mb)
                .reduce(f64::max),
        }
    }
}

/// Returns the BLAKE3 digest of the file of this process's program.
///
/// Builds that are not optimized have none: their files are large, and
/// change with every test.
pub(super) fn program() -> Option<String> {
    if cfg!(debug_assertions) {
        return None;
    }
    let file = std::fs::File::open(std::env::current_exe().ok()?).ok()?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file).ok()?;
    Some(hasher.finalize().to_hex().to_string())
}

/// Returns the commit that this program was built from, if its build named one.
///
/// Its build script is `tools/release/commit.rs`.
pub fn commit() -> Option<String> {
    option_env!("FEDCAST_COMMIT").filter(|commit| !commit.is_empty()).map(str::to_string)
}

/// Returns the time, to the second.
fn now() -> String {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// Returns the peak resident memory of this process so far in megabytes (10^6); `None` except on Linux.
pub fn peak_memory_mb() -> Option<f64> {
    high_water(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn high_water(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((kibibytes * 1024) as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_kibibytes_and_reported_in_megabytes() {
        let status = "Name:\tfedcast\nVmPeak:\t  999 kB\nVmHWM:\t  125000 kB\nVmRSS:\t 1 kB\n";
        assert_eq!(high_water(status), Some(128.0));
        assert_eq!(high_water("Name:\tfedcast\n"), None);
    }

    #[test]
    fn a_second_process_adds_its_time_and_keeps_the_larger_memory() {
        let first = Cost::started_now().ended(Duration::from_secs(2));
        let before = Cost { peak_memory_mb: Some(1e9), ..first.clone() };
        let second = before.ended(Duration::from_secs(3));
        assert_eq!((second.wall_s, second.peak_memory_mb), (Some(5.0), Some(1e9)));
        assert_eq!(second.started, first.started);
        let started = first.started.unwrap();
        assert!(started.len() == 20 && started.ends_with('Z'), "{started}");
    }
}
