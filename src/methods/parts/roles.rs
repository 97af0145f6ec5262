//! Division of a cohort by roles.

use super::Demands;
use crate::policy::{Participant, Role, RoundContext};
use crate::quantity::ClientId;

/// Division of a cohort by roles.
pub trait Roles {
    /// Returns the roles of participants, each with its name.
    fn roles(&self) -> Vec<(Role, &'static str)>;

    /// Returns the participants of a round: a pure function of its arguments.
    fn participants(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Participant>;

    /// Returns the demands of the division on scenario and engine.
    fn demands(&self) -> Demands {
        Demands::default()
    }
}
