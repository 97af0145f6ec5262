//! Promise: under secure aggregation the server learns the same from a sum it cannot take apart,
//! whichever clients drop out; every frame of it is in the ledger, as planned.

use std::collections::BTreeMap;
use std::path::Path;

use fedcast::experiment::assemble::{assemble, blueprint};
use fedcast::experiment::plan::{Faults, plan};
use fedcast::federation::ledger::Ledger;
use fedcast::federation::{
    Digests, Direction, EndReason, Entry, Event, EventSink, FaultRules, FederationError,
    FrameOutcome, Interrupt, MemorySink, Rules, Setup, Workforce, simulate,
};
use fedcast::methods::Registry;
use fedcast::scenario::Scenario;
use fedcast::wire::Kind;

const BASE: &str = r#"
    schema = 2
    data = { source = "digits", subset = 12 }
    tasks = { sizes = [5, 5] }
    partition = { kind = "iid", min_samples = 2 }
    backbone = { kind = "pixels" }
    method = { name = "fedavg", train = "head" }
    federation = { clients = 5, rounds = 2 }
    client = { epochs = 1, batch_size = 16 }
"#;
const SECURE: &str = "[privacy]\nsecure_aggregation = true";

struct Ran {
    end: Result<EndReason, FederationError>,
    entries: Vec<Entry>,
    digests: Digests,
}

impl Ran {
    fn count(&self, name: &str) -> usize {
        self.entries.iter().filter(|entry| entry.event.name() == name).count()
    }

    /// Right answers of every evaluation.
    fn scores(&self) -> Vec<u64> {
        let numbers = self.entries.iter().filter(|entry| entry.event.name() == "evaluated");
        let tasks = numbers.filter_map(|entry| entry.numbers.as_ref());
        tasks.map(|numbers| numbers.tasks.iter().map(|task| task.correct).sum()).collect()
    }

    fn aggregated(&self) -> Vec<u32> {
        let aggregate = |entry: &Entry| match entry.event {
            Event::RoundClosed { aggregated, .. } => Some(aggregated),
            _ => None,
        };
        self.entries.iter().filter_map(aggregate).collect()
    }

    fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::default();
        self.entries.iter().for_each(|entry| ledger.record(entry).expect("known kinds"));
        ledger
    }
}

fn scenario(more: &str) -> Scenario {
    read(&format!("{BASE}\n{more}"))
}

/// Returns the scenario with HGP as the method.
fn hgp(keys: &str, more: &str) -> Scenario {
    let method = format!("name = \"hgp\", prompt_len = 2, n_blocks = 1, {keys}");
    let base = BASE.replace("name = \"fedavg\", train = \"head\"", &method);
    let base = base.replace("kind = \"pixels\"", "");
    read(&format!("{base}\n{more}"))
}

fn read(text: &str) -> Scenario {
    let loaded = Scenario::from_toml(text, "small", Path::new("."), &[], &Registry::builtin());
    loaded.unwrap_or_else(|error| panic!("{error}")).scenario
}

fn ready(scenario: &Scenario) -> Setup {
    assemble(scenario, &Registry::builtin(), Some(2)).expect("assembles").setup
}

fn execute(setup: Setup) -> Ran {
    let memory = MemorySink::default();
    let end = simulate(setup, Box::new(memory.clone()), Box::new(()), Interrupt::default());
    let end = end.map(|end| end.reason);
    Ran { end, entries: memory.entries(), digests: memory.digests() }
}

fn run_with(more: &str, change: impl Fn(Setup) -> Setup) -> Ran {
    execute(change(ready(&scenario(more))))
}

fn run(more: &str) -> Ran {
    run_with(more, |setup| setup)
}

fn with_faults(faults: FaultRules, seed: u64) -> impl Fn(Setup) -> Setup {
    move |setup| Setup { rules: Rules { faults: faults.clone(), seed, ..setup.rules }, ..setup }
}

