//! Work of the parts of a method, for virtual time.

use super::{Parts, Workload};
use crate::data::TaskView;
use crate::methods::averaging::ServerState;
use crate::policy::{ClientState, ModelFacts};

impl<S: ClientState, M: ServerState> Parts<'_, S, M> {
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
