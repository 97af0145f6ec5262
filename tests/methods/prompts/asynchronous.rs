//! Fed-CPrompt's asynchronous form: clients of one round are at different tasks, and updates come late. On the engine,
//! and by values: what the server holds after a round is worked out here from what travelled in it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use fedcast::data::Shard;
use fedcast::federation::arrivals::ArrivalRules;
use fedcast::federation::{
    ClosingGoal, ClosingRules, CohortSize, ComputeRules, Event, Interrupt, LatePolicy, LinkRules,
    MemorySink, ParticipationSection, Rules, Setup, Staleness, simulate,
};
use fedcast::numerics::streams::StreamKey;
use fedcast::policy::{
    ClientResult, Failure, Member, MethodWrapper, Participant, PolicyError, RunContext, Server,
    ServerWrapper, Wrapped,
};
use fedcast::quantity::{ParticipantId, TaskId};
use fedcast::scenario::{LinksSection, Preset, TimeSection};
use fedcast::wire::Body;

use super::*;

const CLIENTS: usize = 4;
const ROUNDS: u32 = 4;

/// One participant's training.
struct Trained {
    participant: Participant,
    key: StreamKey,
    samples: usize,
    sent: Arc<Message>,
    up: Message,
}

/// Observations of a run: trainings in any order, and the server's state before and after each round.
#[derive(Default)]
struct Seen {
    trained: Vec<Trained>,
    rounds: BTreeMap<Round, [ParameterSet; 2]>,
}

/// The method, watched.
#[derive(Clone)]
struct Watched {
    method: Arc<dyn Method>,
    seen: Arc<Mutex<Seen>>,
}

struct WatchedServer {
    server: Box<dyn Server>,
    seen: Arc<Mutex<Seen>>,
}

impl MethodWrapper for Watched {
    fn inner(&self) -> &dyn Method {
        &*self.method
    }

    fn server(&self, ctx: &RunContext, init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        let server = self.method.server(ctx, init)?;
        let seen = Arc::clone(&self.seen);
        Ok(Box::new(Wrapped(WatchedServer { server, seen })))
    }

    fn train(
        &self,
        members: &mut [Member],
        ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        let outcomes = self.method.train(members, ctx);
        let mut seen = self.seen.lock().unwrap();
        for (member, outcome) in members.iter().zip(&outcomes) {
            seen.trained.push(Trained {
                participant: member.participant.clone(),
                key: member.key,
                samples: member.shard.len(),
                sent: Arc::clone(&member.download),
                up: outcome.as_ref().unwrap().upload.clone(),
            });
        }
        outcomes
    }
}

impl ServerWrapper for WatchedServer {
    fn inner(&self) -> &dyn Server {
        &*self.server
    }

    fn inner_mut(&mut self) -> &mut dyn Server {
        &mut *self.server
    }

    fn end_round(
        &mut self,
        round: &RoundContext,
        aggregate: Option<Aggregate>,
        ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        let before = parameters_of(&self.server.save()).unwrap();
        self.server.end_round(round, aggregate, ctx)?;
        let after = parameters_of(&self.server.save()).unwrap();
        self.seen.lock().unwrap().rounds.insert(round.round, [before, after]);
        Ok(())
    }
}

/// Half of the clients move to a task after half of the rounds of the one before.
fn paced() -> Rules {
    Rules {
        seed: SEED,
        clients: CLIENTS as u32,
        rounds: ROUNDS,
        arrivals: ArrivalRules::Paced { ahead: 0.5, lead: 0.5 },
        ..Rules::default()
    }
}

/// A run of three tasks, whose clients hold unlike numbers of samples, and its journal.
fn ran(form: C2lForm, rules: Rules) -> (Seen, Vec<fedcast::federation::Entry>) {
    let ctx = run_context(3, ClassPermutation::Native);
    let by_class = ctx.dataset.train.by_class();
    // Of a class of 24 samples 3, 5, 7 and 9.
    let shards_of = |classes: &[u32]| -> Vec<Shard> {
        let part = |from: usize, to: usize| {
            let mut own: Vec<u32> =
                classes.iter().flat_map(|c| by_class[*c as usize][from..to].to_vec()).collect();
            own.sort_unstable();
            own.into()
        };
        vec![part(0, 3), part(3, 8), part(8, 15), part(15, 24)]
    };
    let held = ctx.task_sequence.tasks.iter().map(|view| shards_of(&view.classes)).collect();
    let seen = Arc::new(Mutex::new(Seen::default()));
    let watched = Watched { method: contrast_of(form), seen: Arc::clone(&seen) };
    let facts = ModelFacts { clients: CLIENTS, ..facts() };
    let setup = Setup {
        facts,
        workers: 1.into(),
        ..Setup::new("asynchronous", Arc::new(Wrapped(watched)), ctx, held, rules)
    };
    let journal = MemorySink::default();
    simulate(setup, Box::new(journal.clone()), Box::new(()), Interrupt::default()).unwrap();
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    (seen, journal.entries())
}

