//! Interface of methods: layouts of their messages, pure functions over them, and a server with a memory.
//!
//! Nothing here knows actors, channels, files or the command line.
//!
//! A message is data ([`Message`]), and so is the rule for its aggregation ([`MessageSpec`]): the engine packs, sizes,
//! checks, aggregates, discounts, clips, noises, masks and saves it from one declaration. Most methods average
//! parameters and stand on the base of those methods; others implement [`Method`] and [`Server`].
//!
//! A round, as a method sees it:
//! 1. [`Method::participants`] and [`Server::broadcast`] give one download per participant;
//! 2. [`Method::train`] answers each with an upload;
//! 3. [`Method::transform_upload`] turns an upload into what is aggregated, in most methods the upload itself; the
//!    engine aggregates it as the layout says, in a fixed tree over participants;
//! 4. [`Server::end_round`] takes the [`Aggregate`] and updates the server.

mod aggregate;
mod average;
mod capabilities;
mod classifier;
mod composed;
mod disclosure;
mod elementwise;
mod error;
mod exchange_facts;
mod failure;
mod generated_images;
mod inspection;
mod message;
mod message_spec;
mod method;
mod multiplications;
mod parameters;
mod participant;
mod participants;
mod predictor;
mod profile;
mod run_context;
mod sample_cost;
mod stage;
mod state;
mod vectors;
mod wrapped;

pub use aggregate::{Aggregate, KeptUpload, UploadMeta, map_averaged, masked_contribution};
pub use average::ParameterAverage;
pub use capabilities::{
    Capability, CapabilityError, Restriction, check_capability, upload_layouts,
};
pub use composed::Composed;
pub use disclosure::{ClassDisclosure, Disclosures, FeatureMap, TrainedClass};
pub use elementwise::ElementwiseAverage;
pub use error::PolicyError;
pub use exchange_facts::{ClassCounts, ExchangeFacts, ModelFacts, WireForm};
pub use failure::Failure;
pub use generated_images::{GeneratedImages, ImageRequest};
pub use inspection::MethodInspection;
pub use message::{Asset, Message};
pub use message_spec::{
    Aggregation, AssetSpec, AveragingGroup, Mean, MessageSpec, StalenessRule, TensorSpec,
    TensorStructure, UploadSize, Weight,
};
pub use method::{
    ClientResult, Member, MessageKind, Method, Metrics, MissedTask, RoundWork, Server,
};
pub use multiplications::multiplications;
pub(crate) use parameters::KINDS;
pub use parameters::{kind_of, parameter_section_shapes, parameter_sections, parameters_of};
pub use participant::{CohortRule, Participant, ParticipantKind, Phase, Role, RoundContext};
pub use participants::{each_changed, one_participant_per_client, shared};
pub use predictor::{Predictor, Scope, predictor_on};
pub use profile::{MemoryFootprint, MethodProfile};
pub use run_context::RunContext;
pub use sample_cost::{SampleCost, WorkCost};
pub use stage::Stage;
pub use state::ClientState;
pub use vectors::{vector_names, vector_places, vector_section, vector_tensors, vectors_of};
pub use wrapped::{MethodWrapper, ServerWrapper, Wrapped};
