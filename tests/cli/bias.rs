//! Promises about federated bias, from the outside: it is measured on clients' models before they are averaged, once in a
//! task or in every round; tables and summary say what every client answered; a replay, a verification and a run that
//! goes on say the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::command::{CommandOutput, read, run_fedcast};

/// Two tasks of two rounds; clients hold few digits each, so that their models answer unlike.
const SCENARIO: &str = r#"
schema = 2
data = { source = "digits" }
tasks = { sizes = [6, 4] }
partition = { kind = "dirichlet", beta = 0.1, min_samples = 2 }
backbone = { kind = "pixels" }
method = { name = "fedavg" }
federation = { clients = 4, rounds = 2 }
client = { epochs = 3, batch_size = 16, optimizer = { kind = "adamw", lr = 0.01 } }
record = { metrics = ["federated-bias"] }
"#;

const TABLES: [&str; 3] = ["rounds.csv", "bias.csv", "matrix.csv"];

fn run(folder: &Path, out: &str, more: &[&str]) -> CommandOutput {
    fs::write(folder.join("a.toml"), SCENARIO).unwrap();
    let output = run_fedcast(folder, &[&["run", "a.toml", "-q", "-o", out], more].concat());
    assert_eq!(output.code, 0, "{}", output.err);
    output
}

fn summary(folder: &Path, run: &str) -> serde_json::Value {
    serde_json::from_str(&read(folder.join(run).join("summary.json"))).unwrap()
}

/// Rows of a table, by column.
fn rows(folder: &Path, run: &str, table: &str) -> Vec<BTreeMap<String, String>> {
    let text = read(folder.join(run).join(table));
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let head: Vec<String> = lines.next().unwrap().collect();
    lines.map(|cells| head.iter().cloned().zip(cells).collect()).collect()
}

fn number(row: &BTreeMap<String, String>, column: &str) -> u64 {
    row[column].parse().unwrap()
}

/// By round and client: held and answered, by head row.
type Histograms = BTreeMap<(u64, u64), Vec<(u64, u64)>>;

fn histograms(folder: &Path, run: &str) -> Histograms {
    let mut all = Histograms::new();
    for row in rows(folder, run, "bias.csv") {
        let of = all.entry((number(&row, "round"), number(&row, "client"))).or_default();
        assert_eq!(number(&row, "row"), of.len() as u64);
        assert_eq!(number(&row, "task"), number(&row, "round").div_ceil(2));
        of.push((number(&row, "train_samples"), number(&row, "predicted")));
    }
    all
}

fn entropy(answered: impl Iterator<Item = u64> + Clone) -> f64 {
    let total: u64 = answered.clone().sum();
    let shares = answered.map(|n| n as f64 / total as f64).filter(|share| *share > 0.0);
    -shares.map(|share| share * share.ln()).sum::<f64>()
}