/// An upload that counts in a round, and what is left of its step.
type Counted<'a> = (&'a Trained, f64);

/// Rows of components or of the head after a round, by those who learned them, or by all that came.
fn mean(
    before: &[f32],
    name: &str,
    own: Range<usize>,
    trainings: &[Counted<'_>],
    all: usize,
) -> Vec<f32> {
    let mut sums = vec![0.0; before.len()];
    for (trained, left) in trainings {
        let (sent, up) = (&trained.sent.parameters, &trained.up.parameters);
        let pairs = rows(up, name, own.clone()).iter().zip(rows(sent, name, own.clone()));
        let weight = trained.samples as f64;
        for (sum, (up, sent)) in sums.iter_mut().zip(pairs) {
            *sum += left * weight * (f64::from(*up) - f64::from(*sent));
        }
    }
    let value = |(before, sum): (&f32, f64)| (f64::from(*before) + sum / all as f64) as f32;
    before.iter().zip(sums).map(value).collect()
}

/// Compares every row that a task owns after a round; returns true if a mean over all clients would be noticed.
fn compare(round: Round, [before, after]: &[ParameterSet; 2], counted: &[Counted<'_>]) -> bool {
    let all_samples: usize = counted.iter().map(|(trained, _)| trained.samples).sum();
    let mut differs = false;
    for task in 0..3 {
        let of_task =
            |(trained, _): &&Counted<'_>| trained.participant.view.task == TaskId(task as u16);
        let trainings: Vec<Counted<'_>> = counted.iter().filter(of_task).copied().collect();
        let samples: usize = trainings.iter().map(|(trained, _)| trained.samples).sum();
        // Two components and two classes a task.
        let own = 2 * task..2 * task + 2;
        let parts = (0..2).flat_map(|block| ComponentPart::ALL.map(|part| part.name(block)));
        for name in parts.chain(["head.weight", "head.bias"].map(str::to_owned)) {
            let (was, is) = (rows(before, &name, own.clone()), rows(after, &name, own.clone()));
            if trainings.is_empty() {
                assert_eq!(was, is, "{round}, {name}: nobody learnt task {task}");
                continue;
            }
            let expected = mean(was, &name, own.clone(), &trainings, samples);
            assert!(far(is, &expected) < 1e-6, "{round}, task {task}, {name}");
            assert!(far(is, was) > 1e-5, "{round}, task {task}, {name} is learnt");
            differs |= far(is, &mean(was, &name, own.clone(), &trainings, all_samples)) > 1e-4;
        }
    }
    differs
}

/// Rows of a task are the mean, by samples, of those who learned it; those of the other group count for nothing.
#[test]
fn components_of_a_task_are_averaged_over_the_group_that_learns_it() {
    for form in [C2lForm::FeatureHinge, C2lForm::Prompt] {
        let (seen, _) = ran(form, paced());
        assert_eq!(seen.rounds.len(), 3 * ROUNDS as usize);
        let mut mixed = 0;
        for (round, states) in &seen.rounds {
            let here = |t: &&Trained| t.key == t.participant.key(SEED, *round);
            let counted: Vec<Counted<'_>> =
                seen.trained.iter().filter(here).map(|trained| (trained, 1.0)).collect();
            assert_eq!(counted.len(), CLIENTS);
            let first = counted[0].0.participant.view.task;
            let tasks_differ = counted.iter().any(|(t, _)| t.participant.view.task != first);
            assert_eq!(compare(*round, states, &counted), tasks_differ, "{round}");
            mixed += usize::from(tasks_differ);
        }
        // The first half of the rounds of two tasks.
        assert_eq!(mixed, 4);
    }
}

/// A client that is behind knows components up to its own task: those of later tasks, which travel as well, change
/// nothing for it, and those of earlier ones do.
#[test]
fn a_client_that_is_behind_ignores_what_comes_after_its_task() {
    for form in [C2lForm::FeatureHinge, C2lForm::FeatureSoftmax, C2lForm::Prompt] {
        let method = contrast_of(form);
        let ctx = run_context(3, ClassPermutation::Native);
        let (seen, _) = ran(form, paced());
        let behind = |t: &&Trained| {
            let round = (0..12).map(Round).find(|round| t.key == t.participant.key(SEED, *round));
            t.participant.view.task == TaskId(1) && round.is_some_and(|round| round.0 / ROUNDS == 2)
        };
        let trained = seen.trained.iter().find(behind).expect("somebody is behind");
        let shard: Shard = ctx.dataset.train.by_class()[2][..6].into();
        let upload = |changed: Range<usize>| {
            let mut download = (*trained.sent).clone();
            for (name, Parameter { shape, values }) in trained.sent.parameters.iter() {
                let (shape, mut values) = (shape.clone(), values.to_vec());
                let width = values.len() / shape[0];
                let part = &mut values[changed.start * width..changed.end * width];
                part.iter_mut().zip(0..).for_each(|(v, i)| *v += (i as f32).sin());
                download
                    .parameters
                    .insert(Arc::clone(name), Parameter { shape, values: values.into() });
            }
            let mut member = Member {
                participant: trained.participant.clone(),
                phase: 0,
                download: Arc::new(download),
                state: Body::default(),
                shard: Arc::clone(&shard),
                key: trained.key,
                missed: Vec::new(),
            };
            let outcome = method.train(std::slice::from_mut(&mut member), &ctx).remove(0).unwrap();
            let sets = ["prompt.00.component", "head.weight"];
            let own = |name: &&str| rows(&outcome.upload.parameters, name, 2..4).to_vec();
            sets.iter().map(own).collect::<Vec<_>>().concat()
        };
        let plain = upload(0..0);
        assert_eq!(upload(4..6), plain, "{form:?}: later tasks");
        assert!(far(&upload(0..2), &plain) > 1e-4, "{form:?}: earlier tasks");
    }
}

/// A late update goes into the open round with what staleness leaves of its step, into the rows of its own task.
#[test]
fn late_updates_go_to_the_rows_of_their_task() {
    let halving = Staleness { power: 1.0, most: u32::MAX };
    let rules = Rules {
        closing: ClosingRules {
            enough: ClosingGoal::Buffer(2),
            late: LatePolicy::Aggregate(halving),
            ..ClosingRules::default()
        },
        participation: ParticipationSection {
            participants: CohortSize::Count { count: 3 },
            ..ParticipationSection::default()
        },
        compute: ComputeRules {
            sample_ms: 30.0,
            ..ComputeRules::from(&TimeSection::of(Preset::Mobile))
        },
        links: LinkRules::from(&LinksSection::of(Preset::Mobile)),
        ..paced()
    };
    let (seen, entries) = ran(C2lForm::FeatureHinge, rules);
    let mut folded: BTreeMap<Round, Vec<(Round, ParticipantId)>> = BTreeMap::new();
    let (mut late, mut mixed) = (0, 0);
    for entry in &entries {
        match &entry.event {
            Event::UpdateStale { round, participant, into, .. } => {
                folded.entry(*into).or_default().push((*round, *participant));
            }
            Event::RoundClosed { round, missing, .. } => {
                let missing: Vec<ParticipantId> = missing.clone();
                let timely = (0..CLIENTS as u32)
                    .map(ParticipantId)
                    .filter(|participant| !missing.contains(participant));
                let timely: Vec<_> = timely.map(|participant| (*round, participant)).collect();
                folded.entry(*round).or_default().extend(timely);
            }
            _ => {}
        }
    }
    for (round, states) in &seen.rounds {
        let of = |(from, participant): &(Round, ParticipantId)| {
            let is = |t: &&Trained| {
                t.participant.id == *participant && t.key == t.participant.key(SEED, *from)
            };
            let left = 1.0 / (1.0 + f64::from(round.0 - from.0));
            seen.trained.iter().find(is).map(|trained| (trained, left))
        };
        let came = folded.get(round).into_iter().flatten();
        let counted: Vec<Counted<'_>> = came.filter_map(of).collect();
        late += counted.iter().filter(|(_, left)| *left < 1.0).count();
        let tasks: std::collections::BTreeSet<TaskId> =
            counted.iter().map(|(trained, _)| trained.participant.view.task).collect();
        mixed += usize::from(tasks.len() > 1);
        compare(*round, states, &counted);
    }
    assert!(late > 2 && mixed > 0, "{late} late, {mixed} mixed");
}
