//! Division of a cohort by roles.

use crate::policy::{Participant, Role, RoundContext};
use crate::quantity::ClientId;

/// Division of a cohort by roles.
pub trait Roles {
    /// Returns the roles, with a word for each.
    fn roles(&self) -> Vec<(Role, &'static str)>;

    /// Returns the participants of a round. A pure function.
    fn participants(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Participant>;
}
