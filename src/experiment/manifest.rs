//! `manifest.json`: scenario, inputs, machine and status of a run.
//!
//! It is written before the first round with `status = "running"` and rewritten, atomically,
//! when the run ends. A run that was killed therefore never looks whole: its manifest still
//! says `running` and carries no digests.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::class_names::ClassNames;
use super::machine::Machine;
use super::provenance::{Cost, Provenance};
use super::ranks::{LostRank, RankEntry};
use crate::document::Document;
use crate::federation::Digests;
use crate::scenario::HeldOut;

/// Layout version of the run directory.
pub const FORMAT: u32 = 2;

/// State of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Document)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Being computed, or killed while it was.
    Running,
    /// Complete; the digests are final.
    Done,
    /// Stopped by the user between two events; the journal is valid as far as it goes.
    Interrupted,
    /// Ended by an error, given in `error`.
    Failed,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Running => "running",
            Status::Done => "done",
            Status::Interrupted => "interrupted",
            Status::Failed => "failed",
        })
    }
}

/// Level at which another machine can repeat a run (see the crate's front page).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Document)]
pub enum Level {
    /// Events only: GPUs, whose numbers agree within a tolerance. (Once called `T`.)
    #[serde(alias = "T")]
    E,
    /// Events and every number, bit for bit: any machine, any number of workers.
    N,
}

/// The three seeds of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Document)]
pub struct Seeds {
    /// Seed of everything that happens in the run.
    pub run: u64,
    /// Seed of the partition of samples over clients.
    pub partition: u64,
    /// Seed of the class order, if it is random.
    pub class_order: u64,
}

/// Something read from outside: its name and the digest of its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Document)]
pub struct Source {
    /// File name or other name.
    pub name: String,
    /// Digest of the content.
    ///
    /// 64 bits, in hexadecimal.
    pub digest: String,
}

/// The scenario a run belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Document)]
pub struct ScenarioId {
    /// Name of the scenario.
    pub name: String,
    /// Digest of the effective scenario (equal for equal runs).
    ///
    /// Every default is written out, paths are as given.
    pub hash: String,
}

/// Origin of a forked run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Document)]
pub struct Forked {
    /// Scenario of that run.
    #[document(of = "the run that it was forked from")]
    pub scenario: ScenarioId,
    /// Task after which it was forked, from 1.
    pub after_task: u32,
    /// Lines of that run's journal that this one begins with.
    pub events: u64,
    /// Digests of those lines.
    #[document(of = "these lines")]
    pub digests: Digests,
    /// Scenarios before the fork, in order: several if that run was itself forked.
    pub before: Vec<Before>,
}

/// A scenario that held until a task was over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Document)]
pub struct Before {
    /// Last task for which a scenario in `fork/` held, from 1.
    pub until_task: u32,
    /// Digest of that scenario.
    pub hash: String,
}

/// The content of `manifest.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Document)]
pub struct Manifest {
    /// Layout version of the directory.
    ///
    /// [`FORMAT`] at present.
    pub format: u32,
    /// Version of fedcast that wrote the manifest.
    pub fedcast: String,
    /// Commit that fedcast was built from, with `-dirty` if sources differed from it.
    ///
    /// Builds that are not optimized have none, unless `FEDCAST_COMMIT` was set.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub commit: Option<String>,
    /// BLAKE3 digest of the file of the process's program, of optimized builds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub program: Option<String>,
    /// `running`, `done`, `interrupted` or `failed`; a `running` run whose lock is free was killed.
    pub status: Status,
    /// Reason for the failure.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// Scenario of the run.
    pub scenario: ScenarioId,
    /// Name of the method.
    pub method: String,
    /// Seeds of the scenario.
    pub seeds: Seeds,
    /// The data set.
    #[document(of = "the data set")]
    pub data: Option<Source>,
    /// Names of the classes, in the order of their numbers from 0.
    #[serde(skip_serializing_if = "ClassNames::is_empty", default)]
    pub class_names: ClassNames,
    /// Held-out part of the training samples.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub validation: Option<HeldOut>,
    /// Name of the backbone's weights, with their digest.
    #[document(of = "the backbone's weights")]
    pub backbone: Option<Source>,
    /// Level of reproducibility: `N` (every bit) or `E` (events only; GPUs).
    pub level: Level,
    /// Number of worker threads; on a CPU no result depends on it.
    pub workers: usize,
    /// Maximum number of clients that a worker trains together; on a CPU no result depends on it.
    #[serde(default = "alone")]
    pub pack: usize,
    /// Devices that computed: `cpu` or GPUs.
    #[serde(default = "cpu")]
    pub devices: Vec<String>,
    /// Type of activations and frozen weights.
    #[serde(default = "full_precision")]
    pub compute: String,
    /// Machine that computed the run.
    pub machine: Machine,
    /// Command and files that the run was started with.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// Times and costs of the run.
    #[serde(flatten)]
    pub cost: Cost,
    /// Processes that compute the run together, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub ranks: Vec<RankEntry>,
    /// Processes that were lost during the run.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub lost_ranks: Vec<LostRank>,
    /// Origin of a forked run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub forked: Option<Forked>,
    /// Number of times that the run was resumed.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub resumed: u32,
    /// Lines of the journal (known at the end).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub events: Option<u64>,
    /// The digests (known at the end).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub digests: Option<Digests>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Returns the devices of manifests from before there were others than CPUs.
fn cpu() -> Vec<String> {
    vec!["cpu".to_string()]
}

fn alone() -> usize {
    1
}

fn full_precision() -> String {
    "f32".to_string()
}

impl Manifest {
    /// Returns the manifest of a run that is no longer complete.
    pub(super) fn reopened(self) -> Manifest {
        let (status, error, events, digests) = (Status::Running, None, None, None);
        Manifest { status, error, events, digests, ..self }
    }

