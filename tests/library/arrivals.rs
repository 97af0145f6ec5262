//! Promises about tasks that reach clients at different times: old and new tasks meet in one round, the
//! journal says who works on what, every stage is measured, `plan` knows it, and the digests depend on no
//! worker.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::softmax::{Ran, SoftmaxFault, Visits, mobile_compute, mobile_links, rules, run, setup};
use fedcast::experiment::assemble::{assemble, blueprint};
use fedcast::experiment::plan::{Faults, plan};
use fedcast::federation::arrivals::ArrivalRules;
use fedcast::federation::{Direction, Entry, Event, FederationError, Rules, Setup};
use fedcast::methods::Registry;
use fedcast::numerics::scalar_distribution::ScalarDistribution;
use fedcast::quantity::{ClientId, Round, TaskId, VirtualTime};
use fedcast::scenario::{Override, Scenario};

const PACED: ArrivalRules = ArrivalRules::Paced { ahead: 0.5, lead: 0.5 };

/// Six clients, five tasks of four rounds, on phones.
fn with(arrivals: ArrivalRules) -> Rules {
    let (compute, links) = (mobile_compute(), mobile_links());
    Rules { arrivals, compute, links, rounds: 4, ..rules() }
}

fn lag() -> ArrivalRules {
    ArrivalRules::Lag(ScalarDistribution::log_normal(20.0, 1.0))
}

fn ran(rules: &Rules) -> Ran {
    let ran = run(setup::<()>(rules.clone(), SoftmaxFault::None));
    assert!(ran.end.is_ok(), "{:?}", ran.end.err());
    ran
}

/// Task, size of the cohort and who is behind with which task.
type Opened = (TaskId, usize, Vec<(ClientId, TaskId)>);

/// Every round.
fn rounds(entries: &[Entry]) -> Vec<Opened> {
    let of = |entry: &Entry| match &entry.event {
        Event::RoundOpened { task, cohort, behind, .. } => {
            Some((*task, cohort.len(), behind.clone()))
        }
        _ => None,
    };
    entries.iter().filter_map(of).collect()
}

#[test]
fn a_round_mixes_stragglers_of_old_tasks_with_new_clients() {
    let ran = ran(&with(lag()));
    let rounds = rounds(&ran.entries);
    assert_eq!(rounds.len(), 20);
    let mixed = |(_, cohort, behind): &&Opened| !behind.is_empty() && behind.len() < *cohort;
    assert!(rounds.iter().filter(mixed).count() >= 4, "{rounds:?}");
    for (task, _, behind) in &rounds {
        assert!(behind.iter().all(|(_, old)| old < task));
        assert!(task.0 > 0 || behind.is_empty(), "everybody has the first task");
    }
    // A client never goes back to an earlier task.
    let mut newest: BTreeMap<ClientId, TaskId> = BTreeMap::new();
    for (task, cohort, behind) in &rounds {
        let behind: BTreeMap<_, _> = behind.iter().copied().collect();
        for client in (0..*cohort as u32).map(ClientId) {
            let now = behind.get(&client).copied().unwrap_or(*task);
            assert!(newest.insert(client, now).is_none_or(|before| before <= now));
        }
    }
}

/// Returns the shard that a client learns in a round: that of its own task.
#[test]
fn clients_learn_what_they_have() {
    let rules = with(PACED);
    let made = setup::<()>(rules.clone(), SoftmaxFault::None);
    let fedcast::federation::ShardSource::Drawn(shards) = made.shards.clone() else { panic!() };
    let ran = run(made);
    let behind: BTreeMap<Round, BTreeMap<ClientId, TaskId>> = (ran.entries.iter())
        .filter_map(|entry| match &entry.event {
            Event::RoundOpened { round, behind, .. } => {
                Some((*round, behind.iter().copied().collect()))
            }
            _ => None,
        })
        .collect();
    let mut old = 0;
    for entry in &ran.entries {
        if let Event::ClientTrained { round, task, client, samples, .. } = &entry.event {
            let own = behind[round].get(client).copied().unwrap_or(*task);
            assert_eq!(*samples, shards[own.index()][client.index()].len() as u64);
            old += usize::from(own < *task);
        }
    }
    // Three clients are a task behind in half of the rounds of four tasks.
    assert_eq!(old, 3 * 2 * 4);
}

