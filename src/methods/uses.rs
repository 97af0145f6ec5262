//! Keys of a scenario that a method uses, derived from its phases and a participant's cost in each.
//!
//! Participation matters if phases sample their clients, `federation.rounds` if phases grow with it, and `[client]` if
//! the passes of a participant depend on the plan of training. Keys that a method ignores are listed by name, so that
//! methods are not compared at a participation that one of them does not have.

mod rounds;
mod wire;

use std::sync::Arc;

use crate::data::TaskView;
use crate::learning::TrainingPlan;
use crate::policy::{
    CohortRule, Method, RoundContext, RoundWork, Stage, one_participant_per_client,
};
use crate::quantity::{ClientId, TaskId};
use crate::scenario::{CohortSize, Ignored, Scenario};

pub use wire::Carried;

/// Phases of a method over the tasks of a run, and the keys that affect each.
pub struct Uses {
    tasks: usize,
    phases: Vec<PhaseUse>,
    /// Tasks whose phases grow with `federation.rounds`.
    rounds: Vec<usize>,
}

/// Phase that has rounds.
struct PhaseUse {
    task: usize,
    name: &'static str,
    rounds: u32,
    cohort: CohortRule,
    /// True if its passes depend on the training plan.
    trains: bool,
    /// True if its passes depend on the number of epochs.
    epochs: bool,
}

/// Tasks in which a property holds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reach {
    Nowhere,
    FirstTask,
    Later,
}

/// Reason for which a key has no effect.
struct Lack {
    /// True if the key has no effect at all, false if it has none in some tasks.
    whole: bool,
    why: String,
}

impl Lack {
    fn whole(why: impl Into<String>) -> Lack {
        Lack { whole: true, why: why.into() }
    }

    fn partly(why: impl Into<String>) -> Lack {
        Lack { whole: false, why: why.into() }
    }
}

/// Number of samples of a participant, so large that any limit of a plan applies.
const SAMPLES: usize = 100_000;

/// Returns the sample passes of a client in the first round of a phase of a stage.
fn passes(method: &dyn Method, (stage, phase): (&Stage, usize), plan: &TrainingPlan) -> f64 {
    let round = RoundContext::alone(stage, phase);
    let participants = one_participant_per_client(stage, &[ClientId(0)]);
    let work = |participant| RoundWork::Participant { participant, samples: SAMPLES, plan };
    participants.iter().map(|participant| method.cost(&round, &work(participant))).sum()
}

impl Uses {
    /// Derives the uses of a method in a run of this number of tasks, with the rounds of the scenario.
    pub fn of(method: &dyn Method, tasks: usize, rounds: u32) -> Uses {
        let mut uses = Uses { tasks, phases: Vec::new(), rounds: Vec::new() };
        for task in 0..tasks {
            let rows = task..task + 1;
            let view = TaskView { task: TaskId(task as u16), rows, classes: vec![task as u32] };
            let view = Arc::new(view);
            let stage = Stage::of(Arc::clone(&view), tasks);
            let phases = method.phases(&stage, rounds);
            let more = method.phases(&stage, rounds.saturating_add(1));
            if phases != more {
                uses.rounds.push(task);
            }
            let listed = phases.iter().enumerate().filter(|(_, phase)| phase.rounds > 0);
            uses.phases.extend(listed.map(|(index, phase)| {
                let passes = |plan: &TrainingPlan| passes(method, (&stage, index), plan);
                let plan = TrainingPlan::default();
                let usual = passes(&plan);
                let epochs =
                    usual != passes(&TrainingPlan { epochs: plan.epochs + 1, ..plan.clone() });
                let batch = usual != passes(&TrainingPlan { batch: plan.batch + 1, ..plan });
                PhaseUse {
                    task,
                    name: phase.name,
                    rounds: phase.rounds,
                    cohort: phase.cohort,
                    trains: epochs || batch,
                    epochs,
                }
            }));
        }
        uses
    }

