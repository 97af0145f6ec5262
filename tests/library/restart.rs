//! Promises about `[[faults]] kind = "server-restart"`: the round is lost with everything that had arrived, the
//! server goes on from what it had saved, nothing hangs, and no digest depends on workers.

use std::path::Path;

use crate::softmax::{Ran, SoftmaxFault, Visits, mobile_compute, mobile_links, rules, run, setup};
use fedcast::experiment::assemble::assemble;
use fedcast::federation::privacy::{FixedPoint, Modulus, SecureAggregation};
use fedcast::federation::{
    ClosingGoal, ClosingRules, CohortSize, ComputeRules, Digest, Direction, EndReason, Entry,
    Event, Fault, FaultKind, FaultRules, FederationError, FrameOutcome, Interrupt, LatePolicy,
    MemorySink, ParticipationSection, Rules, Setup, Staleness, simulate,
};
use fedcast::methods::Registry;
use fedcast::quantity::{ParticipantId, Round, VirtualTime};
use fedcast::scenario::Scenario;

fn restart(after: VirtualTime, downtime: f64) -> Fault {
    Fault::of(FaultKind::ServerRestart { after_s: after.as_seconds(), downtime_s: downtime })
}

fn faults(fault: Fault) -> FaultRules {
    FaultRules { entries: vec![fault], ..FaultRules::default() }
}

fn mobile(faults: FaultRules) -> Rules {
    Rules { faults, compute: mobile_compute(), links: mobile_links(), ..rules() }
}

fn ran(rules: Rules) -> Ran {
    let ran = run(setup::<()>(rules, SoftmaxFault::None));
    assert_eq!(ran.end.as_ref().expect("the run goes on").reason, EndReason::Done);
    ran
}

fn at(ran: &Ran, of: impl Fn(&Event) -> bool) -> VirtualTime {
    ran.entries.iter().find(|entry| of(&entry.event)).expect("it happened").at
}

/// Uploads of a round as they arrive.
fn uploads(ran: &Ran, wanted: Round) -> Vec<(VirtualTime, ParticipantId, FrameOutcome)> {
    let of = |entry: &Entry| match entry.event {
        Event::FrameCharged { round, participant, direction: Direction::Up, outcome, .. } => {
            (round == wanted).then_some((entry.at, participant, outcome))
        }
        _ => None,
    };
    ran.entries.iter().filter_map(of).collect()
}

/// Rounds as they closed: when, with how many updates and with which state of the server.
fn closed(entries: &[Entry]) -> Vec<(VirtualTime, u32, Digest)> {
    let of = |entry: &Entry| match entry.event {
        Event::RoundClosed { aggregated, .. } => {
            let digest = entry.numbers.as_ref().and_then(|numbers| numbers.digest);
            Some((entry.at, aggregated, digest.expect("a state has a digest")))
        }
        _ => None,
    };
    entries.iter().filter_map(of).collect()
}

#[test]
fn a_round_is_lost_with_what_had_arrived() {
    let plain = ran(mobile(FaultRules::default()));
    let opened = at(&plain, |e| matches!(e, Event::RoundOpened { round: Round(1), .. }));
    let arrivals = uploads(&plain, Round(1));
    let after = VirtualTime(arrivals[3].0.0 - opened.0 - 1);
    let once = Fault { rounds: vec![Round(1)], ..restart(after, 4000.0) };
    let struck = ran(mobile(faults(once)));
    let lost_at = at(&struck, |e| matches!(e, Event::ServerRestarted { .. }));
    let back = lost_at + VirtualTime::from_seconds(4000.0);
    let event = struck.entries.iter().find(|e| e.event.name() == "server_restarted").unwrap();
    let Event::ServerRestarted { round, lost, stale, until, .. } = &event.event else { panic!() };
    let mut arrived: Vec<ParticipantId> = arrivals[..3].iter().map(|arrival| arrival.1).collect();
    arrived.sort();
    assert_eq!((*round, lost, *stale, *until), (Round(1), &arrived, 0, back.0));
    // Uploads that find no server are lost, and charged.
    let outcomes: Vec<FrameOutcome> = uploads(&struck, Round(1)).iter().map(|up| up.2).collect();
    assert_eq!(outcomes[..3], [FrameOutcome::Delivered; 3]);
    assert_eq!(outcomes[3..], [FrameOutcome::Lost; 3]);
    let rounds = closed(&struck.entries);
    assert_eq!(rounds.len(), 10);
    assert_eq!((rounds[1].0, rounds[1].1), (back, 0));
    assert_eq!(rounds[1].2, rounds[0].2, "the state before the round");
    assert_eq!(at(&struck, |e| matches!(e, Event::RoundOpened { round: Round(2), .. })), back);
    assert!(rounds[2..].iter().all(|round| round.1 == 6));
}

/// A server that is back soon meets uploads it knows nothing of.
#[test]
fn what_arrives_afterwards_is_late() {
    let struck = ran(mobile(faults(restart(VirtualTime(1), 0.0))));
    assert_eq!(struck.count("server_restarted"), 10);
    let late = uploads(&struck, Round(0));
    assert!(late.len() == 6 && late.iter().all(|up| up.2 == FrameOutcome::Late), "{late:?}");
}

#[test]
fn a_round_that_closed_before_is_spared() {
    let plain = ran(mobile(FaultRules::default()));
    let spared = ran(mobile(faults(restart(VirtualTime::from_seconds(1e6), 60.0))));
    assert_eq!(spared.entries, plain.entries);
}