/// The server's state after the last task, as scores see it, is that of plain FedAvg.
#[test]
fn secure_sums_train_as_plain_averaging() {
    let (plain, secure) = (run(""), run(SECURE));
    assert_eq!(secure.end.as_ref().ok(), Some(&EndReason::Done));
    assert_eq!(secure.scores(), plain.scores());
    assert_eq!(secure.aggregated(), [5; 4]);
    assert_eq!(secure.count("secure_sum_opened"), 4);
    // Uploads differ in every bit, and what is learned only by rounding.
    assert_ne!(secure.digests, plain.digests);
    let small = run(&format!("{SECURE}\nmodulus = \"2^32\"\nbits = 16"));
    assert_eq!(small.end.as_ref().ok(), Some(&EndReason::Done));
    let (small, plain) = (small.scores(), plain.scores());
    let near = small.iter().zip(&plain).all(|(a, b)| a.abs_diff(*b) <= 2);
    assert!(near, "{small:?} {plain:?}");
}

#[test]
fn digests_depend_on_neither_workers_nor_chance_nor_verification() {
    let faults = FaultRules { lose_down: 0.05, lose_up: 0.05, ..FaultRules::crashing(0.1) };
    let base = run_with(SECURE, with_faults(faults.clone(), 3));
    for workers in [1, 3, 8] {
        let faulty = with_faults(faults.clone(), 3);
        let other =
            run_with(SECURE, |setup| Setup { workers: Workforce::Cpu(workers), ..faulty(setup) });
        assert_eq!(other.digests, base.digests, "{workers} workers");
        let shaken =
            run_with(SECURE, |setup| Setup { shaker: Some(workers as u64), ..faulty(setup) });
        assert_eq!(shaken.digests, base.digests);
    }
    let verified =
        run_with(&format!("{SECURE}\n[wire]\nverify = true"), with_faults(faults.clone(), 3));
    assert_eq!(verified.digests, base.digests);
}

/// Rounds end as the protocol says, with every kind of drop-out: before and after the shares, in
/// training, on the way up, and among the answers.
#[test]
fn after_dropouts_the_rest_is_summed_or_nothing() {
    let faults = FaultRules { lose_down: 0.07, lose_up: 0.07, ..FaultRules::crashing(0.15) };
    let (mut opened, mut closed, mut partial) = (0, 0, 0);
    for seed in 0..12 {
        let ran = run_with(SECURE, with_faults(faults.clone(), seed));
        assert_eq!(ran.end.as_ref().ok(), Some(&EndReason::Done), "seed {seed}");
        let mut sums = BTreeMap::new();
        for entry in &ran.entries {
            match &entry.event {
                Event::SecureSumOpened {
                    round,
                    members,
                    arrived,
                    answered,
                    needed,
                    opened,
                    ..
                } => {
                    assert!(members >= arrived && arrived >= answered && *needed == 4);
                    assert_eq!(*opened, arrived >= needed && answered >= needed);
                    sums.insert(*round, (*arrived, *members, *opened));
                }
                Event::RoundClosed { round, aggregated, missing, .. } => {
                    let (arrived, members, read) = sums[round];
                    assert_eq!(*aggregated, if read { arrived } else { 0 });
                    assert_eq!(*aggregated as usize + missing.len(), 5);
                    opened += usize::from(read);
                    closed += usize::from(!read);
                    partial += usize::from(read && arrived < members);
                }
                _ => {}
            }
        }
    }
    assert!(opened > 10 && closed > 3 && partial > 3, "{opened} {closed} {partial}");
}

