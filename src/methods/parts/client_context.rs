//! Surroundings of a client's part of a round.

use super::SharedModel;
use crate::policy::{ModelFacts, RunContext};

/// Surroundings of a client's part of a round.
#[derive(Clone, Copy)]
pub struct ClientContext<'a> {
    /// Dimensions of the model.
    pub model: &'a ModelFacts,
    /// Parameters that train.
    pub shared: SharedModel<'a>,
    /// The client's run context.
    pub ctx: &'a RunContext,
}
