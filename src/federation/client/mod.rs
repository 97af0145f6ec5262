//! A client: an actor that lives while it has something to do, and a state machine inside.
//!
//! Messages reach it through the [`Directory`], which starts an actor when a client is first addressed and keeps the
//! memory of those that have ended.

mod actor;
mod arrival;
mod directory;
mod learning;
mod machine;
mod memory;
mod messages;
mod orders;
mod training;
mod uncomputed;
mod upload;

pub(super) use directory::Directory;
#[cfg(test)]
pub(super) use machine::ClientMachine;
#[cfg(test)]
pub(super) use memory::ClientMemory;
pub(super) use messages::{AssetArrived, Broadcast, ToClient};
pub(super) use orders::train_ahead;
pub(super) use training::{
    Learning, TrainingAnswer, TrainingJob, learn_together, members, saved_states, seal_all,
    train_together,
};
