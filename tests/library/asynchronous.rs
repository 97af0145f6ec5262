//! Promises about updates that come after their round: an asynchronous or semi-asynchronous run has the
//! same digests for any number of workers, every update is aggregated once, rejected, late or lost, and what
//! cannot be is refused.

use std::collections::{BTreeMap, BTreeSet};

use crate::softmax::{Ran, SoftmaxFault, Visits, mobile_compute, mobile_links, rules, run, setup};
use fedcast::federation::{
    ClosingGoal, ClosingRules, CohortSize, ComputeRules, Direction, Event, FaultRules,
    FederationError, FrameOutcome, LatePolicy, ParticipationSection, Rules, Setup, Staleness,
};
use fedcast::quantity::{ClientId, ParticipantId, Round, VirtualTime};

const HALVING: Staleness = Staleness { power: 1.0, most: u32::MAX };

fn buffered(size: u32, at_work: u32, staleness: Staleness) -> Rules {
    let (enough, late) = (ClosingGoal::Buffer(size), LatePolicy::Aggregate(staleness));
    Rules {
        rounds: 6,
        closing: ClosingRules { enough, late, ..ClosingRules::default() },
        participation: ParticipationSection {
            participants: CohortSize::Count { count: at_work },
            ..ParticipationSection::default()
        },
        compute: ComputeRules { sample_ms: 30.0, ..mobile_compute() },
        links: mobile_links(),
        ..rules()
    }
}

fn semi(late: LatePolicy) -> Rules {
    let deadline = Some(VirtualTime::from_seconds(1.5));
    let closing = ClosingRules { deadline, late, train_stragglers: true, ..Default::default() };
    Rules { closing, ..buffered(1, 6, HALVING) }
}

fn ran(rules: &Rules) -> Ran {
    let ran = run(setup::<()>(rules.clone(), SoftmaxFault::None));
    assert!(ran.end.is_ok(), "{:?}", ran.end.err());
    ran
}

/// Aggregations between a stale update's download and its aggregation.
fn staleness(ran: &Ran) -> Vec<u32> {
    let stale = |event: &Event| match event {
        Event::UpdateStale { round, into, .. } => Some(into.0 - round.0),
        _ => None,
    };
    ran.entries.iter().filter_map(|entry| stale(&entry.event)).collect()
}

#[test]
fn digests_do_not_depend_on_workers_or_on_when_they_finish() {
    let faults = FaultRules { lose_down: 0.05, lose_up: 0.05, ..FaultRules::crashing(0.1) };
    for rules in [buffered(2, 4, HALVING), semi(LatePolicy::Aggregate(HALVING))] {
        let rules = Rules { faults: faults.clone(), ..rules };
        for make in [setup::<()>, setup::<Visits>] {
            let base = run(make(rules.clone(), SoftmaxFault::None));
            assert!(base.end.is_ok() && base.count("update_stale") > 3);
            for workers in [2, 3, 8] {
                let made = make(rules.clone(), SoftmaxFault::None);
                let shaker = Some(workers as u64);
                let other = run(Setup { workers: workers.into(), shaker, ..made });
                assert_eq!(other.digests, base.digests, "{workers} workers");
            }
        }
    }
}

/// Rounds close with a full buffer; the server asks for those that came back and no others.
#[test]
fn a_buffer_is_filled_by_any_client_while_others_work() {
    let ran = ran(&buffered(2, 4, HALVING));
    let mut at_work: BTreeSet<ClientId> = BTreeSet::new();
    let (mut clients, mut full) = (BTreeMap::new(), 0);
    let mut task = None;
    for entry in &ran.entries {
        match &entry.event {
            Event::RoundOpened { cohort, task: of, .. } => {
                if task.replace(*of) != Some(*of) {
                    at_work.clear();
                }
                assert!(cohort.iter().all(|client| at_work.insert(*client)), "asked twice");
                assert_eq!(at_work.len(), 4, "as many as the scenario says");
            }
            Event::ClientTrained { round, participant, client, .. } => {
                clients.insert((*round, *participant), *client);
            }
            // Late uploads are those of the task before, which no longer count.
            Event::FrameCharged {
                round,
                participant,
                direction: Direction::Up,
                outcome: FrameOutcome::Delivered,
                ..
            } => assert!(at_work.remove(&clients[&(*round, *participant)])),
            Event::RoundClosed { aggregated, .. } => {
                assert_eq!(*aggregated, 2);
                full += 1;
            }
            _ => {}
        }
    }
    assert_eq!(full, 30, "five tasks of six rounds");
    assert!(staleness(&ran).iter().any(|rounds| *rounds > 1), "{:?}", staleness(&ran));
}

