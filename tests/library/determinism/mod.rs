//! Promises: a run's two digests depend on the scenario and its seeds only, and whatever clients
//! do, a run ends.

mod failures;
mod messages;
mod rounds;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crate::softmax::{
    self, Ran, SoftmaxFault, Visits, mobile_compute, mobile_links, rules, run, run_with, setup,
};
use fedcast::data::{FreshClients, FreshPartition};
use fedcast::federation::availability::{Availability, AvailabilityPattern, AvailabilityRules};
use fedcast::federation::{
    AssetCache, ClosingGoal, ClosingRules, Coding, CohortSize, Compared, ComputeRules, Direction,
    EndReason, Entry, EvaluationPoint, Event, EventSink, FaultRules, FederationError, FrameOutcome,
    Interrupt, JobKind, LinkRules, MemorySink, OnBadUpdate, ParticipationSection, Population,
    ProfileSink, Rules, Setup, ShardSource, SinkError, Span, Workforce, simulate,
};
use fedcast::numerics::scalar_distribution::ScalarDistribution;
use fedcast::quantity::VirtualTime;
use fedcast::wire::{Codec, CodecPlan};

fn mobile() -> Rules {
    let participation = ParticipationSection {
        participants: CohortSize::Fraction { fraction: 0.5 },
        ..ParticipationSection::default()
    };
    let (compute, links) = (mobile_compute(), mobile_links());
    let faults = FaultRules { lose_down: 0.05, lose_up: 0.05, ..FaultRules::crashing(0.1) };
    Rules { compute, links, faults, participation, ..rules() }
}

fn stateful(rules: Rules) -> Setup {
    setup::<Visits>(rules, SoftmaxFault::None)
}

fn done(ran: &Ran) {
    let end = ran.end.as_ref().expect("the run ends well");
    assert_eq!(end.reason, EndReason::Done);
    assert_eq!(end.entries, ran.entries.len() as u64);
    let last = &ran.entries.last().expect("has entries").event;
    assert_eq!(last, &Event::RunEnded { reason: EndReason::Done });
}

#[test]
fn digests_do_not_depend_on_the_number_of_workers() {
    for make in [setup::<()>, setup::<Visits>] {
        let of = |workers: usize| {
            run(Setup { workers: workers.into(), ..make(mobile(), SoftmaxFault::None) })
        };
        let one = of(1);
        done(&one);
        for workers in [2, 3, 8] {
            assert_eq!(one.digests, of(workers).digests, "{workers} workers");
        }
    }
}

#[test]
fn digests_do_not_depend_on_when_workers_finish() {
    for rules in [rules(), mobile()] {
        let plain = run(stateful(rules.clone()));
        for seed in 1..4 {
            let shaken =
                run(Setup { shaker: Some(seed), workers: 3.into(), ..stateful(rules.clone()) });
            assert_eq!(plain.digests, shaken.digests, "shaker {seed}");
        }
    }
}

#[test]
fn a_shared_server_line_slows_all_alike_for_any_workers() {
    // Six heads of 2.6 kB at once through 10 kB/s, where each client alone could take megabytes.
    let links = LinkRules { server_down: 1e4, server_up: 2e4, ..mobile_links() };
    let shared = Rules { links, compute: mobile_compute(), ..rules() };
    let of = |workers: usize| run(Setup { workers: workers.into(), ..stateful(shared.clone()) });
    let one = of(1);
    done(&one);
    assert_eq!(one.digests, of(3).digests);
    let mut down = Vec::new();
    for entry in &one.entries {
        if let Event::FrameCharged { direction: Direction::Down, bytes, latency, .. } = &entry.event
        {
            down.push((entry.at.0, bytes.frame(), *latency));
        }
    }
    let (first, last) = (down[0], down[5]);
    assert!(first.0 <= last.0, "deliveries come in order");
    let asked: u64 = down[..6].iter().map(|(_, bytes, _)| bytes).sum();
    assert!(last.2 >= asked * 100_000, "six frames took {} ns for {asked} bytes", last.2);
    assert!(last.2 < asked * 100_000 + 500_000_000, "no more than the line and a round trip");
    assert_eq!(one.count("frame_charged"), 120, "everything asked for arrived");
}

#[test]
fn idle_clients_change_neither_digest() {
    let digests = |idle| run(stateful(Rules { idle, ..mobile() })).digests;
    assert_eq!(digests(0), digests(50));
}

#[test]
fn another_seed_is_another_run() {
    let digests = |seed| run(stateful(Rules { seed, ..mobile() })).digests;
    assert_ne!(digests(1).events, digests(2).events);
    // Without chance in cohorts, times and faults, the seed still moves what is learned.
    let digests = |seed| run(stateful(Rules { seed, ..rules() })).digests;
    assert_ne!(digests(1).numbers, digests(2).numbers);
}