#[test]
fn clients_answer_before_they_are_averaged_and_once_in_a_task() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let output = run(folder, "run", &[]);
    assert!(output.out.contains("response entropy (first training of a task)"), "{}", output.out);
    let all = histograms(folder, "run");
    let asked: Vec<(u64, u64)> = all.keys().copied().collect();
    let clients = |round| (0..4).map(move |client| (round, client));
    assert_eq!(asked, clients(1).chain(clients(3)).collect::<Vec<_>>());
    let tests: BTreeMap<u64, u64> =
        rows(folder, "run", "matrix.csv").iter().fold(BTreeMap::new(), |mut seen, row| {
            *seen.entry(number(row, "after_task")).or_default() += number(row, "total");
            seen
        });
    let clients = rows(folder, "run", "clients.csv");
    for ((round, client), rows) in &all {
        let (task, rows_seen) = if *round == 1 { (1, 6) } else { (2, 10) };
        assert_eq!(rows.len(), rows_seen);
        // Every test image of the classes seen was answered once.
        let answered: u64 = rows.iter().map(|(_, answered)| answered).sum();
        assert_eq!(answered, tests[&task]);
        // Only what is trained in the task is held.
        assert!(task == 1 || rows[..6].iter().all(|(held, _)| *held == 0));
        let held: u64 = rows.iter().map(|(held, _)| held).sum();
        let of = clients.iter().find(|row| number(row, "client") == *client).unwrap();
        assert!(held > 0 && held < number(of, "samples_trained"));
    }
    // A model just trained on few classes names those, and clients differ: nothing was averaged yet.
    let first: Vec<&Vec<(u64, u64)>> = (0..4).map(|client| &all[&(1, client)]).collect();
    let mut own = 0;
    let mut total = 0;
    for rows in &first {
        let samples: u64 = rows.iter().map(|(held, _)| held).sum();
        let main = rows.iter().filter(|(held, _)| 4 * held >= samples);
        own += main.map(|(_, answered)| answered).sum::<u64>();
        total += rows.iter().map(|(_, answered)| answered).sum::<u64>();
    }
    assert!(
        own * 3 > total * 2,
        "{own} of {total} answers are of classes that a client holds many of"
    );
    assert!(first.windows(2).all(|pair| pair[0] != pair[1]));

    let summary = summary(folder, "run");
    let bias = &summary["bias"];
    for (at, round) in [(0, 1), (1, 3)] {
        let task = &bias["tasks"][at];
        assert_eq!((&task["task"], &task["round"]), (&(at as u64 + 1).into(), &round.into()));
        assert_eq!(task["clients"], 4);
        let nats: Vec<f64> = (0..4)
            .map(|client| entropy(all[&(round, client)].iter().map(|(_, answered)| *answered)))
            .collect();
        for (client, nats) in nats.iter().enumerate() {
            let reported = task["entropy"][client.to_string()].as_f64().unwrap();
            assert!((reported - nats).abs() < 1e-12, "client {client}: {reported}, {nats}");
        }
        let mean = nats.iter().sum::<f64>() / 4.0;
        let measures = &task["measures"];
        assert!((measures["response_entropy"].as_f64().unwrap() - mean).abs() < 1e-12);
        // Relative to all classes, those of the task to come, too.
        let relative = measures["response_entropy_relative"].as_f64().unwrap();
        assert!((relative - mean / 10f64.ln()).abs() < 1e-12);
    }
    let mean = |name: &str| bias["mean"][name].as_f64().unwrap();
    let of_task = |at: usize| bias["tasks"][at]["measures"]["response_entropy"].as_f64().unwrap();
    assert!((mean("response_entropy") - (of_task(0) + of_task(1)) / 2.0).abs() < 1e-12);

    // The columns of rounds.csv are filled in the rounds that were measured.
    let entropies: Vec<String> =
        rows(folder, "run", "rounds.csv").iter().map(|r| r["response_entropy"].clone()).collect();
    assert!(entropies[1].is_empty() && entropies[3].is_empty(), "{entropies:?}");
    let first: f64 = entropies[0].parse().unwrap();
    assert!((first - of_task(0)).abs() < 1e-12);
}

#[test]
fn every_round_is_measured_where_that_is_asked_and_the_first_still_counts() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run(folder, "first", &[]);
    run(folder, "all", &["--set", "record.bias=round"]);
    let all = histograms(folder, "all");
    assert_eq!(all.len(), 16);
    let first = histograms(folder, "first");
    assert!(first.iter().all(|(place, rows)| &all[place] == rows));
    assert_eq!(summary(folder, "first")["bias"], summary(folder, "all")["bias"]);
    let filled = |row: &BTreeMap<String, String>| !row["prototype_distance"].is_empty();
    assert!(rows(folder, "all", "rounds.csv").iter().all(filled));
    // Without the metric there is neither a table nor a word.
    run(folder, "none", &["--set", "record.metrics=[]"]);
    assert!(!folder.join("none/bias.csv").exists());
    assert!(summary(folder, "none").get("bias").is_none());
}

#[test]
fn a_replay_and_a_verification_say_the_same_of_bias() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run(folder, "run", &[]);
    let replayed = run_fedcast(folder, &["replay", "run", "-o", "again"]);
    assert_eq!(replayed.code, 0, "{}", replayed.err);
    for table in TABLES {
        let of = |run: &str| read(folder.join(run).join(table));
        assert!(of("run") == of("again"), "{table}");
    }
    let verified = run_fedcast(folder, &["replay", "run", "--verify", "-q", "--workers", "1"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
    let from = ["replay", "run", "--verify", "--from-round", "3", "-q"];
    let verified = run_fedcast(folder, &from);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
    // Answers are those of the recorded run where nothing is computed.
    let slower = ["replay", "run", "-o", "retimed", "--set", "time.ms_per_sample=50"];
    let retimed = run_fedcast(folder, &slower);
    assert_eq!(retimed.code, 0, "{}", retimed.err);
    assert!(read(folder.join("run/bias.csv")) == read(folder.join("retimed/bias.csv")));
}

/// Clients of earlier tasks have heads without rows for later ones, where heads grow.
#[test]
fn clients_whose_heads_lack_rows_are_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let more = [
        "--set",
        "tasks={count=5,arrival=\"client-tasks\",classes_per_client_task=4}",
        "--set",
        "partition={kind=\"slices\"}",
        "--set",
        "method.head_form=\"growing\"",
        "--set",
        "federation.rounds=1",
    ];
    run(folder, "run", &more);
    let compared = rows(folder, "run", "bias.csv");
    let last = compared.iter().map(|row| number(row, "round")).max();
    assert!(compared.iter().all(|row| number(row, "predicted") < 1_000), "{compared:?}");
    assert!(last.is_none_or(|round| round <= 5), "{last:?}");
    assert_eq!(summary(folder, "run")["ended"], "done");
}
