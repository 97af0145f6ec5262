//! Studies: many runs from one file, executed as resumable processes, with common tables.
//!
//! ```text
//! study file ──load──▶ Study ──cells──▶ Cell ──scenario──▶ Scenario (file + changes + seeds)
//!                                         └──execute──▶ processes of `fedcast run`, jobs at once
//! directory  ──collect──▶ Results ──▶ cells, rounds, table, paired
//! ```
//! A cell is a point of the grid (or an extra one) with one of the seeds. An existing run is identified by its
//! scenario's hash: a finished run with the same hash is done, an unfinished one is resumed, and another hash is an
//! error. Cells are separate processes of the program, so that a crash affects only one of them. Neither their order
//! nor the number of simultaneous processes changes a result.
//!
//! ```
//! use std::path::Path;
//! use fedcast::study::Study;
//!
//! let text = r#"
//!     schema = 2
//!     base = "scale.toml"
//!     replicates = 2
//!
//!     [axes]
//!     clients = { key = "federation.clients", values = [10, 50] }
//!
//!     [axes.method]
//!     fedavg = { method = { name = "fedavg", train = "head" } }
//!     hgp = { method = { name = "hgp", train = "head" } }
//!
//!     [[exclude]]
//!     method = "fedavg"
//!     clients = 50
//! "#;
//! let study = Study::from_toml(text, "scale.study.toml", "scale", Path::new("scenarios/studies"))?;
//! let cells = study.cells();
//! assert_eq!(cells.len(), 6);
//! assert_eq!(cells[3].path, Path::new("clients=10,method=hgp/seed-2"));
//! # Ok::<(), fedcast::study::StudyError>(())
//! ```

mod axes;
mod cell;
mod cell_settings;
mod child;
mod clash;
mod collect;
mod compare;
mod dictionary;
mod directory;
mod effective;
mod error;
mod execute;
mod file;
mod names;
mod outlook;
mod pace;
mod prepare;
mod progress;
mod queue;
mod report_section;
mod run_section;
mod seeds;
mod selection;
mod set_clash;
pub mod tables;

pub use axes::{Axis, AxisArm, Pick};
pub use cell::{Cell, Point};
pub use cell_settings::CellSettings;
pub use child::{Ended, LEASH, run_cells_by};
pub use collect::{Outcome, Outcomes};
pub use compare::{Baseline, Compare};
pub use dictionary::files;
pub use directory::{CellFailure, CellState, StudyDirectory};
pub use error::StudyError;
pub use execute::{ProcessPool, StopReason, StudyEvent};
pub use file::{Extra, SCHEMA, Study, default_directory};
pub use names::STUDY_FILE;
pub use outlook::{PlannedCell, StudyForecast};
pub use pace::Pace;
pub use prepare::{Invalid, PreparedCell, first_errors, merge_findings, notes, overrides, prepare};
pub use progress::StudyProgress;
pub use queue::Queue;
pub(crate) use report_section::shown_arm;
pub use report_section::{GridAxes, Plot, ReportSection};
pub use run_section::{Limit, OnError, Order, RunSection, ShardChoice};
pub use seeds::Replicate;
pub use selection::{Only, Shard};
pub use set_clash::SetClash;
