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

pub use around::{Around, MethodHooks, ServerHooks};
pub use average::ParameterAverage;
pub use error::PolicyError;
pub use failure::Failure;
pub use folded::{Folded, Kept, UpMeta, changed, summand};
pub use lab::Lab;
pub use layout::{AssetSketch, Fold, Form, Group, Layout, Mean, Place, Stale, UpSize, Weight};
pub use message::{Asset, Message};
pub use method::{Figures, Member, MessageKind, Method, MissedTask, Outcome, RoundWork, Server};
pub use numbered::NumberedAverage;
pub(crate) use parameters::KINDS;
pub use parameters::{kind_of, parameter_sections, parameter_sketches, parameters_of};
pub use period::Period;
pub use predictor::{Predictor, Scope, placed};
pub use profile::{Holdings, MethodProfile};
pub use seat::{CohortRule, Phase, Role, RoundContext, Seat, SeatKind};
pub use seating::{each_changed, one_seat_each, shared};
pub use services::{Refusal, Service, Veto, refusal, upload_layouts};
pub use sketch::{ClassCounts, ExchangeSketch, ModelFacts, SketchFacts, WireForm};
pub use staged::Staged;
pub use state::ClientState;
pub use vectors::{vector_names, vector_places, vector_section, vector_tensors, vectors_of};
