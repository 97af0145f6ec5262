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

    /// Returns services that the layouts would allow and a part cannot bear; the reason that counts is the first.
    pub fn restrictions(&self) -> Vec<Restriction> {
        let mut vetoes = self.local.restrictions();
        vetoes.extend(self.upload.restrictions());
        vetoes.extend(self.transform.into_iter().flat_map(|transform| transform.restrictions()));
        vetoes.extend(self.server.restrictions());
        for veto in self.adaptation.restrictions() {
            if vetoes.iter().all(|known| known.service != veto.service) {
                vetoes.push(veto);
            }
        }
        vetoes
    }
}
