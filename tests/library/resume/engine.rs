//! The engine goes on from every snapshot of a run to the same journal: with and without states, with
//! late updates, buffers, faults, a shared line, assets, packs, secure sums and any workers.

use std::sync::{Arc, Mutex};

use fedcast::federation::{
    AssetCache, Cadence, ClosingGoal, ClosingRules, CohortSize, Compared, ComputeRules, Digests,
    Entry, EventSink, Fault, FaultKind, FaultRules, Interrupt, Journal, LatePolicy, LinkRules,
    ParticipationSection, RecordedRun, Rules, Setup, SinkError, Snapshot, Spoilage, Staleness,
    simulate,
};
use fedcast::federation::{CrashTime, Direction};
use fedcast::quantity::VirtualTime;

use crate::softmax::{SoftmaxFault, Visits, mobile_compute, mobile_links, rules, setup};

/// Keeps entries and snapshots.
#[derive(Clone, Default)]
struct Keeper(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    entries: Vec<Entry>,
    journal: Journal,
    snapshots: Vec<Snapshot>,
}

impl EventSink for Keeper {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        let mut kept = self.0.lock().unwrap();
        kept.journal.push(entry);
        kept.entries.push(entry.clone());
        Ok(())
    }
    fn wants_snapshot(&self) -> bool {
        true
    }
    fn keep(&mut self, snapshot: &Snapshot) -> Result<(), SinkError> {
        self.0.lock().unwrap().snapshots.push(snapshot.clone());
        Ok(())
    }
}

fn run(setup: Setup) -> (Vec<Entry>, Digests, Vec<Snapshot>) {
    let keeper = Keeper::default();
    simulate(setup, Box::new(keeper.clone()), Box::new(()), Interrupt::default()).unwrap();
    let mut kept = keeper.0.lock().unwrap();
    let snapshots = std::mem::take(&mut kept.snapshots);
    (kept.entries.clone(), kept.journal.digests(), snapshots)
}

/// The past up to a snapshot.
fn past(entries: &[Entry], snapshot: Snapshot) -> Option<Arc<RecordedRun>> {
    let mut past = RecordedRun::default();
    entries[..snapshot.entries as usize].iter().for_each(|entry| past.read(entry).unwrap());
    Some(Arc::new(past.until(snapshot)))
}

/// Goes on from every snapshot; says how many participants were out at the busiest of them.
#[track_caller]
fn resumes(what: &str, rules: &Rules, make: impl Fn(Rules) -> Setup) -> usize {
    let rules = Rules { snapshots: Cadence::Rounds(1), ..rules.clone() };
    let (entries, digests, snapshots) = run(make(rules.clone()));
    assert!(snapshots.len() > 5, "{what}: {} snapshots", snapshots.len());
    let busiest = snapshots.iter().map(|snapshot| snapshot.out.len()).max().unwrap_or(0);
    for (place, snapshot) in snapshots.into_iter().enumerate() {
        let at = snapshot.place;
        let setup = Setup {
            workers: (1 + place % 3).into(),
            recorded: past(&entries, snapshot),
            ..make(rules.clone())
        };
        let (again, resumed, later) = run(setup);
        let first = again.iter().zip(&entries).find(|(again, once)| again != once);
        assert_eq!(first, None, "{what}: after {at}");
        assert_eq!(resumed, digests, "{what}: after {at}");
        // What a resumed run keeps is good enough to resume again.
        if let Some(snapshot) = later.into_iter().nth(1) {
            let setup = Setup { recorded: past(&entries, snapshot), ..make(rules.clone()) };
            assert_eq!(run(setup).1, digests, "{what}: again after {at}");
        }
    }
    busiest
}

fn both(what: &str, rules: &Rules) -> usize {
    let stateless = resumes(what, rules, |rules| setup::<()>(rules, SoftmaxFault::None));
    let stateful = format!("{what}, stateful");
    stateless.min(resumes(&stateful, rules, |rules| setup::<Visits>(rules, SoftmaxFault::None)))
}

fn mobile() -> Rules {
    let participation = ParticipationSection {
        participants: CohortSize::Fraction { fraction: 0.5 },
        ..ParticipationSection::default()
    };
    let (compute, links) = (mobile_compute(), mobile_links());
    let faults = FaultRules { lose_down: 0.05, lose_up: 0.05, ..FaultRules::crashing(0.1) };
    Rules { compute, links, faults, participation, ..rules() }
}

fn slow() -> Rules {
    Rules {
        compute: ComputeRules { sample_ms: 30.0, ..mobile_compute() },
        links: mobile_links(),
        ..rules()
    }
}

#[test]
fn synchronous_rounds_with_losses_and_crashes() {
    both("ideal", &rules());
    both("mobile", &mobile());
}

#[test]
fn late_participants_still_count_in_state_and_frames() {
    let deadline = Some(VirtualTime::from_seconds(1.5));
    for train_stragglers in [false, true] {
        let closing = ClosingRules { deadline, train_stragglers, ..ClosingRules::default() };
        let out = both("deadline", &Rules { closing, ..slow() });
        assert!(out > 0, "somebody is out");
    }
}

