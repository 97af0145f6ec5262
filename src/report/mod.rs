//! Reports of a run: tables on stdout, CSV files, progress on stderr.
//!
//! Every report is an [`EventSink`](crate::federation::EventSink) over the journal's entries, so a run and its replay
//! give the same report.
//!
//! ```
//! use fedcast::federation::{EndReason, Entry, Event, EventSink};
//! use fedcast::quantity::VirtualTime;
//! use fedcast::report::{Summary, final_table};
//! let mut summary = Summary::new("nothing");
//! let event = Event::RunEnded { reason: EndReason::Interrupted };
//! summary.record(&Entry { seq: 0, at: VirtualTime(5), event, numbers: None })?;
//! assert!(final_table(&summary).ends_with("The run was interrupted.\n"));
//! # Ok::<(), fedcast::federation::SinkError>(())
//! ```

mod accuracy;
mod answers;
mod bias;
mod client_tasks;
pub mod column;
pub(crate) mod csv;
pub mod dictionary;
mod execute;
mod extraction;
mod final_table;
mod kept_table;
mod pace;
pub(crate) mod parquet;
mod partition_table;
mod plan_table;
mod progress;
mod published;
mod retiming;
mod sampled;
pub(crate) mod screen;
mod server_steps;
mod shared;
pub(crate) mod summary;
pub mod tables;
mod tensorboard;
pub(crate) mod text_table;
mod time_parts;
mod wall;
mod wall_rounds;
mod watcher;
pub(crate) mod words;

pub use accuracy::Accuracy;
pub use bias::{BiasReport, TaskBias};
pub use client_tasks::{ClientTaskMeasures, ClientTaskPoint, ClientTaskReport, TrainedAlone};
pub use execute::{Executed, execute};
pub use final_table::final_table;
pub use partition_table::partition_table;
pub use plan_table::{estimate_lines, plan_table};
pub use progress::Progress;
pub(crate) use progress::say;
pub use published::{Published, PublishedNumber, PublishedStages};
pub use retiming::{Timing, retiming_table};
pub use shared::{Both, Shared};
pub use summary::Summary;
pub use text_table::{TextTable, grouped, percent, wrapped};
pub use time_parts::{Stopwatch, TimeParts};
pub use wall::{Profile, TaskClock, WallTimes};
pub use wall_rounds::WallTable;
