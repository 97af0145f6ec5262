//! Promises about malicious clients: what they forge stands in the journal and changes the model, a robust
//! aggregate bears it, and the digests depend on no worker.

use std::path::Path;

use fedcast::experiment::assemble::assemble;
use fedcast::federation::{
    AggregationRule, Digests, Entry, Event, FederationError, Interrupt, MemorySink, Setup, simulate,
};
use fedcast::methods::Registry;
use fedcast::quantity::ClientId;
use fedcast::scenario::{Override, Scenario};

/// Logistic regression on all digits, ten clients that are alike.
const BASE: &str = r#"
    schema = 2
    data = { source = "digits", train = { normalize = "half" } }
    tasks = { count = 1 }
    partition = { kind = "iid" }
    backbone = { kind = "pixels" }
    method = { name = "fedavg" }
    federation = { clients = 10, rounds = 6 }
    client = { epochs = 2, batch_size = 16, optimizer = { kind = "sgd", lr = 0.1 } }
"#;

/// Three of them send ten times their update, the other way.
const FLIPPED: &str = r#"faults=[{kind="malicious",how="sign-flipped",factor=10,fraction=0.3}]"#;

struct Ran {
    entries: Vec<Entry>,
    digests: Digests,
}

impl Ran {
    /// Share of right answers at the end.
    fn accuracy(&self) -> f64 {
        let scores = self.entries.iter().filter(|entry| entry.event.name() == "evaluated");
        let numbers = scores.filter_map(|entry| entry.numbers.as_ref()).next_back();
        let task = numbers.expect("it was tested").tasks[0];
        task.correct as f64 / task.total as f64
    }

    /// Returns the forged uploads by client.
    fn forged(&self) -> Vec<(ClientId, String)> {
        let of = |entry: &Entry| match &entry.event {
            Event::UpdatePoisoned { client, attack: how, .. } => Some((*client, how.clone())),
            _ => None,
        };
        self.entries.iter().filter_map(of).collect()
    }

    /// A figure of the last round.
    fn figure(&self, name: &str) -> Option<f64> {
        let closed = self.entries.iter().filter(|entry| entry.event.name() == "round_closed");
        let numbers = closed.filter_map(|entry| entry.numbers.as_ref()).next_back()?;
        numbers.metrics.get(name).map(|figure| figure.0)
    }
}

fn setup(overrides: &[&str]) -> Setup {
    let overrides: Vec<_> = overrides.iter().map(|text| Override::new(*text)).collect();
    let methods = Registry::builtin();
    let read = Scenario::from_toml(BASE, "malicious", Path::new("."), &overrides, &methods);
    let scenario = read.expect("is right").scenario;
    assemble(&scenario, &methods, Some(2)).expect("assembles").setup
}

fn run(setup: Setup) -> Ran {
    let memory = MemorySink::default();
    let end = simulate(setup, Box::new(memory.clone()), Box::new(()), Interrupt::default());
    assert!(end.is_ok(), "{:?}", end.err());
    Ran { entries: memory.entries(), digests: memory.digests() }
}

fn ran(overrides: &[&str]) -> Ran {
    run(setup(overrides))
}

#[test]
fn means_collapse_under_flipped_updates_and_robust_rules_hold() {
    let honest = ran(&[]).accuracy();
    assert!(honest > 0.85, "{honest}");
    let under_attack = |fold: &[&str]| ran(&[&[FLIPPED], fold].concat());
    let mean = under_attack(&[]);
    assert!(mean.accuracy() < 0.4, "{}", mean.accuracy());
    // Clipped liars still pull: three of ten leave four tenths of every step.
    for (fold, worse) in [
        (&["federation.aggregation=median"][..], 0.08),
        (&["federation.aggregation=trimmed-mean", "federation.trim_fraction=0.3"], 0.08),
        (&["federation.aggregation=norm-clipped", "federation.clip_norm=1"], 0.25),
    ] {
        let robust = under_attack(fold);
        assert!(robust.accuracy() > honest - worse, "{fold:?}: {}", robust.accuracy());
        assert_eq!(robust.figure("fold_updates"), Some(10.0));
        assert_eq!(robust.forged(), mean.forged(), "the same clients lie");
    }
    let trimmed =
        under_attack(&["federation.aggregation=trimmed-mean", "federation.trim_fraction=0.3"]);
    assert_eq!(trimmed.figure("fold_trimmed"), Some(6.0));
}

