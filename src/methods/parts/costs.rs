//! Virtual time that the parts of a method cost.

use super::{Parts, Workload};
use crate::data::TaskView;
use crate::methods::averaging::ServerState;
use crate::policy::{ClientState, ModelFacts};

impl<S: ClientState, M: ServerState> Parts<'_, S, M> {
    /// Returns sample passes of a client's training, for virtual time.
    pub fn work(&self, load: &Workload<'_>) -> f64 {
        let (upload, samples) = (self.upload, load.samples);
        self.local.work(load) + upload.work(samples) + upload.model_work(load.model, samples)
    }

    /// Returns sample passes of a report after training.
    pub fn report_work(&self, model: &ModelFacts, view: &TaskView, samples: usize) -> f64 {
        self.final_exchange.map_or(samples as f64, |last| last.work(model, view, samples))
    }

    /// Returns the largest number of clients with this view that train together.
    pub fn max_pack(&self, view: &TaskView) -> usize {
        self.local.max_pack(self.adaptation.settings(view).max_pack)
    }
}
