//! Requirements and restrictions of all parts of a method.

use super::Parts;
use crate::methods::averaged::{Memory, Needs};
use crate::policy::{ClientState, Veto};

impl<S: ClientState, M: Memory> Parts<'_, S, M> {
    /// Returns what the parts ask of a scenario.
    pub fn needs(&self) -> Vec<Needs> {
        let mut needs = self.adaptation.needs();
        needs.extend(self.local.needs());
        needs.extend(self.server.needs());
        needs
    }

    /// Returns services that the layouts would allow and a part cannot bear; the reason that counts is the first.
    pub fn vetoes(&self) -> Vec<Veto> {
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
