//! What everybody in a simulation knows and nobody changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::answers::Answers;
use super::arrivals::{ArrivalRules, Arrivals, Moment};
use super::availability::{Availability, Cohort, Pattern};
use super::clock::Clock;
use super::closing::Late;
use super::error::FederationError;
use super::exchange::Exchange;
use super::faults::{Fault, FaultKind, MOST_FAULTS, Victim};
use super::fleet::Fleet;
use super::frames::Coding;
use super::holdings::{Holdings, Samples, ShardSource};
use super::layouts::{LayoutCache, Place};
use super::links::Links;
use super::participation;
use super::past::Past;
use super::rules::{Population, Rules};
use super::workforce::Workforce;
use crate::data::{Curriculum, Shard, TaskView, Transform};
use crate::learning::TrainingPlan;
use crate::policy::{
    ClassCounts, CohortRule, Lab, Method, MissedTask, ModelFacts, Period, RoundContext, Seat,
    Service, refusal,
};
use crate::quantity::{ClientId, Round, TaskId, VirtualTime};

/// A run before it begins.
pub struct Setup {
    /// Who is asked, how long things take, what fails.
    pub rules: Rules,
    /// The method's name, for the journal.
    pub name: String,
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
    /// Other ranks that compute as well. They change no result.
    pub fleet: Option<Fleet>,
    /// Test mode: workers take jobs out of order and finish late. Changes no result.
    pub shaker: Option<u64>,
    /// What is told instead of computed: all of a run, or its beginning.
    pub past: Option<Arc<Past>>,
    /// What held before, in a run that was forked: one stretch after the other. They are in the past, which is told.
    pub before: Vec<Stretch>,
}

/// The terms that held until a task was over.
pub struct Stretch {
    pub until: TaskId,
    pub terms: Terms,
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
        let facts = lab.facts(rules.clients_of_a_task());
        Setup {
            rules,
            name: name.to_owned(),
            charged: method.charged(),
            method,
            test_transform: Arc::clone(&lab.statistics_transform),
            facts,
            lab,
            shards: ShardSource::Drawn(shards),
            coding: Coding::default(),
            workers: 2.into(),
            fleet: None,
            shaker: None,
            past: None,
            before: Vec::new(),
        }
    }
}

/// What is known of a run whether it is computed or only sized.
#[derive(Clone)]
pub struct Terms {
    /// Who is asked, how long things take, what fails.
    pub rules: Rules,
    /// The method's name.
    pub name: String,
    pub method: Arc<dyn Method>,
    /// Class order and tasks.
    pub curriculum: Arc<Curriculum>,
    /// Local training.
    pub training: TrainingPlan,
    /// What layouts follow from.
    pub facts: ModelFacts,
    /// How messages travel.
    pub coding: Coding,
    /// Whether messages cross a link at all.
    pub charged: bool,
}

/// What the actors of a run share.
pub(super) struct World {
    pub rules: Rules,
    pub name: String,
    pub method: Arc<dyn Method>,
    pub curriculum: Arc<Curriculum>,
    pub training: TrainingPlan,
    pub facts: Arc<ModelFacts>,
    pub coding: Arc<Coding>,
    pub charged: bool,
    pub availability: Availability,
    pub arrivals: Arrivals,
    pub clock: Clock,
    pub links: Links,
    pub holdings: Holdings,
    pub layouts: LayoutCache,
    /// Answers in place of workers and of the policy.
    pub answers: Option<Arc<dyn Answers>>,
    /// What holds once this task is over, where that is something else.
    pub next: Option<(TaskId, Arc<World>)>,
}

impl World {
    /// The world in which a run begins that is computed, or told as far as its past reaches.
    pub fn first(setup: &Setup) -> Result<Arc<World>, FederationError> {
        let mut world = Arc::new(World::new(setup)?);
        for Stretch { until, terms } in setup.before.iter().rev() {
            let before = World::of(terms.clone(), world.holdings.clone())?;
            let (answers, next) = (world.answers.clone(), Some((*until, world)));
            world = Arc::new(World { answers, next, ..before });
        }
        Ok(world)
    }

