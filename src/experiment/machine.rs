//! What the bits of a run depend on beside scenario and seeds: the machine and the build.
//!
//! Level N of sameness (every number, bit for bit) is promised for the same binary on the same
//! class of CPU, because `gemm` picks its kernel by CPU feature and its blocking by cache size.
//! The manifest therefore says which.

use serde::{Deserialize, Serialize};

/// The machine a run was computed on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Model name of the processor.
    pub cpu: String,
    /// Kernel family that matrix products use here.
    pub gemm: String,
    /// Instruction sets found at run time that matter to results.
    pub features: Vec<String>,
    /// Logical cores.
    pub cores: usize,
    /// Operating system and architecture.
    pub platform: String,
}

impl Machine {
    /// Looks at the machine this process runs on.
    pub fn here() -> Machine {
        let features = features();
        Machine {
            cpu: cpu_model().unwrap_or_else(|| "unknown".to_string()),
            gemm: gemm_path(&features).to_string(),
            features: features.iter().map(ToString::to_string).collect(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            platform: format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }
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

fn gemm_path(features: &[&str]) -> &'static str {
    if features.contains(&"avx512f") {
        "x86-v4 (avx512f)"
    } else if features.contains(&"fma") {
        "x86-v3 (fma)"
    } else if features.contains(&"neon") {
        "neon"
    } else {
        "scalar"
    }
}

/// The model name as Linux tells it; other systems keep it elsewhere and read "unknown".
fn cpu_model() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_instruction_set_names_the_kernel() {
        assert_eq!(gemm_path(&["avx", "fma", "avx2", "avx512f"]), "x86-v4 (avx512f)");
        assert_eq!(gemm_path(&["avx", "fma"]), "x86-v3 (fma)");
        assert_eq!(gemm_path(&[]), "scalar");
        assert!(Machine::here().cores >= 1);
    }
}
