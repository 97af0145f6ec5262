//! Demands and costs of all parts of a method.

use super::{Demands, Parts, Workload};
use crate::data::TaskView;
use crate::methods::averaging::{Requirement, ServerState};
use crate::policy::{ClientState, ModelFacts, Restriction};

impl<S: ClientState, M: ServerState> Parts<'_, S, M> {
    /// Returns the demands of the parts other than the adaptation, in the order in which a round uses them.
    fn demands(&self) -> Vec<Demands> {
        let parts = [
            Some(self.local.demands()),
            Some(self.upload.demands()),
            Some(self.download.demands()),
            self.transform.map(|part| part.demands()),
            Some(self.server.demands()),
            self.final_exchange.map(|part| part.demands()),
            self.roles.map(|part| part.demands()),
            self.answer.map(|part| part.demands()),
        ];
        parts.into_iter().flatten().collect()
    }

    /// Returns the requirements of all parts on a scenario, those of the adaptation first.
    pub fn requirements(&self) -> Vec<Requirement> {
        let parts = std::iter::once(self.adaptation.demands()).chain(self.demands());
        parts.flat_map(|demands| demands.requirements).collect()
    }

    /// Returns the capabilities that message specifications allow but a part does not support.
    ///
    /// If several parts restrict a capability, the reason of the first is shown, and the adaptation is the last.
    pub fn restrictions(&self) -> Vec<Restriction> {
        let mut restrictions: Vec<Restriction> =
            self.demands().into_iter().flat_map(|demands| demands.restrictions).collect();
        for restriction in self.adaptation.demands().restrictions {
            if restrictions.iter().all(|known| known.service != restriction.service) {
                restrictions.push(restriction);
            }
        }
        restrictions
    }

    /// Returns the sample passes of a client's training and of its upload's tensors, for virtual time.
    pub fn work(&self, load: &Workload<'_>) -> f64 {
        let (upload, samples) = (self.upload, load.samples);
        self.local.work(load) + upload.work(samples) + upload.model_work(load.model, samples)
    }

    /// Returns the sample passes of a client's report in the final exchange, for virtual time.
    pub fn report_work(&self, model: &ModelFacts, view: &TaskView, samples: usize) -> f64 {
        self.final_exchange.map_or(samples as f64, |last| last.work(model, view, samples))
    }

    /// Returns the largest number of clients with this view that train as one pack.
    pub fn max_pack(&self, view: &TaskView) -> usize {
        self.local.max_pack(self.adaptation.settings(view).max_pack)
    }
}