    /// Returns the text of the file.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a manifest has only string keys");
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Evaluated;

    #[test]
    fn a_running_manifest_carries_no_digests_and_reads_back() {
        let manifest = Manifest {
            format: FORMAT,
            fedcast: "0.1.0".into(),
            commit: None,
            program: None,
            status: Status::Running,
            error: None,
            scenario: ScenarioId { name: "tiny".into(), hash: "00ff".into() },
            method: "hgp".into(),
            seeds: Seeds { run: 1, partition: 2, class_order: 3 },
            data: Some(Source { name: "digits".into(), digest: "aa".into() }),
            class_names: ClassNames::new(vec!["cat".into(), "emu, young".into()]),
            validation: Some(HeldOut { fraction: 0.2, evaluate: Evaluated::Validation }),
            backbone: None,
            level: Level::N,
            workers: 2,
            pack: 1,
            devices: cpu(),
            compute: full_precision(),
            machine: Machine::here(),
            provenance: Provenance::default(),
            cost: Cost::started_now(),
            ranks: Vec::new(),
            lost_ranks: Vec::new(),
            forked: None,
            resumed: 0,
            events: None,
            digests: None,
        };
        let text = manifest.to_json();
        assert!(text.contains("\"status\": \"running\"") && !text.contains("digests"));
        assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap(), manifest);
        // One of a version that did not say when it began.
        let mut old: serde_json::Value = serde_json::from_str(&text).unwrap();
        old.as_object_mut().unwrap().remove("started");
        let old: Manifest = serde_json::from_value(old).unwrap();
        assert_eq!(old, Manifest { cost: Cost::default(), ..manifest });
    }

    /// One of a version whose numbers followed the processor, computed by two kinds of machines.
    #[test]
    fn a_manifest_of_mixed_machines_is_still_read() {
        let machine = |kernels: &str| {
            serde_json::json!({
                "cpu": "a", "gemm": kernels, "features": [], "cores": 2, "platform": "linux-x86_64"
            })
        };
        let [wide, narrow] = ["x86-v4 (avx512f)", "x86-v3 (fma)"].map(machine);
        let text = serde_json::json!({
            "format": FORMAT, "fedcast": "0.1.0", "status": "done",
            "scenario": {"name": "tiny", "hash": "00ff"}, "method": "hgp",
            "seeds": {"run": 1, "partition": 2, "class_order": 3}, "data": null, "backbone": null,
            "level": "T", "workers": 2, "machine": wide,
            "ranks": [{
                "rank": 1, "host": "b", "workers": 2, "devices": ["cpu"], "jobs": 3,
                "machine": narrow,
            }],
        });
        let old: Manifest = serde_json::from_value(text).unwrap();
        assert_eq!((old.level, &*old.machine.arithmetic), (Level::E, "by-cpu"));
        assert_eq!(old.ranks[0].machine.vectors, "x86-v3 (fma)");
    }
}
