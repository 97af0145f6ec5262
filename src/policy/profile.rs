//! Facts that a method states about itself, before anything runs.

use super::{Restriction, Role};
use crate::wire::BodyShape;

/// Facts and restrictions of a method. They depend only on its settings and on the model's dimensions.
///
/// A method around another one passes its profile on, with what is different spelled out before `..inner.profile()`:
/// a fact that is added here reaches every composition by itself.
#[derive(Clone, Debug)]
pub struct MethodProfile {
    /// Roles of participants with their names; one without a name where all do the same.
    pub roles: Vec<(Role, &'static str)>,
    /// Services that the layouts would allow and the method does not, each with the reason.
    pub restrictions: Vec<Restriction>,
    /// Shape of the state for [`Predictor::feature_state`](super::Predictor::feature_state).
    ///
    /// A client must hold it to compute the method's features, where another method may build on them.
    pub features: BodyShape,
    /// False for a method of a single site, whose messages are not charged.
    pub uses_network: bool,
    /// True if clients keep nothing between rounds.
    pub stateless: bool,
    /// True if uploads may show something of images.
    ///
    /// See [`MethodInspection::disclosures`](super::MethodInspection::disclosures).
    pub discloses: bool,
    /// Memory between rounds, where the method knows it beforehand: a plan shows it, because with many clients it may
    /// be more than a machine has.
    pub memory_footprint: Option<MemoryFootprint>,
}

/// A method of one role that allows every service, and keeps, builds and shows nothing.
impl Default for MethodProfile {
    fn default() -> MethodProfile {
        MethodProfile {
            roles: vec![(Role::default(), "")],
            restrictions: Vec::new(),
            features: BodyShape::default(),
            uses_network: true,
            stateless: true,
            discloses: false,
            memory_footprint: None,
        }
    }
}

/// Bytes that a method holds between rounds, at most, before codecs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct MemoryFootprint {
    /// Bytes held by the server, parameters included.
    pub server: u64,
    /// Bytes held by every client that has taken part.
    pub client: u64,
}