#[test]
fn a_run_learns_and_tests_as_it_says() {
    let ran = run(stateful(rules()));
    done(&ran);
    assert_eq!(ran.count("round_closed"), 10);
    assert_eq!(ran.count("client_trained"), 60);
    assert_eq!(ran.count("frame_charged"), 120);
    assert_eq!(ran.count("evaluated"), 15);
    let counting: Vec<&Entry> = (ran.entries.iter())
        .filter(|e| matches!(e.event, Event::Evaluated { point: EvaluationPoint::Task, .. }))
        .collect();
    let first = counting[0].numbers.as_ref().expect("scores");
    assert_eq!(first.tasks.len(), 1);
    let share = first.tasks[0].correct as f64 / first.tasks[0].total as f64;
    assert!(share > 0.9, "two digits are easy to tell apart: {share}");
    let last = counting[4].numbers.as_ref().expect("scores");
    assert_eq!(last.tasks.len(), 5);
    let classes: u64 = last.classes.iter().map(|class| class.2).sum();
    assert_eq!(last.tasks.iter().map(|task| task.total).sum::<u64>(), classes);
    // Every frame carries the head: 10 x 64 floats; an upload adds its sample count.
    for entry in &ran.entries {
        if let Event::FrameCharged { direction, bytes, sent, .. } = &entry.event {
            let counts = if *direction == Direction::Up { 4 } else { 0 };
            assert_eq!((bytes.payload, *sent), (2560 + counts, bytes.frame()));
            assert_eq!(bytes.kinds.get("head"), Some(&2560));
        }
    }
}

#[test]
fn states_are_kept_and_missed_tasks_are_reported() {
    let participation = ParticipationSection {
        participants: CohortSize::Count { count: 2 },
        ..ParticipationSection::default()
    };
    let ran = run(stateful(Rules { participation, ..rules() }));
    let mut visits = std::collections::BTreeMap::new();
    let mut missed = 0.0;
    for entry in &ran.entries {
        if let Event::ClientTrained { client, .. } = entry.event {
            let metrics = &entry.numbers.as_ref().expect("metrics").metrics;
            let count = visits.entry(client).or_insert(0.0);
            *count += 1.0;
            assert_eq!(metrics["visits"].0, *count, "{client}");
            missed += metrics["missed"].0;
        }
    }
    assert!(missed > 0.0, "with two of six clients a round, somebody misses a task");
}

#[test]
fn virtual_time_passes_and_never_goes_back() {
    let ran = run(stateful(mobile()));
    done(&ran);
    assert!(ran.entries.windows(2).all(|pair| pair[0].at <= pair[1].at));
    assert!(ran.end.expect("ended").at.as_seconds() > 1.0);
    let ideal = run(stateful(rules()));
    assert_eq!(ideal.end.expect("ended").at.0, 0);
}

#[test]
fn bias_is_measured_before_synchronisation_and_changes_nothing() {
    let plain = run(stateful(rules()));
    let measured = run(stateful(Rules { bias: Some(Compared::Round), ..rules() }));
    done(&measured);
    assert_eq!(measured.count("federated_bias_measured"), 10);
    for entry in measured.entries.iter().filter(|e| e.event.name() == "federated_bias_measured") {
        let metrics = &entry.numbers.as_ref().expect("figures").metrics;
        assert!(metrics["response_entropy"].0 >= 0.0);
        assert!(metrics["prototype_distance"].0 > 0.0);
    }
    let digests = |ran: &Ran| -> Vec<_> {
        let closed = ran.entries.iter().filter(|e| e.event.name() == "round_closed");
        closed.map(|e| e.numbers.clone()).collect()
    };
    assert_eq!(digests(&plain), digests(&measured));
}

#[test]
fn fresh_clients_come_once_and_their_shards_are_made_lazily() {
    let participation = ParticipationSection {
        participants: CohortSize::Count { count: 4 },
        population: Population::Fresh,
        ..ParticipationSection::default()
    };
    let rules = Rules { clients: 1_000_000, participation, ..rules() };
    let law = FreshPartition::Dirichlet { beta: 0.5, samples: 20 };
    let fresh = FreshClients { distribution: law, seed: 5 };
    let small = setup::<()>(softmax::rules(), SoftmaxFault::None);
    let ran = run(Setup { rules, shards: ShardSource::Fresh(fresh), ..small });
    done(&ran);
    let mut met = std::collections::BTreeSet::new();
    for entry in &ran.entries {
        if let Event::ClientTrained { client, samples, .. } = entry.event {
            assert_eq!(samples, 20);
            assert!(met.insert(client), "{client} came back");
        }
    }
    assert_eq!(met.len(), 40);
}

#[test]
fn the_profile_sees_every_kind_of_work() {
    #[derive(Clone, Default)]
    struct Spans(Arc<Mutex<Vec<Span>>>);
    impl ProfileSink for Spans {
        fn record(&mut self, span: &Span) {
            self.0.lock().expect("no holder panics").push(*span);
        }
    }
    let spans = Spans::default();
    let (sink, profile) = (Box::new(MemorySink::default()), Box::new(spans.clone()));
    simulate(
        stateful(Rules { bias: Some(Compared::Round), ..rules() }),
        sink,
        profile,
        Interrupt::default(),
    )
    .expect("ends well");
    let spans = spans.0.lock().expect("no holder panics");
    let count = |kind| spans.iter().filter(|span| span.job == kind).count();
    assert_eq!(
        (count(JobKind::Train), count(JobKind::Aggregate), count(JobKind::Bias)),
        (60, 60, 60)
    );
    // A stage begins and ends, a round opens and closes.
    assert_eq!(count(JobKind::Server), 2 * 5 + 2 * 10);
    assert_eq!(count(JobKind::Codec), 60 + 10 + 10 + 5);
    assert!(count(JobKind::Evaluate) > 0);
}
