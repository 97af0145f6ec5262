//! What everybody in a simulation knows and nobody changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::arrivals::{ArrivalRules, Arrivals, Moment};
use super::availability::{Availability, Cohort};
use super::clock::Clock;
use super::closing::Late;
use super::error::FederationError;
use super::exchange::Exchange;
use super::faults::{Fault, FaultKind, MOST_FAULTS, Victim};
use super::frames::Coding;
use super::links::Links;
use super::participation;
use super::past::Past;
use super::rules::{Population, Rules};
use super::workforce::Workforce;
use crate::data::{Curriculum, Dataset, FreshClients, Shard, TaskView, Transform};
use crate::learning::TrainingPlan;
use crate::policy::{
    ClassCounts, CohortRule, Lab, Method, MissedTask, ModelFacts, Period, RoundContext, Seat,
    Service, refusal,
};
use crate::quantity::{ClientId, Round, TaskId, VirtualTime};

/// Who holds which samples.
#[derive(Clone, Debug)]
pub enum ShardSource {
    /// Drawn beforehand: one list per task, one shard per client.
    Drawn(Vec<Vec<Shard>>),
    /// Made when a client of a fresh population is asked.
    Fresh(FreshClients),
}

/// A run before it begins.
pub struct Setup {
    /// Who is asked, how long things take, what fails.
    pub rules: Rules,
    /// The method's name, for the journal.
    pub name: String,
    /// The method.
    pub method: Arc<dyn Method>,
    /// Device, backbone, data; every worker gets a clone.
    pub lab: Lab,
    /// Transform of test samples; deterministic.
    pub test_transform: Arc<Transform>,
    /// Who holds which samples.
    pub shards: ShardSource,
    /// What sketches are made from.
    pub facts: ModelFacts,
    /// How messages travel.
    pub coding: Coding,
    /// Whether messages cross a link at all: false for upper bounds such as Joint, whose
    /// exchanges cost nothing and take no time.
    pub charged: bool,
    /// Who computes.
    pub workers: Workforce,
    /// Test mode: workers take jobs out of order and finish late. Changes no result.
    pub shaker: Option<u64>,
    /// What is told instead of computed: all of a run, or its beginning.
    pub past: Option<Arc<Past>>,
}

impl Setup {
    /// These shards (per task, one per client) trained by `method` in `lab` under `rules`, with two workers,
    /// plain coding and the lab's transform of statistics for tests. `name` is the method's.
    pub fn new(
        name: &str,
        method: Arc<dyn Method>,
        lab: Lab,
        shards: Vec<Vec<Shard>>,
        rules: Rules,
    ) -> Setup {
        Setup {
            rules,
            name: name.to_owned(),
            charged: method.charged(),
            method,
            test_transform: Arc::clone(&lab.statistics_transform),
            facts: lab.facts(),
            lab,
            shards: ShardSource::Drawn(shards),
            coding: Coding::default(),
            workers: 2.into(),
            shaker: None,
            past: None,
        }
    }
}

/// The part of a [`Setup`] that actors share.
pub(super) struct World {
    pub rules: Rules,
    pub name: String,
    pub method: Arc<dyn Method>,
    pub dataset: Arc<Dataset>,
    pub curriculum: Arc<Curriculum>,
    pub test_transform: Arc<Transform>,
    pub training: TrainingPlan,
    pub shards: ShardSource,
    pub facts: Arc<ModelFacts>,
    pub coding: Arc<Coding>,
    pub charged: bool,
    pub availability: Availability,
    pub arrivals: Arrivals,
    pub clock: Clock,
    pub links: Links,
    pub past: Option<Arc<Past>>,
}

