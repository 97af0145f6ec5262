//! Promises about tasks of a client's own (Powder's benchmark): a drawn share of clients begins a client task in every
//! stage, the journal says who works on which, only begun client tasks are tested, `plan` knows it, and methods that
//! know only classes run in it.

use std::collections::BTreeMap;
use std::path::Path;

use fedcast::experiment::assemble::{assemble, blueprint};
use fedcast::experiment::plan::{Faults, Plan, plan};
use fedcast::federation::{
    ClientTaskScore, Digests, Direction, Entry, Event, Interrupt, MemorySink, Setup, simulate,
};
use fedcast::methods::Registry;
use fedcast::quantity::{ClientId, Round, TaskId};
use fedcast::scenario::{Override, Scenario};

/// Three stages of two rounds, five clients with four of the ten digits each.
const SCENARIO: &str = r#"
    schema = 2
    data = { source = "digits", subset = 20 }
    tasks = { count = 3, arrival = "client-tasks", classes_per_client_task = 4 }
    partition = { kind = "slices" }
    backbone = { kind = "pixels" }
    method = { name = "fedavg" }
    federation = { clients = 5, rounds = 2 }
    client = { epochs = 1, batch_size = 16 }
"#;

fn read(overrides: &[&str]) -> Result<Scenario, String> {
    let overrides: Vec<_> = overrides.iter().map(|text| Override::new(*text)).collect();
    let read = Scenario::from_toml(SCENARIO, "s", Path::new("."), &overrides, &Registry::builtin());
    read.map(|loaded| loaded.scenario).map_err(|error| error.to_string())
}

fn ran_with(scenario: &Scenario, workers: u32, shaker: Option<u64>) -> (Vec<Entry>, Digests) {
    let memory = MemorySink::default();
    let setup = assemble(scenario, &Registry::builtin(), Some(workers)).expect("assembles").setup;
    let setup = Setup { shaker, ..setup };
    simulate(setup, Box::new(memory.clone()), Box::new(()), Interrupt::default()).expect("ends");
    (memory.entries(), memory.digests())
}

/// Returns the clients that work on the client task of each stage, by round.
fn work(entries: &[Entry]) -> BTreeMap<Round, BTreeMap<ClientId, TaskId>> {
    let mut work = BTreeMap::new();
    for entry in entries {
        if let Event::RoundOpened { round, task, cohort, behind, .. } = &entry.event {
            let mut of: BTreeMap<_, _> = cohort.iter().map(|client| (*client, *task)).collect();
            of.extend(behind.iter().copied());
            work.insert(*round, of);
        }
    }
    work
}

#[test]
fn the_journal_says_who_works_on_which_client_task() {
    let scenario = read(&[]).expect("is right");
    let (entries, _) = ran_with(&scenario, 2, None);
    let movers: Vec<Vec<ClientId>> = (entries.iter())
        .filter_map(|entry| match &entry.event {
            Event::TaskStarted { switching_clients: movers, classes, .. } => {
                assert!(classes.len() == 20 && classes.iter().all(|class| *class < 10));
                Some(movers.clone())
            }
            _ => None,
        })
        .collect();
    assert_eq!(movers.iter().map(Vec::len).collect::<Vec<_>>(), [5, 2, 2]);
    let work = work(&entries);
    assert_eq!(work.len(), 6);
    let mut held: BTreeMap<ClientId, TaskId> = BTreeMap::new();
    for (round, of) in &work {
        let stage = TaskId(round.0 as u16 / 2);
        held.extend(movers[stage.index()].iter().map(|client| (*client, stage)));
        assert_eq!(*of, held, "{round}");
    }
}

/// Methods that know only classes learn the rows of client tasks as classes of their own.
#[test]
fn methods_without_client_tasks_run_the_same_on_any_worker() {
    let coda = "method={name=\"coda-prompt\",pool=6,prompt_len=2,n_blocks=1}";
    let vit = "backbone={kind=\"vit\",weights=\"embedded\"}";
    for overrides in [&[][..], &["wire.form=\"lean\""], &[coda, vit, "wire.form=\"lean\""]] {
        let mut overrides = overrides.to_vec();
        overrides.push("federation.load_clients=1");
        if overrides.contains(&coda) {
            overrides.extend([
                "tasks={count=2,arrival=\"client-tasks\",classes_per_client_task=2}",
                "data.subset=10",
                "federation.rounds=1",
                "record.evaluate=task",
            ]);
        }
        let scenario = read(&overrides).expect("is right");
        let (_, digests) = ran_with(&scenario, 1, None);
        assert_eq!(ran_with(&scenario, 3, Some(5)).1, digests, "{overrides:?}");
    }
}

