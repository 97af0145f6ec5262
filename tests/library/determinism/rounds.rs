//! Closing of rounds, sampling, and clients that come and go.

use super::*;

/// Of every round: how long it took, how many were aggregated, how many missing.
fn rounds_of(ran: &Ran) -> Vec<(VirtualTime, u32, usize)> {
    let mut opened = VirtualTime::ZERO;
    let mut rounds = Vec::new();
    for entry in &ran.entries {
        match &entry.event {
            Event::RoundOpened { .. } => opened = entry.at,
            Event::RoundClosed { aggregated, missing, .. } => {
                rounds.push((VirtualTime(entry.at.0 - opened.0), *aggregated, missing.len()));
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
        compute: ComputeRules { sample_ms: 30.0, ..mobile_compute() },
        links: mobile_links(),
        ..rules()
    };
    for make in [setup::<()>, setup::<Visits>] {
        let of = |workers| {
            run(Setup {
                workers: Workforce::Cpu(workers),
                ..make(rules.clone(), SoftmaxFault::None)
            })
        };
        let one = of(1);
        done(&one);
        assert_eq!(one.digests, of(3).digests);
        let rounds = rounds_of(&one);
        assert_eq!(rounds.len(), 10);
        assert!(
            rounds.iter().all(|(took, aggregated, missing)| {
                *took <= deadline
                    && (*missing > 0) == (*took == deadline)
                    && *aggregated as usize + missing == 6
            }),
            "{rounds:?}"
        );
        let late = frames_up(&one, FrameOutcome::Late);
        assert!(late > 0, "some are too slow: {rounds:?}");
        assert_eq!(late, rounds.iter().map(|round| round.2).sum::<usize>());
        let worked = one.count("client_trained") + one.count("client_skipped");
        assert_eq!(frames_up(&one, FrameOutcome::Delivered) + late, worked);
    }
}

/// Returns what the server sees and what crosses links, independent of the computing process.
fn seen_by_the_server(ran: &Ran) -> Vec<String> {
    let clients =
        |event: &Event| matches!(event, Event::ClientTrained { .. } | Event::ClientSkipped { .. });
    let seen = ran.entries.iter().filter(|entry| !clients(&entry.event));
    seen.map(|entry| format!("{} {:?} {:?}", entry.at, entry.event, entry.numbers)).collect()
}

#[test]
fn stragglers_that_are_not_computed_change_nothing_that_anybody_sees() {
    let deadline = Some(VirtualTime::from_seconds(1.5));
    let of = |make: fn(Rules, SoftmaxFault) -> Setup, train_stragglers, server_up| {
        let closing = ClosingRules { deadline, train_stragglers, ..ClosingRules::default() };
        let links = LinkRules { server_up, ..mobile_links() };
        let compute = ComputeRules { sample_ms: 30.0, ..mobile_compute() };
        let faults = FaultRules { lose_up: 0.1, ..FaultRules::default() };
        run(make(Rules { closing, compute, links, faults, ..rules() }, SoftmaxFault::None))
    };
    for server_up in [f64::INFINITY, 20_000.0] {
        let (trained, skipped) =
            (of(setup::<()>, true, server_up), of(setup::<()>, false, server_up));
        done(&skipped);
        assert_eq!(trained.count("client_skipped"), 0);
        assert!(skipped.count("client_skipped") > 5, "{} skipped", skipped.count("client_skipped"));
        assert_eq!(
            trained.count("client_trained"),
            skipped.count("client_trained") + skipped.count("client_skipped")
        );
        assert_eq!(seen_by_the_server(&trained), seen_by_the_server(&skipped));
    }
    // A state must go on learning.
    assert_eq!(of(setup::<Visits>, false, f64::INFINITY).count("client_skipped"), 0);
}

#[test]
fn a_round_closes_with_the_first_of_those_who_were_over_selected() {
    let participation = ParticipationSection {
        participants: CohortSize::Count { count: 3 },
        over_selection: Some(1.6),
        ..ParticipationSection::default()
    };
    let closing = ClosingRules { enough: ClosingGoal::Target, ..ClosingRules::default() };
    let rules = Rules { participation, closing, compute: mobile_compute(), ..rules() };
    let of = |workers| run(Setup { workers: Workforce::Cpu(workers), ..stateful(rules.clone()) });
    let one = of(1);
    done(&one);
    assert_eq!(one.digests, of(3).digests);
    assert!(rounds_of(&one).iter().all(|round| (round.1, round.2) == (3, 2)), "five were asked");
    assert_eq!(frames_up(&one, FrameOutcome::Late), 20);
}

#[test]
fn a_quorum_is_enough_and_failures_do_not_hang_it() {
    let closing = ClosingRules { enough: ClosingGoal::Share(0.5), ..ClosingRules::default() };
    let patient = Rules { closing, compute: mobile_compute(), ..rules() };
    let ran = run(stateful(patient.clone()));
    done(&ran);
    assert!(rounds_of(&ran).iter().all(|round| (round.1, round.2) == (3, 3)));
    let faults = FaultRules { lose_down: 0.3, lose_up: 0.3, ..FaultRules::crashing(0.4) };
    let ran = run(stateful(Rules { faults, links: mobile_links(), ..patient }));
    done(&ran);
    assert!(rounds_of(&ran).iter().any(|round| round.1 < 3), "too few answered, and it went on");
}

#[test]
fn clients_come_and_go_and_the_run_goes_on() {
    let slow = ComputeRules { sample_ms: 200.0, ..mobile_compute() };
    let pattern = AvailabilityPattern::Markov { on_s: 20.0, off_s: 40.0 };
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
fn the_server_waits_for_a_client_or_says_that_none_will_come() {
    let seconds = VirtualTime::from_seconds;
    // All clients are there for the first moment only; client 2 comes back at 100 s.
    let all = (0..6).map(|client| (client, 1.0, false));
    let transitions = all.chain([(2, 100.0, true)]).collect();
    let pattern =
        AvailabilityPattern::Trace { file: "trace.csv".into(), repeat_s: 0.0, transitions };
    let availability = AvailabilityRules { pattern, ..AvailabilityRules::default() };
    let compute = ComputeRules { sample_ms: 1.0, ..ComputeRules::IDEAL };
    let compute = ComputeRules { setup_ms: ScalarDistribution::constant(600.0), ..compute };
    let waiting = Rules { availability: availability.clone(), compute, ..rules() };
    let ran = run(stateful(waiting.clone()));
    done(&ran);
    let waits = ran.entries.iter().find(|entry| entry.event.name() == "round_delayed");
    let Event::RoundDelayed { until, .. } = waits.expect("nobody is there").event else { panic!() };
    assert_eq!(VirtualTime(until), seconds(100.0));
    let opened: Vec<_> = (ran.entries.iter())
        .filter_map(|entry| match &entry.event {
            Event::RoundOpened { cohort, .. } => Some((entry.at >= seconds(100.0), cohort.len())),
            _ => None,
        })
        .collect();
    assert_eq!(opened[0], (false, 6));
    assert!(opened.contains(&(true, 1)), "{opened:?}");

    let stay = AvailabilityRules {
        stay: ScalarDistribution::constant(5.0),
        ..AvailabilityRules::default()
    };
    let gone = run(stateful(Rules { availability: stay, ..waiting }));
    let message = gone.end.expect_err("everybody leaves after 5 s").to_string();
    assert!(message.contains("no client that can be sampled"), "{message}");
}
