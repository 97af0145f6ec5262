//! What a server knows as a round closes.

use crate::model::ParameterSet;
use crate::policy::{Folded, Lab, ModelFacts, RoundContext};

/// A round that closes, for the server's own step after the mean.
pub struct Closing<'a> {
    /// The model's dimensions.
    pub model: &'a ModelFacts,
    /// The parameters before the mean.
    pub before: &'a ParameterSet,
    /// What uploads folded to: the mean that was just applied, sums, and what was kept.
    pub folded: Folded,
    /// Which round it is.
    pub round: &'a RoundContext,
    /// The server's lab.
    pub lab: &'a Lab,
}
