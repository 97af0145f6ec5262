//! Arrival times of tasks at clients.
//!
//! A stage begins when its task reaches the first client, and has the rounds that the method gives a task. With
//! [`ArrivalRules::Global`] every client has the task then. Otherwise some clients still work on earlier tasks in the
//! first rounds of a stage, or in all of them: a round has old-task stragglers and new-task clients. Every client has
//! the first task from the start, a client works on the newest task that has reached it, and the work of every client
//! is fixed when a round opens.
//!
//! ```
//! use fedcast::federation::arrivals::{ArrivalRules, Arrivals, Moment};
//! use fedcast::quantity::{ClientId, VirtualTime};
//! let paced = Arrivals::new(ArrivalRules::Paced { ahead: 0.5, lead: 0.5 }, 7, 4, 3);
//! let began = [VirtualTime(0), VirtualTime(9)];
//! let has = |client, round| {
//!     let moment = Moment { began: &began, now: VirtualTime(12), round, rounds: 4 };
//!     paced.task_of(ClientId(client), &moment).0
//! };
//! // Half of the clients have task 1 as it begins, the others after half of its four rounds.
//! assert_eq!((0..4).map(|client| has(client, 1)).sum::<u16>(), 2);
//! assert_eq!((0..4).map(|client| has(client, 2)).sum::<u16>(), 4);
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::permutation::Permutation;
use crate::data::{ClientTask, ClientTasks, TaskSequence, TaskView};
use crate::numerics::scalar_distribution::ScalarDistribution;
use crate::numerics::share::{least_share_of, share_of};
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::Stage;
use crate::quantity::{ClientId, TaskId, VirtualTime};

/// Rule for the arrival of tasks at clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ArrivalRules {
    /// All clients at once.
    #[default]
    Global,
    /// After a lag in seconds, drawn per client and task, relative to the first client that gets the task.
    Lag(ScalarDistribution),
    /// At recorded times. A client without a line for a task has it from the beginning of the stage; if all clients
    /// have a line, the stage begins at the earliest time.
    Trace(Arc<BTreeMap<(TaskId, ClientId), VirtualTime>>),
    /// A group has tasks earlier than the others (Fed-CPrompt's asynchronous mode).
    Paced {
        /// Share of clients in that group, drawn once; rounded down, at least one.
        ahead: f64,
        /// Fraction of a task's rounds by which they are earlier, rounded up.
        lead: f64,
    },
    /// Every client has its own tasks, which begin as the client tasks define (Powder's benchmark).
    ClientTasks(Arc<ClientTasks>),
}

/// Position of a run as a round opens.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// Start times of the stages so far; the last one is the current one.
    pub began: &'a [VirtualTime],
    /// Virtual time at which the round opens.
    pub now: VirtualTime,
    /// Number of the round within its stage, over all phases, from 0.
    pub round: u32,
    /// Rounds of the stage, at most.
    pub rounds: u32,
}

/// The rules of a run, with what was drawn once.
#[derive(Clone, Debug)]
pub struct Arrivals {
    rules: ArrivalRules,
    seed: u64,
    clients: u32,
    /// Smallest lag of any client per task, in seconds; empty unless lags are drawn.
    first: Vec<f64>,
    ahead: BTreeSet<ClientId>,
}

impl Arrivals {
    /// Creates the arrivals of `clients` clients and `tasks` tasks, under a run's seed.
    pub fn new(rules: ArrivalRules, seed: u64, clients: u32, tasks: usize) -> Arrivals {
        let mut arrivals =
            Arrivals { rules, seed, clients, first: Vec::new(), ahead: BTreeSet::new() };
        match &arrivals.rules {
            ArrivalRules::Lag(distribution) => {
                let least = |task| {
                    let lags = (0..clients)
                        .map(|client| arrivals.lag(distribution, task, ClientId(client)));
                    lags.fold(f64::INFINITY, f64::min)
                };
                arrivals.first = (0..tasks).map(|task| least(TaskId(task as u16))).collect();
            }
            ArrivalRules::Paced { ahead, .. } => {
                let order = Permutation::new(u64::from(clients), arrivals.key());
                let count = share_of(clients as usize, *ahead).max(1).min(clients as usize);
                arrivals.ahead =
                    (0..count as u64).map(|at| ClientId(order.at(at) as u32)).collect();
            }
            ArrivalRules::Global | ArrivalRules::Trace(_) | ArrivalRules::ClientTasks(_) => {}
        }
        arrivals
    }

    /// Returns true if every client has a task as its stage begins.
    pub fn is_global(&self) -> bool {
        self.rules == ArrivalRules::Global
    }

    /// Returns the time before which the stage of a task does not begin.
    pub fn due(&self, task: TaskId) -> VirtualTime {
        let ArrivalRules::Trace(lines) = &self.rules else { return VirtualTime::ZERO };
        let all_clients = (task, ClientId(0))..=(task, ClientId(u32::MAX));
        let listed = lines.range(all_clients);
        if listed.clone().count() < self.clients as usize {
            return VirtualTime::ZERO;
        }
        listed.map(|(_, at)| *at).min().unwrap_or_default()
    }

