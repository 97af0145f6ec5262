//! One participant's exchange: what is known of it beforehand, and the layouts that follow.

use std::sync::Arc;

use super::client_data::sum;
use super::simulation_context::SimulationContext;
use super::specs::{CompiledSpec, SpecKey};
use crate::data::TaskView;
use crate::policy::{ClassCounts, ExchangeFacts, ModelFacts, Role};

/// What a participant is sent and what it is to send.
#[derive(Clone, Debug)]
pub struct Exchange {
    model: Arc<ModelFacts>,
    view: Arc<TaskView>,
    role: Role,
    place: SpecKey,
    counts: ClassCounts,
    /// What it is sent.
    pub download: Arc<CompiledSpec>,
    /// What it sends.
    pub upload: Arc<CompiledSpec>,
}

impl Exchange {
    /// The exchange of a participant with this view and role at this place of a run, over a shard of these counts.
    pub fn new(
        simulation: &SimulationContext,
        (view, role): (&Arc<TaskView>, Role),
        place: SpecKey,
        counts: ClassCounts,
    ) -> Exchange {
        let SpecKey { stage: period, phase, round_in_phase } = place;
        let model = &simulation.facts;
        let facts = ExchangeFacts {
            model,
            view,
            stage: period,
            phase,
            round_in_phase,
            role,
            counts: &counts,
        };
        let (download, upload) = simulation.layouts.of(&*simulation.method, &facts);
        let (model, view) = (Arc::clone(&simulation.facts), Arc::clone(view));
        Exchange { model, view, role, place, counts, download, upload }
    }

    /// Samples of its participant.
    pub fn samples(&self) -> usize {
        sum(&self.counts)
    }

    /// What its layouts follow from.
    pub fn facts(&self) -> ExchangeFacts<'_> {
        let Exchange { model, view, role, place, counts, .. } = self;
        let SpecKey { stage: period, phase, round_in_phase } = *place;
        ExchangeFacts { model, view, stage: period, phase, round_in_phase, role: *role, counts }
    }
}
