//! Promises about `[[faults]]`: every kind is survived with the events it is said to have, nothing hangs,
//! nothing is lost from the account, and the digests depend on neither workers nor chance.

use crate::softmax::{Ran, SoftmaxFault, Visits, mobile_compute, mobile_links, rules, run, setup};
use fedcast::federation::{
    CrashTime, Direction, EndReason, Entry, Event, Fault, FaultKind, FaultRules, FederationError,
    FrameOutcome, OnBadUpdate, Rules, Setup, Spoilage,
};
use fedcast::quantity::{ClientId, Round};

fn every_kind() -> Vec<FaultKind> {
    let mut kinds: Vec<FaultKind> = [CrashTime::Before, CrashTime::While, CrashTime::After]
        .map(|when| FaultKind::Crash { when })
        .into_iter()
        .collect();
    for direction in [Direction::Down, Direction::Up] {
        kinds.push(FaultKind::Lose { direction });
        kinds.push(FaultKind::Duplicate { direction });
        kinds.push(FaultKind::Corrupt { direction });
    }
    kinds.extend(
        [Spoilage::NotANumber, Spoilage::Infinite, Spoilage::WrongShape]
            .map(|how| FaultKind::BadUpdate { how }),
    );
    kinds
}

/// Client 2 in the second of ten rounds.
fn once(kind: FaultKind) -> FaultRules {
    let (clients, rounds) = ([ClientId(2)].into(), vec![Round(1)]);
    FaultRules { entries: vec![Fault { clients, rounds, ..Fault::of(kind) }], ..Default::default() }
}

fn mobile(faults: FaultRules) -> Rules {
    Rules { faults, compute: mobile_compute(), links: mobile_links(), ..rules() }
}

fn ran(faults: FaultRules) -> Ran {
    let ran = run(setup::<()>(mobile(faults), SoftmaxFault::None));
    let end = ran.end.as_ref().expect("the run goes on");
    assert_eq!(end.reason, EndReason::Done);
    ran
}

/// Frames of client 2 in the second round.
fn frames(ran: &Ran, wanted: Direction) -> Vec<FrameOutcome> {
    let of = |entry: &Entry| match &entry.event {
        Event::FrameCharged {
            client: ClientId(2), round: Round(1), direction, outcome, ..
        } => (*direction == wanted).then_some(*outcome),
        _ => None,
    };
    ran.entries.iter().filter_map(of).collect()
}

fn rejections(ran: &Ran) -> Vec<String> {
    let of = |entry: &Entry| match &entry.event {
        Event::UpdateRejected { reason: why, .. } => Some(why.clone()),
        _ => None,
    };
    ran.entries.iter().filter_map(of).collect()
}

#[test]
fn a_client_crashes_before_while_or_after_training() {
    use FrameOutcome::Delivered;
    for (when, trained) in [(CrashTime::Before, 59), (CrashTime::While, 59), (CrashTime::After, 60)]
    {
        let ran = ran(once(FaultKind::Crash { when }));
        assert_eq!(ran.failures(), ["crashed"]);
        assert_eq!(ran.count("client_trained"), trained, "{when:?}");
        assert_eq!(frames(&ran, Direction::Down), [Delivered]);
        assert!(frames(&ran, Direction::Up).is_empty());
    }
    let time = |when| {
        let ran = ran(once(FaultKind::Crash { when }));
        let crash = ran.entries.iter().find(|e| e.event.name() == "client_failed");
        crash.expect("it crashed").at
    };
    let [before, within, after] = [CrashTime::Before, CrashTime::While, CrashTime::After].map(time);
    assert!(before < within && within < after, "{before} {within} {after}");
}

/// A client keeps what it learned before it crashed.
#[test]
fn a_state_is_kept_by_a_client_that_crashes_after_training_only() {
    let visits = |when| {
        let rules = mobile(once(FaultKind::Crash { when }));
        let ran = run(setup::<Visits>(rules, SoftmaxFault::None));
        let of = |entry: &Entry| match &entry.event {
            Event::ClientTrained { client: ClientId(2), .. } => {
                entry.numbers.as_ref().map(|numbers| numbers.metrics["visits"].0 as u32)
            }
            _ => None,
        };
        ran.entries.iter().filter_map(of).max()
    };
    assert_eq!(visits(CrashTime::Before), Some(9));
    assert_eq!(visits(CrashTime::While), Some(9));
    assert_eq!(visits(CrashTime::After), Some(10));
}

