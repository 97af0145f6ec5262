//! Whatever clients do, and whatever is refused: a run ends, and says why.

use super::*;

#[test]
fn a_task_whose_training_failed_is_missed() {
    let ran = run(setup::<Visits>(rules(), SoftmaxFault::PanicOnce));
    done(&ran);
    assert_eq!(ran.failures(), vec!["panicked"; 2]);
    let mut missed = Vec::new();
    for entry in &ran.entries {
        let Event::ClientTrained { client, task, .. } = entry.event else { continue };
        let metrics = &entry.numbers.as_ref().expect("metrics").metrics;
        if metrics["missed"].0 != 0.0 {
            missed.push((client.0, task.0, metrics["missed"].0));
        }
    }
    assert_eq!(missed, vec![(2, 2, 1.0)], "told once, when the client next works");
}

#[test]
fn an_image_that_cannot_be_read_ends_the_run() {
    let ran = run(setup::<Visits>(rules(), SoftmaxFault::BadImage));
    assert!(matches!(&ran.end, Err(FederationError::Data(why)) if why.contains("cat.png")));
    assert_eq!(ran.count("client_failed"), 0);
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
        if let Event::RoundClosed { aggregated, missing, .. } = &entry.event {
            assert_eq!(*aggregated as usize + missing.len(), 6);
        }
    }
}

#[test]
fn a_federation_where_all_clients_crash_still_ends() {
    let faults = FaultRules::crashing(1.0);
    let ran = run(stateful(Rules { faults, ..rules() }));
    done(&ran);
    assert_eq!((ran.count("client_failed"), ran.count("client_trained")), (60, 0));
}

#[test]
fn bad_updates_are_rejected_and_the_others_count() {
    for (fault, why) in [
        (SoftmaxFault::Nan, "`head.weight` is not finite"),
        (SoftmaxFault::WrongShape, "[1, 64]"),
        (SoftmaxFault::TransformPanic, "lifting is beyond me"),
    ] {
        let ran = run(setup::<Visits>(rules(), fault));
        done(&ran);
        let rejected = ran.entries.iter().filter_map(|e| match &e.event {
            Event::UpdateRejected { client, reason: why, .. } => Some((client.0, why.clone())),
            _ => None,
        });
        let rejected: Vec<_> = rejected.collect();
        assert_eq!(rejected.len(), 10, "{fault:?}");
        let of_client = |(client, text): &(u32, String)| *client == 2 && text.contains(why);
        assert!(rejected.iter().all(of_client), "{fault:?}: {rejected:?}");
        for entry in &ran.entries {
            if let Event::RoundClosed { aggregated, missing, .. } = &entry.event {
                assert_eq!((*aggregated, missing.len()), (5, 1), "{fault:?}");
            }
        }
    }
}

#[test]
fn a_bad_update_ends_the_run_where_the_scenario_says_so() {
    let rules = Rules { on_bad_update: OnBadUpdate::Abort, ..rules() };
    let ran = run(setup::<()>(rules, SoftmaxFault::Nan));
    assert!(matches!(ran.end, Err(FederationError::BadUpdate { client, .. }) if client.0 == 2));
    let last = &ran.entries.last().expect("has entries").event;
    assert_eq!(last, &Event::RunEnded { reason: EndReason::Aborted });
}

#[test]
fn a_panicking_policy_is_a_failed_client() {
    let ran = run(setup::<Visits>(rules(), SoftmaxFault::Panic));
    done(&ran);
    assert_eq!(ran.failures(), vec!["panicked"; 10]);
    assert_eq!(ran.count("client_trained"), 50);
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