/// Rounds end while downloads are in transit; some participants of the round have theirs.
#[test]
fn late_downloads_keep_their_size() {
    let links = LinkRules { server_down: 1e4, ..mobile_links() };
    for (seconds, load) in [(0.1, 0), (0.5, 0), (1.0, 0), (0.5, 2)] {
        let deadline = Some(VirtualTime::from_seconds(seconds));
        let closing = ClosingRules { deadline, ..ClosingRules::default() };
        let rules = Rules { closing, links: links.clone(), load, ..slow() };
        assert!(both(&format!("downloads later than {seconds} s"), &rules) > 0);
        for cache in [AssetCache::None, AssetCache::Task, AssetCache::Run] {
            resumes("assets in transit", &Rules { cache, ..rules.clone() }, |rules| {
                setup::<Visits>(rules, SoftmaxFault::Asset)
            });
        }
    }
}

#[test]
fn late_updates_and_buffers() {
    let late = LatePolicy::Aggregate(Staleness { power: 1.0, most: u32::MAX });
    let deadline = Some(VirtualTime::from_seconds(1.5));
    let semi = ClosingRules { deadline, late, train_stragglers: true, ..ClosingRules::default() };
    assert!(both("semi-asynchronous", &Rules { closing: semi, rounds: 4, ..slow() }) > 0);
    let buffer = ClosingRules { enough: ClosingGoal::Buffer(2), late, ..ClosingRules::default() };
    let participation = ParticipationSection {
        participants: CohortSize::Count { count: 4 },
        ..ParticipationSection::default()
    };
    let faults = FaultRules { lose_down: 0.05, lose_up: 0.05, ..FaultRules::crashing(0.1) };
    let rules = Rules { closing: buffer, participation, faults, rounds: 4, ..slow() };
    assert!(both("buffer", &rules) > 0);
}

#[test]
fn over_selection_and_a_shared_line() {
    let participation =
        ParticipationSection { over_selection: Some(2.0), ..mobile().participation };
    let closing = ClosingRules { enough: ClosingGoal::Target, ..ClosingRules::default() };
    let links = LinkRules { server_down: 1e4, server_up: 2e4, ..mobile_links() };
    both("first", &Rules { participation, closing, links, ..mobile() });
}

#[test]
fn every_kind_of_fault() {
    let kinds = [
        FaultKind::Crash { when: CrashTime::Before },
        FaultKind::Crash { when: CrashTime::While },
        FaultKind::Crash { when: CrashTime::After },
        FaultKind::Lose { direction: Direction::Up },
        FaultKind::Duplicate { direction: Direction::Down },
        FaultKind::Duplicate { direction: Direction::Up },
        FaultKind::Corrupt { direction: Direction::Down },
        FaultKind::Corrupt { direction: Direction::Up },
        FaultKind::BadUpdate { how: Spoilage::NotANumber },
        FaultKind::BadUpdate { how: Spoilage::WrongShape },
    ];
    let fault =
        |kind| Fault { kind, rate: 0.1, clients: Default::default(), rounds: Default::default() };
    let faults = FaultRules { entries: kinds.map(fault).to_vec(), ..FaultRules::default() };
    both("faults", &Rules { faults, ..slow() });
}

#[test]
fn servers_that_restart() {
    let (after, downtime) = (VirtualTime::from_seconds(0.5), VirtualTime::from_seconds(3.0));
    let restart = Fault::of(FaultKind::ServerRestart {
        after_s: after.as_seconds(),
        downtime_s: downtime.as_seconds(),
    });
    let entries = vec![Fault { rate: 0.4, ..restart }];
    let faults = FaultRules { entries, lose_up: 0.05, ..FaultRules::default() };
    assert!(both("restart", &Rules { faults: faults.clone(), ..slow() }) > 0);
    let late = LatePolicy::Aggregate(Staleness { power: 1.0, most: u32::MAX });
    let closing = ClosingRules { enough: ClosingGoal::Buffer(2), late, ..ClosingRules::default() };
    let participation = ParticipationSection {
        participants: CohortSize::Count { count: 4 },
        ..ParticipationSection::default()
    };
    let buffer = Rules { closing, participation, rounds: 4, ..slow() };
    both("restart, buffer", &Rules { faults: faults.clone(), ..buffer });
    let cache = AssetCache::Run;
    resumes("restart, assets", &Rules { faults, cache, ..slow() }, |rules| {
        setup::<Visits>(rules, SoftmaxFault::Asset)
    });
}

#[test]
fn misbehaving_clients_assets_and_measures() {
    for fault in [
        SoftmaxFault::Nan,
        SoftmaxFault::WrongShape,
        SoftmaxFault::PanicOnce,
        SoftmaxFault::TransformPanic,
        SoftmaxFault::Asset,
    ] {
        let what = format!("{fault:?}");
        resumes(&what, &mobile(), |rules| setup::<Visits>(rules, fault));
    }
    both("bias and packs", &Rules { bias: Some(Compared::Round), pack: 3, ..slow() });
    resumes("uncharged", &rules(), |rules| Setup {
        charged: false,
        ..setup::<Visits>(rules, SoftmaxFault::Nan)
    });
}

#[test]
fn snapshots_after_tasks() {
    let rules = Rules { snapshots: Cadence::Tasks, ..mobile() };
    let make = || setup::<Visits>(rules.clone(), SoftmaxFault::None);
    let (entries, digests, snapshots) = run(make());
    assert_eq!(snapshots.len(), 5, "one per task");
    for snapshot in snapshots {
        let setup = Setup { recorded: past(&entries, snapshot), ..make() };
        assert_eq!(run(setup).1, digests);
    }
}
