//! GLFC as Powder's port has it, where clients have tasks of their own: whose head rows the server takes, which old
//! model a client holds, which exemplars it keeps.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use fedcast::data::{ClientTask, ClientTasks};
use fedcast::experiment::assemble::assemble;
use fedcast::federation::{Digests, Interrupt, MemorySink, Setup, simulate};
use fedcast::methods::Registry;
use fedcast::methods::glfc::GlfcClientState;
use fedcast::model::{LinearHead, ParameterSet};
use fedcast::policy::{
    ClientResult, ClientState, Failure, Member, Method, MethodWrapper, Participant, RunContext,
    Wrapped,
};
use fedcast::quantity::{ClientId, TaskId};
use fedcast::scenario::{Override, Scenario};

const CLIENTS: usize = 5;
const ROUNDS: usize = 3;
const BUDGET: usize = 30;

/// Three stages of three rounds, five clients with four of the ten digits each, and the settings of the port.
const SCENARIO: &str = r#"
    schema = 2
    data = { source = "digits", subset = 20 }
    tasks = { count = 3, arrival = "client-tasks", classes_per_client_task = 4 }
    partition = { kind = "slices" }
    backbone = { kind = "pixels" }
    federation = { clients = 5, rounds = 3 }
    client = { epochs = 2, batch_size = 8, epoch_schedule = "quarter-cosine", optimizer = { kind = "adamw", lr = 0.005, weight_decay = 0.0 } }
    record.evaluate = "task"

    [method]
    name = "glfc"
    train = "head"
    head_form = "fixed"
    memory_size = 30
    compensate = false
    label_weight = 1.0
    relation_weight = 1.0
    lr_schedule = "client"
    old_model = "received"
    outputs = "own"
    rows = "last"
    exemplars = "random"
"#;

fn read(overrides: &[&str]) -> Result<Scenario, String> {
    let overrides: Vec<_> = overrides.iter().map(|text| Override::new(*text)).collect();
    let read = Scenario::from_toml(SCENARIO, "s", Path::new("."), &overrides, &Registry::builtin());
    read.map(|loaded| loaded.scenario).map_err(|error| error.to_string())
}

/// Download, upload and memory of a client.
struct ClientExchange {
    participant: Participant,
    down: ParameterSet,
    up: ParameterSet,
    state: GlfcClientState,
    metrics: BTreeMap<&'static str, f64>,
    /// Its own samples of the task.
    shard: Vec<u32>,
}

/// Run with all downloads and uploads of clients.
struct Run {
    /// By client, round after round.
    exchanges: BTreeMap<ClientId, Vec<ClientExchange>>,
    client_tasks: Arc<ClientTasks>,
    digests: Digests,
}

struct Listening {
    method: Arc<dyn Method>,
    exchanges: Arc<Mutex<BTreeMap<ClientId, Vec<ClientExchange>>>>,
}

impl MethodWrapper for Listening {
    fn inner(&self) -> &dyn Method {
        &*self.method
    }

    fn train(
        &self,
        members: &mut [Member],
        ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        let outcomes = self.method.train(members, ctx);
        for (member, outcome) in members.iter().zip(&outcomes) {
            let outcome = outcome.as_ref().expect("everybody trains");
            let exchange = ClientExchange {
                participant: member.participant.clone(),
                down: member.download.parameters.clone(),
                up: outcome.upload.parameters.clone(),
                state: GlfcClientState::of(&member.state).expect("it is a state"),
                metrics: outcome.metrics.iter().copied().collect(),
                shard: member.shard.to_vec(),
            };
            let mut all = self.exchanges.lock().expect("nobody panics");
            all.entry(member.participant.client).or_default().push(exchange);
        }
        outcomes
    }
}

fn ran(overrides: &[&str]) -> Run {
    let scenario = read(overrides).expect("is right");
    let setup = assemble(&scenario, &Registry::builtin(), Some(1)).expect("assembles").setup;
    let client_tasks =
        setup.ctx.task_sequence.client_tasks.clone().expect("client tasks need partition");
    let exchanges = Arc::default();
    let method = Listening { method: Arc::clone(&setup.method), exchanges: Arc::clone(&exchanges) };
    let setup = Setup { method: Arc::new(Wrapped(method)), ..setup };
    let journal = MemorySink::default();
    simulate(setup, Box::new(journal.clone()), Box::new(()), Interrupt::default()).expect("ends");
    let exchanges = std::mem::take(&mut *exchanges.lock().expect("nobody panics"));
    Run { exchanges, client_tasks, digests: journal.digests() }
}

