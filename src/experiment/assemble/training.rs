//! `[client]` as a training plan.

use crate::learning::optimizer::{Adam, Decay, Sgd};
use crate::learning::{OptimizerConfig, Schedule, TrainingPlan};
use crate::methods::Registry;
use crate::scenario::{ClientSection, EpochSchedule, OptimizerSection, RoundSchedule, Scenario};

/// Returns the local training of a run.
///
/// If `client.max_grad_norm` is not set, the method's own limit holds.
pub fn training_plan(scenario: &Scenario, methods: &Registry) -> TrainingPlan {
    let section = &scenario.client;
    let optimizer = match section.optimizer {
        OptimizerSection::Adamw { lr, weight_decay, betas, eps } => OptimizerConfig::Adam(Adam {
            learning_rate: lr,
            weight_decay,
            beta1: betas[0],
            beta2: betas[1],
            epsilon: eps,
            decay: Decay::Decoupled,
        }),
        OptimizerSection::Sgd { lr, momentum, weight_decay } => {
            OptimizerConfig::Sgd(Sgd { learning_rate: lr, momentum, weight_decay })
        }
    };
    // Of two methods it is the first that trains.
    let first = scenario.method.first();
    let trains = first.as_ref().unwrap_or(&scenario.method);
    let own = methods.find(&trains.name).ok().and_then(|entry| entry.clip);
    TrainingPlan {
        epochs: section.epochs,
        steps: None,
        epoch_steps: None,
        batch: section.batch_size as usize,
        optimizer,
        schedule: epoch_schedule(section),
        round_schedule: match &section.round_schedule {
            RoundSchedule::Constant => Schedule::Constant,
            RoundSchedule::Cosine { lag, end } => round_cosine(*lag, *end),
            RoundSchedule::MultiStep { milestones, factor } => {
                Schedule::MultiStep { milestones: milestones.clone(), factor: *factor }
            }
        },
        first_rate: None,
        round: None,
        // 0 is off, also where the method clips by default.
        clip: section.max_grad_norm.or(own).filter(|limit| *limit > 0.0),
    }
}

/// Returns a cosine schedule over rounds that begins after `lag` rounds and does not fall below `end`.
fn round_cosine(lag: u32, end: f64) -> Schedule {
    let above = match end > 0.0 {
        true => Schedule::Above { schedule: Box::new(Schedule::Cosine), end },
        false => Schedule::Cosine,
    };
    match lag {
        0 => above,
        lag => Schedule::Delayed { schedule: Box::new(above), lag },
    }
}

/// Returns the schedule over a round's epochs, which may be the beginning of one over more epochs.
fn epoch_schedule(section: &ClientSection) -> Schedule {
    let schedule = match section.epoch_schedule {
        EpochSchedule::Constant => Schedule::Constant,
        EpochSchedule::Cosine => Schedule::Cosine,
        EpochSchedule::QuarterCosine => Schedule::QuarterCosine,
    };
    match section.schedule_epochs {
        None => schedule,
        Some(over) => Schedule::Stretched { schedule: Box::new(schedule), over },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key `lag` reaches the plan: PILoRA's release sets a rate after its round, so that two rounds have the first.
    #[test]
    fn a_late_cosine_over_rounds_is_delayed() {
        let schedule = |keys: &str| {
            let text = format!(
                "schema = 2\nseed.run = 1\ndata.source = \"digits\"\ntasks.count = 2\npartition.kind = \"iid\"\n\
                 method.name = \"fedavg\"\nclient.round_schedule = {{ kind = \"cosine\"{keys} }}"
            );
            let methods = Registry::builtin();
            let read = Scenario::from_toml(&text, "a.toml", ".".as_ref(), &[], &methods);
            training_plan(&read.unwrap().scenario, &methods).round_schedule
        };
        assert_eq!(schedule(""), Schedule::Cosine);
        let late = schedule(", lag = 1");
        let rates = [0, 1, 2].map(|round| late.rate(1e-5, round, 30));
        assert_eq!(rates, [1e-5, 1e-5, Schedule::Cosine.rate(1e-5, 1, 30)]);
        let above = Schedule::Above { schedule: Box::new(Schedule::Cosine), end: 1e-6 };
        let both = Schedule::Delayed { schedule: Box::new(above), lag: 2 };
        assert_eq!(schedule(", lag = 2, end = 1e-6"), both);
    }

    #[test]
    fn a_schedule_takes_the_epochs_of_a_round_or_those_that_are_said() {
        let quarter = EpochSchedule::QuarterCosine;
        let section = ClientSection { epochs: 10, epoch_schedule: quarter, ..Default::default() };
        assert_eq!(epoch_schedule(&section), Schedule::QuarterCosine);
        let longer = ClientSection { schedule_epochs: Some(50), ..section };
        let wanted = Schedule::Stretched { schedule: Box::new(Schedule::QuarterCosine), over: 50 };
        assert_eq!(epoch_schedule(&longer), wanted);
        assert_eq!(epoch_schedule(&ClientSection::default()), Schedule::Constant);
    }
}