    /// Returns the keys of a scenario that its method ignores.
    pub fn ignored(&self, scenario: &Scenario) -> Vec<Ignored> {
        let mut ignored = Vec::new();
        let mut say = |key: &'static str, what: String, Lack { whole, why }: Lack| {
            let name = &scenario.method.name;
            let lacks = if whole { "has no effect for" } else { "only applies partly to" };
            let message = format!("{what} {lacks} `{name}`: {why}");
            ignored.push(Ignored::new(key, message).partly(!whole));
        };
        let sampling = match scenario.participation.participants {
            CohortSize::All => None,
            CohortSize::Count { count } => Some(("participation.count", f64::from(count))),
            CohortSize::Fraction { fraction } => Some(("participation.fraction", fraction)),
        };
        let lack = match scenario.federation.clients {
            1 => Some(Lack::whole("there is one client")),
            _ => self.sampling(),
        };
        if let (Some((key, value)), Some(lack)) = (sampling, lack) {
            say(key, format!("{key} = {value}"), lack);
        }
        if let Some(lack) = self.growing() {
            let key = "federation.rounds";
            say(key, format!("{key} = {}", scenario.federation.rounds), lack);
        }
        match (self.training(), self.counting()) {
            (Some(lack), _) => say("client", "[client]".to_owned(), lack),
            (None, Some(lack)) => {
                let key = "client.epochs";
                say(key, format!("{key} = {}", scenario.client.epochs), lack);
            }
            (None, None) => {}
        }
        ignored.extend(self.unreached(scenario));
        ignored
    }

    /// Returns the ignored keys of any scenario, for `fedcast methods show`.
    pub fn sentences(&self) -> Vec<String> {
        let epochs = self.counting().filter(|_| self.training().is_none());
        let all = [
            ("[participation]", self.sampling()),
            ("federation.rounds", self.growing()),
            ("[client]", self.training()),
            ("client.epochs", epochs),
        ];
        all.into_iter().filter_map(|(key, lack)| Some(format!("{key}: {}", lack?.why))).collect()
    }

    /// Returns the reason for which participation has no effect, at all or in some tasks.
    fn sampling(&self) -> Option<Lack> {
        let holders = self.named(|phase| phase.cohort == CohortRule::Holders)?;
        let all = format!("every holder of a task's data takes part in {holders}");
        let is_sampled = |phase: &PhaseUse| phase.cohort == CohortRule::Sampled;
        Some(match (self.named(is_sampled), self.reach(is_sampled)) {
            (None, _) => Lack::whole(all),
            (Some(sampled), Reach::FirstTask) => Lack::partly(format!(
                "{all}; clients are sampled for {sampled} of the first task only"
            )),
            (Some(sampled), _) => Lack::partly(format!("{all}; clients are sampled for {sampled}")),
        })
    }

    /// Returns the reason for which `federation.rounds` has no effect, at all or in some tasks.
    fn growing(&self) -> Option<Lack> {
        let last = || {
            let of_task = self.phases.iter().filter(|phase| phase.task + 1 == self.tasks);
            let counted = |phase: &PhaseUse| {
                let word = if phase.rounds == 1 { "round" } else { "rounds" };
                format!("{} {word} of `{}`", phase.rounds, phase.name)
            };
            of_task.map(counted).collect::<Vec<_>>().join(" and ")
        };
        match self.rounds.as_slice() {
            [] => Some(Lack::whole(format!("a task takes {}", last()))),
            [0] if self.tasks > 1 => Some(Lack::partly(format!(
                "it only applies to the first task, a later one takes {}",
                last()
            ))),
            _ => None,
        }
    }

    /// Returns the reason for which `[client]` has no effect, at all or in some tasks.
    fn training(&self) -> Option<Lack> {
        let nothing = "clients do not train, they make one pass over their data";
        match self.reach(|phase| phase.trains) {
            Reach::Nowhere => Some(Lack::whole(nothing)),
            Reach::FirstTask if self.tasks > 1 => {
                Some(Lack::partly(format!("it only applies to the first task; later {nothing}")))
            }
            _ => None,
        }
    }

    /// Returns the reason for which `client.epochs` has no effect.
    fn counting(&self) -> Option<Lack> {
        let nowhere = self.reach(|phase| phase.epochs) == Reach::Nowhere;
        nowhere.then(|| Lack::whole("the method itself defines the length of training"))
    }

    fn reach(&self, holds: impl Fn(&PhaseUse) -> bool) -> Reach {
        match self.phases.iter().filter(|phase| holds(phase)).map(|phase| phase.task).max() {
            None => Reach::Nowhere,
            Some(0) => Reach::FirstTask,
            Some(_) => Reach::Later,
        }
    }

    /// Returns the names of the phases for which `holds` is true, each once; `None` if there are none.
    fn named(&self, holds: impl Fn(&PhaseUse) -> bool) -> Option<String> {
        let mut names: Vec<String> = Vec::new();
        for phase in self.phases.iter().filter(|phase| holds(phase)) {
            let name = format!("`{}`", phase.name);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        (!names.is_empty()).then(|| names.join(" and "))
    }
}