    /// Returns the newest task that a client has.
    pub fn task_of(&self, client: ClientId, moment: &Moment<'_>) -> TaskId {
        let has = |task: &usize| self.has(client, *task, moment);
        TaskId((1..moment.began.len()).rev().find(has).unwrap_or(0) as u16)
    }

    /// Returns the views of clients with their own task in a round of a stage: an earlier task, or a client task.
    pub fn own_views(
        &self,
        task_sequence: &TaskSequence,
        stage: &Stage,
        clients: impl Iterator<Item = ClientId>,
        moment: &Moment<'_>,
    ) -> BTreeMap<ClientId, Arc<TaskView>> {
        let view = |client: ClientId| {
            let view = task_sequence.view_of(self.task_of(client, moment), client);
            (!Arc::ptr_eq(view, &stage.view)).then(|| (client, Arc::clone(view)))
        };
        clients.filter_map(view).collect()
    }

    /// Returns true if a task whose stage has begun has reached a client.
    fn has(&self, client: ClientId, task: usize, moment: &Moment<'_>) -> bool {
        let (began, id) = (moment.began[task], TaskId(task as u16));
        match &self.rules {
            ArrivalRules::Global => true,
            ArrivalRules::ClientTasks(client_tasks) => {
                client_tasks.begins(ClientTask { stage: id, client })
            }
            ArrivalRules::Lag(distribution) => {
                let lag = self.lag(distribution, id, client) - self.first[task];
                began + VirtualTime::from_seconds(lag) <= moment.now
            }
            ArrivalRules::Trace(lines) => {
                lines.get(&(id, client)).is_none_or(|at| *at <= moment.now)
            }
            ArrivalRules::Paced { lead, .. } => {
                let lead = least_share_of(moment.rounds as usize, *lead);
                let current = task + 1 == moment.began.len();
                !current || self.ahead.contains(&client) || moment.round as usize >= lead
            }
        }
    }

    fn lag(&self, distribution: &ScalarDistribution, task: TaskId, client: ClientId) -> f64 {
        distribution.draw(&mut self.key().task(u32::from(task.0)).client(client.0).rng()).max(0.0)
    }

    /// Returns the key of all draws. Task 0 has no lag, so the group ahead is drawn there.
    fn key(&self) -> StreamKey {
        StreamKey::new(self.seed, Domain::Arrival)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn tasks(arrivals: &Arrivals, began: &[u64], now: u64) -> Vec<u16> {
        let began: Vec<VirtualTime> = began.iter().map(|at| VirtualTime(at * SECOND)).collect();
        let now = VirtualTime(now * SECOND);
        let moment = Moment { began: &began, now, round: 0, rounds: 4 };
        (0..arrivals.clients).map(|client| arrivals.task_of(ClientId(client), &moment).0).collect()
    }

    #[test]
    fn lags_count_from_the_first_client_and_all_get_every_task() {
        let lag = ScalarDistribution::log_normal(100.0, 1.0);
        let arrivals = Arrivals::new(ArrivalRules::Lag(lag), 3, 20, 3);
        let fresh = tasks(&arrivals, &[0, 1000], 1000);
        assert_eq!(fresh.iter().filter(|task| **task == 1).count(), 1, "{fresh:?}");
        let later = tasks(&arrivals, &[0, 1000], 1100);
        assert!(fresh.iter().zip(&later).all(|(before, after)| before <= after));
        let some = later.iter().filter(|task| **task == 1).count();
        assert!((3..20).contains(&some), "{later:?}");
        assert_eq!(tasks(&arrivals, &[0, 1000], 1_000_000), [1; 20]);
        // Some client has a task as its stage begins, also where few have the one before.
        let third = tasks(&arrivals, &[0, 1000, 1010], 1010);
        assert!(third.contains(&0) && third.contains(&2), "{third:?}");
        // More clients change no draw.
        let more = Arrivals { clients: 20, ..Arrivals::new(arrivals.rules.clone(), 3, 20, 9) };
        assert_eq!(tasks(&more, &[0, 1000], 1100), later);
    }

    #[test]
    fn recorded_tasks_wait_for_the_first_client() {
        let at = |task: u16, client: u32, seconds: u64| {
            ((TaskId(task), ClientId(client)), VirtualTime(seconds * SECOND))
        };
        let lines = [at(1, 0, 50), at(1, 1, 70), at(2, 0, 60), at(2, 1, 60)];
        let rules = ArrivalRules::Trace(Arc::new(lines.into_iter().collect()));
        let arrivals = Arrivals::new(rules, 0, 2, 3);
        assert_eq!(arrivals.due(TaskId(1)), VirtualTime(50 * SECOND));
        assert_eq!(tasks(&arrivals, &[0, 50], 50), [1, 0]);
        // A newer task takes the place of one that comes later.
        assert_eq!(tasks(&arrivals, &[0, 50, 60], 60), [2, 2]);
        // A client that no line names has the task as soon as the stage begins.
        let three = Arrivals { clients: 3, ..arrivals };
        assert_eq!(three.due(TaskId(1)), VirtualTime::ZERO);
        assert_eq!(tasks(&three, &[0, 5], 5), [0, 0, 1]);
    }
}