#[test]
fn the_ledger_has_every_frame_and_is_what_was_planned() {
    let limited = "preset = \"mobile\"\nlinks = { server_up_mb_per_s = 0.01 }";
    for more in ["", "preset = \"mobile\"", limited] {
        let secure = format!("{more}\n{SECURE}");
        let ran = run(&secure);
        let ledger = ran.ledger();
        let blueprint = blueprint(&scenario(&secure), &Registry::builtin()).unwrap();
        let plan = plan(&blueprint, Faults::Off).unwrap();
        let (down, up) = (ledger.direction(Direction::Down), ledger.direction(Direction::Up));
        assert_eq!((down.bytes.0, up.bytes.0), (plan.total.down, plan.total.up));
        // Keys, shares, upload, answer up; roster, inbox, download, survivors down.
        assert_eq!((down.frames, up.frames), (4 * 5 * 4, 4 * 5 * 4));
        let protocol =
            down.kinds.get(Kind::SecureAggregation).0 + up.kinds.get(Kind::SecureAggregation).0;
        let a_participant = 64 + 5 * 64 + 4 * 80 + 4 * 80 + 1 + 5 * 32;
        assert_eq!(protocol, 4 * 5 * a_participant);
        assert_eq!(Some(&protocol), plan.total.kinds.get("secure_aggregation"));
        let end = ran.entries.last().unwrap().at.as_seconds();
        assert!((end - plan.total.virtual_s).abs() < 1e-6, "{end} {}", plan.total.virtual_s);
        // Masked numbers take eight bytes instead of four.
        let plain = run(more).ledger().total(Direction::Up, FrameOutcome::Delivered);
        assert_eq!(up.kinds.get(Kind::Head).0, 2 * plain.kinds.get(Kind::Head).0);
    }
}

