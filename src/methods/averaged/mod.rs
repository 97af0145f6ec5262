//! The base of methods that average parameters: FedAvg, and every method whose [parts](crate::methods::parts) differ from
//! FedAvg's.
//!
//! [`Base`] makes a [`Method`](crate::policy::Method) of an [`AveragingMethod`](crate::methods::parts::AveragingMethod): it
//! has the messages, the training of packs, the server and its saved state, and asks the parts for the rest. What parts are
//! made of lives here, too: rows of messages ([`Cut`]), declarations of parameters, vectors that travel beside them.
//!
//! A task may end with one more exchange ([`FinalExchange`](crate::methods::parts::FinalExchange)), in which everybody who
//! took part looks at the global model and reports, without changing it: a Fisher diagonal, sums of features. It takes a
//! number of a round.
//!
//! Which rows of a parameter travel, who may be late, and what may be added in secret follow from the declaration of the
//! parameters; no method writes a line for it.

mod base;
mod beside;
mod closing;
mod cut;
mod keeping;
mod memory;
mod objective;
mod parameters;
pub(in crate::methods) mod previous;
#[cfg(test)]
pub(in crate::methods) mod quadratics;
mod sample_count;
mod server;
mod settings;
mod slopes;
mod training;
mod variates;
mod vectors;

pub use super::requirement::Requirement;
pub use base::Averager;
pub(in crate::methods) use base::is_closing;
pub(in crate::methods) use beside::{ParameterVectors, Sums, fitted, zeros_like};
pub use closing::ClosedRound;
pub use cut::{RowPurpose, RowSelection};
pub(in crate::methods) use keeping::RATES;
pub use keeping::{Keeper, Reset, VectorKeeping};
pub use memory::{LatestTask, ServerState};
pub use objective::{CrossEntropy, Objective, TrainingStep};
pub use parameters::{Parameter, Parameters, Rows};
pub use sample_count::{SAMPLES, sample_count};
pub use settings::{AveragingConfig, ClientWeighting, OldLogits};
pub(in crate::methods) use slopes::{LinearPenalty, ProximalPenalty};
pub use training::{LocalTrainingResult, PackClient, PackResult, train_sequentially};
pub(in crate::methods) use training::{first_of, take_single};
#[cfg(test)]
pub(in crate::methods) use variates::renew;
pub use variates::{CONTROL, ControlVariates, LocalTrajectory, Variates};
pub(in crate::methods) use variates::{local_trajectory, with_variates};
pub use vectors::VectorStore;
