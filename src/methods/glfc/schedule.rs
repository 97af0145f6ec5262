//! Learning rate of GLFC's release over the epochs of a task.
//!
//! The release has 10 rounds of 20 epochs and lowers the rate in the epochs 100, 150 and 180 of these 200: after a
//! half, three quarters and nine tenths of a task. The same fractions are used here for any number of rounds and
//! epochs.

use clap::ValueEnum;

use crate::learning::{Schedule, TrainingPlan};
use crate::scenario::reader::Choice;

/// Epochs of a task at which the learning rate falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum RateSchedule {
    /// To 1/5, 1/25 and 1/125 after 1/2, 3/4 and 9/10 of a task's epochs, until the round ends.
    ///
    /// As in the release: every round begins with the full rate again.
    Code,
    /// Like `code`, but lowered until the task ends.
    Monotone,
    /// Schedule of `[client]`.
    Client,
}

/// Factor on the learning rate at each milestone.
const FACTOR: f64 = 0.2;

impl RateSchedule {
    /// Returns the training plan of a round with this schedule.
    pub(super) fn plan(self, plan: &TrainingPlan) -> TrainingPlan {
        let Some((round, rounds)) = plan.round.filter(|_| self != RateSchedule::Client) else {
            return plan.clone();
        };
        let milestones = self.milestones(plan.epochs, round, rounds);
        TrainingPlan {
            schedule: Schedule::MultiStep { milestones, factor: FACTOR },
            ..plan.clone()
        }
    }

    /// Returns the epochs of a round at which the rate falls by the factor.
    ///
    /// An epoch occurs several times if the rate falls by several factors at once.
    fn milestones(self, epochs: u32, round: u32, rounds: u32) -> Vec<u32> {
        let (all, begin) = (u64::from(epochs) * u64::from(rounds), epochs * round);
        let of_task = [(1, 2), (3, 4), (9, 10)].map(|(part, whole)| (all * part / whole) as u32);
        let (past, ahead): (Vec<u32>, Vec<u32>) =
            of_task.into_iter().filter(|at| *at < begin + epochs).partition(|at| *at < begin);
        let at_once = match self {
            RateSchedule::Monotone => Some(0),
            RateSchedule::Code | RateSchedule::Client => ahead.first().map(|first| first - begin),
        };
        let again = at_once.into_iter().flat_map(|epoch| past.iter().map(move |_| epoch));
        again.chain(ahead.iter().map(|at| at - begin)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learning::OptimizerConfig;

    /// A task of 10 rounds of 20 epochs at rate 2: a fifth in all epochs of round 5, a 25th in the second half of round
    /// 7, a 125th in round 9. In the release rounds 6 and 8 have the full rate again (GLFC card, 9.10).
    #[test]
    fn rates_fall_in_the_epochs_of_the_card() {
        let plan = TrainingPlan {
            epochs: 20,
            optimizer: OptimizerConfig::sgd(2.0),
            ..TrainingPlan::default()
        };
        let rates = |schedule: RateSchedule, round| {
            let plan = schedule.plan(&plan.in_round(round, 10));
            let rate = |epoch| 2.0 / plan.schedule.rate(plan.optimizer.learning_rate(), epoch, 20);
            [0, 9, 10, 19].map(|epoch| rate(epoch).round())
        };
        let all = |schedule| [0, 4, 5, 6, 7, 8, 9].map(|round| rates(schedule, round));
        let (one, five) = ([1.0; 4], [5.0; 4]);
        let (late, last) = ([1.0, 1.0, 25.0, 25.0], [125.0; 4]);
        assert_eq!(all(RateSchedule::Code), [one, one, five, one, late, one, last]);
        let late = [5.0, 5.0, 25.0, 25.0];
        assert_eq!(all(RateSchedule::Monotone), [one, one, five, five, late, [25.0; 4], last]);
        assert_eq!(all(RateSchedule::Client), [one; 7]);
        // A single round of 20 epochs has all three milestones.
        let plan = |schedule: RateSchedule| schedule.milestones(20, 0, 1);
        assert_eq!(plan(RateSchedule::Code), [10, 15, 18]);
        assert_eq!(plan(RateSchedule::Monotone), [10, 15, 18]);
    }
}
