//! A run as a whole: assembled from a scenario, driven, recorded, replayed, verified, planned.

pub mod assemble;
mod error;
mod journal_file;
mod machine;
mod manifest;
pub mod plan;
mod pretrain;
mod recorder;
mod run_directory;

pub use error::ExperimentError;
pub use journal_file::{JournalError, JournalReader, JournalWriter};
pub use machine::Machine;
pub use manifest::{FORMAT, Level, Manifest, ScenarioId, Seeds, Source, Status};
pub use pretrain::{PretrainError, PretrainSummary, pretrain_to};
pub use recorder::Recorder;
pub use run_directory::{DirectoryError, RunDirectory, names, read_manifest, write_atomically};