/// Rows of the head, bits of weights and bias.
fn rows(set: &ParameterSet, of: impl Iterator<Item = usize>) -> Vec<Vec<u32>> {
    let [weight, bias] = [LinearHead::WEIGHT, LinearHead::BIAS].map(|name| set.get(name).unwrap());
    let width = weight.values.len() / weight.shape[0];
    let row = |row: usize| {
        let numbers =
            weight.values[row * width..(row + 1) * width].iter().chain([&bias.values[row]]);
        numbers.map(|number| number.to_bits()).collect()
    };
    of.map(row).collect()
}

/// The rows of client tasks that a client had before the one it works on.
fn learned(run: &Run, exchange: &ClientExchange) -> BTreeSet<u32> {
    let client = exchange.participant.client;
    let earlier = (0..exchange.participant.view.task.0)
        .map(|stage| ClientTask { stage: TaskId(stage), client });
    let had = earlier.filter(|client_task| run.client_tasks.begins(*client_task));
    had.flat_map(|client_task| run.client_tasks.view(client_task).rows.clone())
        .map(|row| row as u32)
        .collect()
}

/// The head that the next round begins with: rows of each client's task are what it sent, the others are one client's,
/// the same for all of them. That one is not always the same.
#[test]
fn rows_are_of_their_holders_and_the_rest_of_the_first_client() {
    let run = ran(&[]);
    let all = run.client_tasks.rows();
    let (mut firsts, mut moved) = (BTreeSet::new(), 0);
    for round in 0..run.exchanges[&ClientId(0)].len() - 1 {
        let round: Vec<(&ClientExchange, &ClientExchange)> = run
            .exchanges
            .values()
            .map(|exchanges| (&exchanges[round], &exchanges[round + 1]))
            .collect();
        let next = &round[0].1.down;
        let mut held = BTreeSet::new();
        for (exchange, _) in &round {
            let own = exchange.participant.view.rows.clone();
            assert_eq!(rows(next, own.clone()), rows(&exchange.up, own.clone()));
            assert_ne!(rows(next, own.clone()), rows(&exchange.down, own.clone()));
            held.extend(own);
        }
        let rest = || (0..all).filter(|row| !held.contains(row));
        let of: Vec<ClientId> = (round.iter())
            .filter(|(exchange, _)| rows(&exchange.up, rest()) == rows(next, rest()))
            .map(|(exchange, _)| exchange.participant.client)
            .collect();
        assert!(!of.is_empty(), "nobody's");
        if let [first] = of[..] {
            firsts.insert(first);
            moved += 1;
        }
    }
    assert!(moved >= 2 && firsts.len() >= 2, "{moved} times {firsts:?}");
}

/// An upload differs from the download only on rows of the client's task and of classes it has learned.
#[test]
fn clients_train_their_own_rows_alone() {
    let run = ran(&[]);
    for exchange in run.exchanges.values().flatten() {
        let learned = learned(&run, exchange);
        assert_eq!(exchange.state.rows, learned);
        for row in 0..run.client_tasks.rows() {
            let of = |set| rows(set, row..row + 1);
            let own =
                exchange.participant.view.rows.contains(&row) || learned.contains(&(row as u32));
            assert_eq!(
                of(&exchange.up) != of(&exchange.down),
                own,
                "row {row} of {}",
                exchange.participant.client
            );
        }
    }
}

/// The old model of a client is what it received as its own task began, and stays that as long as it is at this task,
/// whatever others began since; in its first task it has none.
#[test]
fn every_client_has_an_old_model_of_its_own() {
    let run = ran(&[]);
    let (mut olds, mut stayed) = (BTreeMap::new(), 0);
    for (client, exchanges) in &run.exchanges {
        assert_eq!(exchanges.len(), 3 * ROUNDS);
        let mut started = 0;
        for (round, now) in exchanges.iter().enumerate() {
            if now.participant.view.task != exchanges[started].participant.view.task {
                started = round;
                assert_eq!(round % ROUNDS, 0);
            }
            assert_eq!(
                now.metrics["signal"],
                f64::from(u8::from(round == started)),
                "{client} {round}"
            );
            let task = &now.participant.view;
            let Some(old) = &now.state.old else {
                assert_eq!(task.task, TaskId(0), "{client} has learned something");
                continue;
            };
            let before = 0..task.rows.start;
            assert_eq!(old.get(LinearHead::WEIGHT).unwrap().shape[0], before.end);
            let received = rows(&exchanges[started].down, before.clone());
            assert_eq!(rows(old, before.clone()), received, "{client} {round}");
            if round / ROUNDS > task.task.index() {
                stayed += usize::from(rows(&now.down, before.clone()) != received);
            }
            olds.insert((*client, task.task), started);
        }
    }
    // Clients began a task in both later stages, and one went on with its own while the server's model moved.
    let stages: BTreeSet<usize> = olds.values().map(|started| started / ROUNDS).collect();
    assert_eq!(stages, [1, 2].into());
    assert!(stayed > 0, "nobody stayed");
    // It matters what is held, for those alone who have something to hold.
    let other = ran(&["method.relation_weight=0"]);
    for (client, exchanges) in &run.exchanges {
        for (round, now) in exchanges[..=ROUNDS].iter().enumerate() {
            let other = &other.exchanges[client][round];
            assert_eq!(now.up == other.up, now.state.old.is_none(), "{client} {round}");
        }
    }
}

