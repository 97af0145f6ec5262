//! Immutable data that all actors of a simulation share.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::arrivals::{ArrivalRules, Arrivals, Moment};
use super::availability::{Availability, AvailabilityPattern, Cohort};
use super::client_data::ClientData;
use super::clock::Clock;
use super::closing::LatePolicy;
use super::error::FederationError;
use super::event::Direction;
use super::exchange::Exchange;
use super::faults::{CrashTime, Fault, FaultKind, MOST_FAULTS, Victim};
use super::frames::Coding;
use super::links::Links;
use super::participation;
use super::rules::{Population, Rules};
use super::specs::{SpecCache, SpecKey};
use crate::data::{Shard, TaskSequence, TaskView};
use crate::learning::TrainingPlan;
use crate::policy::{
    Capability, ClassCounts, CohortRule, Method, MissedTask, ModelFacts, Participant, RoundContext,
    RoundWork, Stage, check_capability,
};
use crate::quantity::{ClientId, Round, TaskId, VirtualTime};

/// Definition of a run, whether it is computed or only sized.
#[derive(Clone)]
pub struct RunSpec {
    /// Sampling, timing and faults.
    pub rules: Rules,
    /// Name of the method.
    pub name: String,
    /// Method that the server and the clients follow.
    pub method: Arc<dyn Method>,
    /// Class order and tasks.
    pub task_sequence: Arc<TaskSequence>,
    /// Local training.
    pub training: TrainingPlan,
    /// Facts of the model that layouts follow from.
    pub facts: ModelFacts,
    /// Codecs of messages.
    pub coding: Coding,
    /// True if messages cross a link.
    pub charged: bool,
}

/// Data that the actors of a run share.
pub(super) struct SimulationContext {
    pub rules: Rules,
    pub name: String,
    pub method: Arc<dyn Method>,
    /// True if clients keep nothing between rounds.
    pub stateless: bool,
    pub task_sequence: Arc<TaskSequence>,
    pub training: TrainingPlan,
    pub facts: Arc<ModelFacts>,
    pub coding: Arc<Coding>,
    pub charged: bool,
    pub availability: Availability,
    pub arrivals: Arrivals,
    pub clock: Clock,
    pub links: Links,
    pub holdings: ClientData,
    pub layouts: SpecCache,
    /// Task after which the context changes, and the context from then on.
    pub next: Option<(TaskId, Arc<SimulationContext>)>,
}

impl SimulationContext {
    /// Creates a context with these settings.
    pub fn of(terms: RunSpec, holdings: ClientData) -> Result<SimulationContext, FederationError> {
        let RunSpec { rules, name, method, task_sequence, training, facts, coding, charged } =
            terms;
        let tasks = task_sequence.tasks.len();
        if let Some(drawn) = holdings.drawn()
            && (drawn.len() != tasks || drawn.iter().any(|n| *n != rules.clients as usize))
        {
            return Err(FederationError::Impossible(format!(
                "shards are needed for {} clients in each of {tasks} tasks",
                rules.clients
            )));
        }
        if rules.clients == 0 {
            return Err(FederationError::Impossible("a federation needs a client".into()));
        }
        if let Some(found) = rules.together().contradictions().next() {
            return Err(FederationError::Impossible(found.why().into()));
        }
        let lies = |fault: &Fault| matches!(fault.kind, FaultKind::Malicious { .. });
        for (asked, service, what) in [
            (rules.privacy.secure.is_some(), Capability::SecureAggregation, "be added in secret"),
            (!rules.aggregation.is_mean(), Capability::RobustAggregation, "be aggregated robustly"),
            (rules.faults.entries.iter().any(lies), Capability::MaliciousClients, "be malicious"),
            (
                rules.arrivals != ArrivalRules::Global,
                Capability::MixedTasks,
                "be of different tasks",
            ),
            (rules.closing.late != LatePolicy::Drop, Capability::LateUpdates, "be aggregated late"),
        ] {
            if let (true, Some(why)) = (asked, check_capability(&*method, &facts, service)) {
                let what = format!("uploads of `{name}` cannot {what}: {why}");
                return Err(FederationError::Impossible(what));
            }
        }
        if rules.privacy.secure.is_some() && !charged {
            return Err(FederationError::Impossible(
                "secure aggregation hides uploads from the server, but these cross no link".into(),
            ));
        }
        if rules.faults.entries.len() > MOST_FAULTS {
            let what = format!("a run has {MOST_FAULTS} kinds of faults at most");
            return Err(FederationError::Impossible(what));
        }
        let samples = |client| {
            let tasks = task_sequence.tasks.iter();
            tasks.map(|view| holdings.samples(view, ClientId(client)) as u64).sum()
        };
        // Needed only where availability follows from clients' data.
        let by_data = matches!(rules.availability.pattern, AvailabilityPattern::ByData { .. });
        let asked = holdings.drawn().filter(|_| by_data).map_or(0, |_| rules.clients);
        let samples = (0..asked).map(samples).collect();
        Ok(SimulationContext {
            arrivals: Arrivals::new(rules.arrivals.clone(), rules.seed, rules.clients, tasks),
            availability: Availability::new(rules.availability.clone(), rules.seed, samples),
            clock: Clock::new(rules.compute.clone(), rules.seed),
            links: Links::new(rules.links.clone(), rules.faults.clone(), rules.seed),
            facts: Arc::new(facts),
            coding: Arc::new(coding),
            layouts: SpecCache::default(),
            next: None,
            rules,
            name,
            stateless: method.profile().stateless,
            method,
            task_sequence,
            training,
            charged,
            holdings,
        })
    }