    /// The world of a run in which the same holds all along.
    pub fn new(setup: &Setup) -> Result<World, FederationError> {
        let terms = Terms {
            rules: setup.rules.clone(),
            name: setup.name.clone(),
            method: Arc::clone(&setup.method),
            curriculum: Arc::clone(&setup.lab.curriculum),
            training: setup.lab.training.clone(),
            facts: setup.facts.clone(),
            coding: setup.coding.clone(),
            charged: setup.charged,
        };
        let samples = Samples {
            dataset: Arc::clone(&setup.lab.dataset),
            shards: setup.shards.clone(),
            test_transform: Arc::clone(&setup.test_transform),
        };
        let mut world = World::of(terms, Holdings::Samples(samples))?;
        world.answers = setup.past.clone().map(|past| past as Arc<dyn Answers>);
        Ok(world)
    }

    /// A world in which everything is computed.
    pub fn of(terms: Terms, holdings: Holdings) -> Result<World, FederationError> {
        let Terms { rules, name, method, curriculum, training, facts, coding, charged } = terms;
        let tasks = curriculum.tasks.len();
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
            (rules.privacy.secure.is_some(), Service::Secure, "be added in secret"),
            (!rules.fold.is_mean(), Service::Robust, "be folded robustly"),
            (rules.faults.entries.iter().any(lies), Service::Lies, "be malicious"),
            (rules.arrivals != ArrivalRules::Global, Service::Mixed, "be of different tasks"),
            (rules.closing.late != Late::Drop, Service::Late, "be folded late"),
        ] {
            if let (true, Some(why)) = (asked, refusal(&*method, &facts, service)) {
                let what = format!("uploads of `{name}` cannot {what}: {why}");
                return Err(FederationError::Impossible(what));
            }
        }
        if rules.privacy.secure.is_some() && !charged {
            return Err(FederationError::Impossible(
                "secure aggregation hides uploads from the server, and these cross no link".into(),
            ));
        }
        if rules.faults.entries.len() > MOST_FAULTS {
            let what = format!("a run has {MOST_FAULTS} kinds of faults at most");
            return Err(FederationError::Impossible(what));
        }
        let samples = |client| {
            let tasks = curriculum.tasks.iter();
            tasks.map(|view| holdings.samples(view, ClientId(client)) as u64).sum()
        };
        // Asked for only where somebody's data say how often it is there.
        let by_data = matches!(rules.availability.pattern, Pattern::ByData { .. });
        let asked = holdings.drawn().filter(|_| by_data).map_or(0, |_| rules.clients);
        let samples = (0..asked).map(samples).collect();
        Ok(World {
            arrivals: Arrivals::new(rules.arrivals.clone(), rules.seed, rules.clients, tasks),
            availability: Availability::new(rules.availability.clone(), rules.seed, samples),
            clock: Clock::new(rules.compute.clone(), rules.seed),
            links: Links::new(rules.links.clone(), rules.faults.clone(), rules.seed),
            facts: Arc::new(facts),
            coding: Arc::new(coding),
            layouts: LayoutCache::default(),
            answers: None,
            next: None,
            rules,
            name,
            method,
            curriculum,
            training,
            charged,
            holdings,
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
        self.holdings.shard(view, client)
    }

    /// A seat's exchange.
    pub fn exchange(&self, context: &RoundContext, seat: &Seat) -> Exchange {
        self.exchange_over(context, seat, self.seat_counts(context.phase_name, seat))
    }

    /// The exchange of a seat that holds so many samples of which row.
    pub fn exchange_over(
        &self,
        context: &RoundContext,
        seat: &Seat,
        counts: ClassCounts,
    ) -> Exchange {
        let RoundContext { phase, round_in_phase, .. } = *context;
        let place = Place { period: context.period.task, phase, round_in_phase };
        Exchange::new(self, (&seat.view, seat.role), place, counts)
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
                    .filter(|client| self.holdings.samples(view, *client) > 0)
                    .collect(),
            )),
        }
    }

    /// Sample passes of a seat's local work.
    pub fn passes(&self, context: &RoundContext, seat: &Seat) -> f64 {
        self.passes_over(context, seat, self.seat_samples(context.phase_name, seat))
    }

    /// Those over so many samples.
    pub fn passes_over(&self, context: &RoundContext, seat: &Seat, samples: usize) -> f64 {
        self.method.seat_work(seat, context, samples, &self.training)
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
