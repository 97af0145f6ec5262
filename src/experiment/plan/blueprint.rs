//! A run as far as it is known without data and weights, and its plan.

use parking_lot::Mutex;
use std::sync::Arc;

use super::tally::{Listener, PlanTally};
use super::{Held, Plan, PlannedBackbone};
use crate::experiment::RunError;
use crate::experiment::assemble::Holders;
use crate::federation::{
    FaultRules, FederationError, LabelCountSource, PlannedParticipant, RunSpec, dry_run,
};
use crate::policy::MemoryFootprint;
use crate::scenario::HeldOut;

/// A run as far as it is known without data and weights.
pub struct Blueprint {
    /// Name of the scenario.
    pub name: String,
    /// Specification of the run.
    pub terms: RunSpec,
    /// Training samples of every class id.
    pub class_sizes: Vec<usize>,
    /// Notes for the user about how the data were listed.
    pub notes: Vec<String>,
    /// Samples that are held out before.
    pub validation: Option<HeldOut>,
    /// Keys of the scenario that have no meaning for its method.
    pub ignored: Vec<String>,
    /// Distribution of samples among clients.
    pub holders: Holders,
}

/// Choice of whether a plan has the faults of its scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Faults {
    /// Nothing is lost and no client fails, except those that cannot be reached.
    #[default]
    Off,
    /// Faults of the run.
    On,
}

/// Advice for a plan without the faults of its run.
const WITH_FAULTS: &str = "plan with `--faults`, which move the times of rounds as in the run, let clients stay longer, \
                           or run fewer rounds";

impl Blueprint {
    /// Draws the label counts of the clients.
    ///
    /// # Errors
    /// A class with too few samples for its clients.
    pub fn label_counts(&self) -> Result<LabelCountSource, RunError> {
        Ok(self.holders.counts(&self.terms.task_sequence, &self.class_sizes)?)
    }
}

/// Walks through the run.
///
/// # Errors
/// Returns an error if no client can be reached, or the class counts cannot be drawn.
pub fn plan(blueprint: &Blueprint, faults: Faults) -> Result<Plan, RunError> {
    plan_with(blueprint, blueprint.label_counts()?, faults)
}

/// Walks through the run whose clients have these label counts; see [`plan`].
///
/// # Errors
/// No client can be reached.
pub fn plan_with(
    blueprint: &Blueprint,
    counts: LabelCountSource,
    faults: Faults,
) -> Result<Plan, RunError> {
    let Blueprint { name, terms, class_sizes, validation, ignored, .. } = blueprint;
    let RunSpec { facts, task_sequence, .. } = terms;
    let mut sized = terms.clone();
    if faults == Faults::Off {
        sized.rules.faults = FaultRules::default();
    }
    let tally = Arc::new(Mutex::new(PlanTally::new(terms)));
    let seen = Arc::clone(&tally);
    let planned = move |participant: PlannedParticipant<'_>| {
        seen.lock().participant(&participant);
    };
    let has_faults = sized.rules.faults != terms.rules.faults;
    dry_run(sized, counts, planned, Box::new(Listener(Arc::clone(&tally)))).map_err(|error| {
        match error {
            FederationError::NeverAvailable { at, round, .. } if has_faults => {
                FederationError::NeverAvailable { at, round, help: WITH_FAULTS }
            }
            other => other,
        }
    })?;
    let inference_flops = tally.lock().inference_flops();
    let (one_client, total, phases) = tally.lock().finish();
    let backbone = &facts.backbone;
    let held = terms.method.profile().memory_footprint.map(|MemoryFootprint { server, client }| {
        Held { server, client, clients: client * u64::from(terms.rules.clients) }
    });
    let [channels, _, image] = backbone.input();
    Ok(Plan {
        name: name.clone(),
        method: terms.name.clone(),
        backbone: PlannedBackbone {
            kind: backbone.kind(),
            channels,
            image,
            patch: backbone.vit().map(|vit| vit.patch),
            dim: backbone.dim(),
            depth: backbone.vit().map(|vit| vit.depth),
            parameters: backbone.parameter_count(),
        },
        clients: terms.rules.clients,
        classes: task_sequence.classes(),
        samples: class_sizes.iter().sum(),
        validation: *validation,
        ignored: ignored.clone(),
        charged: terms.charged,
        faults: faults == Faults::On,
        phases,
        one_client,
        inference_flops,
        held,
        total,
    })
}