#[test]
fn liars_are_a_drawn_share_or_named_and_every_lie_is_in_the_journal() {
    let drawn = ran(&[FLIPPED]).forged();
    assert_eq!(drawn.len(), 18, "three clients in six rounds");
    let mut liars: Vec<ClientId> = drawn.iter().map(|(client, _)| *client).collect();
    liars.sort();
    liars.dedup();
    assert_eq!(liars.len(), 3);
    assert!(drawn.iter().all(|(_, how)| how == "scaled by -10"));
    // A lie looks as good as the truth: nothing is missing.
    let whole = |entry: &&Entry| matches!(entry.event, Event::RoundClosed { aggregated: 10, .. });
    assert_eq!(ran(&[FLIPPED]).entries.iter().filter(whole).count(), 6);
    let named = ran(&[r#"faults=[{kind="malicious",how="noise",clients=[4],rounds=[2]}]"#]);
    assert_eq!(named.forged(), [(ClientId(4), "with noise of deviation 1".to_string())]);
}

/// One times an update is that update, so the model does not change; ten times it does.
#[test]
fn the_forged_update_is_the_one_aggregated() {
    let last = |overrides: &[&str]| {
        let ran = ran(overrides);
        let closed = ran.entries.iter().rfind(|entry| entry.event.name() == "round_closed");
        closed.and_then(|entry| entry.numbers.clone()).and_then(|numbers| numbers.digest)
    };
    let plain = last(&[]);
    assert_eq!(last(&[r#"faults=[{kind="malicious",how="scaled",factor=1}]"#]), plain);
    assert_ne!(last(&[r#"faults=[{kind="malicious",how="scaled",clients=[1]}]"#]), plain);
}

#[test]
fn robust_rules_without_effect_change_no_event_and_no_digest() {
    let mean = ran(&[]);
    let clipped = ran(&["federation.aggregation=norm-clipped", "federation.clip_norm=1e9"]);
    assert_eq!(clipped.digests.events, mean.digests.events);
    assert_eq!(clipped.figure("fold_clipped"), Some(0.0));
    let states = |ran: &Ran| -> Vec<_> {
        let closed = ran.entries.iter().filter(|entry| entry.event.name() == "round_closed");
        closed.map(|entry| entry.numbers.as_ref().and_then(|numbers| numbers.digest)).collect()
    };
    assert_eq!(states(&clipped), states(&mean));
}

#[test]
fn digests_do_not_depend_on_workers_or_on_when_they_finish() {
    for fold in ["median", "trimmed-mean"] {
        let overrides = [FLIPPED, &format!("federation.aggregation={fold}"), "federation.rounds=2"];
        let base = ran(&overrides).digests;
        for (workers, seed) in [(1, 3), (3, 4)] {
            let shaken = Setup { workers: workers.into(), shaker: Some(seed), ..setup(&overrides) };
            assert_eq!(run(shaken).digests, base, "{workers} workers");
        }
    }
}

/// A program is refused what a scenario is refused.
#[test]
fn a_setup_whose_method_aggregates_no_mean_is_refused() {
    let method = |overrides: &[&str], name: &str| {
        let setup = setup(overrides);
        let other = r#"method={name="stsa",first={name="none"}}"#;
        Setup { method: self::setup(&[other]).method, name: name.to_string(), ..setup }
    };
    for overrides in [&["federation.aggregation=median"], &[FLIPPED]] {
        let refused = simulate(
            method(overrides, "stsa"),
            Box::new(MemorySink::default()),
            Box::new(()),
            Interrupt::default(),
        );
        let is = |error: &FederationError| error.to_string().contains("`stsa`");
        assert!(refused.as_ref().is_err_and(is), "{refused:?}");
    }
    assert_eq!(setup(&[]).rules.aggregation, AggregationRule::Mean);
}
