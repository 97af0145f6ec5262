//! Position of a run in its tasks, phases and rounds.

use crate::federation::arrivals::Moment;
use crate::federation::simulation_context::SimulationContext;
use crate::policy::{Phase, RoundContext, Stage};
use crate::quantity::{ClientId, Round, VirtualTime};

/// Position in the run: task, phase within it, and round within that.
pub(super) struct RunSchedule {
    /// Number of the task, from 0; the number of tasks once the run is over.
    task: usize,
    /// Start times of the tasks so far.
    began: Vec<VirtualTime>,
    /// Phases of the task.
    phases: Vec<Phase>,
    phase: usize,
    round_in_phase: u32,
    /// Number of the next round, over all tasks.
    next_round: Round,
}

impl RunSchedule {
    /// Returns the position before the first task.
    pub fn new() -> RunSchedule {
        RunSchedule {
            task: 0,
            began: Vec::new(),
            phases: Vec::new(),
            phase: 0,
            round_in_phase: 0,
            next_round: Round(0),
        }
    }

    /// Returns the number of the task, from 0.
    pub fn task(&self) -> usize {
        self.task
    }

    /// Returns the current phase.
    pub fn phase(&self) -> &Phase {
        &self.phases[self.phase]
    }

    /// Returns the number of the current phase within its task, from 0.
    pub fn phase_number(&self) -> u32 {
        self.phase as u32
    }

    /// Returns the number of the round that opens next.
    pub fn next_round(&self) -> Round {
        self.next_round
    }

    /// Returns the number of the round that was opened last.
    pub fn last_round(&self) -> Round {
        Round(self.next_round.0.saturating_sub(1))
    }

    /// Begins the task with these phases.
    pub fn begin_task(&mut self, now: VirtualTime, phases: Vec<Phase>) {
        self.began.push(now);
        self.phases = phases;
        (self.phase, self.round_in_phase) = (0, 0);
    }

    /// Goes to the first phase from the current one on that has rounds; false if the task has none left.
    pub fn seek_phase(&mut self) -> bool {
        let rest = self.phases.get(self.phase..).unwrap_or_default();
        let found = rest.iter().position(|phase| phase.rounds > 0);
        self.phase += found.unwrap_or(rest.len());
        found.is_some()
    }

    /// Advances to the next round, and returns its context for this cohort.
    pub fn open_round(
        &mut self,
        simulation: &SimulationContext,
        now: VirtualTime,
        cohort: &[ClientId],
    ) -> RoundContext {
        let round = self.next_round;
        self.next_round = Round(round.0 + 1);
        let phase = self.phase();
        RoundContext {
            round,
            stage: self.stage_of_round(simulation, now, cohort),
            phase: self.phase,
            phase_name: phase.name,
            round_in_phase: self.round_in_phase,
            rounds_in_phase: phase.rounds,
            run_seed: simulation.rules.seed,
        }
    }

    fn stage_of_round(
        &self,
        simulation: &SimulationContext,
        now: VirtualTime,
        cohort: &[ClientId],
    ) -> Stage {
        let rounds = |phases: &[Phase]| phases.iter().map(|phase| phase.rounds).sum::<u32>();
        let moment = Moment {
            began: &self.began,
            now,
            round: rounds(&self.phases[..self.phase]) + self.round_in_phase,
            rounds: rounds(&self.phases),
        };
        simulation.stage_of_round(self.task, cohort, &moment)
    }

    /// Ends a round; returns false if it was the last of its phase.
    pub fn end_round(&mut self) -> bool {
        self.round_in_phase += 1;
        if self.round_in_phase < self.phase().rounds {
            return true;
        }
        (self.phase, self.round_in_phase) = (self.phase + 1, 0);
        false
    }

    /// Ends the task.
    pub fn end_task(&mut self) {
        self.task += 1;
    }

    /// Returns true if no round of the task was closed before the one that is open.
    pub fn is_first_of_task(&self) -> bool {
        let before = &self.phases[..self.phase];
        self.round_in_phase == 0 && before.iter().all(|phase| phase.rounds == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federation::rules::Rules;
    use crate::federation::testing::setup;
    use crate::policy::CohortRule;

    fn phase(name: &'static str, rounds: u32) -> Phase {
        Phase { name, rounds, cohort: CohortRule::Sampled, max_pack_size: 1 }
    }

    #[test]
    fn rounds_are_counted_over_phases_and_tasks() {
        let simulation = SimulationContext::new(&setup(Rules::default())).expect("possible");
        let mut schedule = RunSchedule::new();
        let mut walked = Vec::new();
        for _ in 0..2 {
            let phases = vec![phase("empty", 0), phase("look", 1), phase("train", 2)];
            schedule.begin_task(VirtualTime(5), phases);
            while schedule.seek_phase() {
                assert_eq!(schedule.is_first_of_task(), schedule.phase().name == "look");
                loop {
                    let context = schedule.open_round(&simulation, VirtualTime(6), &[]);
                    assert_eq!(schedule.last_round(), context.round);
                    let RoundContext { round, phase, round_in_phase, rounds_in_phase, .. } =
                        context;
                    let task = context.stage.task.index();
                    walked.push((task, phase, round_in_phase, rounds_in_phase, round.0));
                    if !schedule.end_round() {
                        break;
                    }
                }
            }
            schedule.end_task();
        }
        let first = [(0, 1, 0, 1, 0), (0, 2, 0, 2, 1), (0, 2, 1, 2, 2)];
        let second = [(1, 1, 0, 1, 3), (1, 2, 0, 2, 4), (1, 2, 1, 2, 5)];
        assert_eq!(walked, [first, second].concat());
    }
}
