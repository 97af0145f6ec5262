//! Promises proved through the library: the engine, its rules and what reads scenarios and data.
//!
//! All integration tests are in three programs (here, `cli` and `methods`), because each of them links every
//! dependency. Tests of one program share a process and run at the same time, so none changes what the process
//! has one of: its environment, its folder. Measurements of a whole process run in a separate one (`memory`).
//! Nothing here runs `fedcast` itself, which is `cli`'s: a process that starts others while a run directory is
//! locked hands the lock on to them for a moment.

#![allow(clippy::disallowed_methods, reason = "tests compare with other arithmetic")]

mod arrivals;
mod asynchronous;
mod client_tasks;
mod crash_points;
mod data_errors;
mod determinism;
mod distributions;
mod every_scenario_checks;
mod faults;
mod frozen;
mod fuzz;
mod ignored;
mod journal_format_1;
mod layers;
mod live_uploads;
mod malicious;
mod memory;
mod method_files;
mod packs;
mod privacy;
mod promises;
mod published;
mod ranks;
mod restart;
mod resume;
mod same_bits;
mod scenario_errors;
mod schema;
mod server_time;
mod services;
mod shaker;
mod softmax;