fn planned(scenario: &Scenario) -> Plan {
    let blueprint = blueprint(scenario, &Registry::builtin()).expect("plans");
    plan(&blueprint, Faults::Off).expect("plans")
}

#[test]
fn a_plan_knows_the_client_tasks() {
    // Client tasks that own their components get the table of all client tasks, begun or not.
    let owned = [
        "method={name=\"coda-prompt\",ownership=\"client-task\",client_task_components=2,prompt_len=2,n_blocks=1}",
        "backbone={kind=\"vit\",weights=\"embedded\"}",
        "tasks={count=2,arrival=\"client-tasks\",classes_per_client_task=2}",
        "data.subset=10",
        "federation.rounds=1",
        "record.evaluate=task",
    ];
    for overrides in [&[][..], &["wire.form=\"lean\"", "participation={count=3}"], &owned] {
        let scenario = read(overrides).expect("is right");
        let planned = planned(&scenario);
        let (entries, _) = ran_with(&scenario, 2, None);
        let mut bytes = 0;
        let mut samples = 0;
        for entry in &entries {
            match &entry.event {
                Event::FrameCharged { bytes: frame, .. } => bytes += frame.frame(),
                Event::ClientTrained { samples: held, .. } => samples += held,
                _ => {}
            }
        }
        assert_eq!(planned.total.down + planned.total.up, bytes, "{overrides:?}");
        assert_eq!(planned.phases.iter().map(|phase| phase.samples).sum::<u64>(), samples);
    }
}

/// An image that several client tasks have is asked once; nothing but the cost of the answers may depend on what is
/// asked.
#[test]
fn client_task_scores_do_not_depend_on_task_identity() {
    let client_tasks_of = |overrides: &[&str]| {
        let (entries, _) = ran_with(&read(overrides).expect("is right"), 2, None);
        let scores = entries.iter().filter_map(|entry| entry.numbers.as_ref());
        scores.flat_map(|numbers| numbers.client_tasks.clone()).collect::<Vec<_>>()
    };
    for method in ["method={name=\"fedavg\"}", "wire.form=\"lean\""] {
        let both = client_tasks_of(&[method]);
        let known = client_tasks_of(&[method, "record.client_tasks=\"known\""]);
        assert!(both.len() > 30 && both.len() == known.len());
        assert!(both.iter().any(|score| score.correct.unwrap() < score.within), "{method}");
        for (both, known) in both.iter().zip(&known) {
            assert_eq!(*known, ClientTaskScore { correct: None, ..*both }, "{method}");
        }
    }
}