/// Of the classes that a client has learned it keeps as many samples each as its budget gives, drawn from its own.
#[test]
fn exemplars_are_of_a_clients_earlier_tasks_within_its_budget() {
    for how in ["random", "herding"] {
        for repeats in [true, false] {
            let keys = [format!("method.exemplars={how}"), format!("method.repeats={repeats}")];
            let run = ran(&keys.each_ref().map(String::as_str));
            let mut most = 0;
            for exchanges in run.exchanges.values() {
                let own: BTreeMap<u16, BTreeSet<u32>> = (exchanges.iter())
                    .map(|exchange| {
                        (exchange.participant.view.task.0, exchange.shard.iter().copied().collect())
                    })
                    .collect();
                for now in exchanges {
                    let learned = learned(&run, now);
                    let (memory, share) = (&now.state.by_class, BUDGET / learned.len().max(1));
                    let rows: BTreeSet<u32> = memory.iter().map(|(row, _)| row).collect();
                    assert_eq!(rows, learned);
                    assert!(memory.len() <= BUDGET);
                    assert_eq!(now.metrics["exemplars"], memory.len() as f64);
                    most = most.max(learned.len());
                    for (row, chosen) in memory.iter() {
                        assert!(!chosen.is_empty() && chosen.len() <= share, "{chosen:?}");
                        let task = row as usize / (CLIENTS * 4);
                        assert!(chosen.iter().all(|sample| own[&(task as u16)].contains(sample)));
                        let distinct: BTreeSet<_> = chosen.iter().collect();
                        assert!(repeats || distinct.len() == chosen.len());
                    }
                }
            }
            assert!(most >= 4, "{most}");
        }
    }
}

/// Keys change what they name, and the same seed gives the same run.
#[test]
fn every_key_of_the_port_counts() {
    let port = ran(&[]).digests;
    assert_eq!(ran(&[]).digests, port);
    for key in [
        "method.exemplars=herding",
        "method.outputs=seen",
        "method.rows=mean",
        "method.compensate=true",
        "method.memory_size=8",
        "method.label_weight=0.2",
        "method.head_form=growing",
        "seed.run=8",
    ] {
        assert_ne!(ran(&[key]).digests, port, "{key}");
    }
}

/// Settings without meaning are rejected with advice.
#[test]
fn what_client_tasks_cannot_have_is_refused() {
    for (overrides, words) in [
        (
            &["method={name=\"glfc\",lr_schedule=\"client\"}"][..],
            &["different tasks", "old_model = \"received\""][..],
        ),
        (&["method.old_model=task-end"], &["different tasks", "old_model = \"received\""]),
        (&["method.old_model=proxy"], &["proxy server", "old_model = \"received\""]),
        (&["method.task_detection=entropy"], &["different tasks", "task_detection = \"task\""]),
        (
            &["tasks={count=2}", "partition={kind=\"iid\"}"],
            &["rows = \"mean\"", "arrival = \"client-tasks\""],
        ),
        (&["federation.aggregation=median"], &["robustly"]),
        (&["privacy.secure_aggregation=true"], &["by secure aggregation"]),
        (&["participation.population=fresh"], &["population"]),
    ] {
        let error = read(overrides).expect_err("has no meaning");
        assert!(words.iter().all(|word| error.contains(word)), "{overrides:?}\n{error}");
    }
    // With one task for all, an old model of one's own is as good as another; so it is for LGA.
    let global = ["tasks={count=2}", "partition={kind=\"iid\"}", "method.rows=mean"];
    read(&global).expect("has a meaning");
    let lga = "method={name=\"lga\",train=\"head\",old_model=\"received\",lr_schedule=\"client\"}";
    read(&[lga]).expect("has a meaning");
    for key in ["outputs=\"own\"", "rows=\"last\"", "exemplars=\"random\""] {
        let lga = format!("method={{name=\"lga\",train=\"head\",{key}}}");
        assert!(read(&[&lga]).is_err(), "{key} is of GLFC");
    }
}
