//! A run as far as it is known without data and weights, and its plan.

use std::sync::{Arc, Mutex, PoisonError};

use super::tally::{Listener, Tally};
use super::{Backbone, Plan};
use crate::data::Curriculum;
use crate::experiment::ExperimentError;
use crate::experiment::assemble::Holders;
use crate::federation::{Coding, FaultRules, Rules, SizedSeat, Sizing, size};
use crate::learning::TrainingPlan;
use crate::policy::{Method, ModelFacts};

/// A run as far as it is known without data and weights.
pub struct Blueprint {
    /// Name of the scenario.
    pub name: String,
    /// Name of the method.
    pub method_name: String,
    pub method: Arc<dyn Method>,
    /// What layouts are made from.
    pub facts: ModelFacts,
    /// Class order and tasks.
    pub curriculum: Arc<Curriculum>,
    /// Training samples of every class id.
    pub class_sizes: Vec<usize>,
    /// Who holds them.
    pub holders: Holders,
    /// Who is asked, how long things take.
    pub rules: Rules,
    /// Local training.
    pub training: TrainingPlan,
    /// Codecs of messages.
    pub coding: Coding,
    /// Whether messages cross a link at all.
    pub charged: bool,
}

/// Whether a plan has the faults of its scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Faults {
    /// Nothing is lost and nobody fails, but for clients that cannot be reached.
    #[default]
    Off,
    /// Those of the run.
    On,
}

/// Walks through the run.
///
/// # Errors
/// What would end it: nobody can be reached, or the class counts cannot be drawn.
pub fn plan(blueprint: &Blueprint, faults: Faults) -> Result<Plan, ExperimentError> {
    let Blueprint { method, facts, curriculum, class_sizes, .. } = blueprint;
    let mut rules = blueprint.rules.clone();
    if faults == Faults::Off {
        rules.faults = FaultRules::default();
    }
    let sizing = Sizing {
        rules,
        name: blueprint.method_name.clone(),
        method: Arc::clone(method),
        curriculum: Arc::clone(curriculum),
        training: blueprint.training.clone(),
        facts: facts.clone(),
        coding: blueprint.coding.clone(),
        charged: blueprint.charged,
        counts: blueprint.holders.counts(curriculum, class_sizes)?,
    };
    let tally = Arc::new(Mutex::new(Tally::new(curriculum)));
    let seen = Arc::clone(&tally);
    let seated = move |seat: SizedSeat<'_>| {
        seen.lock().unwrap_or_else(PoisonError::into_inner).seat(&seat);
    };
    size(sizing, seated, Box::new(Listener(Arc::clone(&tally))))?;
    let tally = std::mem::take(&mut *tally.lock().unwrap_or_else(PoisonError::into_inner));
    let (one_client, total, phases) = tally.finish();
    let backbone = &facts.backbone;
    let [channels, _, image] = backbone.input();
    Ok(Plan {
        name: blueprint.name.clone(),
        method: blueprint.method_name.clone(),
        backbone: Backbone {
            kind: backbone.kind(),
            channels,
            image,
            patch: backbone.vit().map(|vit| vit.patch),
            dim: backbone.dim(),
            depth: backbone.vit().map(|vit| vit.depth),
            parameters: backbone.parameter_count(),
        },
        clients: blueprint.rules.clients,
        classes: curriculum.classes(),
        samples: class_sizes.iter().sum(),
        charged: blueprint.charged,
        faults: faults == Faults::On,
        phases,
        one_client,
        total,
    })
}
