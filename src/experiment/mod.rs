//! Runs: assembled from a scenario, executed, recorded, replayed, verified, planned.
//!
//! ```text
//! scenario ──load──▶ Scenario ──blueprint──▶ plan        (no data, no weights)
//!                        └────Run::prepare──▶ execute ──▶ run directory
//! run directory ──replay──▶ reporters                     (no compute)
//!               ├─resume──▶ execute, from the last checkpoint on
//!               ├─fork────▶ execute, from the end of a task on, with another scenario
//!               ├─verify──▶ executed again, compared entry by entry
//!               └─what_if─▶ reporters, with other links, speeds and closing rules (no compute)
//! ```
//! To watch a run, pass it an [`EventSink`](crate::federation::EventSink); the journal, the tables of
//! [`report`](crate::report) and the progress bar are nothing else.
//!
//! ```no_run
//! use fedcast::experiment::{Run, RunOptions, assemble};
//! use fedcast::federation::{Interrupt, MemorySink};
//! use fedcast::methods::Registry;
//! # fn main() -> Result<(), fedcast::experiment::RunError> {
//! let methods = Registry::builtin(); // or with methods of your own
//! let overrides = ["federation.rounds=2".to_string()];
//! let scenario = assemble::load("scenarios/quickstart.toml".as_ref(), &overrides, &methods)?;
//! let run = Run::prepare(&scenario, &methods, &RunOptions::default())?;
//! let watched = MemorySink::default();
//! let readers = vec![Box::new(watched.clone()) as _];
//! let (finished, directory) =
//!     run.execute(readers, Box::new(()), Interrupt::default(), |_, _| Ok(()))?;
//! assert_eq!(watched.digests(), finished.digests);
//! println!("{} entries in {}", watched.entries().len(), directory.path().display());
//! # Ok(())
//! # }
//! ```

pub mod assemble;
mod changes;
mod checkpoint;
mod class_names;
mod directory_error;
mod directory_state;
pub mod estimate;
mod execute;
mod export;
mod fork;
mod input_places;
mod invert;
mod journal_file;
mod machine;
mod manifest;
mod memory;
mod model_file;
mod models;
mod partition;
mod picture;
pub mod plan;
mod provenance;
pub mod ranks;
mod recompute;
mod recorded_advice;
mod recorder;
mod replay;
mod resume;
mod run_directory;
mod run_error;
mod single_task;
mod task_ends;
mod trace;
mod verify;
mod what_if;

pub use class_names::ClassNames;
pub use directory_error::DirectoryError;
pub use directory_state::{DirectoryState, inspect_directory};
pub use execute::{Finished, Run, RunOptions, default_directory};
pub use export::{ExportError, ExportForm, ExportOptions, Exported, ModelOrigin, export};
pub(crate) use fork::earlier_scenario;
pub use fork::{ForkError, ForkOptions, fork};
pub use input_places::NotInputPlace;
pub use invert::{
    FoundImage, INVERSION_RECORD, Inversion, InversionError, InversionOptions, InversionPicture,
    InversionRecord, Original, Reconstruction, TargetKind, has_inversion, invert, picture,
    read_inversion, write_inversion,
};
pub use journal_file::{JournalError, JournalReader, JournalWriter};
pub use machine::{ARITHMETIC, Machine};
pub use manifest::{Before, FORMAT, Forked, Level, Manifest, ScenarioId, Seeds, Source, Status};
pub use memory::keep_freed_memory;
pub use partition::{Holding, holdings};
pub use provenance::{Cost, Origin, Provenance, commit, peak_memory_mb};
pub use recorder::Recorder;
pub use replay::{Replayed, replay};
pub use resume::{ResumeError, ResumeOptions, Resumed, restore_scenario, resume, resume_on};
pub use run_directory::{
    RunDirectory, hold_for_tables, is_held, names, read_manifest, read_summary, was_killed,
    write_atomically, write_atomically_on,
};
pub use run_error::RunError;
pub use single_task::{single_task_accuracies, single_task_table};
pub use verify::{Divergence, Verified, VerifyError, VerifyOptions, verify};
pub use what_if::{WhatIfError, what_if, what_if_scenario};