#[test]
fn a_paced_group_moves_ahead_after_half_of_a_tasks_rounds() {
    let ran = ran(&with(PACED));
    let slow: BTreeSet<ClientId> = (rounds(&ran.entries).into_iter())
        .enumerate()
        .flat_map(|(round, (task, _, behind))| {
            let late = task.0 > 0 && round % 4 < 2;
            assert_eq!(behind.len(), if late { 3 } else { 0 }, "round {round}");
            assert!(behind.iter().all(|(_, old)| old.0 + 1 == task.0));
            behind.into_iter().map(|(client, _)| client)
        })
        .collect();
    assert_eq!(slow.len(), 3, "the same three all along");
}

/// Classes are seen from when the first client has them: one row of the matrix per stage.
#[test]
fn every_stage_is_measured_over_what_has_been_handed_out() {
    for arrivals in [lag(), PACED] {
        let ran = ran(&with(arrivals));
        let sizes: Vec<usize> = (ran.entries.iter())
            .filter(|entry| entry.event.name() == "task_ended")
            .map(|end| {
                let mut before = ran.entries[..end.seq as usize].iter();
                let tested = before.rfind(|entry| entry.event.name() == "evaluated");
                tested.and_then(|entry| entry.numbers.as_ref()).expect("tested").tasks.len()
            })
            .collect();
        assert_eq!(sizes, [1, 2, 3, 4, 5]);
        // Some client works on the new task from the first round of its stage.
        assert!(rounds(&ran.entries).iter().all(|(_, cohort, behind)| behind.len() < *cohort));
    }
}

#[test]
fn recorded_tasks_begin_when_the_first_client_has_them() {
    let line = |task: u16, client: u32, at: f64| {
        ((TaskId(task), ClientId(client)), VirtualTime::from_seconds(at))
    };
    let third = (0..6).map(|client| line(2, client, 2000.0 + 10.0 * f64::from(client)));
    let lines = [line(1, 3, 1e6)].into_iter().chain(third).collect();
    let ran = ran(&with(ArrivalRules::Trace(Arc::new(lines))));
    let waits: Vec<_> = (ran.entries.iter())
        .filter_map(|entry| match entry.event {
            Event::TaskDelayed { task, until } => Some((task, until)),
            _ => None,
        })
        .collect();
    assert_eq!(waits, [(TaskId(2), 2_000_000_000_000)]);
    let began = ran.entries.iter().find_map(|entry| match entry.event {
        Event::TaskStarted { task: TaskId(2), .. } => Some(entry.at),
        _ => None,
    });
    assert_eq!(began, Some(VirtualTime::from_seconds(2000.0)));
    // Client 3 would have the second task at the end of time only, and has the third before.
    let old = |(task, _, behind): &Opened| {
        let third = behind.iter().find(|(client, _)| *client == ClientId(3));
        match task.0 {
            1 => third == Some(&(ClientId(3), TaskId(0))),
            _ => third.is_none_or(|_| task.0 == 2),
        }
    };
    assert!(rounds(&ran.entries).iter().all(old));
}

#[test]
fn digests_do_not_depend_on_workers_and_states_know_what_they_missed() {
    for arrivals in [lag(), PACED] {
        let rules = with(arrivals);
        for make in [setup::<()>, setup::<Visits>] {
            let base = run(make(rules.clone(), SoftmaxFault::None));
            for workers in [1, 3] {
                let made = make(rules.clone(), SoftmaxFault::None);
                let shaken =
                    Setup { workers: workers.into(), shaker: Some(workers as u64), ..made };
                assert_eq!(run(shaken).digests, base.digests, "{workers} workers");
            }
        }
        // Packs hold participants of one task; they change nothing.
        let packed = run(setup::<()>(Rules { pack: 4, ..rules.clone() }, SoftmaxFault::None));
        assert_eq!(packed.digests, ran(&rules).digests);
    }
}