#[test]
fn lost_messages_end_the_participation() {
    use FrameOutcome::{Delivered, Lost};
    for (direction, down, up) in
        [(Direction::Down, vec![Lost], vec![]), (Direction::Up, vec![Delivered], vec![Lost])]
    {
        let ran = ran(once(FaultKind::Lose { direction }));
        assert_eq!(ran.failures(), ["lost"]);
        assert_eq!((frames(&ran, Direction::Down), frames(&ran, Direction::Up)), (down, up));
    }
}

/// The second copy is charged and changes nothing else.
#[test]
fn duplicated_messages_are_thrown_away() {
    use FrameOutcome::{Delivered, Duplicate};
    let without = |ran: &Ran| -> Vec<String> {
        let first = |e: &&Entry| !format!("{:?}", e.event).contains("outcome: Duplicate");
        let line = |e: &Entry| format!("{} {:?} {:?}", e.at, e.event, e.numbers);
        ran.entries.iter().filter(first).map(line).collect()
    };
    let plain = ran(FaultRules::default());
    for direction in [Direction::Down, Direction::Up] {
        let ran = ran(once(FaultKind::Duplicate { direction }));
        assert_eq!(frames(&ran, direction), [Delivered, Duplicate]);
        assert_eq!(without(&ran), without(&plain));
    }
}

#[test]
fn corrupt_messages_are_found_by_their_checksum() {
    let down = ran(once(FaultKind::Corrupt { direction: Direction::Down }));
    assert_eq!(down.failures(), ["corrupt"]);
    assert_eq!(down.count("client_trained"), 59);
    let up = ran(once(FaultKind::Corrupt { direction: Direction::Up }));
    assert_eq!(up.count("client_trained"), 60);
    let why = rejections(&up);
    assert!(why.len() == 1 && why[0].contains("checksum"), "{why:?}");
}

#[test]
fn bad_updates_are_rejected_or_end_the_run() {
    for (how, wanted) in [
        (Spoilage::NotANumber, "not finite"),
        (Spoilage::Infinite, "not finite"),
        (Spoilage::WrongShape, "instead of"),
    ] {
        let ran = ran(once(FaultKind::BadUpdate { how }));
        let why = rejections(&ran);
        assert!(why.len() == 1 && why[0].contains(wanted), "{how:?}: {why:?}");
        let rules = mobile(once(FaultKind::BadUpdate { how }));
        let rules = Rules { on_bad_update: OnBadUpdate::Abort, ..rules };
        let ended = run(setup::<()>(rules, SoftmaxFault::None)).end;
        let is =
            |e: &FederationError| matches!(e, FederationError::BadUpdate { round: Round(1), .. });
        assert!(ended.as_ref().is_err_and(is), "{ended:?}");
    }
}

/// Everything at once, for stateless and stateful clients.
#[test]
fn any_mixture_of_faults_is_survived_with_the_same_digests_for_any_workers() {
    let entries: Vec<Fault> =
        every_kind().into_iter().map(|kind| Fault { rate: 0.08, ..Fault::of(kind) }).collect();
    let faults = FaultRules { entries, lose_down: 0.02, lose_up: 0.02 };
    for make in [setup::<()>, setup::<Visits>] {
        for seed in 0..3 {
            let rules = Rules { seed, ..mobile(faults.clone()) };
            let one = run(make(rules.clone(), SoftmaxFault::None));
            assert!(one.end.is_ok(), "{:?}", one.end.err());
            assert!(one.failures().len() > 10 && one.count("update_rejected") > 2);
            let shaken =
                Setup { workers: 3.into(), shaker: Some(seed), ..make(rules, SoftmaxFault::None) };
            assert_eq!(run(shaken).digests, one.digests);
            // Every participant has an end.
            let (mut participants, mut ends) =
                (0, one.failures().len() + one.count("update_rejected"));
            for entry in &one.entries {
                match &entry.event {
                    Event::RoundOpened { participants: opened, .. } => {
                        participants += *opened as usize
                    }
                    Event::RoundClosed { aggregated, .. } => ends += *aggregated as usize,
                    _ => {}
                }
            }
            assert_eq!(ends, participants);
        }
    }
}

/// A run in which every client fails in every round still ends.
#[test]
fn rounds_in_which_everything_fails_are_empty() {
    for kind in every_kind() {
        let faults = FaultRules { entries: vec![Fault::of(kind)], ..FaultRules::default() };
        let ran = ran(faults);
        let aggregate = |entry: &Entry| match entry.event {
            Event::RoundClosed { aggregated, .. } => Some(aggregated),
            _ => None,
        };
        let aggregated: u32 = ran.entries.iter().filter_map(aggregate).sum();
        let harmless = matches!(kind, FaultKind::Duplicate { .. });
        assert_eq!(aggregated, if harmless { 60 } else { 0 }, "{kind:?}");
    }
}
