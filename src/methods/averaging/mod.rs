//! The base of methods that average parameters: FedAvg, and every method whose [parts](crate::methods::parts) differ
//! from FedAvg's.
//!
//! [`Averager`] makes a [`Method`](crate::policy::Method) of an
//! [`AveragingMethod`](crate::methods::parts::AveragingMethod): it has the messages, the training of packs, the server
//! and its saved state, and asks the parts for the rest. The types that parts are made of are here, too: rows of
//! messages ([`RowSelection`]), declarations of parameters, vectors sent besides them.
//!
//! A task may end with one more exchange ([`FinalExchange`](crate::methods::parts::FinalExchange)), in which every
//! client who took part looks at the global model and reports, without changing it: a Fisher diagonal, sums of
//! features. It counts as a round.
//!
//! The declaration of the parameters determines which of their rows messages carry, and whether late uploads and secure
//! aggregation are possible; methods need no code for it.

mod averager;
mod client_model;
mod closed_round;
mod keeping;
mod model_messages;
mod objective;
mod parameter_vectors;
mod parameters;
mod penalties;
pub(in crate::methods) mod previous;
#[cfg(test)]
pub(in crate::methods) mod quadratics;
mod row_selection;
mod sample_count;
mod server;
mod server_state;
mod settings;
mod training;
mod variates;
mod vector_store;

pub use super::requirement::Requirement;
pub use averager::Averager;
pub(in crate::methods) use averager::{FINAL_EXCHANGE, TRAINING, is_closing};
pub use closed_round::ClosedRound;
pub(in crate::methods) use keeping::RATES;
pub use keeping::{Keeper, Reset, VectorKeeping};
pub use objective::{CrossEntropy, Objective, TrainingStep};
pub(in crate::methods) use parameter_vectors::{ParameterVectors, VectorSums, fitted, zeros_like};
pub use parameters::{AveragedParameter, Parameters, Rows};
pub(in crate::methods) use penalties::{LinearPenalty, ProximalPenalty};
pub use row_selection::{RowPurpose, RowSelection};
pub use sample_count::{SAMPLES, sample_count};
pub use server_state::{LatestTask, ServerState};
pub use settings::{AveragingConfig, ClientWeighting, OldLogits};
pub use training::{LocalTrainingResult, PackClient, PackResult, train_sequentially};
pub(in crate::methods) use training::{first_of, take_single};
#[cfg(test)]
pub(in crate::methods) use variates::renew;
pub use variates::{CONTROL, ControlVariates, LocalTrajectory, Variates};
pub(in crate::methods) use variates::{local_trajectory, with_variates};
pub use vector_store::VectorStore;