impl World {
    pub fn new(setup: &Setup) -> Result<World, FederationError> {
        let rules = setup.rules.clone();
        let tasks = setup.lab.curriculum.tasks.len();
        if let ShardSource::Drawn(drawn) = &setup.shards {
            let short = drawn.iter().any(|shards| shards.len() != rules.clients as usize);
            if drawn.len() != tasks || short {
                return Err(FederationError::Impossible(format!(
                    "shards are needed for {} clients in each of {tasks} tasks",
                    rules.clients
                )));
            }
        }
        if rules.clients == 0 {
            return Err(FederationError::Impossible("a federation needs a client".into()));
        }
        if let Some(found) = rules.together().contradictions().next() {
            return Err(FederationError::Impossible(found.why().into()));
        }
        let lies = |fault: &Fault| matches!(fault.kind, FaultKind::Lie(_));
        let name = &setup.name;
        for (asked, service, what) in [
            (rules.privacy.secure.is_some(), Service::Secure, "be added in secret"),
            (!rules.fold.is_mean(), Service::Robust, "be folded robustly"),
            (rules.faults.entries.iter().any(lies), Service::Lies, "be malicious"),
            (rules.arrivals != ArrivalRules::Global, Service::Mixed, "be of different tasks"),
            (rules.closing.late != Late::Drop, Service::Late, "be folded late"),
        ] {
            if let (true, Some(why)) = (asked, refusal(&*setup.method, &setup.facts, service)) {
                let what = format!("uploads of `{name}` cannot {what}: {why}");
                return Err(FederationError::Impossible(what));
            }
        }
        if rules.privacy.secure.is_some() && !setup.charged {
            return Err(FederationError::Impossible(
                "secure aggregation hides uploads from the server, and these cross no link".into(),
            ));
        }
        if rules.faults.entries.len() > MOST_FAULTS {
            let what = format!("a run has {MOST_FAULTS} kinds of faults at most");
            return Err(FederationError::Impossible(what));
        }
        let samples = match &setup.shards {
            ShardSource::Drawn(drawn) => (0..rules.clients as usize)
                .map(|client| drawn.iter().map(|shards| shards[client].len() as u64).sum())
                .collect(),
            ShardSource::Fresh(_) => Vec::new(),
        };
        Ok(World {
            arrivals: Arrivals::new(rules.arrivals.clone(), rules.seed, rules.clients, tasks),
            availability: Availability::new(rules.availability.clone(), rules.seed, samples),
            name: setup.name.clone(),
            method: Arc::clone(&setup.method),
            dataset: Arc::clone(&setup.lab.dataset),
            curriculum: Arc::clone(&setup.lab.curriculum),
            test_transform: Arc::clone(&setup.test_transform),
            training: setup.lab.training.clone(),
            shards: setup.shards.clone(),
            facts: Arc::new(setup.facts.clone()),
            coding: Arc::new(setup.coding.clone()),
            charged: setup.charged,
            past: setup.past.clone(),
            clock: Clock::new(rules.compute.clone(), rules.seed),
            links: Links::new(rules.links.clone(), rules.faults.clone(), rules.seed),
            rules,
        })
    }

    pub fn period(&self, task: usize) -> Period {
        let view = Arc::clone(&self.curriculum.tasks[task]);
        Period::of(view, self.curriculum.tasks.len())
    }

    /// The period of a round, with what those of its cohort, and clients that load clients stand for, have of their own.
    pub fn period_of_round(&self, task: usize, cohort: &[ClientId], moment: &Moment<'_>) -> Period {
        let period = self.period(task);
        if self.arrivals.is_global() {
            return period;
        }
        let load = self.rules.load_clients().map(|client| self.rules.holder(client));
        let own = cohort.iter().copied().chain(load);
        let own = self.arrivals.own_views(&self.curriculum, &period, own, moment);
        period.with_own(own)
    }

    /// What a client holds of a task.
    pub fn shard(&self, view: &TaskView, client: ClientId) -> Shard {
        match &self.shards {
            ShardSource::Drawn(drawn) => Arc::clone(&drawn[view.task.index()][client.index()]),
            ShardSource::Fresh(fresh) => fresh.shard(view, client, self.dataset.train.by_class()),
        }
    }

    /// How many samples of which head row a shard holds.
    pub fn counts(&self, shard: &Shard) -> ClassCounts {
        let mut counts = ClassCounts::new();
        for sample in shard.iter() {
            let class = self.dataset.train.labels()[*sample as usize];
            *counts.entry(self.curriculum.row_of(class)).or_default() += 1;
        }
        counts
    }

    /// A seat's exchange over this shard.
    pub fn exchange(&self, context: &RoundContext, seat: &Seat, shard: &Shard) -> Exchange {
        let place = (context.phase, context.round_in_phase);
        Exchange::new(&*self.method, &self.facts, &seat.view, place, self.counts(shard))
    }

    /// Tasks after `last` and before `now` of which a client holds samples, with them.
    pub fn missed(&self, client: ClientId, last: Option<TaskId>, now: TaskId) -> Vec<MissedTask> {
        let first = last.map_or(0, |task| task.index() + 1);
        let tasks = self.curriculum.tasks.get(first..now.index()).unwrap_or_default();
        let held = tasks.iter().map(|v| MissedTask { task: v.task, shard: self.shard(v, client) });
        held.filter(|missed| !missed.shard.is_empty()).collect()
    }

    /// The clients asked in a round that opens at `now`; `participants` took part earlier in the
    /// period, and those of a sample who are still `busy` stay in it.
    pub fn cohort(
        &self,
        rule: CohortRule,
        view: &TaskView,
        (round, now): (Round, VirtualTime),
        (participants, busy): (&BTreeSet<ClientId>, &BTreeSet<ClientId>),
    ) -> Result<Cohort, FederationError> {
        let rules = &self.rules;
        let everybody_of =
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
            CohortRule::Participants => Ok(everybody_of(participants.iter().copied().collect())),
            CohortRule::Holders if rules.participation.population == Population::Fresh => {
                Err(participation::endless())
            }
            CohortRule::Holders => Ok(everybody_of(
                (0..rules.clients)
                    .map(ClientId)
                    .filter(|client| !self.shard(view, *client).is_empty())
                    .collect(),
            )),
        }
    }

    /// A seat as faults see it.
    pub fn victim(&self, round: Round, seat: &Seat) -> Victim {
        Victim { client: seat.client, round, unit: seat.unit_in_keys() }
    }

    /// Samples per block of an evaluation.
    pub fn evaluation_batch(&self) -> usize {
        self.rules.evaluation_batch.max(1)
    }
}
