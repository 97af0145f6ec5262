//! One federation on several machines: the processes ("ranks") that compute a run together.
//!
//! Rank 0 has the scenario, the run directory and the event loop, and works as well; the others assemble the same run
//! from the scenario that rank 0 sends them, and work. Before the first job each reports what its bits depend on:
//! version, arithmetic, scenario, data and weights. If one differs the run does not begin ([`RanksError::Differ`]);
//! machines and builds may differ. From then on they compute as [remote ranks](crate::federation::remote).
//!
//! ```
//! use fedcast::experiment::ranks::{ComputeResources, Ranks};
//! use fedcast::experiment::assemble::assemble_by;
//! use fedcast::federation::remote::InjectedFault;
//! use fedcast::federation::{Interrupt, MemorySink, simulate};
//! use fedcast::methods::Registry;
//! use fedcast::scenario::Scenario;
//!
//! let text = r#"
//!     schema = 2
//!     data = { source = "digits", subset = 6 }
//!     tasks = { sizes = [5, 5] }
//!     partition = { kind = "iid" }
//!     method = { name = "hgp", prompt_len = 4 }
//!     federation = { clients = 3, rounds = 1 }
//!     client = { epochs = 1 }
//! "#;
//! let methods = Registry::builtin();
//! let read = Scenario::from_toml(text, "small.toml", ".".as_ref(), &[], &methods)?;
//! let digests = |ranks: Option<Ranks>| -> Result<_, Box<dyn std::error::Error>> {
//!     let assembly = assemble_by(&read.scenario, &methods, &ComputeResources { workers: None, ranks })?;
//!     let journal = MemorySink::default();
//!     simulate(assembly.setup, Box::new(journal.clone()), Box::new(()), Interrupt::default())?;
//!     Ok(journal.digests())
//! };
//! // Two threads of this process stand for two more processes.
//! let ranks = Ranks::loopback(2, InjectedFault::Nothing)?;
//! assert_eq!(digests(Some(ranks))?, digests(None)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod compute_resources;
mod entry;
mod error;
mod fingerprint;
mod fingerprint_diff;
mod handshake;
#[cfg(feature = "mpi")]
pub mod mpi;

pub use compute_resources::ComputeResources;
pub use entry::{LostRank, RankEntry};
pub use error::RanksError;
pub use fingerprint::RankFingerprint;
pub use handshake::{RankRoster, Ranks, work};