/// Nothing is lost, nothing is aggregated twice.
#[test]
fn every_update_is_aggregated_once_or_late() {
    for rules in [
        buffered(2, 5, HALVING),
        buffered(1, 6, Staleness { most: 2, ..HALVING }),
        semi(LatePolicy::Aggregate(HALVING)),
        semi(LatePolicy::Drop),
    ] {
        let ran = ran(&rules);
        let mut fate: BTreeMap<(Round, ParticipantId), FrameOutcome> = BTreeMap::new();
        let (mut aggregated, mut stale, mut stale_events) = (0, 0, 0);
        for entry in &ran.entries {
            match &entry.event {
                Event::FrameCharged {
                    round,
                    participant,
                    direction: Direction::Up,
                    outcome,
                    ..
                } => {
                    assert!(fate.insert((*round, *participant), *outcome).is_none());
                }
                Event::RoundClosed { aggregated: all, stale: old, .. } => {
                    (aggregated, stale) = (aggregated + all, stale + old);
                }
                Event::UpdateStale { round, participant, into, .. } => {
                    assert_eq!(fate[&(*round, *participant)], FrameOutcome::Delivered);
                    assert!(into > round);
                    stale_events += 1;
                }
                _ => {}
            }
        }
        let delivered = fate.values().filter(|fate| **fate == FrameOutcome::Delivered).count();
        assert_eq!((delivered as u32, stale), (aggregated, stale_events));
        assert_eq!(fate.len(), ran.count("client_trained"), "everybody who trained was heard");
        let aggregates_late = matches!(rules.closing.late, LatePolicy::Aggregate(_));
        assert_eq!(aggregates_late, stale > 0);
        if let LatePolicy::Aggregate(rule) = rules.closing.late {
            assert!(staleness(&ran).iter().all(|rounds| *rounds <= rule.most));
        }
    }
}

/// A buffer as large as the cohort that all fill at once gives a synchronous run.
#[test]
fn a_buffer_of_all_on_equal_clients_is_synchronous() {
    let ideal = |closing| Rules { closing, ..rules() };
    let buffer = buffered(6, 6, HALVING).closing;
    let (asynchronous, plain) = (ran(&ideal(buffer)), ran(&ideal(ClosingRules::default())));
    assert_eq!(asynchronous.digests, plain.digests);
}

/// With everything else equal, a stale update moves the model less the higher the power.
#[test]
fn staleness_takes_weight() {
    let numbers = |power| {
        let ran = ran(&semi(LatePolicy::Aggregate(Staleness { power, ..HALVING })));
        (ran.digests.events, ran.digests.numbers)
    };
    let (full, half) = (numbers(0.0), numbers(1.0));
    assert_eq!(full.0, half.0, "the same things happen");
    assert_ne!(full.1, half.1, "and something else is learnt");
}

/// A client that goes on sending bad updates neither hangs an asynchronous run nor spoils it.
#[test]
fn bad_stale_updates_are_rejected() {
    let ran = run(setup::<()>(buffered(2, 5, HALVING), SoftmaxFault::Nan));
    assert!(ran.end.is_ok());
    assert!(ran.count("update_rejected") > 0);
    let ran = run(setup::<()>(buffered(2, 5, HALVING), SoftmaxFault::TransformPanic));
    assert!(ran.end.is_ok());
    assert!(ran.count("update_rejected") > 0);
}

/// Behind the back of the scenario's check.
#[test]
fn the_engine_refuses_late_uploads_under_masks() {
    let base = setup::<()>(buffered(2, 4, HALVING), SoftmaxFault::None);
    let mut rules = base.rules.clone();
    rules.privacy.secure = Some(fedcast::federation::privacy::SecureAggregation {
        numbers: fedcast::federation::privacy::FixedPoint {
            modulus: fedcast::federation::privacy::Modulus::Bits64,
            bits: 24,
        },
        threshold: 0.5,
    });
    let ran = run(Setup { rules, ..base });
    assert!(matches!(ran.end, Err(FederationError::Impossible(_))));
}