/// Powder: who goes on with a client task has answered as the last stage ended, and is asked about client tasks that
/// began since alone; nothing else is left out of a comparison, so that what it answers is of the same length.
#[test]
fn clients_score_only_new_client_tasks_again() {
    let overrides = [
        "method={name=\"powder\",components=2,prompt_len=1,n_blocks=1}",
        "backbone={kind=\"vit\",weights=\"embedded\"}",
        "data.subset=10",
        "federation.rounds=1",
        "record.evaluate=task",
    ];
    let (entries, _) = ran_with(&read(&overrides).expect("is right"), 2, None);
    let looks = |way: Direction, of: u32| {
        let mut sizes = BTreeMap::<TaskId, Vec<u64>>::new();
        for entry in &entries {
            if let Event::FrameCharged { task, phase, direction, bytes, .. } = &entry.event
                && (*phase, *direction) == (of, way)
            {
                sizes.entry(*task).or_default().push(bytes.kinds["similarity"]);
            }
        }
        sizes.values_mut().for_each(|sizes| sizes.sort_unstable());
        sizes.into_values().collect::<Vec<_>>()
    };
    // Keys and attention of two components of a client task; two of five clients move in a stage.
    const CLIENT_TASK: u64 = 2 * 2 * 64 * 4;
    let (opening, closing) = (looks(Direction::Down, 0), looks(Direction::Down, 3));
    assert_eq!(opening[0], [5 * CLIENT_TASK; 5]);
    assert_eq!(
        opening[1],
        [2 * CLIENT_TASK, 2 * CLIENT_TASK, 2 * CLIENT_TASK, 7 * CLIENT_TASK, 7 * CLIENT_TASK]
    );
    assert_eq!(
        opening[2],
        [2 * CLIENT_TASK, 2 * CLIENT_TASK, 2 * CLIENT_TASK, 9 * CLIENT_TASK, 9 * CLIENT_TASK]
    );
    assert_eq!(closing, [[5 * CLIENT_TASK; 5], [7 * CLIENT_TASK; 5]]);
    // Mean scores of four classes, and their counts.
    let answer = |client_tasks: u64| 4 * (4 * 2 * client_tasks + 4);
    let answers = looks(Direction::Up, 0);
    assert_eq!(answers[2], [2, 2, 2, 9, 9].map(answer));
}

/// Many clients and stages need no more than a number.
#[test]
fn fifty_and_a_hundred_clients_have_a_plan() {
    for (clients, client_tasks) in [(50, 50 + 25 * 2), (100, 100 + 50 * 2)] {
        let scenario = read(&[&format!("federation.clients={clients}")]).expect("is right");
        let made = assemble(&scenario, &Registry::builtin(), Some(1)).expect("assembles").setup;
        let drawn = made.ctx.task_sequence.client_tasks.clone().expect("client tasks");
        assert_eq!(drawn.started(TaskId(2)).count(), client_tasks);
        assert_eq!(made.facts.classes, 3 * clients * 4);
        let planned = planned(&scenario);
        assert_eq!(planned.total.training_jobs, 6 * clients as u64);
    }
}

#[test]
fn settings_against_client_tasks_are_refused_at_their_place() {
    for (override_, why) in [
        ("partition.kind=\"iid\"", "client tasks need partition"),
        ("tasks={count=3}", "needs client tasks"),
        ("tasks.classes_per_client_task=11", "the data set has only 10"),
        ("tasks.overlap=5", "`overlap = 5` is more than the 4 classes"),
        ("tasks.switch_fraction=0.1", "is 0, rounded down"),
        ("tasks.order=\"seeded\"", "the classes of client tasks are drawn"),
        ("partition.fraction=0.01", "is 0, rounded down"),
        ("federation.clients=500000", "the head has"),
        ("method={name=\"stsa\",first={name=\"none\"}}", "on different tasks"),
        ("privacy.secure_aggregation=true", "uploads of the same shape"),
        ("record.single_task=a.csv", "cannot read"),
        ("record.client_tasks=\"all\"", "`both` or `known`"),
        ("partition.by=\"week\"", "`client`"),
        ("method={name=\"coda-prompt\",ownership=\"client-task\",pool=5}", "`pool` has no meaning"),
        (
            "method={name=\"coda-prompt\",client_task_components=5}",
            "`client_task_components` has no meaning",
        ),
        (
            "tasks={count=3,early_fraction=0.5,arrival=\"client-tasks\",classes_per_client_task=4}",
            "no meaning",
        ),
        (
            "tasks={sizes=[5,5],arrival=\"client-tasks\",classes_per_client_task=4}",
            "have `classes_per_client_task` classes",
        ),
    ] {
        let error = read(&[override_]).expect_err(override_);
        assert!(error.contains(why), "{override_}: {error}");
    }
    for (override_, why) in [
        ("record.client_tasks=\"known\"", "`record.client_tasks` needs client tasks"),
        ("method={name=\"powder\",similarity=\"server\"}", "finds the images of a client task"),
        ("method={name=\"coda-prompt\",ownership=\"client-task\"}", "have no owner"),
    ] {
        let without_client_tasks = ["tasks={count=2}", "partition={kind=\"iid\"}", override_];
        let error = read(&without_client_tasks).expect_err("no client tasks");
        assert!(error.contains(why), "{override_}: {error}");
    }
}
