//! Progress of a run: its number of rounds, the part done, and an estimate of the time left.
//!
//! Rounds that a resumed run reads from its journal count as done and not for the estimate.

use std::time::Duration;

use crate::federation::Event;

/// Smallest part of a round from which time is estimated.
const ENOUGH: f64 = 0.05;

/// Counts of rounds and participants, updated event by event; the caller measures time.
#[derive(Clone, Debug, Default)]
pub(super) struct ProgressCounts {
    tasks: u64,
    /// Rounds closed.
    pub done: u64,
    /// Rounds that an earlier process computed.
    recorded: u64,
    /// Rounds of the tasks before the current one.
    before: u64,
    /// Rounds of the current task's phases so far, and of the task before it.
    of_task: u64,
    of_task_before: u64,
    /// Current task, from 0.
    task: u64,
    /// Participants of the open round, and the number of those that are done.
    pub participants: u32,
    pub came: u32,
}

impl ProgressCounts {
    /// Adds an event; `recorded` is true if an earlier process computed it.
    pub fn take(&mut self, event: &Event, recorded: bool) {
        match event {
            Event::RunStarted { tasks, .. } => self.tasks = u64::from(*tasks),
            Event::TaskStarted { task, .. } => {
                self.before = self.done;
                self.of_task_before = self.of_task.max(self.of_task_before);
                (self.of_task, self.task) = (0, u64::from(task.0));
            }
            Event::PhaseStarted { rounds, .. } => self.of_task += u64::from(*rounds),
            Event::RoundOpened { participants, .. } => {
                (self.participants, self.came) = (*participants, 0)
            }
            Event::ClientTrained { .. }
            | Event::ClientFailed { .. }
            | Event::ClientSkipped { .. } => {
                self.came = (self.came + 1).min(self.participants);
            }
            Event::RoundClosed { .. } => {
                self.done += 1;
                (self.participants, self.came) = (0, 0);
            }
            _ => {}
        }
        if recorded {
            self.recorded = self.done;
        }
    }

    /// Returns the number of rounds, assuming that tasks are alike; 0 before a phase has begun.
    pub fn rounds(&self) -> u64 {
        let of_task = self.of_task.max(self.of_task_before);
        let left = self.tasks.saturating_sub(self.task).max(1);
        (self.before + of_task * left).max(self.done)
    }

    /// Estimates the time left from the rounds that took `spent` here; `None` if they are too few.
    pub fn left(&self, spent: Duration) -> Option<Duration> {
        let within = f64::from(self.came) / f64::from(self.participants.max(1));
        let here = (self.done - self.recorded) as f64 + within;
        let rest = self.rounds() as f64 - self.done as f64 - within;
        (here >= ENOUGH && rest > 0.0).then(|| spent.mul_f64(rest / here))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::{ClientId, ParticipantId, Round, TaskId};

    fn started(task: u16) -> Event {
        Event::TaskStarted { task: TaskId(task), classes: vec![], switching_clients: vec![] }
    }

    fn phase(task: u16, rounds: u32) -> Event {
        Event::PhaseStarted { task: TaskId(task), phase: 0, name: String::new(), rounds }
    }

    fn opened(participants: u32) -> Event {
        let (round, task, cohort, behind) = (Round(0), TaskId(0), vec![], vec![]);
        Event::RoundOpened { round, task, phase: 0, cohort, participants, behind }
    }

    fn failed() -> Event {
        let (round, task, participant, client) =
            (Round(0), TaskId(0), ParticipantId(0), ClientId(0));
        let (reason, detail) = (String::new(), String::new());
        Event::ClientFailed { round, task, participant, client, reason, detail }
    }

    fn closed() -> Event {
        let (round, task, missing) = (Round(0), TaskId(0), vec![]);
        Event::RoundClosed { round, task, phase: 0, aggregated: 1, stale: 0, missing }
    }

    fn progress_of(tasks: u32) -> ProgressCounts {
        let mut pace = ProgressCounts::default();
        let method = String::new();
        pace.take(&Event::RunStarted { format: 2, seed: 0, method, clients: 1, tasks }, false);
        pace
    }

    #[test]
    fn rounds_are_those_of_all_phases_of_all_tasks() {
        let mut pace = progress_of(3);
        assert_eq!(pace.rounds(), 0);
        for event in [started(0), phase(0, 4), phase(0, 1)] {
            pace.take(&event, false);
        }
        assert_eq!(pace.rounds(), 15);
        // A task of fewer rounds than its phases may have leaves those of later ones.
        for event in [closed(), closed(), started(1), phase(1, 4)] {
            pace.take(&event, false);
        }
        assert_eq!(pace.rounds(), 2 + 2 * 5);
    }

    #[test]
    fn nothing_is_guessed_from_nothing_nor_from_what_another_process_did() {
        let ten = Duration::from_secs(10);
        let mut pace = progress_of(1);
        for (event, recorded) in [(started(0), true), (phase(0, 10), true)] {
            pace.take(&event, recorded);
        }
        for _ in 0..5 {
            pace.take(&opened(4), true);
            pace.take(&closed(), true);
        }
        assert_eq!((pace.done, pace.rounds(), pace.left(ten)), (5, 10, None));
        pace.take(&opened(4), false);
        assert_eq!(pace.left(ten), None, "no client has finished yet");
        pace.take(&failed(), false);
        // A quarter of a round took ten seconds: 4.75 rounds are left.
        assert_eq!(pace.left(ten), Some(Duration::from_secs(190)));
        pace.take(&closed(), false);
        assert_eq!(pace.left(ten), Some(Duration::from_secs(40)));
    }
}
