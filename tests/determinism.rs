//! Promises: a run's two digests depend on the scenario and its seeds only, and whatever clients
//! do, a run ends.

mod softmax;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use fedcast::data::{FreshClients, FreshLaw};
use fedcast::federation::availability::{Availability, AvailabilityRules, Pattern, Trace};
use fedcast::federation::{
    AssetCache, ClosingRules, Coding, ComputeRules, Direction, EndReason, Enough, Entry,
    EvaluationPoint, Event, EventSink, FaultRules, FederationError, FrameOutcome, Interrupt,
    JobKind, LinkRules, Memory, OnBadUpdate, OverSelection, Participation, Population, ProfileSink,
    Rules, Setup, ShardSource, Share, SinkError, Span, Workforce, simulate,
};
use fedcast::numerics::law::Law;
use fedcast::quantity::{ClientId, VirtualTime};
use fedcast::wire::{Codec, CodecPlan};
use softmax::{Mischief, Ran, Visits, rules, run, run_with, setup};

fn mobile() -> Rules {
    let participation = Participation { share: Share::Fraction(0.5), ..Participation::default() };
    let (compute, links) = (ComputeRules::MOBILE, LinkRules::MOBILE);
    let faults = FaultRules { lose_down: 0.05, lose_up: 0.05, ..FaultRules::crashing(0.1) };
    Rules { compute, links, faults, participation, ..rules() }
}

