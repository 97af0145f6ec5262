//! A client: a state machine that exists while it has something to do or to remember.
//!
//! The conductor calls it. Thousands of them may be asked in a round, each for two events: a mailbox and a task of its
//! own would cost more than what they do.

mod learning;
mod machine;
mod memory;
mod uncomputed;

mod training;
mod upload;

pub(super) use machine::{Broadcast, ClientMachine, ToClient};
pub(super) use training::{
    Learning, TrainingJob, learn_together, members, saved_states, seal_all, train_together,
};