/// Also where nothing takes time, and where no round is ever finished.
#[test]
fn a_server_that_is_lost_in_every_round_still_ends() {
    let struck = ran(Rules { faults: faults(restart(VirtualTime::ZERO, 1.0)), ..rules() });
    let rounds = closed(&struck.entries);
    assert!(rounds.len() == 10 && rounds.iter().all(|round| round.1 == 0));
    assert_eq!(struck.end.unwrap().at, VirtualTime::from_seconds(10.0));
}

#[test]
fn the_digests_are_those_of_any_workers_and_buffers_are_lost() {
    let late = LatePolicy::Aggregate(Staleness { power: 1.0, most: u32::MAX });
    let buffer = ClosingRules { enough: ClosingGoal::Buffer(3), late, ..ClosingRules::default() };
    let participation = ParticipationSection {
        participants: CohortSize::Count { count: 4 },
        ..ParticipationSection::default()
    };
    let compute = ComputeRules { sample_ms: 30.0, ..mobile_compute() };
    let mut stale_lost = 0;
    for closing in [ClosingRules::default(), buffer] {
        for make in [setup::<()>, setup::<Visits>] {
            for seed in 0..3 {
                let some = Fault { rate: 0.6, ..restart(VirtualTime::from_seconds(0.5), 3.0) };
                let (compute, participation) = (compute.clone(), participation.clone());
                let rules =
                    Rules { seed, rounds: 4, closing, participation, ..mobile(faults(some)) };
                let rules = Rules { compute, ..rules };
                let one = run(make(rules.clone(), SoftmaxFault::None));
                assert!(one.end.is_ok(), "{:?}", one.end.err());
                assert!(one.count("server_restarted") > 0);
                let stale = |entry: &Entry| match entry.event {
                    Event::ServerRestarted { stale, .. } => stale,
                    _ => 0,
                };
                stale_lost += one.entries.iter().map(stale).sum::<u32>();
                let shaker = Some(seed);
                let shaken = Setup { workers: 3.into(), shaker, ..make(rules, SoftmaxFault::None) };
                assert_eq!(run(shaken).digests, one.digests);
            }
        }
    }
    assert!(stale_lost > 0, "updates of earlier rounds waited in a buffer");
}

#[test]
fn a_restart_strikes_no_client() {
    let text = format!(
        "{DIGITS}method = {{ name = \"fedavg\", train = \"head\" }}\n\
         faults = [{{ kind = \"server-restart\", clients = [1], downtime_s = -1 }}]\n"
    );
    let loaded = Scenario::from_toml(&text, "small", Path::new("."), &[], &Registry::builtin());
    let error = loaded.expect_err("refused").to_string();
    assert!(error.contains("`faults.clients` has no meaning"), "{error}");
    assert!(error.contains("`faults.downtime_s` must be at least 0"), "{error}");
}

#[test]
fn secure_sums_and_restarts_exclude_each_other() {
    let text = format!(
        "{DIGITS}method = {{ name = \"fedavg\", train = \"head\" }}\n\
         privacy = {{ secure_aggregation = true }}\n\
         faults = [{{ kind = \"server-restart\" }}]\n"
    );
    let methods = Registry::builtin();
    let loaded = Scenario::from_toml(&text, "small", Path::new("."), &[], &methods);
    let error = loaded.expect_err("refused").to_string();
    assert!(error.contains("secure aggregation with a restart of the server"), "{error}");
    let mut rules = mobile(faults(restart(VirtualTime::ZERO, 1.0)));
    let numbers = FixedPoint { modulus: Modulus::Bits64, bits: 24 };
    rules.privacy.secure = Some(SecureAggregation { numbers, threshold: 0.5 });
    let end = run(setup::<()>(rules, SoftmaxFault::None)).end;
    assert!(matches!(end, Err(FederationError::Impossible(_))), "{end:?}");
}

const DIGITS: &str = r#"
schema = 2
data = { source = "digits", subset = 8 }
tasks = { sizes = [5, 5] }
partition = { kind = "capped", beta = 1.0, min_samples = 2 }
federation = { clients = 4, rounds = 3 }
client = { epochs = 1, batch_size = 16 }
time = { preset = "mobile" }
links = { preset = "mobile" }
"#;

/// States of the server after each round.
fn states(method: &str, fault: &str) -> Vec<Digest> {
    let text = format!("{DIGITS}method = {{ {method} }}\nfaults = [{{ {fault} }}]\n");
    let methods = Registry::builtin();
    let loaded = Scenario::from_toml(&text, "small", Path::new("."), &[], &methods);
    let scenario = loaded.unwrap_or_else(|error| panic!("{error}")).scenario;
    let setup = assemble(&scenario, &methods, Some(2)).expect("assembles").setup;
    let memory = MemorySink::default();
    simulate(setup, Box::new(memory.clone()), Box::new(()), Interrupt::default()).expect("ends");
    closed(&memory.entries()).into_iter().map(|round| round.2).collect()
}

/// A restart restores the saved state.
///
/// The run learns the same as if every client had crashed in these rounds, which are the first of the run, one within
/// a task and the first of a task.
#[test]
fn policies_come_back_as_they_were() {
    for method in [
        "name = \"hgp\", prompt_len = 4, n_blocks = 2, samples_per_class = 32",
        "name = \"coda-prompt\", pool = 6, prompt_len = 2, n_blocks = 2",
        "name = \"stsa\", width = 40, lambda = 0.001, lambda_scale = \"trace\"",
        "name = \"hepco\", pool = 4, prompt_len = 4, n_blocks = 2, server_batch = 16, \
         generator_steps = 3, old_steps_per_task = 2, prompt_steps = 3, head_steps = 3",
    ] {
        let states = |kind| states(method, &format!("kind = \"{kind}\", rounds = [1, 3, 4]"));
        assert_eq!(states("server-restart"), states("crash"), "{method}");
    }
}
