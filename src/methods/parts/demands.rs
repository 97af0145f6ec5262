//! Requirements and restrictions of all parts of a method.

use super::Parts;
use crate::methods::averaging::{Requirement, ServerState};
use crate::policy::{ClientState, Restriction};

impl<S: ClientState, M: ServerState> Parts<'_, S, M> {
    /// Returns the requirements of all parts on a scenario.
    pub fn requirements(&self) -> Vec<Requirement> {
        let mut requirements = self.adaptation.requirements();
        requirements.extend(self.local.requirements());
        requirements.extend(self.server.requirements());
        requirements
    }

    /// Returns the capabilities that message specifications allow but a part does not support.
    ///
    /// If several parts restrict a capability, the reason of the first is shown.
    pub fn restrictions(&self) -> Vec<Restriction> {
        let mut restrictions = self.local.restrictions();
        restrictions.extend(self.upload.restrictions());
        restrictions
            .extend(self.transform.into_iter().flat_map(|transform| transform.restrictions()));
        restrictions.extend(self.server.restrictions());
        for restriction in self.adaptation.restrictions() {
            if restrictions.iter().all(|known| known.service != restriction.service) {
                restrictions.push(restriction);
            }
        }
        restrictions
    }
}
