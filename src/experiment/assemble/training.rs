//! `[client]` as a training plan.

use crate::learning::optimiser::{Adam, Decay, Sgd};
use crate::learning::{OptimiserConfig, Schedule, TrainingPlan};
use crate::methods::Registry;
use crate::scenario::{EpochSchedule, OptimiserSection, RoundSchedule, Scenario};

/// Local training of a run. Where `client.clip` is not set the method's own limit holds.
pub fn training_plan(scenario: &Scenario, methods: &Registry) -> TrainingPlan {
    let section = &scenario.client;
    let optimiser = match section.optimiser {
        OptimiserSection::Adamw { lr, weight_decay, betas, eps } => OptimiserConfig::Adam(Adam {
            learning_rate: lr,
            weight_decay,
            beta1: betas[0],
            beta2: betas[1],
            epsilon: eps,
            decay: Decay::Decoupled,
        }),
        OptimiserSection::Sgd { lr, momentum, weight_decay } => {
            OptimiserConfig::Sgd(Sgd { learning_rate: lr, momentum, weight_decay })
        }
    };
    // Of two methods it is the first that trains.
    let first = scenario.method.first();
    let trains = first.as_ref().unwrap_or(&scenario.method);
    let own = methods.find(&trains.name).ok().and_then(|entry| entry.clip);
    TrainingPlan {
        epochs: section.epochs,
        steps: None,
        batch: section.batch as usize,
        optimiser,
        schedule: match section.epoch_schedule {
            EpochSchedule::Constant => Schedule::Constant,
            EpochSchedule::Cosine => Schedule::Cosine,
            EpochSchedule::QuarterCosine => Schedule::QuarterCosine,
        },
        round_schedule: match &section.round_schedule {
            RoundSchedule::Constant => Schedule::Constant,
            RoundSchedule::Cosine => Schedule::Cosine,
            RoundSchedule::MultiStep { milestones, factor } => {
                Schedule::MultiStep { milestones: milestones.clone(), factor: *factor }
            }
        },
        first_rate: None,
        round: None,
        // 0 is off, also where the method clips by default.
        clip: section.clip.or(own).filter(|limit| *limit > 0.0),
    }
}
