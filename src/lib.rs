//! **fedcast** simulates federated class-incremental learning (FCIL) in one process.
//!
//! A [scenario file](scenario) says what happens. The server and every client are **actors**
//! that exchange **typed messages** over simulated links; compute runs as pure jobs on **device
//! workers**; a **method** (HGP, FedAvg, ...) is a pair of server and client **policies**. Three
//! things follow that are hard to have elsewhere:
//!
//! * **Exact bytes.** Every message is a typed frame; its size is what the encoder writes, and
//!   each link crossing is charged once, by kind, direction and outcome.
//! * **Replay.** The same scenario and seeds give the same journal, byte for byte, whatever the
//!   number of workers. `fedcast replay RUN --verify` executes again and stops at the first
//!   difference.
//! * **Virtual time.** Compute and links take simulated nanoseconds, so slow clients and lost
//!   messages are events in a fixed order, not accidents of the machine.
//!
//! The [guide] has a page on [running](guide::running), one on [scenarios](guide::scenarios) with every key,
//! one on the [methods](guide::methods), and one on the [architecture](guide::architecture): the life of a
//! round, of an upload, and how replay works.
//!
//! # The house
//! A floor imports only from floors below it.
//!
//! | floor | what lives there |
//! |---|---|
//! | [`cli`] | one file per command, exit codes |
//! | [`prelude`] | names that programs with fedcast need most; `examples/` uses nothing else |
//! | [`page`] | a study or any runs as one HTML page: arms, plots, tables |
//! | [`study`] | many runs as one file: grid, seeds, processes, tables |
//! | [`results`] | run directories read back: figures by name, spreads, paired differences, tables as files |
//! | [`report`] | tables, CSV, JSON, progress: consumers of the event stream |
//! | [`experiment`] | a run as a whole: assemble, record, checkpoint, resume, replay, verify, what if, plan, export, ranks |
//! | [`federation`] | the actors and the physics: event loop, server, clients, links, devices, ledger |
//! | [`methods`] | one folder or file per method, and the registry |
//! | [`policy`] | what a method implements and the run context it is given |
//! | [`learning`] | local training, optimizers, losses, evaluation, metrics |
//! | [`model`] | backbones, their differentiable ops, adaptations, prompts, weights |
//! | [`data`] | data sets, transforms, tasks, partitions, batches |
//! | [`wire`] | frames, codecs, the counting encoder |
//! | [`scenario`] | the schema, strict reading with spans, overrides |
//! | [`numerics`] | streams of randomness, distributions, alias tables, Gaussians |
//! | [`fetch`] | data sets and weights by name: where they lie here, and bringing them |
//! | [`weights`] | network weights as other programs wrote them: containers, families of names, what is left over |
//! | [`files`] | reading within bounds, writing whole: every file that others name or a run leaves |
//! | [`exit`] | exit codes of commands, and the trait of errors that have one |
//! | [`quantity`] | what is counted: clients, rounds, bytes, virtual time |
//! | [`document`] | keys of the JSON documents of a run, read off the types that are serialized |
//!
//! # A round
//! The event loop pops the next envelope by `(virtual time, class, actor, sequence)`, sends its message to the actor,
//! awaits the answer and carries it out before it pops another. The server draws a cohort, its policy broadcasts one
//! download per participant, links deliver them, clients train as device jobs, their uploads travel back, are checked,
//! lifted to parts and merged in a fixed binary tree over participants; the round closes with the policy's server step
//! and an evaluation. Journal, ledger, metrics and progress all read one stream of [`federation::Event`]s; there is no
//! other way out of the simulation.
//!
//! # A past that is told
//! A checkpoint holds only what the journal does not: the server's state, the clients' and the downloads of
//! participants that are out. Queues, clocks and accounts are not written down: the recorded journal is told to the
//! same actors, which answer from it instead of computing, until it ends. The same mechanism resumes a run
//! that was killed, verifies one from a round on, and times one again over other links
//! ([`federation::RecordedRun`]).
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
//!     schema = 1
//!     data = { source = "digits", subset = 12 }
//!     tasks = { sizes = [5, 5] }
//!     partition = { kind = "iid", min_samples = 2 }
//!     method = { name = "hgp", prompt_len = 8 }
//!     federation = { clients = 3, rounds = 1 }
//!     client = { epochs = 1, batch = 16 }
//! "#;
//! let methods = Registry::builtin();
//! let scenario = Scenario::from_toml(text, "small.toml", Path::new("."), &[], &methods)?.scenario;
//!
//! let journal = MemorySink::default();
//! let setup = assemble(&scenario, &methods, Some(2))?.setup;
//! simulate(setup, Box::new(journal.clone()), Box::new(()), Interrupt::default())?;
//!
//! let closed = |event: &Event| matches!(event, Event::RoundClosed { folded: 3, .. });
//! assert_eq!(journal.entries().iter().filter(|entry| closed(&entry.event)).count(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Levels of sameness
//! | level | identical | holds for |
//! |---|---|---|
//! | E | cohorts, order, virtual times, outcomes, bytes | any machine, any number of workers |
//! | N | E and every metric and weight, bit for bit | the same, but for GPUs |
//!
//! On GPUs numbers agree with those of a CPU within a tolerance; the same GPU and build give the same twice.

// Named kernels, the allocator and the CUDA driver have their exceptions where they stand.
#![deny(unsafe_code)]
// What cannot fail is said to whoever reads it by `expect`; everything else is an error.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::todo, clippy::unimplemented))]
// Tests may compare with what the C library and candle compute; what they test is checked without them, too.
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
