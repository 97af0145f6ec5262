//! Promises proved by running `fedcast`: its commands, their exit codes, what they write and what people read.
//!
//! Every run is a process of its own in a temporary folder of its own, so tests do not disturb each other, except
//! in how long they take: nothing here may depend on how fast a machine is or on who else is busy.

mod backbones;
mod bias;
mod cli_errors;
mod cli_texts;
mod command;
mod devices;
mod dummy_clients;
mod extends;
mod extractors;
mod feature_cache;
mod fedhaf;
#[cfg(unix)]
mod foreign_files;
#[cfg(unix)]
mod interrupt;
mod plan_bytes;
mod profile;
mod readme;
mod replay;
mod restart;
mod resume;
mod slots_cli;
mod stateless;
mod take_up;
mod text;
mod validation;
mod what_if;
