//! A run as a whole: assembled from a scenario, driven, recorded, replayed, verified, planned.

mod machine;
mod manifest;
mod run_directory;

pub use machine::Machine;
pub use manifest::{FORMAT, Level, Manifest, ScenarioId, Seeds, Source, Status};
pub use run_directory::{DirectoryError, RunDirectory, names, read_manifest, write_atomically};