#[test]
fn a_number_beyond_the_ring_is_its_clients_failure() {
    // Integers alone, in a ring of 2^32 with 30 digits after the point: nothing above 0.4 fits.
    let ran = run(&format!("{SECURE}\nmodulus = \"2^32\"\nbits = 30"));
    assert_eq!(ran.end.as_ref().ok(), Some(&EndReason::Done));
    let failures: Vec<_> = (ran.entries.iter())
        .filter_map(|entry| match &entry.event {
            Event::ClientFailed { reason, detail, .. } => Some((reason.as_str(), detail.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(failures.len(), 20);
    assert!(failures.iter().all(|(reason, _)| *reason == "out_of_range"));
    assert!(failures[0].1.contains("does not fit"), "{}", failures[0].1);
    assert_eq!(ran.aggregated(), [0; 4]);
}

#[test]
fn the_engine_refuses_what_is_no_sum_by_the_tensor_s_name() {
    // Behind the back of the scenario's check, which refuses it too.
    let rules = ready(&scenario(SECURE)).rules;
    let ran = execute(Setup { rules, ..ready(&hgp("rebalance = \"both\"", "")) });
    let error = ran.end.unwrap_err().to_string();
    assert!(error.contains("keeps `counts`") && error.contains("`hgp`"), "{error}");
}

#[test]
fn hgp_without_rebalancing_adds_up_in_secret_too() {
    let ran = |more| execute(ready(&hgp("rebalance = \"none\"", more)));
    let (plain, secure) = (ran(""), ran(SECURE));
    assert_eq!(secure.aggregated(), [5; 4]);
    assert_eq!(plain.scores(), secure.scores());
}

/// The text of a scenario with a method of the STSA family.
fn stsa(name: &str, more: &str) -> String {
    let method =
        format!("name = \"{name}\", width = 48, lambda = 10.0, first = {{ name = \"none\" }}");
    let base = BASE.replace("name = \"fedavg\", train = \"head\"", &method);
    format!("{base}\n{more}")
}

fn run_stsa(name: &str, more: &str) -> Ran {
    execute(ready(&read(&stsa(name, more))))
}

/// The sum of what was uploaded is exact, so a closed form learns the same from it.
#[test]
fn stsa_adds_up_in_secret_also_as_the_half_of_its_matrix() {
    let halved = |more: &str| {
        let text = stsa("stsa", more).replace("width = 48", "width = 48, symmetric = true");
        execute(ready(&read(&text)))
    };
    let gram = |ran: &Ran| {
        let statistics = ran.ledger().direction(Direction::Up).kinds.get(Kind::Statistics).0;
        statistics as usize / (2 * 5) // two tasks, five clients
    };
    let plain = run_stsa("stsa", "");
    let sums = 5 * 48;
    assert_eq!(gram(&plain), 4 * (48 * 48 + sums));
    for (secure, numbers) in
        [(run_stsa("stsa", SECURE), 48 * 48 + sums), (halved(SECURE), 48 * 49 / 2 + sums)]
    {
        assert_eq!(secure.aggregated(), [5; 2]);
        assert_eq!(plain.scores(), secure.scores());
        assert_eq!(gram(&secure), 8 * numbers);
    }
}

#[test]
fn units_that_the_server_must_see_one_by_one_are_refused_with_the_reason() {
    let text = stsa("stsa-e", SECURE);
    let refused = Scenario::from_toml(&text, "e", Path::new("."), &[], &Registry::builtin());
    let error = refused.unwrap_err().to_string();
    for part in ["`stsa-e`", "keeps `sums`", "of every client whole"] {
        assert!(error.contains(part), "{error}");
    }
}

/// E1 is noise on sums, E2 on counts, E3 on both; STSA's is on its matrix and sums.
#[test]
fn every_kind_of_noise_on_statistics_goes_where_it_is_said() {
    for (method, kinds) in
        [("stsa-e", ["sums", "counts", "statistics"]), ("stsa", ["sums", "gram", "statistics"])]
    {
        let plain = run_stsa(method, "");
        let mut seen = vec![plain.digests.numbers];
        for on in kinds {
            let noise = format!("[privacy.noise]\nscale = 2.0\nq = 0.5\non = [\"{on}\"]");
            let noisy = run_stsa(method, &noise);
            assert_eq!(noisy.end.as_ref().ok(), Some(&EndReason::Done), "{method} {on}");
            assert_eq!(noisy.digests.events, plain.digests.events, "{method} {on}");
            assert!(!seen.contains(&noisy.digests.numbers), "{method} {on}");
            seen.push(noisy.digests.numbers);
        }
    }
}

#[test]
fn noise_changes_uploads_and_not_the_rest() {
    let noise = |scale: f64| run(&format!("[privacy.noise]\nscale = {scale}\non = [\"head\"]"));
    let (plain, silent, noisy) = (run(""), noise(0.0), noise(0.5));
    assert_eq!(silent.digests, plain.digests);
    assert_eq!(noisy.digests.events, plain.digests.events);
    assert_ne!(noisy.digests.numbers, plain.digests.numbers);
    assert_eq!(noise(0.5).digests, noisy.digests);
    assert_ne!(noisy.scores(), plain.scores());
}

/// A participant that comes after the deadline has dropped out; its masks are taken off the sum of the others. A
/// deadline within the introduction ends a round to which no participant was invited.
#[test]
fn uploads_after_the_deadline_are_drop_outs() {
    let (mut partial, mut uninvited) = (0, 0);
    for deadline in 1..=8 {
        let deadline = f64::from(deadline) * 0.1;
        let round = format!("round = {{ close = \"deadline\", deadline_s = {deadline} }}");
        let secure = format!("preset = \"mobile\"\n{round}\n{SECURE}\nthreshold = 0.3");
        let ran = run(&secure);
        assert_eq!(ran.end.as_ref().ok(), Some(&EndReason::Done), "{deadline}");
        let workers = |setup| Setup { workers: Workforce::Cpu(3), ..setup };
        assert_eq!(run_with(&secure, workers).digests, ran.digests, "{deadline}");
        for entry in &ran.entries {
            if let Event::SecureSumOpened { members, arrived, opened, .. } = entry.event {
                partial += usize::from(opened && arrived < members);
                uninvited += usize::from(members == 0);
            }
        }
    }
    assert!(partial > 2 && uninvited > 2, "{partial} {uninvited}");
}
