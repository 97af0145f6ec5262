//! A run as a whole: assembled from a scenario, driven, recorded, replayed, verified, planned.

pub mod assemble;
mod error;
mod execute;
mod journal_file;
mod machine;
mod manifest;
pub mod plan;
mod pretrain;
mod recorder;
mod replay;
mod run_directory;
mod verify;

pub use error::ExperimentError;
pub use execute::{Finished, Run, RunOptions, default_directory};
pub use journal_file::{JournalError, JournalReader, JournalWriter};
pub use machine::Machine;
pub use manifest::{FORMAT, Level, Manifest, ScenarioId, Seeds, Source, Status};
pub use pretrain::{PretrainError, PretrainSummary, pretrain_to};
pub use recorder::Recorder;
pub use replay::{Replayed, replay};
pub use run_directory::{DirectoryError, RunDirectory, names, read_manifest, write_atomically};
pub use verify::{Divergence, Verified, verify};