/// A group of all clients, or no client that is late, gives the usual run.
#[test]
fn tasks_without_lag_are_global() {
    let global = ran(&with(ArrivalRules::Global)).digests;
    let paced = ArrivalRules::Paced { ahead: 1.0, lead: 0.5 };
    for arrivals in [paced, ArrivalRules::Lag(ScalarDistribution::constant(30.0))] {
        assert_eq!(ran(&with(arrivals)).digests, global);
    }
}

const SCENARIO: &str = r#"
    schema = 2
    preset = "mobile"
    data = { source = "digits", subset = 12 }
    tasks = { sizes = [4, 3, 3], arrival = "paced" }
    partition = { kind = "dirichlet", beta = 1.0, min_samples = 2 }
    backbone = { kind = "pixels" }
    method = { name = "fedavg" }
    federation = { clients = 5, rounds = 3 }
    client = { epochs = 1, batch_size = 16 }
    wire = { form = "lean" }
"#;

fn scenario(overrides: &[&str]) -> Scenario {
    let overrides: Vec<_> = overrides.iter().map(|text| Override::new(*text)).collect();
    let read = Scenario::from_toml(SCENARIO, "s", Path::new("."), &overrides, &Registry::builtin());
    read.expect("is right").scenario
}

const CPROMPT: &[&str] = &[
    "backbone.kind=\"vit\"",
    "method={name=\"fed-cprompt\",pool=6,prompt_len=2,n_blocks=1}",
    "data.subset=6",
];

/// A scenario's run.
fn run_checked(overrides: &[&str]) -> Ran {
    let setup = assemble(&scenario(overrides), &Registry::builtin(), Some(2));
    let ran = run(setup.expect("assembles").setup);
    assert!(ran.end.is_ok(), "{:?}", ran.end.err());
    ran
}

/// Bytes and virtual time of a run with mixed tasks are known beforehand, also where messages depend on
/// the task.
#[test]
fn a_plan_knows_who_works_on_what() {
    let lags = "tasks={sizes=[4,3,3],arrival=\"per-client\",lag_s={dist=\"uniform\",low=0,high=9}}";
    for overrides in [&[][..], &[lags], &["federation.load_clients=2"], CPROMPT] {
        let scenario = scenario(overrides);
        let blueprint = blueprint(&scenario, &Registry::builtin()).expect("plans");
        let planned = plan(&blueprint, Faults::Off);
        let planned = planned.expect("plans");
        let entries = run_checked(overrides).entries;
        assert!(rounds(&entries).iter().any(|(_, _, behind)| !behind.is_empty()));
        let (mut down, mut up, mut end) = (0, 0, VirtualTime::ZERO);
        for entry in &entries {
            match &entry.event {
                Event::FrameCharged { direction, bytes, .. } => match direction {
                    Direction::Down => down += bytes.frame(),
                    Direction::Up => up += bytes.frame(),
                },
                Event::RoundClosed { .. } => end = entry.at,
                _ => {}
            }
        }
        assert_eq!((planned.total.down, planned.total.up), (down, up), "{overrides:?}");
        assert!((planned.total.virtual_s - end.as_seconds()).abs() < 1e-6, "{overrides:?}");
    }
}

/// Invariant 6 of Fed-CPrompt's card.
#[test]
fn fed_cprompt_with_one_group_is_the_synchronous_run() {
    let with = |tasks: &str| {
        let all: Vec<&str> = CPROMPT.iter().copied().chain([tasks]).collect();
        run_checked(&all).digests
    };
    let synchronous = with("tasks={sizes=[4,3,3]}");
    assert_eq!(with("tasks={sizes=[4,3,3],arrival=\"paced\",early_fraction=1}"), synchronous);
    assert_ne!(with("tasks={sizes=[4,3,3],arrival=\"paced\"}"), synchronous);
}

#[test]
fn a_method_that_cannot_is_refused() {
    let method = "method={name=\"stsa\",first={name=\"none\"}}";
    let other = scenario(&["tasks={sizes=[4,3,3]}", method]);
    let method = assemble(&other, &Registry::builtin(), Some(1)).expect("assembles").setup.method;
    let setup = Setup { method, ..setup::<()>(with(PACED), SoftmaxFault::None) };
    let end = run(setup).end;
    let is = |error: &FederationError| error.to_string().contains("of different tasks");
    assert!(end.as_ref().is_err_and(is), "{end:?}");
}
