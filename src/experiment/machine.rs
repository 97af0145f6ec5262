//! Machine of a run, and the rule of its arithmetic.
//!
//! Bits of a run depend on scenario, seeds, version and [`ARITHMETIC`], and on nothing else: not on the processor, its
//! vectors and caches, the number of workers, or the C library. The rest is for people who read a manifest.

use serde::{Deserialize, Serialize};

use crate::document::Document;
use crate::numerics::vectors::Vectors;

/// Name of the rule by which all sums and products round, in manifests and between processes.
///
/// Runs of one version and one arithmetic have the same bits on any machine. The name must be raised (`fixed-2`, ...)
/// with every change of a fixed order of operations: the rule of products, the lanes or tree of a sum, a factorization,
/// an approximation of a function. Feature files, runs to be resumed and other processes of the old name are refused
/// then, and the frozen table is recorded again.
pub const ARITHMETIC: &str = "fixed-1";

/// [`Machine::arithmetic`] of manifests of early versions, whose products depended on the processor.
pub(super) const BY_CPU: &str = "by-cpu";

/// The machine a run was computed on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Document)]
pub struct Machine {
    /// Rule of all sums and products; equal rules and versions give equal numbers.
    ///
    /// [`ARITHMETIC`] of the program; `by-cpu` in manifests from before it had a name.
    #[serde(default = "by_cpu")]
    pub arithmetic: String,
    /// Model of the processor.
    pub cpu: String,
    /// Path of vector instructions: `portable`, `avx2` or `avx512`.
    ///
    /// No result depends on it. (Once called `gemm`.)
    #[serde(alias = "gemm")]
    pub vectors: String,
    /// Instruction sets that matter to speed.
    pub features: Vec<String>,
    /// Logical cores that the process may use.
    pub cores: usize,
    /// Operating system and architecture.
    pub platform: String,
}

impl Machine {
    /// Returns the machine that this process runs on.
    pub fn here() -> Machine {
        Machine {
            arithmetic: ARITHMETIC.to_owned(),
            cpu: cpu_model().unwrap_or_else(|| "unknown".to_string()),
            vectors: Vectors::of_machine().to_string(),
            features: features().iter().map(ToString::to_string).collect(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            platform: format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }
}

fn by_cpu() -> String {
    BY_CPU.to_owned()
}

#[cfg(target_arch = "x86_64")]
fn features() -> Vec<&'static str> {
    let mut found = Vec::new();
    if std::is_x86_feature_detected!("avx") {
        found.push("avx");
    }
    if std::is_x86_feature_detected!("fma") {
        found.push("fma");
    }
    if std::is_x86_feature_detected!("avx2") {
        found.push("avx2");
    }
    if std::is_x86_feature_detected!("avx512f") {
        found.push("avx512f");
    }
    if std::is_x86_feature_detected!("avx512bf16") {
        found.push("avx512bf16");
    }
    found
}

#[cfg(target_arch = "aarch64")]
fn features() -> Vec<&'static str> {
    vec!["neon"]
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn features() -> Vec<&'static str> {
    Vec::new()
}

/// Returns the CPU's model name as Linux reports it; on other systems "unknown".
fn cpu_model() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_names_its_arithmetic_and_path() {
        let here = Machine::here();
        assert_eq!(here.arithmetic, ARITHMETIC);
        assert!(["portable", "avx2", "avx512"].contains(&here.vectors.as_str()), "{here:?}");
        assert!(here.cores >= 1);
        let text = serde_json::to_string(&here).unwrap();
        assert_eq!(serde_json::from_str::<Machine>(&text).unwrap(), here);
    }

    #[test]
    fn an_old_machine_is_read_with_arithmetic_by_its_cpu() {
        let text = r#"{"cpu": "a", "gemm": "x86-v4 (avx512f)", "features": ["avx"], "cores": 2,
                       "platform": "linux-x86_64"}"#;
        let old: Machine = serde_json::from_str(text).unwrap();
        assert_eq!((&*old.arithmetic, &*old.vectors), ("by-cpu", "x86-v4 (avx512f)"));
    }
}
