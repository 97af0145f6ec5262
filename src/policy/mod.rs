//! What a method is: a pair of policies, a server's and a client's, and the messages between
//! them. Nothing here knows actors, channels, files or the command line.
//!
//! A method implements [`Method`] (types, shapes, folding), [`ServerPolicy`] and
//! [`ClientPolicy`]. The engine talks to it through the erased [`AnyMethod`], so the federation
//! is compiled once; [`erase`] is the only place where types are put away and taken out again.
//!
//! A round, as a policy sees it:
//! 1. [`ServerPolicy::seats`] and [`ServerPolicy::broadcast`] give one Down per seat;
//! 2. [`ClientPolicy::train`] answers each with an Up;
//! 3. [`Method::lift`] reduces each Up to a [`Part`]; parts merge in a fixed tree over seats;
//! 4. [`ServerPolicy::end_round`] takes the merged part and learns.

mod additive;
mod any;
mod average;
mod averaged;
mod classifier;
mod erased;
mod error;
mod lab;
mod message;
mod method;
mod parameters;
mod part;
mod period;
mod predictor;
mod seat;
mod sketch;
mod staged;

pub use additive::{Additive, summand_sketch};
pub use any::{AnyMember, AnyMethod, AnyOutcome, AnyPart, AnyServer, AnyState, Payload};
pub use average::ParameterAverage;
pub use averaged::Averaged;
pub use erased::erase;
pub use error::PolicyError;
pub use lab::Lab;
pub use message::{Asset, Message};
pub use method::{
    ClientPolicy, ClientState, Failure, Learnt, Member, Method, MissedTask, Next, Outcome,
    ServerPolicy, UpMeta, one_by_one, one_seat_each, shared, together,
};
pub use parameters::{kind_of, parameter_sections, parameter_sketches, parameters_of};
pub use part::{Field, Folding, Keep, Part, WeightedDelta};
pub use period::Period;
pub use predictor::{Predictor, Scope, placed};
pub use seat::{CohortRule, Phase, Role, RoundContext, Rounds, Seat, SeatKind};
pub use sketch::{
    AssetSketch, ClassCounts, ExchangeSketch, ModelFacts, SketchFacts, UpSize, WireForm,
};
pub use staged::Staged;
