//! Fingerprint that a rank sends before the first job.

use serde::{Deserialize, Serialize};

use crate::experiment::assemble::Assembly;
use crate::experiment::machine::Machine;
use crate::experiment::provenance::commit;
use crate::federation::Workforce;
use crate::scenario::Scenario;

/// Facts that a rank's bits depend on, and its resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankFingerprint {
    /// The name of its machine.
    pub host: String,
    /// Version of fedcast, with the commit where the build said so.
    pub version: String,
    /// Hash of the scenario.
    pub scenario: String,
    /// Digest of the data.
    pub data: String,
    /// Digest of the backbone's weights.
    pub weights: String,
    /// Number of its worker threads.
    pub workers: usize,
    /// Devices of its scenario, such as `cpu`.
    pub devices: Vec<String>,
    /// Clients that one of its workers can train together.
    pub pack: usize,
    /// Cores of the machine, whether or not this process may use them.
    pub cores_there: usize,
    /// The machine, with the arithmetic of the program; its cores are those that this process may use.
    pub machine: Machine,
}

impl RankFingerprint {
    /// Returns the fingerprint of this process.
    pub fn here(scenario: &Scenario, assembly: &Assembly) -> RankFingerprint {
        let Assembly { setup, data, backbone, .. } = assembly;
        let machine = Machine::here();
        RankFingerprint {
            host: host(),
            version: version(),
            scenario: scenario.hash(),
            data: data.digest.clone(),
            weights: backbone.digest.clone(),
            workers: setup.workers.count(),
            devices: scenario.devices.names.iter().map(ToString::to_string).collect(),
            pack: match setup.workers {
                Workforce::Cpu(_) => usize::MAX,
                Workforce::Gpus(_) => setup.rules.pack,
            },
            cores_there: cores_there().unwrap_or(machine.cores),
            machine,
        }
    }
}

/// Returns the machine's name as Linux reports it.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    name.map_or_else(|| "unknown".to_owned(), |name| name.trim().to_owned())
}

/// Returns the version, and the commit if the build set it. Two commits of one version may compute other numbers.
fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match commit() {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    }
}

/// Returns the cores of the machine as Linux lists them, not only those that this process may use.
fn cores_there() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    Some(text.lines().filter(|line| line.starts_with("processor")).count()).filter(|n| *n > 0)
}