    pub fn stage(&self, task: usize) -> Stage {
        let view = Arc::clone(&self.task_sequence.tasks[task]);
        Stage::of(view, self.task_sequence.tasks.len())
    }

    /// Returns the stage of a round with the views of clients that have their own.
    ///
    /// These are clients of its cohort, and clients that load clients stand for.
    pub fn stage_of_round(&self, task: usize, cohort: &[ClientId], moment: &Moment<'_>) -> Stage {
        let stage = self.stage(task);
        if self.arrivals.is_global() {
            return stage;
        }
        let load = self.rules.load_clients().map(|client| self.rules.holder(client));
        let own = cohort.iter().copied().chain(load);
        let own = self.arrivals.own_views(&self.task_sequence, &stage, own, moment);
        stage.with_own(own)
    }

    /// Returns a client's samples of a task.
    pub fn shard(&self, view: &TaskView, client: ClientId) -> Shard {
        self.holdings.shard(view, client)
    }

    /// Returns a participant's exchange.
    pub fn exchange(&self, context: &RoundContext, participant: &Participant) -> Exchange {
        self.exchange_over(
            context,
            participant,
            self.participant_counts(context.phase_name, participant),
        )
    }

    /// Returns the exchange of a participant with these label counts.
    pub fn exchange_over(
        &self,
        context: &RoundContext,
        participant: &Participant,
        counts: ClassCounts,
    ) -> Exchange {
        let RoundContext { phase, round_in_phase, .. } = *context;
        let place = SpecKey { stage: context.stage.task, phase, round_in_phase };
        Exchange::new(self, (&participant.view, participant.role), place, counts)
    }

    /// Returns the tasks after `last` and before `now` of which a client holds samples, with the samples.
    pub fn missed(&self, client: ClientId, last: Option<TaskId>, now: TaskId) -> Vec<MissedTask> {
        let first = last.map_or(0, |task| task.index() + 1);
        let tasks = self.task_sequence.tasks.get(first..now.index()).unwrap_or_default();
        let held = tasks.iter().map(|v| MissedTask { task: v.task, shard: self.shard(v, client) });
        held.filter(|missed| !missed.shard.is_empty()).collect()
    }

    /// Returns the cohort of a round that opens at `now`.
    ///
    /// `participants` took part earlier in the stage, and sampled clients that are still `busy` stay in it.
    pub fn cohort(
        &self,
        rule: CohortRule,
        view: &TaskView,
        (round, now): (Round, VirtualTime),
        (participants, busy): (&BTreeSet<ClientId>, &BTreeSet<ClientId>),
    ) -> Result<Cohort, FederationError> {
        let rules = &self.rules;
        let present_of =
            |list: Vec<ClientId>| self.availability.present(list.iter().copied(), list.len(), now);
        match rule {
            CohortRule::Sampled => Ok(participation::present(
                &rules.participation,
                rules.clients,
                rules.seed,
                (view.task, round),
                (&self.availability, now),
                busy,
            )),
            CohortRule::Participants => Ok(present_of(participants.iter().copied().collect())),
            CohortRule::Holders if rules.participation.population == Population::Fresh => {
                Err(participation::endless())
            }
            CohortRule::Holders => Ok(present_of(
                (0..rules.clients)
                    .map(ClientId)
                    .filter(|client| self.holdings.samples(view, *client) > 0)
                    .collect(),
            )),
        }
    }

    /// Returns the sample passes of a participant's local work.
    pub fn passes(&self, context: &RoundContext, participant: &Participant) -> f64 {
        self.passes_over(
            context,
            participant,
            self.participant_samples(context.phase_name, participant),
        )
    }

    /// Returns the sample passes of a participant's local work over `samples` samples.
    pub fn passes_over(
        &self,
        context: &RoundContext,
        participant: &Participant,
        samples: usize,
    ) -> f64 {
        let work = RoundWork::Participant { participant, samples, plan: &self.training };
        self.method.cost(context, &work)
    }

    /// Returns a participant as faults see it.
    pub fn victim(&self, round: Round, participant: &Participant) -> Victim {
        Victim { client: participant.client, round, unit: participant.dummy_client_in_keys() }
    }

    /// Returns true if a participant trains whenever its download arrives, and starts from that alone.
    ///
    /// Its client keeps no state, is always there, does not crash before the end of its work, and gets the download as
    /// it was sent.
    pub fn certainly_trains(&self, round: Round, participant: &Participant) -> bool {
        let (faults, seed) = (&self.rules.faults, self.rules.seed);
        let victim = self.victim(round, participant);
        let crash = faults.crash(seed, victim).map(|(when, _)| when);
        participant.trains()
            && self.stateless
            && self.availability.is_always()
            && crash.is_none_or(|when| when == CrashTime::After)
            && faults.corrupts(seed, victim, Direction::Down).is_none()
    }

    /// Returns the number of samples per block of an evaluation.
    pub fn evaluation_batch(&self) -> usize {
        self.rules.evaluation_batch.max(1)
    }
}
