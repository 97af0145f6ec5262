//! What a method is: layouts of its messages, pure functions over them, and a server with a memory. Nothing here
//! knows actors, channels, files or the command line.
//!
//! A message is data ([`Message`]), and so is what becomes of it ([`Layout`]): the engine packs, sizes, checks, folds,
//! discounts, clips, noises, masks and saves it from one declaration. Most methods average parameters and stand on the
//! base of those methods; others implement [`Method`] and [`Server`].
//!
//! A round, as a method sees it:
//! 1. [`Method::seats`] and [`Server::broadcast`] give one Down per seat;
//! 2. [`Method::train`] answers each with an Up;
//! 3. [`Method::lift`] makes of an Up what is folded, in most methods the Up itself; the engine folds it as the
//!    layout says, in a fixed tree over seats;
//! 4. [`Server::end_round`] takes what it [folded](Folded) to and learns.

mod around;
mod average;
mod classifier;
mod error;
mod failure;
mod folded;
mod lab;
mod layout;
mod message;
mod method;
mod numbered;
mod parameters;
mod period;
mod predictor;
mod profile;
mod seat;
mod seating;
mod services;
mod sketch;
mod staged;
mod state;
mod vectors;

pub use around::{MethodWrapper, ServerWrapper, Wrapped};
pub use average::ParameterAverage;
pub use error::PolicyError;
pub use failure::Failure;
pub use folded::{Aggregate, KeptUpload, UploadMeta, map_averaged, masked_contribution};
pub use lab::RunContext;
pub use layout::{
    Aggregation, AssetSpec, AveragingGroup, Mean, MessageSpec, StalenessRule, TensorSpec,
    TensorStructure, UploadSize, Weight,
};
pub use message::{Asset, Message};
pub use method::{
    ClientResult, Member, MessageKind, Method, Metrics, MissedTask, RoundWork, Server,
};
pub use numbered::ElementwiseAverage;
pub(crate) use parameters::KINDS;
pub use parameters::{kind_of, parameter_sections, parameter_sketches, parameters_of};
pub use period::Stage;
pub use predictor::{Predictor, Scope, predictor_on};
pub use profile::{MemoryFootprint, MethodProfile};
pub use seat::{CohortRule, Participant, ParticipantKind, Phase, Role, RoundContext};
pub use seating::{each_changed, one_participant_per_client, shared};
pub use services::{Capability, CapabilityError, Restriction, check_capability, upload_layouts};
pub use sketch::{ClassCounts, ExchangeFacts, ExchangeShape, ModelFacts, WireForm};
pub use staged::Composed;
pub use state::ClientState;
pub use vectors::{vector_names, vector_places, vector_section, vector_tensors, vectors_of};
