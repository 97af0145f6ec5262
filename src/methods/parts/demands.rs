//! Requirements and restrictions of all parts of a method.

use super::Parts;
use crate::methods::averaging::{Requirement, ServerState};
use crate::policy::{ClientState, Restriction};

impl<S: ClientState, M: ServerState> Parts<'_, S, M> {
    /// Returns requirements of the parts on a scenario.
    pub fn requirements(&self) -> Vec<Requirement> {
        let mut requirements = self.adaptation.requirements();
        requirements.extend(self.local.requirements());
        requirements.extend(self.server.requirements());
        requirements
    }

    /// Returns services that the layouts allow and a part does not.
    ///
    /// The reason that counts is the first.
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
