//! Demands of a part of a method on scenario and engine.

use crate::methods::averaging::Requirement;
use crate::policy::{Capability, Restriction};

/// Demands of a part of a method; by default none.
#[derive(Default)]
pub struct Demands {
    /// Requirements on a scenario.
    pub requirements: Vec<Requirement>,
    /// Capabilities of the engine that message specifications allow but the part does not support.
    pub restrictions: Vec<Restriction>,
}

impl Demands {
    /// Creates demands on scenarios alone.
    pub fn requiring(requirements: impl IntoIterator<Item = Requirement>) -> Demands {
        Demands { requirements: requirements.into_iter().collect(), restrictions: Vec::new() }
    }

    /// Creates demands that exclude capabilities, all for one reason.
    pub fn restricting(services: &[Capability], why: &'static str) -> Demands {
        Demands { requirements: Vec::new(), restrictions: Restriction::against(services, why) }
    }
}
