//! Promises proved by running `fedcast`: its commands, their exit codes, what they write and what people read.
//!
//! Every run is a separate process in its own temporary folder, so tests do not disturb each other, except
//! in how long they take: nothing here may depend on how fast a machine is or on who else is busy.

#![allow(clippy::disallowed_methods, reason = "tests compare with other arithmetic")]

mod arithmetic;
mod arms;
mod backbones;
mod bias;
mod class_names;
mod cli_errors;
mod cli_texts;
mod client_tasks_cli;
mod columns;
mod command;
mod compare;
mod confusion;
mod devices;
mod documents;
mod dummy_clients;
mod estimate;
mod export;
mod extends;
mod extractors;
mod feature_cache;
mod fedhaf;
mod fetch;
mod figures;
mod first_hour;
#[cfg(unix)]
mod foreign_files;
mod fork;
mod given;
mod ignored;
#[cfg(unix)]
mod interrupt;
mod invert;
mod lora;
mod manifest;
mod migrate;
mod mistakes;
mod new;
mod own_data;
mod own_method;
mod paper_table;
mod participation_table;
mod partition_table;
mod performance_table;
mod plan_assets;
mod plan_bytes;
mod plan_faults;
mod plan_work;
mod printed;
mod profile;
mod readme;
mod recomputed;
mod reference;
mod refusals;
mod replay;
mod report;
mod restart;
mod resume;
mod run_document;
mod runs;
mod screen;
mod several_processes;
mod stateless;
mod study;
mod subsets;
mod tables;
mod take_up;
mod tensorboard;
mod text;
mod trackers;
mod untested;
mod validation;
mod weights;
mod what_if;
