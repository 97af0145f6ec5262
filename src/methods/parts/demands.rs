//! Requirements and restrictions of all parts of a method.

use super::Parts;
use crate::methods::averaged::{Memory, Requirement};
use crate::policy::{ClientState, Restriction};

impl<S: ClientState, M: Memory> Parts<'_, S, M> {
    /// Returns requirements of the parts on a scenario.
    pub fn requirements(&self) -> Vec<Requirement> {
        let mut requirements = self.adaptation.requirements();
        requirements.extend(self.local.requirements());
        requirements.extend(self.server.requirements());
        requirements
    }

    /// Returns services that the layouts would allow and a part cannot bear; the reason that counts is the first.
    pub fn vetoes(&self) -> Vec<Restriction> {
        let mut vetoes = self.local.vetoes();
        vetoes.extend(self.upload.vetoes());
        vetoes.extend(self.transform.into_iter().flat_map(|transform| transform.vetoes()));
        vetoes.extend(self.server.vetoes());
        for veto in self.adaptation.vetoes() {
            if vetoes.iter().all(|known| known.service != veto.service) {
                vetoes.push(veto);
            }
        }
        vetoes
    }
}
