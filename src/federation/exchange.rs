//! Exchange of one participant: the facts known beforehand, and the layouts that follow.

use std::sync::Arc;

use super::client_data::sum;
use super::simulation_context::SimulationContext;
use super::specs::{CompiledSpec, SpecKey};
use crate::data::TaskView;
use crate::policy::{ClassCounts, ExchangeFacts, ModelFacts, Role};

/// Download and upload of a participant, as layouts.
#[derive(Clone, Debug)]
pub struct Exchange {
    model: Arc<ModelFacts>,
    view: Arc<TaskView>,
    role: Role,
    place: SpecKey,
    counts: ClassCounts,
    /// Layout of the download.
    pub download: Arc<CompiledSpec>,
    /// Layout of the upload.
    pub upload: Arc<CompiledSpec>,
}

impl Exchange {
    /// Creates the exchange of a participant from view, role, place in the run, and label counts.
    pub fn new(
        simulation: &SimulationContext,
        (view, role): (&Arc<TaskView>, Role),
        place: SpecKey,
        counts: ClassCounts,
    ) -> Exchange {
        let SpecKey { stage, phase, round_in_phase } = place;
        let model = &simulation.facts;
        let facts =
            ExchangeFacts { model, view, stage, phase, round_in_phase, role, counts: &counts };
        let (download, upload) = simulation.layouts.of(&*simulation.method, &facts);
        let (model, view) = (Arc::clone(&simulation.facts), Arc::clone(view));
        Exchange { model, view, role, place, counts, download, upload }
    }

    /// Returns the number of samples of its participant.
    pub fn samples(&self) -> usize {
        sum(&self.counts)
    }

    /// Returns the facts that its layouts follow from.
    pub fn facts(&self) -> ExchangeFacts<'_> {
        let Exchange { model, view, role, place, counts, .. } = self;
        let SpecKey { stage, phase, round_in_phase } = *place;
        ExchangeFacts { model, view, stage, phase, round_in_phase, role: *role, counts }
    }
}
