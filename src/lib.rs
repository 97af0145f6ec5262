//! A simulator for **federated class-incremental learning** (FCIL).
//!
//! Clients train on classes that arrive in tasks, a server aggregates their updates, and the model must keep its
//! accuracy on earlier tasks. One process simulates the whole federation, with exact bytes, virtual time and runs that
//! repeat bit for bit. Most users need only the program `fedcast` and scenario files, which the
//! [guide](guide::first_hour) introduces. This page is about the library.
//!
//! # A federation from Rust
//! ```
//! use std::path::Path;
//!
//! use fedcast::experiment::assemble::assemble;
//! use fedcast::federation::{Event, Interrupt, MemorySink, simulate};
//! use fedcast::methods::Registry;
//! use fedcast::scenario::Scenario;
//!
//! let text = r#"
//!     schema = 2
//!     data = { source = "digits", subset = 12 }
//!     tasks = { sizes = [5, 5] }
//!     partition = { kind = "iid", min_samples = 2 }
//!     method = { name = "hgp", prompt_len = 8 }
//!     federation = { clients = 3, rounds = 1 }
//!     client = { epochs = 1, batch_size = 16 }
//! "#;
//! let methods = Registry::builtin();
//! let scenario = Scenario::from_toml(text, "small.toml", Path::new("."), &[], &methods)?.scenario;
//!
//! let journal = MemorySink::default();
//! let setup = assemble(&scenario, &methods, Some(2))?.setup;
//! simulate(setup, Box::new(journal.clone()), Box::new(()), Interrupt::default())?;
//!
//! let closed = |event: &Event| matches!(event, Event::RoundClosed { aggregated: 3, .. });
//! assert_eq!(journal.entries().iter().filter(|entry| closed(&entry.event)).count(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `examples/` in the repository has three programs: `fedavg.rs` prints the final table, `own_method.rs` is the whole
//! program `fedcast` with one more method ([`cli::main_with`]), and `read_run.rs` reads run directories. They import
//! only the [`prelude`].
//!
//! # Main types
//! | type | purpose |
//! |---|---|
//! | [`Scenario`](scenario::Scenario) | everything a run depends on, read from TOML and validated |
//! | [`Registry`](methods::Registry) | methods by name; [`with`](methods::Registry::with) adds your own |
//! | [`AveragingMethod`](methods::parts::AveragingMethod) | trait of methods that average parameters, as most do |
//! | [`Method`](policy::Method) | trait of all methods; see [adding a method](guide::adding_a_method) |
//! | [`Setup`](federation::Setup) | a federation that [`simulate`](federation::simulate()) runs in memory |
//! | [`Run`](experiment::Run) | a run with a directory: journal, tables, checkpoints |
//! | [`Event`](federation::Event), [`Entry`](federation::Entry) | records of a run; all reports are made from them |
//! | [`RunRecord`](results::RunRecord), [`Metric`](results::Metric) | finished runs and their metrics |
//!
//! # Guarantees
//! * **Exact bytes.** Every message is a typed frame; its size is what the encoder writes. Each crossing of a link is
//!   charged once, by kind, direction and outcome.
//! * **Replay.** The same scenario and seeds give the same journal, byte for byte, with any number of workers.
//!   `fedcast replay RUN --verify` executes a run again and stops at the first difference.
//! * **Virtual time.** Computation and links take simulated nanoseconds, so slow clients and lost messages are events
//!   in a fixed order, independent of the machine.
//!
//! | level | identical | holds for |
//! |---|---|---|
//! | E | cohorts, order, virtual times, outcomes, bytes | any machine, any number of workers |
//! | N | E and every metric and weight, bit for bit | the same, except GPUs |
//!
//! On GPUs numbers agree with those of a CPU within a tolerance; the same GPU and build give the same numbers again.
//!
//! # Modules
//! A module imports only from modules below its layer; `tests/library/layers` checks that. The page on the
//! [architecture](guide::architecture) describes the layers, a round, an upload, and how replay works.
//!
//! | module | contents |
//! |---|---|
//! | [`cli`] | one file per command, exit codes |
//! | [`prelude`] | names that most programs with fedcast need |
//! | [`page`] | a study or any runs as one HTML page: arms, plots, tables |
//! | [`study`] | many runs from one file: grid, seeds, processes, tables |
//! | [`results`] | run directories read back: metrics, spreads, paired differences, tables as files |
//! | [`report`] | tables, CSV, JSON, progress: consumers of the event stream |
//! | [`experiment`] | a run as a whole: assemble, record, resume, replay, verify, retime, fork, plan, export, ranks |
//! | [`federation`] | event loop, server, clients, links, workers, ledger of bytes |
//! | [`methods`] | one folder or file per method, and the registry |
//! | [`policy`] | interface that methods implement, and the run context |
//! | [`learning`] | local training, optimizers, losses, evaluation, metrics |
//! | [`model`] | backbones, their differentiable operations, adaptations, prompts, weights |
//! | [`data`] | data sets, transforms, tasks, partitions, batches |
//! | [`wire`] | frames, codecs, the counting encoder |
//! | [`scenario`] | schema, strict reader with places of errors, overrides |
//! | [`fetch`] | data sets and weights by name: local folders and downloads |
//! | [`weights`] | network weights as other programs write them: containers, families of names, unused tensors |
//! | [`files`] | bounded reading and atomic writing of files |
//! | [`numerics`] | random streams, distributions, alias tables, Gaussians |
//! | [`exit`] | exit codes of commands, and the trait of errors that have one |
//! | [`quantity`] | types of clients, rounds, bytes, virtual time |
//! | [`document`] | keys of the JSON documents of a run, derived from the serialized types |
//! | [`guide`] | the guide, page by page |

#![warn(missing_docs)]
// Named kernels, the allocator and the CUDA driver have their exceptions where they are.
#![deny(unsafe_code)]
// `expect` states why a call cannot fail; everything else is an error.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::todo, clippy::unimplemented))]
// Tests may compare results with the C library and candle; other checks do not need them.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod cli;
pub mod data;
pub mod document;
pub mod exit;
pub mod experiment;
pub mod federation;
pub mod fetch;
pub mod files;
pub mod guide;
pub mod learning;
pub mod methods;
pub mod model;
pub mod numerics;
pub mod page;
pub mod policy;
pub mod prelude;
pub mod quantity;
pub mod report;
pub mod results;
pub mod scenario;
pub mod study;
pub mod weights;
pub mod wire;

#[cfg(test)]
pub(crate) mod golden;