fn stateful(rules: Rules) -> Setup {
    setup::<Visits>(rules, Mischief::None)
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
            run(Setup { workers: workers.into(), ..make(mobile(), Mischief::None) })
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
fn a_shared_line_of_the_server_slows_everybody_in_the_same_way_for_any_workers() {
    // Six heads of 2.6 kB at once through 10 kB/s, where each client alone could take megabytes.
    let links = LinkRules { server_down: 1e4, server_up: 2e4, ..LinkRules::MOBILE };
    let shared = Rules { links, compute: ComputeRules::MOBILE, ..rules() };
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

/// Of every round: how long it took, how many were folded, how many missing.
fn rounds_of(ran: &Ran) -> Vec<(VirtualTime, u32, usize)> {
    let mut opened = VirtualTime::ZERO;
    let mut rounds = Vec::new();
    for entry in &ran.entries {
        match &entry.event {
            Event::RoundOpened { .. } => opened = entry.at,
            Event::RoundClosed { folded, missing, .. } => {
                rounds.push((VirtualTime(entry.at.0 - opened.0), *folded, missing.len()));
            }
            _ => {}
        }
    }
    rounds
}

fn frames_up(ran: &Ran, wanted: FrameOutcome) -> usize {
    let is = |event: &Event| match event {
        Event::FrameCharged { direction: Direction::Up, outcome, .. } => *outcome == wanted,
        _ => false,
    };
    ran.entries.iter().filter(|entry| is(&entry.event)).count()
}

#[test]
fn a_deadline_closes_its_round_and_late_frames_are_still_accounted_for() {
    let deadline = VirtualTime::from_seconds(1.5);
    let closing = ClosingRules { deadline: Some(deadline), ..ClosingRules::default() };
    let rules = Rules {
        closing,
        compute: ComputeRules { sample_ms: 30.0, ..ComputeRules::MOBILE },
        links: LinkRules::MOBILE,
        ..rules()
    };
    for make in [setup::<()>, setup::<Visits>] {
        let of = |workers| {
            run(Setup { workers: Workforce::Cpu(workers), ..make(rules.clone(), Mischief::None) })
        };
        let one = of(1);
        done(&one);
        assert_eq!(one.digests, of(3).digests);
        let rounds = rounds_of(&one);
        assert_eq!(rounds.len(), 10);
        assert!(
            rounds.iter().all(|(took, folded, missing)| {
                *took <= deadline
                    && (*missing > 0) == (*took == deadline)
                    && *folded as usize + missing == 6
            }),
            "{rounds:?}"
        );
        let late = frames_up(&one, FrameOutcome::Late);
        assert!(late > 0, "some are too slow: {rounds:?}");
        assert_eq!(late, rounds.iter().map(|round| round.2).sum::<usize>());
        let worked = one.count("trained") + one.count("skipped");
        assert_eq!(frames_up(&one, FrameOutcome::Delivered) + late, worked);
    }
}

/// What the server sees and what crosses links, without who computed.
fn seen_by_the_server(ran: &Ran) -> Vec<String> {
    let clients = |event: &Event| matches!(event, Event::Trained { .. } | Event::Skipped { .. });
    let seen = ran.entries.iter().filter(|entry| !clients(&entry.event));
    seen.map(|entry| format!("{} {:?} {:?}", entry.at, entry.event, entry.numbers)).collect()
}

#[test]
fn stragglers_that_are_not_computed_change_nothing_that_anybody_sees() {
    let deadline = Some(VirtualTime::from_seconds(1.5));
    let of = |make: fn(Rules, Mischief) -> Setup, train_stragglers, server_up| {
        let closing = ClosingRules { deadline, train_stragglers, ..ClosingRules::default() };
        let links = LinkRules { server_up, ..LinkRules::MOBILE };
        let compute = ComputeRules { sample_ms: 30.0, ..ComputeRules::MOBILE };
        let faults = FaultRules { lose_up: 0.1, ..FaultRules::default() };
        run(make(Rules { closing, compute, links, faults, ..rules() }, Mischief::None))
    };
    for server_up in [f64::INFINITY, 20_000.0] {
        let (trained, skipped) =
            (of(setup::<()>, true, server_up), of(setup::<()>, false, server_up));
        done(&skipped);
        assert_eq!(trained.count("skipped"), 0);
        assert!(skipped.count("skipped") > 5, "{} skipped", skipped.count("skipped"));
        assert_eq!(trained.count("trained"), skipped.count("trained") + skipped.count("skipped"));
        assert_eq!(seen_by_the_server(&trained), seen_by_the_server(&skipped));
    }
    // A state must go on learning.
    assert_eq!(of(setup::<Visits>, false, f64::INFINITY).count("skipped"), 0);
}

#[test]
fn a_round_closes_with_the_first_of_those_who_were_over_selected() {
    let participation = Participation {
        share: Share::Count(3),
        over_selection: OverSelection(1.6),
        ..Participation::default()
    };
    let closing = ClosingRules { enough: Enough::Target, ..ClosingRules::default() };
    let rules = Rules { participation, closing, compute: ComputeRules::MOBILE, ..rules() };
    let of = |workers| run(Setup { workers: Workforce::Cpu(workers), ..stateful(rules.clone()) });
    let one = of(1);
    done(&one);
    assert_eq!(one.digests, of(3).digests);
    assert!(rounds_of(&one).iter().all(|round| (round.1, round.2) == (3, 2)), "five were asked");
    assert_eq!(frames_up(&one, FrameOutcome::Late), 20);
}

#[test]
fn a_quorum_is_enough_and_failures_do_not_hang_it() {
    let closing = ClosingRules { enough: Enough::Share(0.5), ..ClosingRules::default() };
    let patient = Rules { closing, compute: ComputeRules::MOBILE, ..rules() };
    let ran = run(stateful(patient.clone()));
    done(&ran);
    assert!(rounds_of(&ran).iter().all(|round| (round.1, round.2) == (3, 3)));
    let faults = FaultRules { lose_down: 0.3, lose_up: 0.3, ..FaultRules::crashing(0.4) };
    let ran = run(stateful(Rules { faults, links: LinkRules::MOBILE, ..patient }));
    done(&ran);
    assert!(rounds_of(&ran).iter().any(|round| round.1 < 3), "too few answered, and it went on");
}

#[test]
fn clients_come_and_go_and_the_run_goes_on() {
    let slow = ComputeRules { sample_ms: 200.0, ..ComputeRules::MOBILE };
    let pattern = Pattern::Markov { on: 20.0, off: 40.0 };
    let availability = AvailabilityRules { pattern, ..AvailabilityRules::default() };
    let rules = Rules { availability: availability.clone(), compute: slow, ..mobile() };
    let of = |workers| run(Setup { workers: Workforce::Cpu(workers), ..stateful(rules.clone()) });
    let one = of(1);
    done(&one);
    assert_eq!(one.digests, of(3).digests);
    let known = Availability::new(availability, rules.seed, Vec::new());
    let mut cohorts = std::collections::BTreeSet::new();
    let mut left = 0;
    for entry in &one.entries {
        match &entry.event {
            Event::RoundOpened { cohort, .. } => {
                assert!(cohort.iter().all(|client| known.is_on(*client, entry.at)));
                assert!((1..=3).contains(&cohort.len()), "half of six at most: {cohort:?}");
                cohorts.insert(cohort.clone());
            }
            Event::ClientFailed { client, reason, .. } if reason == "left" => {
                assert!(!known.is_on(*client, entry.at));
                left += 1;
            }
            _ => {}
        }
    }
    assert!(cohorts.len() > 3 && left > 0, "{} cohorts, {left} left", cohorts.len());
}

#[test]
fn the_server_waits_for_the_first_who_comes_and_says_when_nobody_will() {
    let seconds = VirtualTime::from_seconds;
    // Everybody is there for the first moment only; client 2 comes back at 100 s.
    let all = (0..6).map(|client| (ClientId(client), seconds(1.0), false));
    let lines: Vec<_> = all.chain([(ClientId(2), seconds(100.0), true)]).collect();
    let availability = AvailabilityRules {
        pattern: Pattern::Trace(Trace::new(&lines, None)),
        ..AvailabilityRules::default()
    };
    let compute = ComputeRules { sample_ms: 1.0, ..ComputeRules::IDEAL };
    let compute = ComputeRules { setup_ms: Law::constant(600.0), ..compute };
    let waiting = Rules { availability: availability.clone(), compute, ..rules() };
    let ran = run(stateful(waiting.clone()));
    done(&ran);
    let waits = ran.entries.iter().find(|entry| entry.event.name() == "round_waits");
    let Event::RoundWaits { until, .. } = waits.expect("nobody is there").event else { panic!() };
    assert_eq!(VirtualTime(until), seconds(100.0));
    let opened: Vec<_> = (ran.entries.iter())
        .filter_map(|entry| match &entry.event {
            Event::RoundOpened { cohort, .. } => Some((entry.at >= seconds(100.0), cohort.len())),
            _ => None,
        })
        .collect();
    assert_eq!(opened[0], (false, 6));
    assert!(opened.contains(&(true, 1)), "{opened:?}");

    let stay = AvailabilityRules { stay: Law::constant(5.0), ..AvailabilityRules::default() };
    let gone = run(stateful(Rules { availability: stay, ..waiting }));
    let told = gone.end.expect_err("everybody leaves after 5 s").to_string();
    assert!(told.contains("no client that could be asked"), "{told}");
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
    // Without chance in cohorts, times and faults, the seed still moves what is learnt.
    let digests = |seed| run(stateful(Rules { seed, ..rules() })).digests;
    assert_ne!(digests(1).numbers, digests(2).numbers);
}

#[test]
fn a_run_learns_and_tests_as_it_says() {
    let ran = run(stateful(rules()));
    done(&ran);
    assert_eq!(ran.count("round_closed"), 10);
    assert_eq!(ran.count("trained"), 60);
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
    // Every frame carries the head: 10 x 64 floats.
    for entry in &ran.entries {
        if let Event::FrameCharged { bytes, sent, .. } = &entry.event {
            assert_eq!((bytes.payload, *sent), (2560, bytes.frame()));
            assert_eq!(bytes.kinds.get("head"), Some(&2560));
        }
    }
}

#[test]
fn states_are_kept_and_missed_tasks_are_told() {
    let participation = Participation { share: Share::Count(2), ..Participation::default() };
    let ran = run(stateful(Rules { participation, ..rules() }));
    let mut visits = std::collections::BTreeMap::new();
    let mut missed = 0.0;
    for entry in &ran.entries {
        if let Event::Trained { client, .. } = entry.event {
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
fn a_task_whose_training_failed_is_missed() {
    let ran = run(setup::<Visits>(rules(), Mischief::PanicOnce));
    done(&ran);
    assert_eq!(ran.failures(), vec!["panicked"; 2]);
    let mut missed = Vec::new();
    for entry in &ran.entries {
        let Event::Trained { client, task, .. } = entry.event else { continue };
        let metrics = &entry.numbers.as_ref().expect("metrics").metrics;
        if metrics["missed"].0 != 0.0 {
            missed.push((client.0, task.0, metrics["missed"].0));
        }
    }
    assert_eq!(missed, vec![(2, 2, 1.0)], "told once, when the client next works");
}

#[test]
fn an_image_that_cannot_be_read_ends_the_run() {
    let ran = run(setup::<Visits>(rules(), Mischief::BadImage));
    assert!(matches!(&ran.end, Err(FederationError::Data(why)) if why.contains("cat.png")));
    assert_eq!(ran.count("client_failed"), 0);
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
fn lost_messages_and_crashes_are_events_and_the_run_completes() {
    let faults = FaultRules { lose_down: 0.2, lose_up: 0.2, ..FaultRules::crashing(0.2) };
    let ran = run(stateful(Rules { faults, ..rules() }));
    done(&ran);
    let reasons = ran.failures();
    assert!(reasons.iter().any(|r| r == "crashed") && reasons.iter().any(|r| r == "lost"));
    let lost =
        |e: &&Entry| matches!(e.event, Event::FrameCharged { outcome: FrameOutcome::Lost, .. });
    let frames = ran.entries.iter().filter(lost).count();
    assert_eq!(frames, reasons.iter().filter(|r| *r == "lost").count());
    for entry in &ran.entries {
        if let Event::RoundClosed { folded, missing, .. } = &entry.event {
            assert_eq!(*folded as usize + missing.len(), 6);
        }
    }
}

#[test]
fn a_federation_where_everybody_crashes_still_ends() {
    let faults = FaultRules::crashing(1.0);
    let ran = run(stateful(Rules { faults, ..rules() }));
    done(&ran);
    assert_eq!((ran.count("client_failed"), ran.count("trained")), (60, 0));
}

#[test]
fn bad_updates_are_rejected_and_the_others_count() {
    for (mischief, why) in [
        (Mischief::Nan, "`head` is not finite"),
        (Mischief::WrongShape, "[1, 64]"),
        (Mischief::LiftPanic, "lifting is beyond me"),
    ] {
        let ran = run(setup::<Visits>(rules(), mischief));
        done(&ran);
        let rejected = ran.entries.iter().filter_map(|e| match &e.event {
            Event::UpdateRejected { client, why, .. } => Some((client.0, why.clone())),
            _ => None,
        });
        let rejected: Vec<_> = rejected.collect();
        assert_eq!(rejected.len(), 10, "{mischief:?}");
        assert!(rejected.iter().all(|(client, text)| *client == 2 && text.contains(why)));
        for entry in &ran.entries {
            if let Event::RoundClosed { folded, missing, .. } = &entry.event {
                assert_eq!((*folded, missing.len()), (5, 1), "{mischief:?}");
            }
        }
    }
}

#[test]
fn a_bad_update_ends_the_run_where_the_scenario_says_so() {
    let rules = Rules { on_bad_update: OnBadUpdate::Abort, ..rules() };
    let ran = run(setup::<()>(rules, Mischief::Nan));
    assert!(matches!(ran.end, Err(FederationError::BadUpdate { client, .. }) if client.0 == 2));
    let last = &ran.entries.last().expect("has entries").event;
    assert_eq!(last, &Event::RunEnded { reason: EndReason::Aborted });
}

#[test]
fn a_panicking_policy_is_a_failed_client() {
    let ran = run(setup::<Visits>(rules(), Mischief::Panic));
    done(&ran);
    assert_eq!(ran.failures(), vec!["panicked"; 10]);
    assert_eq!(ran.count("trained"), 50);
}

#[test]
fn lossy_codecs_change_what_is_learnt_and_verify_changes_nothing() {
    let with = |coding| run(Setup { coding, ..stateful(rules()) });
    let plain = with(Coding::default());
    let verified = with(Coding { verify: true, ..Coding::default() });
    done(&verified);
    assert_eq!(plain.digests, verified.digests);
    let plan = CodecPlan::new(Codec::Int8);
    let lossy = |verify| with(Coding { down: plan.clone(), up: plan.clone(), verify });
    let (direct, through_bytes) = (lossy(false), lossy(true));
    done(&direct);
    assert_eq!(direct.digests, through_bytes.digests);
    assert_ne!(plain.digests.numbers, direct.digests.numbers);
    assert_ne!(plain.digests.events, direct.digests.events, "frames are smaller");
}

#[test]
fn assets_are_shipped_to_those_who_lack_them() {
    let shipped = |cache| {
        let ran = run(setup::<()>(Rules { cache, ..rules() }, Mischief::Asset));
        done(&ran);
        let assets = ran.entries.iter().filter(|e| match &e.event {
            Event::FrameCharged { asset: Some(name), bytes, .. } => {
                assert_eq!((name.as_str(), bytes.kinds["generator"]), ("teacher@1", 4000));
                true
            }
            _ => false,
        });
        assets.count()
    };
    assert_eq!(shipped(AssetCache::None), 60);
    assert_eq!(shipped(AssetCache::Task), 30);
    assert_eq!(shipped(AssetCache::Run), 6);
}

#[test]
fn assets_survive_codecs_and_are_not_coded() {
    let plan = CodecPlan::new(Codec::Int8);
    for verify in [false, true] {
        let coding = Coding { down: plan.clone(), up: plan.clone(), verify };
        let ran = run(Setup { coding, ..setup::<()>(rules(), Mischief::Asset) });
        done(&ran);
        assert!(ran.failures().is_empty(), "{:?}", ran.failures());
        let mut sizes = ran.entries.iter().filter_map(|e| match &e.event {
            Event::FrameCharged { asset: Some(_), bytes, .. } => Some(bytes.payload),
            _ => None,
        });
        assert!(sizes.next() == Some(4000) && sizes.all(|size| size == 4000));
    }
}

#[test]
fn the_first_of_equal_frames_in_a_round_is_no_copy() {
    let faults = FaultRules { lose_down: 0.4, ..FaultRules::default() };
    let rules = Rules { cache: AssetCache::Task, faults, ..rules() };
    let ran = run(setup::<()>(rules, Mischief::Asset));
    let mut sent = std::collections::BTreeSet::new();
    let mut copies = 0;
    let frames = ran.entries.iter().filter_map(|e| match &e.event {
        Event::FrameCharged { round, seat, direction: Direction::Down, copy, asset, .. } => {
            Some((*round, asset.clone(), *seat, *copy))
        }
        _ => None,
    });
    let mut frames: Vec<_> = frames.collect();
    frames.sort_by_key(|(round, _, seat, _)| (*round, *seat));
    for (round, asset, seat, copy) in frames {
        assert_eq!(copy, !sent.insert((round, asset.clone())), "{asset:?} to {seat} in {round}");
        copies += u32::from(copy);
    }
    assert!(copies > 0);
}

#[test]
fn an_uncharged_method_costs_nothing_and_learns_the_same() {
    let free = run(Setup { charged: false, ..stateful(rules()) });
    done(&free);
    assert_eq!(free.count("frame_charged"), 0);
    let paid = run(stateful(rules()));
    let scores = |ran: &Ran| -> Vec<_> {
        let tested = ran.entries.iter().filter(|e| e.event.name() == "evaluated");
        tested.map(|e| e.numbers.clone()).collect()
    };
    assert_eq!(scores(&free), scores(&paid));
}

#[test]
fn bias_is_measured_before_synchronisation_and_changes_nothing() {
    let plain = run(stateful(rules()));
    let measured = run(stateful(Rules { bias: true, ..rules() }));
    done(&measured);
    assert_eq!(measured.count("bias"), 10);
    for entry in measured.entries.iter().filter(|e| e.event.name() == "bias") {
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
    let participation = Participation {
        share: Share::Count(4),
        population: Population::Fresh,
        ..Participation::default()
    };
    let rules = Rules { clients: 1_000_000, participation, ..rules() };
    let law = FreshLaw::Dirichlet { beta: 0.5, samples: 20 };
    let fresh = FreshClients { law, seed: 5 };
    let small = setup::<()>(softmax::rules(), Mischief::None);
    let ran = run(Setup { rules, shards: ShardSource::Fresh(fresh), ..small });
    done(&ran);
    let mut met = std::collections::BTreeSet::new();
    for entry in &ran.entries {
        if let Event::Trained { client, samples, .. } = entry.event {
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
    let (sink, profile) = (Box::new(Memory::default()), Box::new(spans.clone()));
    simulate(stateful(Rules { bias: true, ..rules() }), sink, profile, Interrupt::default())
        .expect("ends well");
    let spans = spans.0.lock().expect("no holder panics");
    let count = |kind| spans.iter().filter(|span| span.job == kind).count();
    assert_eq!((count(JobKind::Train), count(JobKind::Fold), count(JobKind::Bias)), (60, 60, 60));
    // A period begins and ends, a round opens and closes.
    assert_eq!(count(JobKind::Server), 2 * 5 + 2 * 10);
    assert_eq!(count(JobKind::Codec), 60 + 10 + 10 + 5);
    assert!(count(JobKind::Evaluate) > 0);
}

#[test]
fn an_interrupt_ends_the_run_with_a_valid_journal() {
    struct Stopper(Interrupt, u32);
    impl EventSink for Stopper {
        fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
            self.1 += u32::from(entry.event.name() == "round_closed");
            if self.1 == 3 {
                self.0.request();
            }
            Ok(())
        }
    }
    let interrupt = Interrupt::default();
    let sink = Stopper(interrupt.clone(), 0);
    let end = simulate(stateful(rules()), Box::new(sink), Box::new(()), interrupt);
    assert_eq!(end.expect("not an error").reason, EndReason::Interrupted);
    let asked = Interrupt::default();
    asked.request();
    let ran = run_with(stateful(rules()), asked);
    assert_eq!(ran.entries.len(), 1);
}

#[test]
fn a_sink_that_refuses_stops_the_run() {
    struct Full(Arc<AtomicU32>);
    impl EventSink for Full {
        fn record(&mut self, _: &Entry) -> Result<(), SinkError> {
            match self.0.fetch_add(1, Ordering::SeqCst) + 1 {
                ..30 => Ok(()),
                _ => Err(SinkError::Stop("the disk is full".into())),
            }
        }
    }
    let calls = Arc::new(AtomicU32::new(0));
    let sink = Box::new(Full(Arc::clone(&calls)));
    let end = simulate(stateful(rules()), sink, Box::new(()), Interrupt::default());
    let error = end.expect_err("stops");
    assert_eq!(error.to_string(), "the disk is full");
    assert_eq!(calls.load(Ordering::SeqCst), 30, "not asked again after refusing");
}

#[test]
fn impossible_rules_are_refused() {
    let none = Setup { shards: ShardSource::Drawn(vec![]), ..stateful(rules()) };
    let ran = run(none);
    assert!(matches!(ran.end, Err(FederationError::Impossible(_))));
    assert!(ran.entries.is_empty());
}
