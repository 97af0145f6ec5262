//! Model, trained parameters and run context for a client's part of a round.

use super::SharedModel;
use crate::policy::{ModelFacts, RunContext};

/// Model, trained parameters and run context for a client's part of a round.
#[derive(Clone, Copy)]
pub struct ClientContext<'a> {
    /// Dimensions of the model.
    pub model: &'a ModelFacts,
    /// Trained parameters, their rows, and the weights of clients.
    pub shared: SharedModel<'a>,
    /// The client's run context.
    pub ctx: &'a RunContext,
}
