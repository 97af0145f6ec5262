//! `fedcast doctor`: report on this machine. Missing parts are reported; they are no errors.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::failure::CliError;
use super::{Exit, OutputFormat, print_json, print_text};
use crate::document::Document;
use crate::experiment::estimate::cache_folder;
use crate::experiment::{Machine, commit};
use crate::fetch::Settings;
use crate::model::{DeviceSpec, GpuMemory};
use crate::numerics::denormals;
use crate::numerics::vectors::{VARIABLE, Vectors};
use crate::quantity::Bytes;
use crate::scenario::{Compute, DeviceName};

/// Show what this machine has: vectors, threads, memory, GPUs, caches, free disk, data and weights
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast doctor
  fedcast doctor --format json        attach this to a bug report

Nothing is changed, and a missing part is no error. Data and weights are those that `fedcast fetch`
downloaded and those in the folders `data` and `weights` of the current folder.")]
pub struct DoctorArgs {
    /// Format of results on stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Report on this machine, as `--format json` prints it.
#[derive(Debug, Serialize, Document)]
pub(super) struct MachineReport {
    /// Version of fedcast.
    version: &'static str,
    /// Commit of the source, if the build recorded it.
    commit: Option<String>,
    #[document(of = "this machine")]
    machine: Machine,
    /// False if a library loaded with fast math flushes denormal numbers to zero.
    denormals_kept: bool,
    /// Memory of the machine.
    memory_bytes: Option<u64>,
    /// Available memory.
    memory_free_bytes: Option<u64>,
    /// True if this build supports GPUs.
    gpu_build: bool,
    /// GPUs that can be opened.
    gpus: Vec<Gpu>,
    /// Folder of caches; none if there is no home folder.
    caches: Option<Caches>,
    /// Free space at the current folder.
    disk_free_bytes: Option<u64>,
    /// Data sets that are here.
    data: Vec<Item>,
    /// Weights that are here.
    weights: Vec<Item>,
}

#[derive(Debug, Serialize, Document)]
struct Gpu {
    /// Name in scenarios.
    name: String,
    /// Memory of the GPU.
    memory_bytes: Option<u64>,
}

/// This user's folder of caches.
#[derive(Debug, Serialize, Document)]
struct Caches {
    /// Path.
    folder: PathBuf,
    /// Contents.
    parts: Vec<Item>,
    /// Free space at the folder.
    disk_free_bytes: Option<u64>,
}

/// A file or folder with its size.
#[derive(Debug, Serialize, Document)]
struct Item {
    /// Name in its folder.
    name: String,
    /// Size of all files.
    bytes: u64,
}

/// Examines the machine and prints the report.
pub fn execute(args: &DoctorArgs) -> Result<Exit, CliError> {
    let found = look();
    match args.format {
        OutputFormat::Human => print_text(&report_text(&found))?,
        OutputFormat::Json => print_json(&found)?,
    }
    Ok(Exit::Done)
}

fn look() -> MachineReport {
    let caches = cache_folder().map(|folder| Caches {
        parts: items(&folder),
        disk_free_bytes: free(&folder),
        folder,
    });
    let settings = Settings::from_env();
    MachineReport {
        version: env!("CARGO_PKG_VERSION"),
        commit: commit(),
        machine: Machine::here(),
        denormals_kept: denormals::are_kept(),
        memory_bytes: memory("MemTotal:"),
        memory_free_bytes: memory("MemAvailable:"),
        gpu_build: cfg!(feature = "cuda"),
        gpus: gpus(),
        caches,
        disk_free_bytes: free(Path::new(".")),
        data: items(&settings.data).into_iter().chain(items(Path::new("data"))).collect(),
        weights: items(&settings.hub).into_iter().chain(items(Path::new("weights"))).collect(),
    }
}

/// Reads a line of `/proc/meminfo`, in bytes; `None` on systems other than Linux.
fn memory(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// Returns the GPUs that can be opened, by index, up to the first that cannot.
fn gpus() -> Vec<Gpu> {
    if !cfg!(feature = "cuda") {
        return Vec::new();
    }
    let open = |index| DeviceSpec::open(DeviceName::Cuda(index), Compute::Auto).ok();
    let places = (0..).map_while(|index| Some((index, open(index)?)));
    let gpu = |(index, place): (usize, DeviceSpec)| Gpu {
        name: DeviceName::Cuda(index).to_string(),
        memory_bytes: GpuMemory::of(&place.device).and_then(|memory| memory.total().ok()),
    };
    places.map(gpu).collect()
}

/// Returns the free bytes for this user on the file system that holds `path`, which need not exist.
fn free(path: &Path) -> Option<u64> {
    let path = std::path::absolute(path).ok()?;
    let there = path.ancestors().find(|folder| folder.exists())?;
    free_at(there)
}

#[cfg(unix)]
fn free_at(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

#[cfg(not(unix))]
fn free_at(_: &Path) -> Option<u64> {
    None
}

/// Lists a folder, sorted by name; empty if there is no such folder.
fn items(folder: &Path) -> Vec<Item> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let item = |entry: std::fs::DirEntry| Item {
        name: entry.file_name().to_string_lossy().into_owned(),
        bytes: weight(&entry.path()),
    };
    let mut items: Vec<Item> = entries.flatten().map(item).collect();
    items.sort_by(|a, b| a.name.cmp(&b.name));
    items
}

/// Returns the size in bytes of a file, or of all files in a folder; links are not followed.
fn weight(path: &Path) -> u64 {
    let Ok(about) = std::fs::symlink_metadata(path) else { return 0 };
    if !about.is_dir() {
        return about.len();
    }
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    entries.flatten().map(|entry| weight(&entry.path())).sum()
}

fn report_text(found: &MachineReport) -> String {
    let mut text = String::new();
    let mut line = |word: &str, says: String| {
        let _ = writeln!(text, "{word:12}{says}");
    };
    let commit = found.commit.as_ref().map_or(String::new(), |commit| format!(", commit {commit}"));
    line("fedcast", format!("{}{commit}, {}", found.version, found.machine.platform));
    let Machine { cpu, cores, features, arithmetic, .. } = &found.machine;
    line("processor", format!("{cpu}, {cores} threads; instruction sets: {}", words(features)));
    line("vectors", vectors(Vectors::of_machine(), Vectors::of_hardware()));
    let denormals = match found.denormals_kept {
        true => "denormals are kept",
        false => {
            "a library in this process (LD_PRELOAD?) flushes denormals to zero: numbers differ from other machines"
        }
    };
    line("arithmetic", format!("{arithmetic}: the same bits on any machine; {denormals}"));
    let amount = |bytes: Option<u64>| bytes.map_or("unknown".to_owned(), |b| Bytes(b).to_string());
    let (all, left) = (amount(found.memory_bytes), amount(found.memory_free_bytes));
    line("memory", format!("{all}, {left} available"));
    line(
        "gpus",
        match (found.gpu_build, found.gpus.is_empty()) {
            (false, _) => {
                "not supported by this build; `cargo build --features cuda` adds them".to_owned()
            }
            (true, true) => "none that can be opened".to_owned(),
            (true, false) => {
                let each = found
                    .gpus
                    .iter()
                    .map(|gpu| format!("{} ({})", gpu.name, amount(gpu.memory_bytes)));
                each.collect::<Vec<_>>().join(", ")
            }
        },
    );
    line("disk", format!("{} free here", amount(found.disk_free_bytes)));
    match &found.caches {
        None => line("caches", "no folder; name one in FEDCAST_CACHE".to_owned()),
        Some(Caches { folder, parts, disk_free_bytes }) => {
            let free = amount(*disk_free_bytes);
            line("caches", format!("{}, {free} free: {}", folder.display(), listed(parts)));
        }
    }
    line("data", listed(&found.data));
    line("weights", listed(&found.weights));
    text.push_str("1 MB is 10^6 bytes.\n");
    text
}

/// Describes the vector instructions in use, the reason, and their speed.
fn vectors(in_use: Vectors, widest: Vectors) -> String {
    let why = match in_use < widest {
        true => format!(" of at most {widest}, as set in {VARIABLE}"),
        false => String::new(),
    };
    let speed = match (in_use, widest) {
        (Vectors::Avx512Bf16, _) => {
            "products in bf16 by instruction (devices.compute = \"bf16\" is faster)"
        }
        (Vectors::Baseline, Vectors::Baseline) => {
            "slow, because this processor has no AVX2 with FMA, for which products are written; \
             products in bf16 step by step (slower than f32)"
        }
        (Vectors::Baseline, _) => "slow; products in bf16 step by step (slower than f32)",
        _ => "products in bf16 step by step (slower than f32)",
    };
    format!("{in_use}{why}; {speed}")
}

fn words(features: &[String]) -> String {
    if features.is_empty() { "none that matter".to_owned() } else { features.join(", ") }
}

fn listed(items: &[Item]) -> String {
    let each = items.iter().map(|item| format!("{} {}", item.name, Bytes(item.bytes)));
    let each: Vec<String> = each.collect();
    if each.is_empty() { "nothing yet".to_owned() } else { each.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_path_says_why_it_is_slow() {
        let text = vectors(Vectors::Baseline, Vectors::Baseline);
        assert!(text.starts_with("portable; slow") && text.contains("no AVX2 with FMA"), "{text}");
        let text = vectors(Vectors::Baseline, Vectors::Avx512);
        assert!(text.contains("of at most avx512, as set in FEDCAST_ARITHMETIC; slow"), "{text}");
        assert!(!text.contains("no AVX2"), "{text}");
        let text = vectors(Vectors::Avx2, Vectors::Avx2);
        assert!(text.starts_with("avx2; ") && !text.contains("slow;"), "{text}");
        assert!(vectors(Vectors::Avx512Bf16, Vectors::Avx512Bf16).contains("by instruction"));
    }
}
